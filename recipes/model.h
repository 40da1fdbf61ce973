/* model.h - the shape of the mixture-of-experts model, its parameter and FLOP
 * counts.  Pure arithmetic, exact in 64 bits (a FLOP count is a double only
 * because it may be fractional per token).
 *
 * One decoder layer: RMSNorm, GQA attention (QKV fused, RMSNorm on q and k per
 * head, RoPE, causal), output projection, RMSNorm, router, top_k of `experts`
 * SwiGLU experts of width expert_ffn, optional shared expert of width
 * shared_ffn that every token visits. */
#ifndef RECIPES_MODEL_H
#define RECIPES_MODEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct err;

struct model {
    int layers;
    int hidden;      /* D */
    int heads;       /* H, query heads */
    int kv_heads;    /* KV, divides heads */
    int head_dim;    /* hd, even */
    int experts;     /* E */
    int top_k;       /* K <= experts */
    int expert_ffn;  /* F, width of one expert */
    int shared_ffn;  /* 0: no shared expert */
    int vocab;       /* V */
    int tied;        /* the head is the embedding */
    int renormalise; /* the top_k weights are divided by their sum */
    double rope_theta, norm_eps;
    double route_scale;      /* multiplies the top_k weights */
    double bias_update_rate; /* aux-loss-free balancing; 0: off */
    double init_std;         /* residual outputs get init_std / sqrt(2 layers) */
};

/* qkv width (H + 2 KV) hd. */
static inline int64_t model_qkv_dim(const struct model *m)
{
    return (int64_t)(m->heads + 2 * m->kv_heads) * m->head_dim;
}

/* Parameters: all; those one token meets with and without the input embedding.
 * Norm weights count in the total only when `norms` is what is being counted:
 * model_params_total counts every scalar the checkpoint holds. */
int64_t model_params_total(const struct model *m);
int64_t model_params_active(const struct model *m); /* every scalar a token meets */
int64_t model_params_matmul(const struct model *m,
                            int with_embedding); /* matrices only */

enum flop_convention { FLOPS_REFERENCE, FLOPS_TORCHTITAN, FLOPS_CAUSAL };
enum { N_FLOP_CONVENTIONS = 3 };
const char *flop_convention_name(enum flop_convention c); /* "reference", ... */

/* Scores and values over all positions, forward and backward: 12 L H hd S, or
 * half of it when only the causal triangle counts. */
double model_attention_flops(const struct model *m, int seq_len, int causal);

/* FLOPs to train one token (forward + backward, recompute not counted) at
 * sequence length seq_len: 6 x every active scalar, norms included, + attention.
 *   reference    with the input embedding, full attention square
 *   torchtitan   without the input embedding, full square
 *   causal       without the input embedding, causal half (Megatron)
 * qwen3-30b-a3b at 4096: 29.782, 27.915, 23.083 GFLOP. */
double model_flops_per_token(const struct model *m, int seq_len,
                             enum flop_convention c);

/* Dense BF16 peak in FLOP/s of a card by the name NVML gives it ("NVIDIA H200",
 * "B200", ...); 0 when unknown.  Sources beside the table. */
double model_peak_flops(const char *gpu_name);

/* MFU in percent of one card of `peak` FLOP/s at tokens_per_s_per_gpu (a whole
 * run's rate is divided by its cards first, case F07); NaN when peak is 0. */
double model_mfu(double flops_per_token, double tokens_per_s_per_gpu, double peak);
/* What to print beside an MFU that cannot be; "" when it can. */
const char *model_mfu_note(double mfu);

/* A preset by name; names in presets[] for help and suggestions.  0 or -1. */
int model_preset(const char *name, struct model *out, struct err *err);
const char *const *model_preset_names(int *n);

/* What must hold (divisibility, ranges across fields), one line a problem. */
int model_validate(const struct model *m, const char *where, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
