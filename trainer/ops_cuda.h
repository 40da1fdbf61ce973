/* ops_cuda.h - the entries of the CUDA table; contracts are in trainer/ops.h.
 *
 * BF16 activations and weights, FP32 accumulation.  Widths (D, F, hd, H hd) must
 * be multiples of 8: rows are read in 16-byte pieces.  Every reduction has a
 * fixed order, so results repeat bit for bit, except cuDNN's attention backward
 * unless the device was opened with MUSTER_DETERMINISTIC=1. */
#ifndef TRAINER_OPS_CUDA_H
#define TRAINER_OPS_CUDA_H

#include "trainer/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- sizes: ops_cuda_size.c, which needs no CUDA --------------------------------- */

enum {
    LINEAR_WORKSPACE = 32 << 20, /* bytes cuBLASLt's algorithms may take */
    CUDA_NORM_BLOCKS = 1056,     /* blocks that sum a norm's weight gradient */
    CUDA_SUM_BLOCKS = 1024,
    EMBED_PIECE = 64, /* places of the sorted tokens that one block sums */
};

size_t carve_round(size_t bytes); /* what a piece of scratch takes */
size_t cuda_sort_temp_bytes(int T);
size_t cuda_embed_part_bytes(int T, int D);
size_t cuda_embed_scratch(int T, int D);
size_t cuda_rmsnorm_scratch(int D);
size_t cuda_rope_table_bytes(int T, int hd);
size_t cuda_qkrope_scratch(int T, int hd);
size_t cuda_route_scratch(int T, int E, int K, int D);
size_t cuda_experts_scratch(int T, int D, int K, int F);
size_t cuda_sum_scratch(void);
size_t cuda_attention_engine_bytes(int T, int H, int hd);
size_t cuda_attention_scratch(int T, int H, int hd);
size_t cuda_scratch_bytes(int T, int S, int D, int H, int KV, int hd, int E, int K,
                          int F, int chunk, int V);

/* --- operations ------------------------------------------------------------------ */

/* elementwise */
void cuda_add(struct dev *d, void *out, const void *a, const void *b, int64_t n);
void cuda_add_f32(struct dev *d, float *io, const float *x, int64_t n);
void cuda_add_i32(struct dev *d, int32_t *io, const int32_t *x, int64_t n);
void cuda_scale_f32(struct dev *d, float *io, float by, int64_t n);
void cuda_from_f32(struct dev *d, void *out, const float *x, int64_t n);
void cuda_swiglu_fwd(struct dev *d, void *out, const void *h, int T, int F);
void cuda_swiglu_bwd(struct dev *d, void *dh, const void *dout, const void *h, int T,
                     int F);

/* embedding */
void cuda_embed_fwd(struct dev *d, void *out, const int32_t *tokens, const void *table,
                    int T, int D, int V);
void cuda_embed_bwd(struct dev *d, float *dtable, const int32_t *tokens,
                    const void *dout, int T, int D, int V);

/* RMSNorm, QK-norm with RoPE */
void cuda_rmsnorm_fwd(struct dev *d, void *out, float *rstd, const void *x,
                      const void *w, float eps, int T, int D);
void cuda_rmsnorm_bwd(struct dev *d, void *dx, float *dw, const void *dout,
                      const void *x, const float *rstd, const void *w, int T, int D);
void cuda_qkrope_fwd(struct dev *d, void *q, void *k, const void *qkv,
                     const int32_t *pos, const void *wq, const void *wk, float eps,
                     float theta, int T, int H, int KV, int hd);
void cuda_qkrope_bwd(struct dev *d, void *dqkv, float *dwq, float *dwk, const void *dq,
                     const void *dk, const void *qkv, const int32_t *pos,
                     const void *wq, const void *wk, float eps, float theta, int T,
                     int H, int KV, int hd);

/* dense products: linear_cuda.c */
struct err;
struct linear_cache;
/* gpu: its name, for the stored table; the device whose `local` is 0 writes it. */
int linear_open(struct linear_cache **out, const char *gpu, int local, struct err *err);
void linear_close(struct linear_cache *c);
void cuda_linear_fwd(struct dev *d, void *out, const void *x, const void *w,
                     const void *add, int T, int N, int K);
void cuda_linear_dgrad(struct dev *d, void *dx, const void *dout, const void *w,
                       int accumulate, int T, int N, int K);
void cuda_linear_wgrad(struct dev *d, float *dw, const void *dout, const void *x,
                       int accumulate, int T, int N, int K);

/* Row-major out[rows,cols] (leading dimension cols) = op(a) op(b) + beta add, for
 * the router: the three forms above with an FP32 result or a wider stride of a. */
enum linear_form { LINEAR_FWD, LINEAR_DGRAD, LINEAR_WGRAD };
struct linear_call {
    enum linear_form form;
    int T, N, K;
    int out_f32;     /* FWD only: FP32 result (WGRAD always is) */
    int dout_stride; /* WGRAD: elements between rows of dout; 0: N */
    int accumulate;  /* add to what `add` holds (NULL: the output) */
    void *out;
    const void *a, *b; /* FWD: x, w; DGRAD: dout, w; WGRAD: dout, x */
    const void *add;
    void *workspace; /* LINEAR_WORKSPACE bytes */
};
void linear_run(struct dev *d, const struct linear_call *c);

/* router */
void cuda_router_fwd(struct dev *d, float *logits, const void *x, const void *w, int T,
                     int E, int D);
void cuda_router_bwd(struct dev *d, void *dx, float *dw, const float *dlogits,
                     const void *x, const void *w, int T, int E, int D);
void cuda_route(struct dev *d, struct route *r, const float *logits, const float *bias,
                int forced, int renormalise, float scale, int T, int E, int K);
void cuda_route_bwd(struct dev *d, float *dlogits, const float *dweight,
                    const float *logits, const struct route *r, int renormalise,
                    float scale, int T, int E, int K);

void cuda_spread(struct dev *d, int32_t *expert, const int32_t *offset, int64_t mul,
                 int64_t add, int T, int E, int K);

/* experts */
void cuda_experts_fwd(struct dev *d, void *y, void *h, const void *x, const void *add,
                      const void *w13, const void *w2, const struct route *r, int T,
                      int D, int E, int K, int F);
void cuda_experts_bwd(struct dev *d, void *dx, float *dweight, float *dw13, float *dw2,
                      const void *dy, const void *x, const void *h, const void *w13,
                      const void *w2, const struct route *r, int T, int D, int E, int K,
                      int F);

/* loss, sums, optimizer */
void cuda_cross_entropy(struct dev *d, float *loss, void *logits,
                        const int32_t *targets, float scale, int T, int V);
void cuda_sum_f32(struct dev *d, float *out, const float *x, int64_t n);
void cuda_sumsq_f32(struct dev *d, double *out, const float *x, int64_t n);
void cuda_adamw(struct dev *d, float *w, float *m, float *v, void *out,
                const float *grad, float grad_scale, const struct adamw *a, int64_t n);

/* attention: cuDNN where it can, a refusal where it cannot */
void cuda_attention_fwd(struct dev *d, void *out, float *lse, const void *q,
                        const void *k, const void *v, const int32_t *doc_start,
                        struct attn_shape s);
void cuda_attention_bwd(struct dev *d, void *dq, void *dk, void *dv, const void *dout,
                        const void *q, const void *k, const void *v, const void *out,
                        const float *lse, const int32_t *doc_start,
                        struct attn_shape s);

#ifdef __cplusplus
}
#endif
#endif
