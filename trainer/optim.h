/* optim.h - learning rate, clipping and AdamW over this rank's shard.
 *
 * Gradients arrive as sums over every counted token of the global batch; the one
 * division by that number is part of the scale given here.
 *
 * Weight decay applies where unit_layout() says so; runs of equal decay are one
 * call, so a model that decays every tensor (torchtitan) is one call in all. */
#ifndef TRAINER_OPTIM_H
#define TRAINER_OPTIM_H

#include <stdint.h>

struct dev;
struct ops;
struct recipe;
struct units;

/* Learning rate of step 1, 2, ...: linear to lr over warmup_steps, then decay
 * over the remaining steps, down to min_lr_factor at the last.  With p the part
 * of the decay that has passed: linear 1 - p, sqrt 1 - sqrt(p), cosine
 * (1 + cos(pi p)) / 2, scaled into [min_lr_factor, 1]. */
double optim_lr_at(const struct recipe *r, int64_t step);

/* What the summed gradients are multiplied by: 1/tokens, and less where the norm
 * of the mean gradient is over max_norm (0: no clipping).  sumsq: of the sums. */
double optim_grad_scale(double sumsq, int64_t tokens, double max_norm);
/* Norm of the mean gradient, before clipping. */
double optim_grad_norm(double sumsq, int64_t tokens);

/* A run of the shard with one decay setting. */
struct optim_run {
    int64_t at, n; /* elements of the shard map */
    int decay;
};

struct optim {
    const struct ops *ops;
    struct dev *dev;
    float *master, *m, *v; /* shard map */
    const float *grads;    /* reduced sums, shard map */
    void *weights;         /* compute type; NULL when it is master itself */
    struct optim_run *run; /* owned */
    int n_runs;
};

/* Fill run[]: for rank `shard_rank`.  Pads belong to the tensor before them. */
void optim_plan(struct optim *o, const struct units *u, int shard_rank);
void optim_release(struct optim *o);
/* Queue the update of step 1, 2, ...: of elements [from, to) of the shard map. */
void optim_step_part(struct optim *o, const struct recipe *r, int64_t step,
                     double grad_scale, int64_t from, int64_t to);
/* Of all. */
void optim_step(struct optim *o, const struct recipe *r, int64_t step,
                double grad_scale);

#endif
