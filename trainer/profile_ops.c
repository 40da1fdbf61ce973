/* The recording tables: each entry says what the call is, and makes it.
 *
 * FLOPs are those of the mathematics: 2 m n k of a product; causal attention half of the
 * whole square, forward two products and backward five. */
#include <string.h>

#include "base/mem.h"
#include "trainer/coll.h"
#include "trainer/ops.h"
#include "trainer/profile.h"

static struct ops table;
static const struct ops *real;
static struct coll_ops coll_table;
static const struct coll_ops *real_coll;

/* One call, with what is known of it. */
#define CALL(what, call)               \
    do {                               \
        struct profile_op op_ = what;  \
        int at_ = profile_enter(&op_); \
                                       \
        real->call;                    \
        profile_leave(at_);            \
    } while (0)
#define PLAIN(n, k)          \
    (struct profile_op)      \
    {                        \
        .name = n, .kind = k \
    }
#define PRODUCT(n, k, m_, n_, k_, f)                              \
    (struct profile_op)                                           \
    {                                                             \
        .name = n, .kind = k, .size = { m_, n_, k_ },             \
        .flops = (f) * (double)(m_) * (double)(n_) * (double)(k_) \
    }

/* NOLINTBEGIN(readability-function-size,readability-non-const-parameter): the
 * signatures are ops.h's. */

/* --- memory ------------------------------------------------------------------------ */
static void p_upload(struct dev *d, void *dst, const void *host, size_t bytes)
{
    CALL(PLAIN("upload", PROFILE_MEMORY), upload(d, dst, host, bytes));
}

static void p_download(struct dev *d, void *host, const void *src, size_t bytes)
{
    CALL(PLAIN("download", PROFILE_MEMORY), download(d, host, src, bytes));
}

static void p_zero(struct dev *d, void *dst, size_t bytes)
{
    CALL(PLAIN("zero", PROFILE_MEMORY), zero(d, dst, bytes));
}

static void p_copy(struct dev *d, void *dst, const void *src, size_t bytes)
{
    CALL(PLAIN("copy", PROFILE_MEMORY), copy(d, dst, src, bytes));
}

/* --- elementwise, norms, embedding ---------------------------------------------------- */
static void p_add(struct dev *d, void *out, const void *a, const void *b, int64_t n)
{
    CALL(PLAIN("add", PROFILE_ELEMENTWISE), add(d, out, a, b, n));
}

static void p_add_f32(struct dev *d, float *io, const float *x, int64_t n)
{
    CALL(PLAIN("add_f32", PROFILE_ELEMENTWISE), add_f32(d, io, x, n));
}

static void p_add_i32(struct dev *d, int32_t *io, const int32_t *x, int64_t n)
{
    CALL(PLAIN("add_i32", PROFILE_ELEMENTWISE), add_i32(d, io, x, n));
}

static void p_scale_f32(struct dev *d, float *io, float by, int64_t n)
{
    CALL(PLAIN("scale_f32", PROFILE_ELEMENTWISE), scale_f32(d, io, by, n));
}

static void p_from_f32(struct dev *d, void *out, const float *x, int64_t n)
{
    CALL(PLAIN("from_f32", PROFILE_ELEMENTWISE), from_f32(d, out, x, n));
}

static void p_embed_fwd(struct dev *d, void *out, const int32_t *tokens, const void *w,
                        int T, int D, int V)
{
    CALL(PLAIN("embed_fwd", PROFILE_EMBEDDING), embed_fwd(d, out, tokens, w, T, D, V));
}

static void p_embed_bwd(struct dev *d, float *dtable, const int32_t *tokens,
                        const void *dout, int T, int D, int V)
{
    CALL(PLAIN("embed_bwd", PROFILE_EMBEDDING),
         embed_bwd(d, dtable, tokens, dout, T, D, V));
}

static void p_rmsnorm_fwd(struct dev *d, void *out, float *rstd, const void *x,
                          const void *w, float eps, int T, int D)
{
    CALL(PLAIN("rmsnorm_fwd", PROFILE_ELEMENTWISE),
         rmsnorm_fwd(d, out, rstd, x, w, eps, T, D));
}

static void p_rmsnorm_bwd(struct dev *d, void *dx, float *dw, const void *dout,
                          const void *x, const float *rstd, const void *w, int T, int D)
{
    CALL(PLAIN("rmsnorm_bwd", PROFILE_ELEMENTWISE),
         rmsnorm_bwd(d, dx, dw, dout, x, rstd, w, T, D));
}

static void p_swiglu_fwd(struct dev *d, void *out, const void *h, int T, int F)
{
    CALL(PLAIN("swiglu_fwd", PROFILE_ELEMENTWISE), swiglu_fwd(d, out, h, T, F));
}

static void p_swiglu_bwd(struct dev *d, void *dh, const void *dout, const void *h,
                         int T, int F)
{
    CALL(PLAIN("swiglu_bwd", PROFILE_ELEMENTWISE), swiglu_bwd(d, dh, dout, h, T, F));
}

/* --- dense products --------------------------------------------------------------------- */
static void p_linear_fwd(struct dev *d, void *out, const void *x, const void *w,
                         const void *add, int T, int N, int K)
{
    CALL(PRODUCT("linear_fwd", PROFILE_DENSE, T, N, K, 2.0),
         linear_fwd(d, out, x, w, add, T, N, K));
}

static void p_linear_dgrad(struct dev *d, void *dx, const void *dout, const void *w,
                           int accumulate, int T, int N, int K)
{
    CALL(PRODUCT("linear_dgrad", PROFILE_DENSE, T, K, N, 2.0),
         linear_dgrad(d, dx, dout, w, accumulate, T, N, K));
}

static void p_linear_wgrad(struct dev *d, float *dw, const void *dout, const void *x,
                           int accumulate, int T, int N, int K)
{
    CALL(PRODUCT("linear_wgrad", PROFILE_DENSE, N, K, T, 2.0),
         linear_wgrad(d, dw, dout, x, accumulate, T, N, K));
}

/* --- attention ---------------------------------------------------------------------------- */
static void p_qkrope_fwd(struct dev *d, void *q, void *k, const void *qkv,
                         const int32_t *pos, const void *wq, const void *wk, float eps,
                         float theta, int T, int H, int KV, int hd)
{
    CALL(PLAIN("qkrope_fwd", PROFILE_ELEMENTWISE),
         qkrope_fwd(d, q, k, qkv, pos, wq, wk, eps, theta, T, H, KV, hd));
}

static void p_qkrope_bwd(struct dev *d, void *dqkv, float *dwq, float *dwk,
                         const void *dq, const void *dk, const void *qkv,
                         const int32_t *pos, const void *wq, const void *wk, float eps,
                         float theta, int T, int H, int KV, int hd)
{
    CALL(PLAIN("qkrope_bwd", PROFILE_ELEMENTWISE),
         qkrope_bwd(d, dqkv, dwq, dwk, dq, dk, qkv, pos, wq, wk, eps, theta, T, H, KV,
                    hd));
}

/* Rows: queries of all heads; columns: keys; depth: head dimension.  A product of the
 * causal half costs m n k. */
static void p_attention_fwd(struct dev *d, void *out, float *lse, const void *q,
                            const void *k, const void *v, const int32_t *doc_start,
                            struct attn_shape s)
{
    CALL(PRODUCT("attention_fwd", PROFILE_ATTENTION, (int64_t)s.B * s.H * s.S, s.S,
                 s.hd, 2.0),
         attention_fwd(d, out, lse, q, k, v, doc_start, s));
}

static void p_attention_bwd(struct dev *d, void *dq, void *dk, void *dv,
                            const void *dout, const void *q, const void *k,
                            const void *v, const void *out, const float *lse,
                            const int32_t *doc_start, struct attn_shape s)
{
    CALL(PRODUCT("attention_bwd", PROFILE_ATTENTION, (int64_t)s.B * s.H * s.S, s.S,
                 s.hd, 5.0),
         attention_bwd(d, dq, dk, dv, dout, q, k, v, out, lse, doc_start, s));
}

/* --- router and experts --------------------------------------------------------------------- */
static void p_router_fwd(struct dev *d, float *logits, const void *x, const void *w,
                         int T, int E, int D)
{
    CALL(PRODUCT("router_fwd", PROFILE_ROUTER, T, E, D, 2.0),
         router_fwd(d, logits, x, w, T, E, D));
}

static void p_router_bwd(struct dev *d, void *dx, float *dw, const float *dlogits,
                         const void *x, const void *w, int T, int E, int D)
{
    CALL(PRODUCT("router_bwd", PROFILE_ROUTER, T, E, D, 4.0),
         router_bwd(d, dx, dw, dlogits, x, w, T, E, D));
}

static void p_route(struct dev *d, struct route *r, const float *logits,
                    const float *bias, int forced, int renormalise, float scale, int T,
                    int E, int K)
{
    CALL(PLAIN("route", PROFILE_ROUTER),
         route(d, r, logits, bias, forced, renormalise, scale, T, E, K));
}

static void p_spread(struct dev *d, int32_t *expert, const int32_t *offset, int64_t mul,
                     int64_t add, int T, int E, int K)
{
    CALL(PLAIN("spread", PROFILE_ROUTER), spread(d, expert, offset, mul, add, T, E, K));
}

static void p_route_bwd(struct dev *d, float *dlogits, const float *dweight,
                        const float *logits, const struct route *r, int renormalise,
                        float scale, int T, int E, int K)
{
    CALL(PLAIN("route_bwd", PROFILE_ROUTER),
         route_bwd(d, dlogits, dweight, logits, r, renormalise, scale, T, E, K));
}

/* Rows: tokens x top_k.  W1, W3 and W2 are three products of m n k. */
static void p_experts_fwd(struct dev *d, void *y, void *h, const void *x,
                          const void *add, const void *w13, const void *w2,
                          const struct route *r, int T, int D, int E, int K, int F)
{
    CALL(PRODUCT("experts_fwd", PROFILE_EXPERTS, (int64_t)T * K, F, D, y ? 6.0 : 4.0),
         experts_fwd(d, y, h, x, add, w13, w2, r, T, D, E, K, F));
}

static void p_experts_bwd(struct dev *d, void *dx, float *dweight, float *dw13,
                          float *dw2, const void *dy, const void *x, const void *h,
                          const void *w13, const void *w2, const struct route *r, int T,
                          int D, int E, int K, int F)
{
    CALL(PRODUCT("experts_bwd", PROFILE_EXPERTS, (int64_t)T * K, F, D, 12.0),
         experts_bwd(d, dx, dweight, dw13, dw2, dy, x, h, w13, w2, r, T, D, E, K, F));
}

/* --- loss and optimizer ------------------------------------------------------------------------ */
static void p_cross_entropy(struct dev *d, float *loss, void *logits,
                            const int32_t *targets, float scale, int T, int V)
{
    CALL(PLAIN("cross_entropy", PROFILE_LOSS),
         cross_entropy(d, loss, logits, targets, scale, T, V));
}

static void p_sum_f32(struct dev *d, float *out, const float *x, int64_t n)
{
    CALL(PLAIN("sum_f32", PROFILE_LOSS), sum_f32(d, out, x, n));
}

static void p_sumsq_f32(struct dev *d, double *out, const float *x, int64_t n)
{
    CALL(PLAIN("sumsq_f32", PROFILE_OPTIMIZER), sumsq_f32(d, out, x, n));
}

static void p_adamw(struct dev *d, float *w, float *m, float *v, void *out,
                    const float *grad, float grad_scale, const struct adamw *a,
                    int64_t n)
{
    CALL(PLAIN("adamw", PROFILE_OPTIMIZER),
         adamw(d, w, m, v, out, grad, grad_scale, a, n));
}

/* NOLINTEND(readability-function-size,readability-non-const-parameter) */

/* --- collectives ------------------------------------------------------------------------------- */
/* Those that were begun and not finished. */
enum { MOST_FLYING = 256 };
static struct flying {
    const struct coll_req *req;
    int at;
} flying[MOST_FLYING];

static int64_t bytes_of(enum coll_type t)
{
    const int64_t size[] = { [COLL_ELEM] = (int64_t)real->elem_bytes,
                             [COLL_F32] = 4,
                             [COLL_F64] = 8,
                             [COLL_I32] = 4,
                             [COLL_BYTE] = 1 };

    return size[t];
}

/* `share`: of (ranks - 1) / ranks of the bytes, what each link carries. */
static int enter_coll(const struct coll *c, const char *name, int64_t bytes,
                      double share)
{
    double n = real_coll->size(c);

    return profile_enter(&(struct profile_op){ .name = name,
                                               .kind = PROFILE_COLLECTIVE,
                                               .bytes = bytes,
                                               .bus = share * (n - 1) / n });
}

static int leave_coll(int at, const struct coll_req *req, int rc)
{
    profile_leave(at);
    for (int i = 0; at >= 0 && req && i < MOST_FLYING; i++)
        if (!flying[i].req) {
            flying[i] = (struct flying){ req, at };
            return rc;
        }
    if (!req)
        profile_done(at);
    return rc;
}

static int p_all_gather(struct coll *c, struct coll_req **req, void *dst,
                        const void *src, int64_t n, enum coll_type t, struct err *err)
{
    int at = enter_coll(c, "all_gather", n * bytes_of(t) * real_coll->size(c), 1);
    int rc = real_coll->all_gather(c, req, dst, src, n, t, err);

    return leave_coll(at, *req, rc);
}

static int p_reduce_scatter(struct coll *c, struct coll_req **req, float *dst,
                            const float *src, int64_t n, struct err *err)
{
    int at = enter_coll(c, "reduce_scatter", n * 4 * real_coll->size(c), 1);
    int rc = real_coll->reduce_scatter(c, req, dst, src, n, err);

    return leave_coll(at, *req, rc);
}

static int p_all_reduce(struct coll *c, struct coll_req **req, void *buf, int64_t n,
                        enum coll_type t, struct err *err)
{
    int at = enter_coll(c, "all_reduce", n * bytes_of(t), 2);
    int rc = real_coll->all_reduce(c, req, buf, n, t, err);

    return leave_coll(at, *req, rc);
}

static int p_broadcast(struct coll *c, struct coll_req **req, void *buf, int64_t n,
                       enum coll_type t, int root, struct err *err)
{
    double ranks = real_coll->size(c);
    int at = enter_coll(c, "broadcast", n * bytes_of(t),
                        ranks > 1 ? ranks / (ranks - 1) : 0);
    int rc = real_coll->broadcast(c, req, buf, n, t, root, err);

    return leave_coll(at, *req, rc);
}

static int p_finish(struct coll *c, struct coll_req **req, struct err *err)
{
    const struct coll_req *was = *req;
    int rc = real_coll->finish(c, req, err);

    for (int i = 0; was && i < MOST_FLYING; i++)
        if (flying[i].req == was) {
            profile_done(flying[i].at);
            flying[i].req = NULL;
        }
    return rc;
}

/* --- the tables ---------------------------------------------------------------------------------- */
static void record_coll(const struct coll_ops **coll)
{
    real_coll = *coll;
    coll_table = *real_coll;
    coll_table.all_gather = p_all_gather;
    coll_table.reduce_scatter = p_reduce_scatter;
    coll_table.all_reduce = p_all_reduce;
    coll_table.broadcast = p_broadcast;
    coll_table.finish = p_finish;
    memset(flying, 0, sizeof(flying));
    *coll = &coll_table;
}

#define RECORD(entry) table.entry = p_##entry

void profile_tables(const struct ops **ops, const struct coll_ops **coll)
{
    real = *ops;
    table = *real;
    RECORD(upload);
    RECORD(download);
    RECORD(zero);
    RECORD(copy);
    RECORD(add);
    RECORD(add_f32);
    RECORD(add_i32);
    RECORD(scale_f32);
    RECORD(from_f32);
    RECORD(embed_fwd);
    RECORD(embed_bwd);
    RECORD(rmsnorm_fwd);
    RECORD(rmsnorm_bwd);
    RECORD(linear_fwd);
    RECORD(linear_dgrad);
    RECORD(linear_wgrad);
    RECORD(qkrope_fwd);
    RECORD(qkrope_bwd);
    RECORD(attention_fwd);
    RECORD(attention_bwd);
    RECORD(router_fwd);
    RECORD(router_bwd);
    RECORD(route);
    RECORD(route_bwd);
    RECORD(spread);
    RECORD(experts_fwd);
    RECORD(experts_bwd);
    RECORD(swiglu_fwd);
    RECORD(swiglu_bwd);
    RECORD(cross_entropy);
    RECORD(sum_f32);
    RECORD(sumsq_f32);
    RECORD(adamw);
    *ops = &table;
    record_coll(coll);
}
