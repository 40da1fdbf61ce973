#include "trainer/layers_internal.h"

/* What one layer's forward and backward look at. */
struct run {
    struct layer_ctx *c;
    struct saved *s;
    const struct batch *b;
    const void *params;
    const float *bias;
    struct unit_layout l;
};

static const void *param(const struct run *r, int tensor)
{
    return unit_param(r->c, &r->l, r->params, tensor);
}

/* --- embedding ---------------------------------------------------------------- */
void embed_forward(struct layer_ctx *c, void *out, const struct batch *b,
                   const void *params)
{
    c->ops->embed_fwd(c->dev, out, b->tokens, params, b->T, c->m->hidden, c->m->vocab);
}

void embed_backward(struct layer_ctx *c, float *grads, const void *dout,
                    const struct batch *b)
{
    c->ops->embed_bwd(c->dev, grads, b->tokens, dout, b->T, c->m->hidden, c->m->vocab);
}

/* --- the pieces of a layer ------------------------------------------------------ */
static struct attn_shape shape(const struct run *r)
{
    const struct model *m = r->c->m;
    int64_t hd = m->head_dim;

    return (struct attn_shape){ .B = r->b->B,
                                .S = r->b->S,
                                .H = m->heads,
                                .KV = m->kv_heads,
                                .hd = m->head_dim,
                                .q_stride = m->heads * hd,
                                .k_stride = m->kv_heads * hd,
                                .v_stride = model_qkv_dim(m) };
}

/* The value part of qkv, or of its gradient. */
static void *values(const struct run *r, void *qkv)
{
    const struct model *m = r->c->m;
    size_t skip = (size_t)(m->heads + m->kv_heads) * (size_t)m->head_dim;

    return (char *)qkv + skip * r->c->ops->elem_bytes;
}

static void norm1(const struct run *r)
{
    struct layer_ctx *c = r->c;

    c->ops->rmsnorm_fwd(c->dev, c->work.norm, r->s->rstd1, r->s->x,
                        param(r, LAYER_NORM1), (float)c->m->norm_eps, r->b->T,
                        c->m->hidden);
}

static void norm2(const struct run *r)
{
    struct layer_ctx *c = r->c;

    c->ops->rmsnorm_fwd(c->dev, c->work.norm, r->s->rstd2, r->s->mid,
                        param(r, LAYER_NORM2), (float)c->m->norm_eps, r->b->T,
                        c->m->hidden);
}

static void rotate(const struct run *r)
{
    struct layer_ctx *c = r->c;
    const struct model *m = c->m;

    c->ops->qkrope_fwd(c->dev, c->work.q, c->work.k, r->s->qkv, r->b->pos,
                       param(r, LAYER_QNORM), param(r, LAYER_KNORM), (float)m->norm_eps,
                       (float)m->rope_theta, r->b->T, m->heads, m->kv_heads,
                       m->head_dim);
}

/* x -> mid.  Leaves q and k rotated in work. */
static void attention_half(const struct run *r)
{
    struct layer_ctx *c = r->c;
    const struct ops *ops = c->ops;
    const struct model *m = c->m;
    struct saved *s = r->s;
    int T = r->b->T, D = m->hidden;

    norm1(r);
    ops->linear_fwd(c->dev, s->qkv, c->work.norm, param(r, LAYER_QKV), NULL, T,
                    (int)model_qkv_dim(m), D);
    rotate(r);
    ops->attention_fwd(c->dev, s->attn, s->lse, c->work.q, c->work.k, values(r, s->qkv),
                       r->b->doc_start, shape(r));
    ops->linear_fwd(c->dev, s->mid, s->attn, param(r, LAYER_O), s->x, T, D,
                    m->heads * m->head_dim);
}

/* norm2 -> logits and route. */
static void choose_experts(const struct run *r)
{
    struct layer_ctx *c = r->c;
    const struct model *m = c->m;
    struct route *route = &r->s->route;
    int T = r->b->T;

    c->ops->router_fwd(c->dev, r->s->logits, c->work.norm, param(r, LAYER_GATE), T,
                       m->experts, m->hidden);
    if (c->forced)
        c->ops->copy(c->dev, route->expert, c->forced,
                     sizeof(int32_t) * (size_t)T * (size_t)m->top_k);
    else if (c->spread.offset)
        c->ops->spread(c->dev, route->expert, c->spread.offset, c->spread.mul,
                       c->spread.add, T, m->experts, m->top_k);
    c->ops->route(c->dev, route, r->s->logits, r->bias, c->forced || c->spread.offset,
                  m->renormalise, (float)m->route_scale, T, m->experts, m->top_k);
}

/* norm2 -> h and hs; with `out`, also the layer's output. */
static void expert_half(const struct run *r, void *out)
{
    struct layer_ctx *c = r->c;
    const struct ops *ops = c->ops;
    const struct model *m = c->m;
    struct saved *s = r->s;
    int T = r->b->T, D = m->hidden, Fs = m->shared_ffn;

    ops->experts_fwd(c->dev, out, s->h, c->work.norm, out ? s->mid : NULL,
                     param(r, LAYER_W13), param(r, LAYER_W2), &s->route, T, D,
                     m->experts, m->top_k, m->expert_ffn);
    if (Fs == 0)
        return;
    ops->linear_fwd(c->dev, s->hs, c->work.norm, param(r, LAYER_SHARED_W13), NULL, T,
                    2 * Fs, D);
    if (!out)
        return;
    ops->swiglu_fwd(c->dev, c->work.act_s, s->hs, T, Fs);
    ops->linear_fwd(c->dev, out, c->work.act_s, param(r, LAYER_SHARED_W2), out, T, D,
                    Fs);
}

void layer_forward(struct layer_ctx *c, void *out, struct saved *s,
                   const struct batch *b, const void *params, const float *bias)
{
    struct run r = { c, s, b, params, bias, { 0 } };

    unit_layout(c->m, UNIT_LAYER, 1, &r.l);
    attention_half(&r);
    norm2(&r);
    choose_experts(&r);
    expert_half(&r, out);
}

/* --- backward -------------------------------------------------------------------- */
/* Brings back what the mode dropped, by the very calls that made it: the values,
 * the route among them, are the same bit for bit.  Leaves norm2 in work. */
static void recompute(const struct run *r)
{
    if (r->c->ac == AC_FULL)
        attention_half(r);
    norm2(r);
    if (r->c->ac == AC_FULL)
        choose_experts(r);
    if (r->c->ac != AC_NONE)
        expert_half(r, NULL);
}

/* dnorm += the shared expert's. */
static void shared_backward(const struct run *r, const void *dx, float *grads)
{
    struct layer_ctx *c = r->c;
    const struct ops *ops = c->ops;
    struct work *w = &c->work;
    int T = r->b->T, D = c->m->hidden, Fs = c->m->shared_ffn;

    ops->swiglu_fwd(c->dev, w->act_s, r->s->hs, T, Fs);
    ops->linear_wgrad(c->dev, unit_grad(&r->l, grads, LAYER_SHARED_W2), dx, w->act_s, 0,
                      T, D, Fs);
    ops->linear_dgrad(c->dev, w->dact_s, dx, param(r, LAYER_SHARED_W2), 0, T, D, Fs);
    ops->swiglu_bwd(c->dev, w->dhs, w->dact_s, r->s->hs, T, Fs);
    ops->linear_wgrad(c->dev, unit_grad(&r->l, grads, LAYER_SHARED_W13), w->dhs,
                      w->norm, 0, T, 2 * Fs, D);
    ops->linear_dgrad(c->dev, w->dnorm, w->dhs, param(r, LAYER_SHARED_W13), 1, T,
                      2 * Fs, D);
}

/* dx: in d(out), out d(mid). */
static void expert_half_backward(const struct run *r, void *dx, float *grads)
{
    struct layer_ctx *c = r->c;
    const struct ops *ops = c->ops;
    const struct model *m = c->m;
    struct work *w = &c->work;
    struct saved *s = r->s;
    int T = r->b->T, D = m->hidden;

    ops->experts_bwd(c->dev, w->dnorm, w->dweight, unit_grad(&r->l, grads, LAYER_W13),
                     unit_grad(&r->l, grads, LAYER_W2), dx, w->norm, s->h,
                     param(r, LAYER_W13), param(r, LAYER_W2), &s->route, T, D,
                     m->experts, m->top_k, m->expert_ffn);
    if (m->shared_ffn > 0)
        shared_backward(r, dx, grads);
    ops->route_bwd(c->dev, w->dlogits, w->dweight, s->logits, &s->route, m->renormalise,
                   (float)m->route_scale, T, m->experts, m->top_k);
    ops->router_bwd(c->dev, w->dnorm, unit_grad(&r->l, grads, LAYER_GATE), w->dlogits,
                    w->norm, param(r, LAYER_GATE), T, m->experts, D);
    ops->rmsnorm_bwd(c->dev, dx, unit_grad(&r->l, grads, LAYER_NORM2), w->dnorm, s->mid,
                     s->rstd2, param(r, LAYER_NORM2), T, D);
}

/* dx: in d(mid), out d(x). */
static void attention_half_backward(const struct run *r, void *dx, float *grads)
{
    struct layer_ctx *c = r->c;
    const struct ops *ops = c->ops;
    const struct model *m = c->m;
    struct work *w = &c->work;
    struct saved *s = r->s;
    int T = r->b->T, D = m->hidden, Hhd = m->heads * m->head_dim;
    int N = (int)model_qkv_dim(m);

    ops->linear_wgrad(c->dev, unit_grad(&r->l, grads, LAYER_O), dx, s->attn, 0, T, D,
                      Hhd);
    ops->linear_dgrad(c->dev, w->dattn, dx, param(r, LAYER_O), 0, T, D, Hhd);
    rotate(r);
    ops->attention_bwd(c->dev, w->dq, w->dk, values(r, w->dqkv), w->dattn, w->q, w->k,
                       values(r, s->qkv), s->attn, s->lse, r->b->doc_start, shape(r));
    ops->qkrope_bwd(c->dev, w->dqkv, unit_grad(&r->l, grads, LAYER_QNORM),
                    unit_grad(&r->l, grads, LAYER_KNORM), w->dq, w->dk, s->qkv,
                    r->b->pos, param(r, LAYER_QNORM), param(r, LAYER_KNORM),
                    (float)m->norm_eps, (float)m->rope_theta, T, m->heads, m->kv_heads,
                    m->head_dim);
    norm1(r);
    ops->linear_wgrad(c->dev, unit_grad(&r->l, grads, LAYER_QKV), w->dqkv, w->norm, 0,
                      T, N, D);
    ops->linear_dgrad(c->dev, w->dnorm, w->dqkv, param(r, LAYER_QKV), 0, T, N, D);
    ops->rmsnorm_bwd(c->dev, dx, unit_grad(&r->l, grads, LAYER_NORM1), w->dnorm, s->x,
                     s->rstd1, param(r, LAYER_NORM1), T, D);
}

void layer_backward(struct layer_ctx *c, void *dx, float *grads, struct saved *s,
                    const struct batch *b, const void *params, const float *bias)
{
    struct run r = { c, s, b, params, bias, { 0 } };

    unit_layout(c->m, UNIT_LAYER, 1, &r.l);
    recompute(&r);
    expert_half_backward(&r, dx, grads);
    attention_half_backward(&r, dx, grads);
}
