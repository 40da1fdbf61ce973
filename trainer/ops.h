/* ops.h - every piece of mathematics a training step needs, once per device.
 *
 * ops_cpu is the definition: FP32, deterministic, written to be read.  ops_cuda
 * (BF16 activations and weights, FP32 accumulation) is held to it by tests.
 *
 * Conventions
 *   - Row-major.  T tokens of this micro-batch = B sequences x S; D hidden, H/KV
 *     query/key heads, hd head dim, E experts, K top_k, F expert width, V vocab,
 *     R = T K routed rows.
 *   - `void *` is the device's element type (ops->elem_bytes: 4 FP32 on the CPU,
 *     2 BF16 on CUDA); `float *` is FP32 everywhere; int32_t indexes.
 *     All are device pointers.
 *   - Argument order: device, outputs, inputs, weights, sizes.  No op keeps a
 *     pointer.  Outputs are overwritten unless the comment says "adds".
 *   - Weight gradients are FP32.
 *   - Ops are queued on STREAM_COMPUTE and return at once.  The first failure
 *     sticks to the device; ops->status() reports it.
 *   - T = 0 is legal everywhere, so is an expert without rows (its weight
 *     gradient is zero, not NaN). */
#ifndef TRAINER_OPS_H
#define TRAINER_OPS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct err;
struct dev; /* one open device: handles, streams, scratch, the sticky error */

/* Work on one stream runs in order; between streams only events order it.
 * On the CPU all are the calling thread. */
enum stream { STREAM_COMPUTE, STREAM_GATHER, STREAM_REDUCE, STREAM_REPLICA, N_STREAMS };
enum { N_EVENTS = 64 };

struct attn_shape {
    int B, S, H, KV, hd;
    int64_t q_stride, k_stride, v_stride; /* elements between tokens */
};

/* What the router decided for T tokens, by expert.  All on the device. */
struct route {
    int32_t *expert; /* [T,K] chosen experts, best first; ties: lower index */
    float *weight;   /* [T,K] combine weights */
    int32_t *count;  /* [E] rows per expert */
    int32_t *offset; /* [E+1] first row of each expert */
    int32_t *token;  /* [R] token of each row; rows sorted by expert, stable */
    int32_t *row;    /* [T,K] row of each (token, choice): inverse of the sort */
};

struct adamw {
    float lr, beta1, beta2, eps, weight_decay;
    int64_t step; /* 1 for the first update */
};

struct ops {
    const char *name; /* "cpu", "cuda" */
    size_t elem_bytes;

    /* --- device -------------------------------------------------------- */
    /* local: device index (cudaSetDevice; CPU: ignored).  threads: BLAS threads
     * on the CPU.  Scratch is not owned: see set_scratch. */
    int (*open)(struct dev **out, int local, int threads, struct err *err);
    void (*close)(struct dev *d);
    /* One allocation a program makes: the arena.  Zeroed. */
    int (*alloc)(struct dev *d, size_t bytes, void **out, struct err *err);
    void (*free)(struct dev *d, void *p);
    void (*set_scratch)(struct dev *d, void *p, size_t bytes);
    /* Largest scratch any op below takes for these sizes. */
    size_t (*scratch_bytes)(int T, int S, int D, int H, int KV, int hd, int E, int K,
                            int F, int chunk, int V);
    void (*memory)(struct dev *d, size_t *used, size_t *total);
    const char *(*describe)(struct dev *d);        /* one line for the log; borrowed */
    int (*status)(struct dev *d, struct err *err); /* sticky error, no waiting */
    int (*sync)(struct dev *d, struct err *err);   /* wait for all streams */
    void (*record)(struct dev *d, int event, enum stream s);
    void (*wait)(struct dev *d, enum stream s, int event);
    /* The host's bytes may change as soon as upload returns. */
    void (*upload)(struct dev *d, void *dst, const void *host, size_t bytes);
    void (*download)(struct dev *d, void *host, const void *src,
                     size_t bytes); /* waits */
    void (*zero)(struct dev *d, void *dst, size_t bytes);
    void (*copy)(struct dev *d, void *dst, const void *src, size_t bytes);

    /* --- elementwise ---------------------------------------------------- */
    void (*add)(struct dev *d, void *out, const void *a, const void *b, int64_t n);
    void (*add_f32)(struct dev *d, float *io, const float *x, int64_t n);     /* adds */
    void (*add_i32)(struct dev *d, int32_t *io, const int32_t *x, int64_t n); /* adds */
    void (*scale_f32)(struct dev *d, float *io, float by, int64_t n);
    void (*from_f32)(struct dev *d, void *out, const float *x, int64_t n);

    /* --- embedding ------------------------------------------------------- */
    void (*embed_fwd)(struct dev *d, void *out /*T,D*/, const int32_t *tokens,
                      const void *table /*V,D*/, int T, int D, int V);
    /* dtable[V,D] adds the rows of dout in token order (deterministic). */
    void (*embed_bwd)(struct dev *d, float *dtable, const int32_t *tokens,
                      const void *dout, int T, int D, int V);

    /* --- RMSNorm: out = x / sqrt(mean(x^2) + eps) * w --------------------- */
    void (*rmsnorm_fwd)(struct dev *d, void *out, float *rstd /*T*/, const void *x,
                        const void *w /*D*/, float eps, int T, int D);
    /* dx ADDS (it holds the residual branch's gradient); dw overwritten. */
    void (*rmsnorm_bwd)(struct dev *d, void *dx, float *dw, const void *dout,
                        const void *x, const float *rstd, const void *w, int T, int D);

    /* --- dense products: out[T,N] = x[T,K] w[N,K]^T (+ add) ---------------- */
    void (*linear_fwd)(struct dev *d, void *out, const void *x, const void *w,
                       const void *add /* [T,N] or NULL; may be out */, int T, int N,
                       int K);
    void (*linear_dgrad)(struct dev *d, void *dx, const void *dout, const void *w,
                         int accumulate, int T, int N, int K);
    void (*linear_wgrad)(struct dev *d, float *dw, const void *dout, const void *x,
                         int accumulate, int T, int N, int K);

    /* --- attention --------------------------------------------------------- */
    /* Per head: RMSNorm of q and k with weights wq, wk [hd], then RoPE (halves
     * rotated: x1 cos - x2 sin, x2 cos + x1 sin; angle pos theta^(-2i/hd)).
     * qkv[T, H+2KV, hd] -> q[T,H,hd], k[T,KV,hd].  pos[T]: position in the
     * sequence (or document). */
    void (*qkrope_fwd)(struct dev *d, void *q, void *k, const void *qkv,
                       const int32_t *pos, const void *wq, const void *wk, float eps,
                       float theta, int T, int H, int KV, int hd);
    /* Writes the q and k parts of dqkv[T, H+2KV, hd] (v is left alone);
     * dwq, dwk [hd] overwritten. */
    void (*qkrope_bwd)(struct dev *d, void *dqkv, float *dwq, float *dwk,
                       const void *dq, const void *dk, const void *qkv,
                       const int32_t *pos, const void *wq, const void *wk, float eps,
                       float theta, int T, int H, int KV, int hd);
    /* Causal GQA, scale 1/sqrt(hd): token i of a sequence sees j with
     * doc_start[i] <= j <= i (doc_start NULL: 0; positions within the sequence).
     * out[T,H,hd]; lse[B,H,S] natural log of the softmax sum. */
    void (*attention_fwd)(struct dev *d, void *out, float *lse, const void *q,
                          const void *k, const void *v, const int32_t *doc_start,
                          struct attn_shape s);
    /* dq, dk, dv with the strides of q, k, v.  delta: the op's scratch. */
    void (*attention_bwd)(struct dev *d, void *dq, void *dk, void *dv, const void *dout,
                          const void *q, const void *k, const void *v, const void *out,
                          const float *lse, const int32_t *doc_start,
                          struct attn_shape s);

    /* --- router, FP32 -------------------------------------------------------- */
    void (*router_fwd)(struct dev *d, float *logits /*T,E*/, const void *x,
                       const void *w /*E,D*/, int T, int E, int D);
    /* dx ADDS; dw[E,D] overwritten. */
    void (*router_bwd)(struct dev *d, void *dx, float *dw, const float *dlogits,
                       const void *x, const void *w, int T, int E, int D);
    /* p = softmax(logits); choose top_k by p + bias (bias[E] or NULL only
     * selects); weight = p of the chosen, / their sum if renormalise, x scale.
     * Fills every field of *r.  forced: expert choice given in r->expert (for
     * benchmarks and tests), only weights are computed. */
    void (*route)(struct dev *d, struct route *r, const float *logits,
                  const float *bias, int forced, int renormalise, float scale, int T,
                  int E, int K);
    void (*route_bwd)(struct dev *d, float *dlogits /*T,E*/,
                      const float *dweight /*T,K*/, const float *logits,
                      const struct route *r, int renormalise, float scale, int T, int E,
                      int K);

    /* --- experts: y = add + sum_k weight_k W2 (silu(W1 x) * (W3 x)) ------------ */
    /* w13[E,2F,D] holds W1 then W3 of each expert, w2[E,D,F].
     * h[R,2F] (pre-activation, by row) is what backward needs besides x.
     * Combine sums in order of k, in FP32.  y[T,D]; add may be y, or NULL.
     * y NULL: only h is computed (activation checkpointing recomputes no more). */
    void (*experts_fwd)(struct dev *d, void *y, void *h, const void *x, const void *add,
                        const void *w13, const void *w2, const struct route *r, int T,
                        int D, int E, int K, int F);
    /* dx[T,D] overwritten, dweight[T,K], dw13, dw2 overwritten (zero for empty experts). */
    void (*experts_bwd)(struct dev *d, void *dx, float *dweight, float *dw13,
                        float *dw2, const void *dy, const void *x, const void *h,
                        const void *w13, const void *w2, const struct route *r, int T,
                        int D, int E, int K, int F);
    /* Shared expert's activation: out[T,F] = silu(h[:, :F]) * h[:, F:]. */
    void (*swiglu_fwd)(struct dev *d, void *out, const void *h, int T, int F);
    void (*swiglu_bwd)(struct dev *d, void *dh, const void *dout, const void *h, int T,
                       int F);

    /* --- loss ------------------------------------------------------------------ */
    /* Per token -log softmax(logits)[target]; logits[T,V] become
     * scale (softmax - onehot); targets < 0: loss 0, gradient 0. */
    void (*cross_entropy)(struct dev *d, float *loss /*T*/, void *logits,
                          const int32_t *targets, float scale, int T, int V);
    /* *out (device, one float) = sum of x, in a fixed order. */
    void (*sum_f32)(struct dev *d, float *out, const float *x, int64_t n);
    /* *out = sum of squares, fixed order; FP64 accumulation. */
    void (*sumsq_f32)(struct dev *d, double *out, const float *x, int64_t n);

    /* --- optimizer ---------------------------------------------------------------- */
    /* g = grad x grad_scale; m, v, w as Loshchilov & Hutter 2019 (decoupled
     * decay, bias correction).  out (element type, may be NULL) = w. */
    void (*adamw)(struct dev *d, float *w, float *m, float *v, void *out,
                  const float *grad, float grad_scale, const struct adamw *a,
                  int64_t n);

    /* Experts by given numbers of rows, for benchmarks: with the R rows laid out by
     * expert (offset[E+1]), row k T + (mul t + add) mod T is choice k of token t.
     * Every expert gets exactly its rows, and with mul and T coprime and no expert
     * above T rows no token gets one twice.  0 < mul < T or T = 1; 0 <= add < T. */
    void (*spread)(struct dev *d, int32_t *expert /*T,K*/, const int32_t *offset,
                   int64_t mul, int64_t add, int T, int E, int K);

    /* PCI bus id ("0000:18:00.0"), borrowed.  NULL entry or "": none. */
    const char *(*busid)(struct dev *d);

    /* Host memory that the device reads and writes by itself; NULL entries: the device
     * has no memory of its own.  transfer is queued; either end may be such memory. */
    int (*pin)(struct dev *d, size_t bytes, void **out, struct err *err);
    void (*unpin)(struct dev *d, void *p);
    void (*transfer)(struct dev *d, void *dst, const void *src, size_t bytes);
};

extern const struct ops ops_cpu;

/* The table of a device ("cpu", "cuda").  ERR_MISSING says how to get one that
 * is not built in: CUDA lives in a module next to the program, loaded here, so
 * that CPU ranks and machines without CUDA never touch its libraries. */
int ops_find(const char *name, const struct ops **out, struct err *err);

/* What memplan needs of a device, also of one that is not built in: name,
 * elem_bytes and scratch_bytes; every other entry is NULL.  Its file uses no
 * BLAS and no CUDA (the launcher links it); the real tables take scratch_bytes
 * from it.  NULL: no such device. */
const struct ops *ops_sizes(const char *name);

#ifdef __cplusplus
}
#endif
#endif
