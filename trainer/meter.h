/* meter.h - the figures of a step: the one place where the host waits.
 *
 * Each rank's share (loss, counted tokens, sum of squared gradients, wish to stop)
 * is one small record; one all_gather shows every record to every rank, so all
 * decide alike, sums run in rank order, and what is wrong has a rank's name. */
#ifndef TRAINER_METER_H
#define TRAINER_METER_H

#include <stdint.h>

struct coll;
struct coll_ops;
struct dev;
struct err;
struct model;
struct ops;

struct step_record {
    float loss_sum; /* over this rank's counted tokens */
    int32_t tokens; /* counted */
    int32_t stop;   /* this rank was asked to stop */
    int32_t spare;
    double sumsq; /* of this rank's shard of the summed gradients */
    double early; /* of the part of it that meter_early() took; 0: none */
};

struct meter {
    const struct ops *ops;
    struct dev *dev;
    const struct coll_ops *coll;
    struct coll *world;
    int rank, size, shard; /* shard degree */
    int layers, experts;
    float *loss, *loss_total; /* device */
    double *early;            /* device: sum of squares of a part, while others come */
    int took_early;
    struct step_record *record; /* device [size] */
    int32_t *counts;            /* device [layers, experts] */
    float *bias;                /* device [layers, experts] */
    struct step_record *all;    /* host [size], owned */
    int32_t *rows;              /* host [layers, experts], owned: of the whole step */
};

struct step_totals {
    double loss_sum; /* over all ranks */
    int64_t tokens;
    double sumsq; /* over one shard group */
    int stop;
    int bad_loss, bad_grad; /* first rank whose figure is not finite; -1 none */
    int strayed; /* first rank whose gradients differ from its replica's; -1 none */
};

/* Device bytes for a world of at most MEM_MAX_WORLD ranks. */
int64_t meter_bytes(const struct model *m);
/* Set everything up to `experts` first; base: meter_bytes() of device memory. */
void meter_carve(struct meter *m, void *base);
void meter_release(struct meter *m);

/* Every rank's record to every rank's m->all; waits for the device. */
int meter_share(struct meter *m, const struct step_record *mine, struct err *err);
/* Does no rank have a failure?  *first: the lowest that has, or -1. */
int meter_agree(struct meter *m, int failed, int *first, struct err *err);

/* Start a step: zero the loss and the counts. */
void meter_begin(struct meter *m);
/* Sum the squares of gradients that are complete; meter_finish() takes the rest. */
void meter_early(struct meter *m, const float *grads, int64_t n);
/* Gather and read the step's figures; waits for the device.  grads[n]: this
 * rank's shard, or NULL (validation): then counts are not exchanged either. */
int meter_finish(struct meter *m, const float *grads, int64_t n, int64_t tokens,
                 int stop, struct step_totals *out, struct err *err);

#endif
