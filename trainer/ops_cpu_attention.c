/* Attention, one (sequence, head, block of queries) at a time.
 *
 * A block's scores against every key it may see form one tile that stays in the
 * worker's cache; softmax is exact, not running. */
#include <math.h>
#include <string.h>

#include "trainer/ops_cpu.h"
#include "trainer/simd.h"

/* NOLINTBEGIN(readability-function-size,readability-non-const-parameter): the
 * signatures are ops.h's. */

struct attention {
    float *out, *lse, *dq, *dk, *dv;
    const float *q, *k, *v, *o, *dout;
    const int32_t *doc_start;
    struct attn_shape s;
    float scale;
    int rows; /* queries of a block */
    struct dev *dev;
};

/* The block of queries [from, to) of one head, and the keys [lo, to) it sees. */
struct block {
    int from, to, lo;
    int64_t token; /* of query `from` */
    int64_t key;   /* of key `lo` */
    int b, h, kv;
};

/* Two tiles of rows x S in a worker's memory; 64 rows when S allows. */
static int block_rows(int S)
{
    int rows = CPU_TILE / 2 / (S > 0 ? S : 1);

    return rows > 64 ? 64 : rows < 1 ? 1 : rows;
}

static struct block block_at(const struct attention *a, int b, int h, int i)
{
    struct block k = { .from = i * a->rows, .b = b, .h = h };
    int64_t base = (int64_t)b * a->s.S;

    k.to = k.from + a->rows < a->s.S ? k.from + a->rows : a->s.S;
    k.token = base + k.from;
    if (a->doc_start) {
        k.lo = a->doc_start[k.token];
        for (int r = k.from; r < k.to; r++)
            if (a->doc_start[base + r] < k.lo)
                k.lo = a->doc_start[base + r];
    }
    k.key = base + k.lo;
    k.kv = h / (a->s.H / a->s.KV);
    return k;
}

/* First key, relative to k->lo, that the block's query r sees. */
static int first_key(const struct attention *a, const struct block *k, int r)
{
    return a->doc_start ? a->doc_start[k->token + r] - k->lo : 0;
}

/* c[rows, keys] = alpha x y^T, x by query, y by key. */
static void query_by_key(float *c, const struct block *k, const float *x, int64_t ldx,
                         const float *y, int64_t ldy, int hd, float alpha)
{
    int keys = k->to - k->lo;

    blas_gemm(&(struct gemm){ .m = k->to - k->from,
                              .n = keys,
                              .k = hd,
                              .a = x,
                              .lda = ldx,
                              .b = y,
                              .ldb = ldy,
                              .bt = 1,
                              .c = c,
                              .ldc = keys,
                              .alpha = alpha });
}

/* row[0..n) = e^(row - max) with zeros outside [lo, hi); the log of the sum. */
SIMD_INLINE float softmax_row(float *row, int lo, int hi, int n)
{
    float max = row[lo], sum = 0, by;

#pragma omp simd reduction(max : max)
    for (int j = lo; j < hi; j++)
        max = row[j] > max ? row[j] : max;
#pragma omp simd reduction(+ : sum)
    for (int j = lo; j < hi; j++) {
        row[j] = simd_exp(row[j] - max);
        sum += row[j];
    }
    by = 1.0f / sum;
    for (int j = lo; j < hi; j++)
        row[j] *= by;
    memset(row, 0, (size_t)lo * sizeof(float));
    memset(row + hi, 0, (size_t)(n - hi) * sizeof(float));
    return max + logf(sum);
}

SIMD_CLONES static void softmax_block(const struct attention *a, const struct block *k,
                                      float *p, float *lse)
{
    int keys = k->to - k->lo;

    for (int r = 0; r < k->to - k->from; r++)
        lse[r] = softmax_row(p + (int64_t)r * keys, first_key(a, k, r),
                             k->from - k->lo + r + 1, keys);
}

static void forward_unit(void *arg, int unit, int worker)
{
    const struct attention *a = arg;
    const struct attn_shape *s = &a->s;
    int blocks = (int)cpu_units(s->S, a->rows), bh = unit / blocks;
    /* last blocks first: they are the longest */
    struct block k = block_at(a, bh / s->H, bh % s->H, blocks - 1 - unit % blocks);
    float *p = cpu_tile(a->dev, worker);

    query_by_key(p, &k, a->q + k.token * s->q_stride + (int64_t)k.h * s->hd,
                 s->q_stride, a->k + k.key * s->k_stride + (int64_t)k.kv * s->hd,
                 s->k_stride, s->hd, a->scale);
    softmax_block(a, &k, p, a->lse + (int64_t)bh * s->S + k.from);
    blas_gemm(&(struct gemm){ .m = k.to - k.from,
                              .n = s->hd,
                              .k = k.to - k.lo,
                              .a = p,
                              .lda = k.to - k.lo,
                              .b = a->v + k.key * s->v_stride + (int64_t)k.kv * s->hd,
                              .ldb = s->v_stride,
                              .c = a->out + (k.token * s->H + k.h) * s->hd,
                              .ldc = (int64_t)s->H * s->hd,
                              .alpha = 1 });
}

static int fits(struct dev *d, int S)
{
    if (S <= CPU_TILE / 2)
        return 1;
    if (d->err.code == ERR_NONE)
        err_set(&d->err, ERR_USAGE, "attention: %d tokens a sequence, at most %d", S,
                CPU_TILE / 2);
    return 0;
}

void cpu_attention_fwd(struct dev *d, void *out, float *lse, const void *q,
                       const void *k, const void *v, const int32_t *doc_start,
                       struct attn_shape s)
{
    struct attention a = { .out = out,
                           .lse = lse,
                           .q = q,
                           .k = k,
                           .v = v,
                           .doc_start = doc_start,
                           .s = s,
                           .scale = 1.0f / sqrtf((float)s.hd),
                           .rows = block_rows(s.S),
                           .dev = d };

    if (fits(d, s.S))
        pool_run(d->pool, s.B * s.H * (int)cpu_units(s.S, a.rows), forward_unit, &a);
}

/* --- backward ------------------------------------------------------------------- */
/* From scores s and dp = dO V^T of one row: p = e^(s - lse), then
 * ds = p (dp - delta), delta = dO . O, both zero outside [lo, hi). */
SIMD_INLINE void grad_row(float *p, float *dp, float lse, float delta, int lo, int hi,
                          int n)
{
#pragma omp simd
    for (int j = lo; j < hi; j++) {
        p[j] = simd_exp(p[j] - lse);
        dp[j] = p[j] * (dp[j] - delta);
    }
    memset(p, 0, (size_t)lo * sizeof(float));
    memset(dp, 0, (size_t)lo * sizeof(float));
    memset(p + hi, 0, (size_t)(n - hi) * sizeof(float));
    memset(dp + hi, 0, (size_t)(n - hi) * sizeof(float));
}

SIMD_CLONES static void grad_block(const struct attention *a, const struct block *k,
                                   float *p, float *dp)
{
    const struct attn_shape *s = &a->s;
    const float *lse = a->lse + ((int64_t)k->b * s->H + k->h) * s->S + k->from;
    int keys = k->to - k->lo;

    for (int r = 0; r < k->to - k->from; r++) {
        int64_t at = ((k->token + r) * s->H + k->h) * s->hd;
        float delta = 0;

#pragma omp simd reduction(+ : delta)
        for (int j = 0; j < s->hd; j++)
            delta += a->dout[at + j] * a->o[at + j];
        grad_row(p + (int64_t)r * keys, dp + (int64_t)r * keys, lse[r], delta,
                 first_key(a, k, r), k->from - k->lo + r + 1, keys);
    }
}

/* c[keys, hd] += alpha t^T x, t a tile, x by query. */
static void add_by_key(float *c, int64_t ldc, const struct block *k, const float *t,
                       const float *x, int64_t ldx, int hd, float alpha)
{
    int keys = k->to - k->lo;

    blas_gemm(&(struct gemm){ .m = keys,
                              .n = hd,
                              .k = k->to - k->from,
                              .a = t,
                              .lda = keys,
                              .at = 1,
                              .b = x,
                              .ldb = ldx,
                              .c = c,
                              .ldc = ldc,
                              .alpha = alpha,
                              .beta = 1 });
}

static void backward_block(const struct attention *a, const struct block *k, float *p,
                           float *dp)
{
    const struct attn_shape *s = &a->s;
    int64_t q = k->token * s->q_stride + (int64_t)k->h * s->hd;
    int64_t key = k->key * s->k_stride + (int64_t)k->kv * s->hd;
    int64_t value = k->key * s->v_stride + (int64_t)k->kv * s->hd;
    int64_t out = (k->token * s->H + k->h) * s->hd, ldo = (int64_t)s->H * s->hd;

    query_by_key(p, k, a->q + q, s->q_stride, a->k + key, s->k_stride, s->hd, a->scale);
    query_by_key(dp, k, a->dout + out, ldo, a->v + value, s->v_stride, s->hd, 1);
    grad_block(a, k, p, dp);
    blas_gemm(&(struct gemm){ .m = k->to - k->from,
                              .n = s->hd,
                              .k = k->to - k->lo,
                              .a = dp,
                              .lda = k->to - k->lo,
                              .b = a->k + key,
                              .ldb = s->k_stride,
                              .c = a->dq + q,
                              .ldc = s->q_stride,
                              .alpha = a->scale });
    add_by_key(a->dk + key, s->k_stride, k, dp, a->q + q, s->q_stride, s->hd, a->scale);
    add_by_key(a->dv + value, s->v_stride, k, p, a->dout + out, ldo, s->hd, 1);
}

static void zero_head(float *x, int64_t stride, int S, int hd)
{
    for (int64_t t = 0; t < S; t++)
        memset(x + t * stride, 0, (size_t)hd * sizeof(float));
}

/* One key head: its gradients add over query heads and blocks, in this order. */
static void backward_unit(void *arg, int unit, int worker)
{
    const struct attention *a = arg;
    const struct attn_shape *s = &a->s;
    int b = unit / s->KV, kv = unit % s->KV, group = s->H / s->KV;
    int64_t first = (int64_t)b * s->S;
    float *p = cpu_tile(a->dev, worker), *dp = p + CPU_TILE / 2;

    zero_head(a->dk + first * s->k_stride + (int64_t)kv * s->hd, s->k_stride, s->S,
              s->hd);
    zero_head(a->dv + first * s->v_stride + (int64_t)kv * s->hd, s->v_stride, s->S,
              s->hd);
    for (int h = kv * group; h < (kv + 1) * group; h++)
        for (int i = 0; i < cpu_units(s->S, a->rows); i++) {
            struct block k = block_at(a, b, h, i);

            backward_block(a, &k, p, dp);
        }
}

void cpu_attention_bwd(struct dev *d, void *dq, void *dk, void *dv, const void *dout,
                       const void *q, const void *k, const void *v, const void *out,
                       const float *lse, const int32_t *doc_start, struct attn_shape s)
{
    struct attention a = { .dq = dq,
                           .dk = dk,
                           .dv = dv,
                           .lse = (float *)lse, /* read only here */
                           .q = q,
                           .k = k,
                           .v = v,
                           .o = out,
                           .dout = dout,
                           .doc_start = doc_start,
                           .s = s,
                           .scale = 1.0f / sqrtf((float)s.hd),
                           .rows = block_rows(s.S),
                           .dev = d };

    if (fits(d, s.S))
        pool_run(d->pool, s.B * s.KV, backward_unit, &a);
}
/* NOLINTEND(readability-function-size,readability-non-const-parameter) */
