/* batch_feed.h - the next micro-batch: from the data set to the device.
 *
 * Row b of micro-batch a on rank r of R is sample g = a R B + r B + b of the step,
 * so the samples of a step do not depend on the layout.  Targets are the tokens
 * one further.  With a document mask the last token of a document has no target
 * (-1, not counted): what follows belongs to another. */
#ifndef TRAINER_BATCH_FEED_H
#define TRAINER_BATCH_FEED_H

#include <stdint.h>

#include "trainer/layers.h"

struct dataset;
struct err;
struct recipe;

struct batch_feed {
    const struct ops *ops;
    struct dev *dev;
    int B, S, rank, world;
    int document_mask;
    int64_t eod_token;
    int32_t *row;     /* host [S + 1], owned */
    int32_t *host[4]; /* host [T]: tokens, targets, positions, document starts; owned */
    int32_t *place[4]; /* device [T] */
};

/* base: device memory of 4 x T int32, each aligned to MEM_ALIGN. */
void batch_feed_init(struct batch_feed *f, const struct ops *ops, struct dev *dev,
                     const struct recipe *r, int rank, int world, void *base);
void batch_feed_release(struct batch_feed *f);
/* Queues the copy; *counted: targets that count. */
int batch_feed_load(struct batch_feed *f, const struct dataset *d, int64_t step,
                    int micro, struct batch *out, int64_t *counted, struct err *err);

#endif
