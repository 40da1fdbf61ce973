/* layers_internal.h - where each tensor of a unit lies; layers.h is the contract. */
#ifndef TRAINER_LAYERS_INTERNAL_H
#define TRAINER_LAYERS_INTERNAL_H

#include "trainer/layers.h"

/* Order of the tensors in unit_layout(). */
enum { EMBED_TABLE };
enum { HEAD_NORM, HEAD_TABLE };
enum {
    LAYER_NORM1,
    LAYER_QKV,
    LAYER_QNORM,
    LAYER_KNORM,
    LAYER_O,
    LAYER_NORM2,
    LAYER_GATE,
    LAYER_W13,
    LAYER_W2,
    LAYER_SHARED_W13,
    LAYER_SHARED_W2
};

static inline const void *unit_param(const struct layer_ctx *c,
                                     const struct unit_layout *l, const void *params,
                                     int tensor)
{
    return (const char *)params + (size_t)l->tensor[tensor].offset * c->ops->elem_bytes;
}

static inline float *unit_grad(const struct unit_layout *l, float *grads, int tensor)
{
    return grads + l->tensor[tensor].offset;
}

#endif
