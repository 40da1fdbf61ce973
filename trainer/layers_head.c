/* Final norm, output matrix, loss. */
#include "trainer/layers_internal.h"

struct head {
    struct layer_ctx *c;
    const struct batch *b;
    const void *table;
    float *dtable; /* NULL: no gradients */
    int adds;      /* dtable holds something already */
    float scale;
};

static void *row(const struct head *h, void *x, int64_t t)
{
    return (char *)x + (size_t)(t * h->c->m->hidden) * h->c->ops->elem_bytes;
}

/* Tokens [from, from + n): their losses, dnorm, and dtable +=. */
static void chunk(const struct head *h, int from, int n)
{
    struct layer_ctx *c = h->c;
    const struct ops *ops = c->ops;
    struct work *w = &c->work;
    int V = c->m->vocab, D = c->m->hidden;

    ops->linear_fwd(c->dev, w->logits_chunk, row(h, w->norm, from), h->table, NULL, n,
                    V, D);
    ops->cross_entropy(c->dev, w->loss + from, w->logits_chunk, h->b->targets + from,
                       h->scale, n, V);
    if (!h->dtable)
        return;
    ops->linear_wgrad(c->dev, h->dtable, w->logits_chunk, row(h, w->norm, from),
                      h->adds || from > 0, n, V, D);
    ops->linear_dgrad(c->dev, row(h, w->dnorm, from), w->logits_chunk, h->table, 0, n,
                      V, D);
}

/* NOLINTNEXTLINE(readability-function-size): the parameters are layers.h's */
void head_forward_backward(struct layer_ctx *c, float *loss_sum, void *dx, float *grads,
                           const void *x, const struct batch *b, const void *params,
                           const void *table, float *dtable, float scale,
                           int loss_chunk)
{
    const struct ops *ops = c->ops;
    struct head h = { .c = c, .b = b, .table = table, .scale = scale };
    struct unit_layout l;
    int T = b->T, D = c->m->hidden, step = loss_chunk > 0 ? loss_chunk : T;
    const void *norm;

    unit_layout(c->m, UNIT_HEAD, 1, &l);
    norm = unit_param(c, &l, params, HEAD_NORM);
    if (!table)
        h.table = unit_param(c, &l, params, HEAD_TABLE);
    if (grads) {
        h.dtable = table ? dtable : unit_grad(&l, grads, HEAD_TABLE);
        h.adds = table != NULL;
    }
    ops->rmsnorm_fwd(c->dev, c->work.norm, c->work.rstd, x, norm, (float)c->m->norm_eps,
                     T, D);
    for (int from = 0; from < T; from += step)
        chunk(&h, from, T - from < step ? T - from : step);
    ops->sum_f32(c->dev, loss_sum, c->work.loss, T);
    if (!grads)
        return;
    ops->zero(c->dev, dx, ops->elem_bytes * (size_t)T * (size_t)D);
    ops->rmsnorm_bwd(c->dev, dx, unit_grad(&l, grads, HEAD_NORM), c->work.dnorm, x,
                     c->work.rstd, norm, T, D);
}
