/* model_step.h - forward and backward of one micro-batch over all units. */
#ifndef TRAINER_MODEL_STEP_H
#define TRAINER_MODEL_STEP_H

#include <stdint.h>

#include "trainer/layers.h"

struct err;
struct fsdp;
struct routing;
struct units;

struct model_step {
    struct layer_ctx ctx;
    struct fsdp *fsdp;
    const struct units *units;
    struct saved *saved;           /* [layers] */
    void *x_head, *dx;             /* T,D each */
    float *loss;                   /* device: of this micro-batch */
    float *loss_total;             /* device: adds up over micro-batches */
    int32_t *counts;               /* device [layers, E]: adds up rows per expert */
    const float *bias;             /* device [layers, E] router bias, or NULL */
    const struct routing *routing; /* who chooses the experts, or NULL: the router */
    int loss_chunk;
};

/* Adds the sum of the counted tokens' losses to loss_total and the rows of each
 * expert to counts, and hands every unit's gradient of that sum to fsdp.
 * Recomputation in backward does not count experts again. */
int model_step_train(struct model_step *s, const struct batch *b, int micro, int last,
                     struct err *err);
/* Forward only: adds to loss_total. */
int model_step_validate(struct model_step *s, const struct batch *b, struct err *err);

#endif
