#include "trainer/optim.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "recipes/recipe.h"
#include "trainer/ops.h"
#include "trainer/units.h"

static double decayed(enum decay how, double p)
{
    switch (how) {
    case DECAY_LINEAR:
        return 1 - p;
    case DECAY_SQRT:
        return 1 - sqrt(p);
    case DECAY_COSINE:
        return (1 + cos(M_PI * p)) / 2;
    case DECAY_CONSTANT:
        break;
    }
    return 1;
}

double optim_lr_at(const struct recipe *r, int64_t step)
{
    int64_t warmup = r->lr_scheduler.warmup_steps;
    int64_t rest = r->training.steps - warmup;
    double floor = r->lr_scheduler.min_lr_factor, p;

    if (step <= warmup)
        return r->optimizer.lr * (double)step / (double)warmup;
    if (r->lr_scheduler.decay == DECAY_CONSTANT)
        return r->optimizer.lr;
    p = step >= r->training.steps ? 1 : (double)(step - warmup) / (double)rest;
    return r->optimizer.lr * (floor + (1 - floor) * decayed(r->lr_scheduler.decay, p));
}

double optim_grad_norm(double sumsq, int64_t tokens)
{
    return sqrt(sumsq) / (double)tokens;
}

double optim_grad_scale(double sumsq, int64_t tokens, double max_norm)
{
    double norm = optim_grad_norm(sumsq, tokens);
    double clip = max_norm > 0 && norm > max_norm ? max_norm / norm : 1;

    return clip / (double)tokens;
}

static void add_run(struct optim *o, int64_t at, int64_t n, int decay)
{
    struct optim_run *last = o->n_runs ? &o->run[o->n_runs - 1] : NULL;

    if (n <= 0)
        return;
    if (last && last->decay == decay && last->at + last->n == at) {
        last->n += n;
        return;
    }
    o->run = xrealloc(o->run, (size_t)o->n_runs + 1, sizeof(*o->run));
    o->run[o->n_runs++] = (struct optim_run){ at, n, decay };
}

static void plan_unit(struct optim *o, const struct units *u, int unit, int rank)
{
    const struct unit_layout *l = units_at(u, unit);
    int64_t part = units_part(u, unit), from = rank * part, to = from + part;

    for (int i = 0; i < l->n; i++) {
        int64_t a = l->tensor[i].offset;
        int64_t b = i + 1 < l->n ? l->tensor[i + 1].offset : l->padded;

        a = a < from ? from : a;
        b = b > to ? to : b;
        add_run(o, units_shard_offset(u, unit) + a - from, b - a, l->tensor[i].decay);
    }
}

void optim_plan(struct optim *o, const struct units *u, int shard_rank)
{
    for (int unit = 0; unit < u->n; unit++)
        plan_unit(o, u, unit, shard_rank);
}

void optim_release(struct optim *o)
{
    free(o->run);
    o->run = NULL;
    o->n_runs = 0;
}

void optim_step_part(struct optim *o, const struct recipe *r, int64_t step,
                     double grad_scale, int64_t from, int64_t to)
{
    size_t elem = o->ops->elem_bytes;
    struct adamw a = { .lr = (float)optim_lr_at(r, step),
                       .beta1 = (float)r->optimizer.beta1,
                       .beta2 = (float)r->optimizer.beta2,
                       .eps = (float)r->optimizer.eps,
                       .step = step };

    for (int i = 0; i < o->n_runs; i++) {
        const struct optim_run *run = &o->run[i];
        int64_t at = run->at > from ? run->at : from;
        int64_t end = run->at + run->n < to ? run->at + run->n : to;
        void *out = o->weights ? (char *)o->weights + (size_t)at * elem : NULL;

        if (end <= at)
            continue;
        a.weight_decay = run->decay ? (float)r->optimizer.weight_decay : 0;
        o->ops->adamw(o->dev, o->master + at, o->m + at, o->v + at, out, o->grads + at,
                      (float)grad_scale, &a, end - at);
    }
}

void optim_step(struct optim *o, const struct recipe *r, int64_t step,
                double grad_scale)
{
    optim_step_part(o, r, step, grad_scale, 0, INT64_MAX);
}
