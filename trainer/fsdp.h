/* fsdp.h - fully sharded data parallelism over flat units (ZeRO-3), with replicas.
 *
 * Each rank of a shard group owns an equal part of every unit.  Whole weights, in
 * the compute type, exist only around their use; whole FP32 gradients only until
 * their reduction:
 *
 *   prefetch(u)  begins the all_gather of u, while unit u-1 (u+1) computes
 *   weights(u)   whole weights of u for work queued from now on
 *   grads(u)     where backward of u writes; the pads between tensors are zero
 *   reduce(u)    begins the reduce_scatter, which runs while the next unit computes
 *   finish()     everything reduced, over replicas too
 *
 * Sums everywhere: nothing is divided here.  The first micro-batch of a step sets
 * the reduced gradients, later ones add; replicas are summed once, after the last,
 * and only the shards travel between them.  With one shard nothing is gathered:
 * weights() points into the shard itself, and the first micro-batch's gradients
 * are written where the optimizer reads them.
 *
 * All calls queue work and return; the host never waits for the device here.
 * Every rank makes the same calls in the same order. */
#ifndef TRAINER_FSDP_H
#define TRAINER_FSDP_H

#include <stdint.h>

struct coll;
struct coll_ops;
struct dev;
struct err;
struct fsdp;
struct ops;
struct units;

struct fsdp_config {
    const struct ops *ops;
    struct dev *dev;
    const struct units *units; /* borrowed for the life of the fsdp */
    const struct coll_ops *coll;
    struct coll *gather, *reduce; /* two communicators of the shard group */
    struct coll *replica;         /* NULL: one replica */
    int reshard_after_forward;    /* gathered weights live in the ring */
    void *weights;                /* this rank's parts in the compute type, shard map */
    void *gathered;               /* ring or flat map, compute type */
    float *grads;                 /* reduced, shard map */
    float *full; /* ring map; may be NULL with one shard and one micro-batch */
};

struct fsdp *fsdp_new(const struct fsdp_config *c);
void fsdp_free(struct fsdp *f); /* NULL is fine; nothing may be in flight */

/* The weights changed: what was gathered is stale. */
void fsdp_invalidate(struct fsdp *f);
int fsdp_prefetch(struct fsdp *f, int unit, struct err *err);
int fsdp_weights(struct fsdp *f, int unit, const void **out, struct err *err);
/* micro: 0 for the first micro-batch of the step.  The embedding's place is all
 * zero (its backward adds); others hold old gradients. */
int fsdp_grads(struct fsdp *f, int unit, int micro, float **out, struct err *err);
int fsdp_reduce(struct fsdp *f, int unit, int micro, int last, struct err *err);
int fsdp_finish(struct fsdp *f, struct err *err);

#endif
