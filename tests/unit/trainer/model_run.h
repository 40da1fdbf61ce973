/* model_run.h - a whole model on one device without FSDP: what tests and benches run.
 *
 *   model_run_open(&r, &model, AC_NONE, B, S, chunk, threads);
 *   ... fill r.param[u], r.tokens, r.targets ...
 *   loss_sum = model_run_step(&r, scale);       gradients are in r.grad[u]
 * model_run_open_on() opens another device than the CPU: then everything but loss_sum
 * lies there, params in its element type.
 * Units: 0 embedding, 1 .. layers, layers + 1 head. */
#ifndef UNIT_MODEL_RUN_H
#define UNIT_MODEL_RUN_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "trainer/layers.h"

enum { RUN_MAX_UNITS = 64 };

struct model_run {
    struct model m;
    struct layer_ctx c;
    struct batch b;
    int units, chunk;
    struct unit_layout layout[RUN_MAX_UNITS];
    float *param[RUN_MAX_UNITS], *grad[RUN_MAX_UNITS];
    struct saved saved[RUN_MAX_UNITS];
    float *x, *dx, *bias; /* last output; its gradient; [E] or NULL */
    int32_t *tokens, *targets, *pos, *doc_start;
    const int32_t *forced[RUN_MAX_UNITS]; /* of a layer [T,K], or NULL */
    float *loss;                          /* where loss_sum arises */
    float loss_sum;
};

static inline void *run_alloc(struct model_run *r, size_t bytes)
{
    struct err err = ERR_INIT;
    void *p = NULL;

    if (r->c.ops->alloc(r->c.dev, bytes, &p, &err) != 0) {
        fprintf(stderr, "%s\n", err_text(&err));
        abort();
    }
    return p;
}

static inline void run_scratch(struct model_run *r)
{
    const struct model *m = &r->m;
    size_t bytes = r->c.ops->scratch_bytes(r->b.T, r->b.S, m->hidden, m->heads,
                                           m->kv_heads, m->head_dim, m->experts,
                                           m->top_k, m->expert_ffn, r->chunk, m->vocab);

    r->c.ops->set_scratch(r->c.dev, run_alloc(r, bytes), bytes);
}

static inline void run_batch(struct model_run *r, int B, int S)
{
    size_t T = (size_t)B * (size_t)S;
    int32_t *pos;

    r->tokens = run_alloc(r, T * sizeof(int32_t));
    r->targets = run_alloc(r, T * sizeof(int32_t));
    r->pos = run_alloc(r, T * sizeof(int32_t));
    r->doc_start = run_alloc(r, T * sizeof(int32_t));
    pos = malloc(T * sizeof(*pos));
    for (size_t t = 0; t < T; t++)
        pos[t] = (int32_t)(t % (size_t)S);
    r->c.ops->upload(r->c.dev, r->pos, pos, T * sizeof(*pos));
    free(pos);
    r->b = (struct batch){ B, S, B * S, r->tokens, r->targets, r->pos, NULL };
}

static inline void model_run_open_on(struct model_run *r, const struct ops *ops,
                                     const struct model *m, enum ac_mode ac, int B,
                                     int S, int chunk, int threads)
{
    struct err err = ERR_INIT;
    size_t row;
    void *again;

    memset(r, 0, sizeof(*r));
    r->m = *m;
    r->c = (struct layer_ctx){ .ops = ops, .m = &r->m, .ac = ac };
    r->chunk = chunk;
    r->units = m->layers + 2;
    if (r->units > RUN_MAX_UNITS || r->c.ops->open(&r->c.dev, 0, threads, &err) != 0) {
        fprintf(stderr, "model_run: %s\n", err_text(&err));
        abort();
    }
    run_batch(r, B, S);
    run_scratch(r);
    again = run_alloc(r, recompute_bytes(m, r->c.ops, ac, B, S));
    for (int u = 0; u < r->units; u++) {
        unit_layout(m,
                    u == 0              ? UNIT_EMBED
                    : u == r->units - 1 ? UNIT_HEAD
                                        : UNIT_LAYER,
                    1, &r->layout[u]);
        r->param[u] = run_alloc(r, (size_t)r->layout[u].padded * sizeof(float));
        r->grad[u] = run_alloc(r, (size_t)r->layout[u].padded * sizeof(float));
        if (r->layout[u].kind != UNIT_LAYER)
            continue;
        saved_carve(&r->saved[u], run_alloc(r, saved_bytes(m, r->c.ops, ac, B, S)), m,
                    r->c.ops, ac, B, S);
        recompute_carve(&r->saved[u], again, m, r->c.ops, ac, B, S);
    }
    work_carve(&r->c.work, run_alloc(r, work_bytes(m, r->c.ops, B, S, chunk)), m,
               r->c.ops, B, S, chunk);
    row = (size_t)(B * S) * (size_t)m->hidden * sizeof(float);
    r->x = run_alloc(r, row);
    r->dx = run_alloc(r, row);
    r->loss = run_alloc(r, sizeof(float));
}

static inline void model_run_open(struct model_run *r, const struct model *m,
                                  enum ac_mode ac, int B, int S, int chunk, int threads)
{
    model_run_open_on(r, &ops_cpu, m, ac, B, S, chunk, threads);
}

static inline void model_run_close(struct model_run *r)
{
    r->c.ops->close(r->c.dev);
}

static inline float *run_output(struct model_run *r, int u)
{
    return u + 1 < r->units - 1 ? r->saved[u + 1].x : r->x;
}

/* Forward; without `grads` the loss only.  Returns the sum of the losses. */
static inline float run_step(struct model_run *r, float scale, int grads)
{
    int head = r->units - 1, tied = r->m.tied;

    if (grads)
        r->c.ops->zero(r->c.dev, r->grad[0],
                       (size_t)r->layout[0].padded * sizeof(float));
    embed_forward(&r->c, run_output(r, 0), &r->b, r->param[0]);
    for (int u = 1; u < head; u++) {
        r->c.forced = r->forced[u] ? r->forced[u] : r->c.forced;
        layer_forward(&r->c, run_output(r, u), &r->saved[u], &r->b, r->param[u],
                      r->bias);
    }
    head_forward_backward(&r->c, r->loss, r->dx, grads ? r->grad[head] : NULL, r->x,
                          &r->b, r->param[head], tied ? r->param[0] : NULL,
                          tied ? r->grad[0] : NULL, scale, r->chunk);
    r->c.ops->download(r->c.dev, &r->loss_sum, r->loss, sizeof(float));
    if (!grads)
        return r->loss_sum;
    for (int u = head - 1; u > 0; u--) {
        r->c.forced = r->forced[u] ? r->forced[u] : r->c.forced;
        layer_backward(&r->c, r->dx, r->grad[u], &r->saved[u], &r->b, r->param[u],
                       r->bias);
    }
    embed_backward(&r->c, r->grad[0], r->dx, &r->b);
    return r->loss_sum;
}

static inline float model_run_step(struct model_run *r, float scale)
{
    return run_step(r, scale, 1);
}

static inline float model_run_loss(struct model_run *r)
{
    return run_step(r, 1, 0);
}

/* --- numbers that are the same everywhere --------------------------------------- */
static inline uint32_t run_bits(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)(z >> 32);
}

/* Uniform in [-1, 1). */
static inline float run_uniform(uint64_t *state)
{
    return (float)run_bits(state) * 0x1p-31f - 1.0f;
}

/* Norms near 1, matrices of standard deviation std; random tokens and targets. */
static inline void model_run_fill(struct model_run *r, uint64_t seed, float std)
{
    for (int u = 0; u < r->units; u++)
        for (int i = 0; i < r->layout[u].n; i++) {
            const struct unit_tensor *t = &r->layout[u].tensor[i];

            for (int64_t j = 0; j < t->count; j++)
                r->param[u][t->offset + j] = t->init_std > 0
                                                 ? 1.732f * std * run_uniform(&seed)
                                                 : 1.0f + 0.2f * run_uniform(&seed);
        }
    for (int t = 0; t < r->b.T; t++) {
        r->tokens[t] = (int32_t)(run_bits(&seed) % (uint32_t)r->m.vocab);
        r->targets[t] = (int32_t)(run_bits(&seed) % (uint32_t)r->m.vocab);
    }
}

#endif
