#include "trainer/model_step.h"

#include "base/err.h"
#include "trainer/fsdp.h"
#include "trainer/routing.h"
#include "trainer/units.h"

static const float *bias_of(const struct model_step *s, int layer)
{
    return s->bias ? s->bias + (int64_t)layer * s->ctx.m->experts : NULL;
}

static void count_experts(struct model_step *s, int layer)
{
    int E = s->ctx.m->experts;

    s->ctx.ops->add_i32(s->ctx.dev, s->counts + (int64_t)layer * E,
                        s->saved[layer].route.count, E);
}

/* Through the embedding and all layers; x_head gets the last one's output. */
static int forward(struct model_step *s, const struct batch *b, int count,
                   struct err *err)
{
    int layers = s->ctx.m->layers;
    const void *w;

    if (fsdp_weights(s->fsdp, 0, &w, err) || fsdp_prefetch(s->fsdp, 1, err))
        return -1;
    embed_forward(&s->ctx, s->saved[0].x, b, w);
    for (int i = 0; i < layers; i++) {
        void *out = i + 1 < layers ? s->saved[i + 1].x : s->x_head;

        if (fsdp_weights(s->fsdp, i + 1, &w, err) || fsdp_prefetch(s->fsdp, i + 2, err))
            return -1;
        s->ctx.spread = routing_layer(s->routing, i);
        layer_forward(&s->ctx, out, &s->saved[i], b, w, bias_of(s, i));
        if (count)
            count_experts(s, i);
    }
    return 0;
}

/* grads, dtable: NULL for the loss alone. */
static int head(struct model_step *s, const struct batch *b, float *grads,
                float *dtable, struct err *err)
{
    const void *w, *table = NULL;
    int unit = s->units->n - 1;

    if (fsdp_weights(s->fsdp, unit, &w, err) ||
        (s->ctx.m->tied && fsdp_weights(s->fsdp, 0, &table, err)))
        return -1;
    head_forward_backward(&s->ctx, s->loss, s->dx, grads, s->x_head, b, w, table,
                          dtable, 1.0F, s->loss_chunk);
    s->ctx.ops->add_f32(s->ctx.dev, s->loss_total, s->loss, 1);
    return 0;
}

static int backward_layer(struct model_step *s, const struct batch *b, int layer,
                          int micro, int last, struct err *err)
{
    int unit = layer + 1;
    const void *w;
    float *grads;

    if (fsdp_weights(s->fsdp, unit, &w, err) ||
        (layer > 0 && fsdp_prefetch(s->fsdp, unit - 1, err)) ||
        fsdp_grads(s->fsdp, unit, micro, &grads, err))
        return -1;
    s->ctx.spread = routing_layer(s->routing, layer);
    layer_backward(&s->ctx, s->dx, grads, &s->saved[layer], b, w, bias_of(s, layer));
    return fsdp_reduce(s->fsdp, unit, micro, last, err);
}

int model_step_train(struct model_step *s, const struct batch *b, int micro, int last,
                     struct err *err)
{
    float *dembed = NULL, *dhead;
    int unit = s->units->n - 1, tied = s->ctx.m->tied;

    if (forward(s, b, 1, err) ||
        (tied && fsdp_grads(s->fsdp, 0, micro, &dembed, err)) ||
        fsdp_grads(s->fsdp, unit, micro, &dhead, err) ||
        head(s, b, dhead, dembed, err) || fsdp_reduce(s->fsdp, unit, micro, last, err))
        return -1;
    for (int i = s->ctx.m->layers - 1; i >= 0; i--)
        if (backward_layer(s, b, i, micro, last, err))
            return -1;
    if (!tied && fsdp_grads(s->fsdp, 0, micro, &dembed, err))
        return -1;
    embed_backward(&s->ctx, dembed, s->dx, b);
    if (fsdp_reduce(s->fsdp, 0, micro, last, err))
        return -1;
    return s->ctx.ops->status(s->ctx.dev, err);
}

int model_step_validate(struct model_step *s, const struct batch *b, struct err *err)
{
    if (forward(s, b, 0, err) || head(s, b, NULL, NULL, err))
        return -1;
    return s->ctx.ops->status(s->ctx.dev, err);
}
