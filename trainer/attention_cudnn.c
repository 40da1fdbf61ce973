/* Causal grouped-query attention as cuDNN graphs, forward and backward.
 *
 * The graphs are the composite form that every cuDNN from 9.10.2 fuses: products,
 * scale, index comparison, selection and softmax as separate operations.  A graph is
 * planned once a shape; engines that want more workspace than the scratch plan foresees
 * are passed over. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "trainer/attention_cuda.h"
#include "trainer/cuda_dev.h"
#include "trainer/graph_cudnn.h"

enum { MAX_SHAPES = 16, OLDEST = 91002 /* 9.10.0 and .1 give wrong results */ };

struct entry {
    struct attn_shape s;
    struct graph *forward, *backward;
};

struct attention_cudnn {
    cudnnHandle_t handle;
    int n;
    struct entry entry[MAX_SHAPES];
};

static const cudnnDataType_t BF16 = CUDNN_DATA_BFLOAT16, F32 = CUDNN_DATA_FLOAT;

int attention_cudnn_open(struct attention_cudnn **out, struct err *err)
{
    struct attention_cudnn *a;
    size_t version = cudnnGetVersion();
    cudnnStatus_t s;

    if (version < OLDEST)
        return err_set(err, ERR_MISSING, "cuDNN %zu.%zu.%zu is older than 9.10.2",
                       version / 10000, version / 100 % 100, version % 100);
    a = xcalloc(1, sizeof(*a));
    s = cudnnCreate(&a->handle);
    if (s != CUDNN_STATUS_SUCCESS) {
        free(a);
        return err_set(err, ERR_SYSTEM, "cudnnCreate: %s", cudnnGetErrorString(s));
    }
    *out = a;
    return 0;
}

void attention_cudnn_close(struct attention_cudnn *a)
{
    if (!a)
        return;
    for (int i = 0; i < a->n; i++) {
        graph_free(a->entry[i].forward);
        graph_free(a->entry[i].backward);
    }
    cudnnDestroy(a->handle);
    free(a);
}

int attention_cudnn_fits(const struct attn_shape *s)
{
    return s->hd % 8 == 0 && s->hd >= 32 && s->hd <= 128 && s->S > 1 &&
           s->q_stride % 8 == 0 && s->k_stride % 8 == 0 && s->v_stride % 8 == 0;
}

/* --- graphs ----------------------------------------------------------------------- */

/* [B, heads, S, hd] with tokens `stride` elements apart. */
static struct graph_dims tokens(const struct attn_shape *s, int heads, int64_t stride)
{
    return (struct graph_dims){ { s->B, heads, s->S, s->hd },
                                { s->S * stride, s->hd, stride, 1 } };
}

static struct graph_dims scores(const struct attn_shape *s)
{
    return graph_packed(s->B, s->H, s->S, s->S);
}

static struct graph_dims per_query(const struct attn_shape *s)
{
    return graph_packed(s->B, s->H, s->S, 1);
}

/* y = mode(x, b) */
static void point_to(struct graph *g, cudnnPointwiseMode_t mode, int y, int x, int b)
{
    graph_pointwise(g, (struct graph_point){ mode, F32, y, x, b, -1, 0 });
}

/* The same, FP32 and inside the kernel; returns y. */
static int point(struct graph *g, cudnnPointwiseMode_t mode, struct graph_dims dims,
                 int x, int b)
{
    int y = graph_virtual(g, F32, dims);

    point_to(g, mode, y, x, b);
    return y;
}

static int product(struct graph *g, struct graph_dims dims, int a, int b)
{
    int c = graph_virtual(g, F32, dims);

    graph_matmul(g, c, a, b);
    return c;
}

/* Index of x along an axis. */
static int along(struct graph *g, const struct attn_shape *s, int x, int axis)
{
    int y = graph_virtual(g, CUDNN_DATA_INT32, scores(s));

    graph_pointwise(
        g, (struct graph_point){ CUDNN_POINTWISE_GEN_INDEX, F32, y, x, -1, -1, axis });
    return y;
}

/* -inf where the key is after the query.  The order of these nodes is one that the
 * engines recognise. */
static int causal(struct graph *g, const struct attn_shape *s, int x)
{
    int row = along(g, s, x, 2), col = along(g, s, x, 3);
    int keep = graph_virtual(g, CUDNN_DATA_BOOLEAN, scores(s));
    int minus = graph_scalar(g, -INFINITY), y = graph_virtual(g, F32, scores(s));

    graph_pointwise(g, (struct graph_point){ CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN,
                                             keep, row, col, -1, 0 });
    graph_pointwise(g, (struct graph_point){ CUDNN_POINTWISE_BINARY_SELECT, F32, y, x,
                                             minus, keep, 0 });
    return y;
}

/* Tensors with memory: q, k, v, out, lse. */
static struct graph *forward_graph(cudnnHandle_t handle, const struct attn_shape *s)
{
    struct graph *g = graph_new(handle);
    int q = graph_tensor(g, BF16, tokens(s, s->H, s->q_stride));
    int k = graph_tensor(g, BF16, graph_transposed(tokens(s, s->KV, s->k_stride)));
    int v = graph_tensor(g, BF16, tokens(s, s->KV, s->v_stride));
    int out = graph_tensor(g, BF16, tokens(s, s->H, (int64_t)s->H * s->hd));
    int lse = graph_tensor(g, F32, per_query(s));
    int scale = graph_scalar(g, 1.0f / sqrtf((float)s->hd));
    int max = graph_virtual(g, F32, per_query(s));
    int sum = graph_virtual(g, F32, per_query(s));
    int p = graph_virtual(g, BF16, scores(s)), x, e, log;

    x = product(g, scores(s), q, k);
    x = point(g, CUDNN_POINTWISE_MUL, scores(s), x, scale);
    x = causal(g, s, x);
    graph_reduce(g, CUDNN_REDUCE_TENSOR_MAX, max, x);
    x = point(g, CUDNN_POINTWISE_SUB, scores(s), x, max);
    e = point(g, CUDNN_POINTWISE_EXP, scores(s), x, -1);
    graph_reduce(g, CUDNN_REDUCE_TENSOR_ADD, sum, e);
    log = point(g, CUDNN_POINTWISE_LOG, per_query(s), sum, -1);
    point_to(g, CUDNN_POINTWISE_ADD, lse, max, log);
    point_to(g, CUDNN_POINTWISE_DIV, p, e, sum);
    graph_matmul(g, out, p, v);
    return g;
}

/* y = a b, summed over the query heads of each key head. */
static void group_product(struct graph *g, const struct attn_shape *s, int y, int a,
                          int b)
{
    int full;

    if (s->H == s->KV) {
        graph_matmul(g, y, a, b);
        return;
    }
    full = graph_virtual(g, BF16, graph_packed(s->B, s->H, s->S, s->hd));
    graph_matmul(g, full, a, b);
    graph_reduce(g, CUDNN_REDUCE_TENSOR_ADD, y, full);
}

/* x[b,h,q,k] as [b,h,k,q] in BF16. */
static int transpose(struct graph *g, const struct attn_shape *s, int x)
{
    int y = graph_virtual(g, BF16, graph_transposed(scores(s)));

    graph_reshape(g, y, x);
    return y;
}

/* Tensors of the backward graph that have memory, in the order of their pointers. */
struct backward {
    int q, k, v, out, dout, lse, dq, dk, dv, sums, dq32;
};

static struct backward backward_tensors(struct graph *g, const struct attn_shape *s)
{
    struct graph_dims qs = tokens(s, s->H, s->q_stride);
    struct graph_dims ks = tokens(s, s->KV, s->k_stride);
    struct graph_dims vs = tokens(s, s->KV, s->v_stride);
    struct graph_dims os = tokens(s, s->H, (int64_t)s->H * s->hd);
    struct backward t;

    t.q = graph_tensor(g, BF16, qs);
    t.k = graph_tensor(g, BF16, graph_transposed(ks));
    t.v = graph_tensor(g, BF16, graph_transposed(vs));
    t.out = graph_tensor(g, BF16, os);
    t.dout = graph_tensor(g, BF16, os);
    t.lse = graph_tensor(g, F32, per_query(s));
    t.dq = graph_tensor(g, BF16, qs);
    t.dk = graph_tensor(g, BF16, ks);
    t.dv = graph_tensor(g, BF16, vs);
    t.sums = graph_tensor(g, F32, per_query(s));
    t.dq32 = graph_tensor(g, F32, graph_packed(s->B, s->H, s->S, s->hd));
    return t;
}

/* dq = ds k, through an FP32 sum in memory: keys add to it in no fixed order. */
static void query_gradient(struct graph *g, const struct attn_shape *s,
                           const struct backward *t, int ds)
{
    int rows = graph_virtual(g, BF16, tokens(s, s->KV, s->k_stride));

    graph_reshape(g, rows, t->k);
    graph_matmul(g, t->dq32, ds, rows);
    point_to(g, CUDNN_POINTWISE_IDENTITY, t->dq, t->dq32, -1);
}

static struct graph *backward_graph(cudnnHandle_t handle, const struct attn_shape *s)
{
    struct graph *g = graph_new(handle);
    struct backward t = backward_tensors(g, s);
    struct graph_dims heads = { { s->B, s->H, s->S, s->hd },
                                { (int64_t)s->H * s->S * s->hd, (int64_t)s->S * s->hd,
                                  (int64_t)s->H * s->hd, 1 } };
    int one = graph_scalar(g, 1), scale = graph_scalar(g, 1.0f / sqrtf((float)s->hd));
    int row = graph_virtual(g, F32, per_query(s)), x, p, ds;

    x = point(g, CUDNN_POINTWISE_MUL, heads, t.dout, t.out);
    graph_reduce(g, CUDNN_REDUCE_TENSOR_ADD, row, x);
    point_to(g, CUDNN_POINTWISE_MUL, t.sums, row, one);

    x = product(g, scores(s), t.q, t.k);
    x = point(g, CUDNN_POINTWISE_MUL, scores(s), x, scale);
    x = point(g, CUDNN_POINTWISE_SUB, scores(s), x, t.lse);
    x = causal(g, s, x);
    p = point(g, CUDNN_POINTWISE_EXP, scores(s), x, -1);
    group_product(g, s, t.dv, transpose(g, s, p), t.dout);

    x = product(g, scores(s), t.dout, t.v);
    x = point(g, CUDNN_POINTWISE_SUB, scores(s), x, t.sums);
    x = point(g, CUDNN_POINTWISE_MUL, scores(s), x, p);
    ds = point(g, CUDNN_POINTWISE_MUL, scores(s), x, scale);
    group_product(g, s, t.dk, transpose(g, s, ds), t.q);
    query_gradient(g, s, &t, ds);
    return g;
}

/* --- plans and calls -------------------------------------------------------------- */

static int same(const struct attn_shape *a, const struct attn_shape *b)
{
    return a->B == b->B && a->S == b->S && a->H == b->H && a->KV == b->KV &&
           a->hd == b->hd && a->q_stride == b->q_stride && a->k_stride == b->k_stride &&
           a->v_stride == b->v_stride;
}

static struct entry *entry_for(struct attention_cudnn *a, struct dev *d,
                               const struct attn_shape *s)
{
    for (int i = 0; i < a->n; i++)
        if (same(&a->entry[i].s, s))
            return &a->entry[i];
    if (a->n == MAX_SHAPES) {
        dev_fail(d, ERR_FAILED, "attention: more than %d shapes", MAX_SHAPES);
        return NULL;
    }
    a->entry[a->n] = (struct entry){ .s = *s };
    return &a->entry[a->n++];
}

static void plan(struct dev *d, struct graph **g, const struct attn_shape *s,
                 int backward)
{
    struct err e = ERR_INIT;
    size_t most = cuda_attention_engine_bytes(s->B * s->S, s->H, s->hd);

    if (graph_plan(*g, most, &e) < 0) {
        dev_fail(d, e.code, "attention %s B=%d S=%d H=%d/%d hd=%d: %s",
                 backward ? "backward" : "forward", s->B, s->S, s->H, s->KV, s->hd,
                 err_text(&e));
        graph_free(*g);
        *g = NULL;
    }
    err_release(&e);
}

static void execute(struct attention_cudnn *a, struct dev *d, struct graph *g,
                    void *const *pointer, int n, void *workspace)
{
    struct err e = ERR_INIT;

    if (cudnnSetStream(a->handle, dev_stream(d)) != CUDNN_STATUS_SUCCESS)
        dev_fail(d, ERR_SYSTEM, "cudnnSetStream failed");
    if (dev_ok(d) && graph_run(g, pointer, n, workspace, &e) < 0)
        dev_fail(d, e.code, "attention: %s", err_text(&e));
    err_release(&e);
}

void attention_cudnn_fwd(struct attention_cudnn *a, struct dev *d,
                         const struct attention_call *c)
{
    struct entry *e = entry_for(a, d, &c->s);
    struct carve scratch = { d, "attention_fwd", 0 };
    void *pointer[] = { (void *)c->q, (void *)c->k, (void *)c->v, c->out, c->lse };

    if (!e)
        return;
    if (!e->forward) {
        e->forward = forward_graph(a->handle, &c->s);
        plan(d, &e->forward, &c->s, 0);
    }
    if (dev_ok(d))
        execute(a, d, e->forward, pointer, ARRAY_LEN(pointer),
                carve_take(&scratch, graph_workspace(e->forward)));
}

void attention_cudnn_bwd(struct attention_cudnn *a, struct dev *d,
                         const struct attention_call *c)
{
    struct entry *e = entry_for(a, d, &c->s);
    struct carve scratch = { d, "attention_bwd", 0 };
    size_t rows = (size_t)c->s.B * (size_t)c->s.S * (size_t)c->s.H;
    size_t bytes = rows * (size_t)c->s.hd * sizeof(float);
    void *sums = carve_take(&scratch, rows * sizeof(float));
    void *dq32 = carve_take(&scratch, bytes);
    void *pointer[] = { (void *)c->q,    (void *)c->k, (void *)c->v, c->out,
                        (void *)c->dout, c->lse,       c->dq,        c->dk,
                        c->dv,           sums,         dq32 };

    if (!e || !dev_ok(d))
        return;
    if (!e->backward) {
        e->backward = backward_graph(a->handle, &c->s);
        plan(d, &e->backward, &c->s, 1);
    }
    if (dev_ok(d))
        execute(a, d, e->backward, pointer, ARRAY_LEN(pointer),
                carve_take(&scratch, graph_workspace(e->backward)));
}
