/* layers.h - forward and backward of each unit of the model, over ops.
 *
 * A unit is what FSDP gathers at once: the embedding, one decoder layer, the
 * head (final norm and output matrix).  Its parameters lie in one flat buffer;
 * unit_layout() is the only place that knows where.  Gradients have the same
 * layout, in FP32.
 *
 * A decoder layer, for its input x and position pos (norm is RMSNorm, R is RoPE):
 *   n1  = norm(x, w1)
 *   q_h = R(norm(Wq_h n1, wq), pos)   k_g = R(norm(Wk_g n1, wk), pos)   v_g = Wv_g n1
 *   mid = x + Wo [softmax(q_h k_g^T / sqrt(hd)) v_g]_h        causal, g = h KV / H
 *   n2  = norm(mid, w2)               p = softmax(Wg n2)
 *   out = mid + sum over chosen e of c_e W2_e (silu(W1_e n2) * (W3_e n2))
 *             + W2_s (silu(W1_s n2) * (W3_s n2))              with a shared expert
 * The top_k of p + bias are chosen; c_e = route_scale p_e / (sum of the chosen p, if
 * renormalise).  Each step is an op of ops.h, with its gradient.  The loss
 * is the sum over counted tokens of -log softmax(Wv norm(x, w))[target]. */
#ifndef TRAINER_LAYERS_H
#define TRAINER_LAYERS_H

#include <stddef.h>
#include <stdint.h>

#include "recipes/recipe.h"
#include "trainer/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

enum unit_kind { UNIT_EMBED, UNIT_LAYER, UNIT_HEAD };

/* One tensor of a unit.  `name` is Hugging Face's without the layer prefix
 * ("model.layers.N."), save for what is stored fused:
 *   UNIT_EMBED  embed_tokens.weight                      [V, D]
 *   UNIT_LAYER  input_layernorm.weight                   [D]
 *               self_attn.qkv_proj.weight                [H + 2 KV, hd, D]
 *                 q_proj.weight, k_proj.weight, v_proj.weight, rows in this order
 *               self_attn.q_norm.weight, k_norm.weight   [hd]
 *               self_attn.o_proj.weight                  [D, H hd]
 *               post_attention_layernorm.weight          [D]
 *               mlp.gate.weight                          [E, D]
 *               mlp.experts.w13                          [E, 2F, D]
 *                 experts.N.gate_proj.weight, then experts.N.up_proj.weight
 *               mlp.experts.w2                           [E, D, F]
 *                 experts.N.down_proj.weight
 *               mlp.shared_expert.w13, .w2               [2 Fs, D], [D, Fs]
 *   UNIT_HEAD   norm.weight                              [D]
 *               lm_head.weight, unless tied              [V, D]
 * With the prefix "model." for embed_tokens, norm and the layers.  transformers 5
 * holds w13 and w2 as experts.gate_up_proj and experts.down_proj.  Weight decay
 * applies to all (as torchtitan's Qwen3 recipe has it).  Matrices start normal with
 * init_std; o_proj and w2 of either kind with init_std / sqrt(2 layers). */
struct unit_tensor {
    char name[48];
    int dims;
    int64_t shape[3];
    int64_t offset; /* elements from the start of the flat buffer */
    int64_t count;
    int decay;       /* weight decay applies */
    double init_std; /* 0: ones */
};

enum { UNIT_MAX_TENSORS = 16 };

struct unit_layout {
    enum unit_kind kind;
    int n;
    struct unit_tensor tensor[UNIT_MAX_TENSORS];
    int64_t count;  /* elements, each tensor aligned to 128 elements */
    int64_t padded; /* count rounded up to a multiple of 128 shard */
};

void unit_layout(const struct model *m, enum unit_kind kind, int shard,
                 struct unit_layout *out);
/* The tensor of that name, or NULL. */
const struct unit_tensor *unit_find(const struct unit_layout *l, const char *name);

/* Sizes of one micro-batch on one rank. */
struct batch {
    int B, S, T;              /* T = B S */
    const int32_t *tokens;    /* [T], device */
    const int32_t *targets;   /* [T], -1: not counted */
    const int32_t *pos;       /* [T] */
    const int32_t *doc_start; /* [T] or NULL: no document mask */
};

/* What backward needs of one layer.  `x` (the layer's input) is always kept;
 * the rest is kept or recomputed by activation checkpointing:
 *   none       everything
 *   selective  qkv, attention output and lse, mid, logits and route;
 *              h (expert pre-activation) is recomputed
 *   full       only x
 * The norm outputs and rotated q, k are always computed again in backward. */
struct saved {
    void *x;              /* T,D   input of the layer */
    void *qkv;            /* T,(H+2KV)hd */
    void *attn;           /* T,H hd */
    float *lse;           /* B,H,S */
    void *mid;            /* T,D   after attention, residual added */
    float *rstd1, *rstd2; /* T     written again by recomputation */
    float *logits;        /* T,E */
    struct route route;
    void *h;  /* R,2F */
    void *hs; /* T,2 shared_ffn, or NULL */
};

/* Buffers that live only inside one layer's forward or backward. */
struct work {
    void *norm;  /* T,D */
    void *q, *k; /* T,H hd ; T,KV hd */
    void *dq, *dk;
    void *dqkv;  /* T,(H+2KV)hd */
    void *dattn; /* T,H hd */
    void *dnorm; /* T,D */
    float *dlogits, *dweight;
    void *act_s, *dact_s; /* T,shared_ffn or NULL */
    void *dhs;            /* T,2 shared_ffn or NULL */
    float *rstd;          /* T   of the final norm */
    float *loss;          /* T */
    void *logits_chunk;   /* loss_chunk,V; shares its place with q .. dhs */
};

/* Experts by given numbers of rows instead of the router's choice (ops->spread). */
struct spread {
    const int32_t *offset; /* [E+1], device; NULL: the router chooses */
    int64_t mul, add;
};

struct layer_ctx {
    const struct ops *ops;
    struct dev *dev;
    const struct model *m;
    enum ac_mode ac;
    struct work work;
    const int32_t *forced; /* [T,K] experts whatever the router says, or NULL */
    struct spread spread;  /* of the layer at hand */
};

/* Bytes of `saved` kept for one layer under `ac`, of the scratch `saved` that
 * recomputation fills (one for the whole model), and of `work`. */
size_t saved_bytes(const struct model *m, const struct ops *ops, enum ac_mode ac, int B,
                   int S);
size_t recompute_bytes(const struct model *m, const struct ops *ops, enum ac_mode ac,
                       int B, int S);
size_t work_bytes(const struct model *m, const struct ops *ops, int B, int S,
                  int loss_chunk);
/* Carve them from memory of that size, aligned to 256 bytes as every piece is.
 * x is part of `saved`: a layer's input goes where its s->x points. */
void saved_carve(struct saved *s, void *base, const struct model *m,
                 const struct ops *ops, enum ac_mode ac, int B, int S);
/* Point the pieces that `ac` does not keep at the shared recompute scratch. */
void recompute_carve(struct saved *s, void *base, const struct model *m,
                     const struct ops *ops, enum ac_mode ac, int B, int S);
void work_carve(struct work *w, void *base, const struct model *m,
                const struct ops *ops, int B, int S, int loss_chunk);

/* out[T,D] = embedding of the tokens. */
void embed_forward(struct layer_ctx *c, void *out, const struct batch *b,
                   const void *params);
/* ADDS to the table's gradient: the caller zeroes it (tied: the head adds first). */
void embed_backward(struct layer_ctx *c, float *grads, const void *dout,
                    const struct batch *b);

/* s->x holds the input; out[T,D] the layer's output (the next layer's s->x).
 * bias[E]: router bias (device), or NULL. */
void layer_forward(struct layer_ctx *c, void *out, struct saved *s,
                   const struct batch *b, const void *params, const float *bias);
/* dx[T,D]: in the gradient of the output, out that of the input.  Recomputes
 * what `ac` dropped (with the same routing), then writes every gradient of the unit. */
void layer_backward(struct layer_ctx *c, void *dx, float *grads, struct saved *s,
                    const struct batch *b, const void *params, const float *bias);

/* Loss and, when grads is not NULL, gradients of the head over chunks of
 * loss_chunk tokens: loss_sum (device float) = sum of the counted tokens'
 * losses; dx[T,D] = its gradient x scale, grads likewise (overwritten).  `params`
 * is the head unit; `table` the output matrix (tied: the embedding's, its
 * gradient goes to dtable, which ADDS; untied: inside the head unit, pass NULL).
 * grads NULL (validation): dx and dtable are not touched. */
void head_forward_backward(struct layer_ctx *c, float *loss_sum, void *dx, float *grads,
                           const void *x, const struct batch *b, const void *params,
                           const void *table, float *dtable, float scale,
                           int loss_chunk);

#ifdef __cplusplus
}
#endif
#endif
