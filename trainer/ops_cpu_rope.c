/* RMSNorm of each query and key head, then RoPE. */
#include <math.h>
#include <string.h>

#include "trainer/ops_cpu.h"
#include "trainer/simd.h"

/* NOLINTBEGIN(readability-function-size,readability-non-const-parameter): the
 * signatures are ops.h's. */

struct qkrope {
    float *q, *k, *dqkv, *table, *part;
    const float *dq, *dk, *qkv, *wq, *wk;
    const int32_t *pos;
    float eps;
    double theta;
    int T, H, KV, hd, by_token;
};

/* Row i of the table: hd/2 cosines, then hd/2 sines, of position i; of token i's
 * position when positions reach beyond T. */
static void fill_table(const void *arg, int64_t from, int64_t to)
{
    const struct qkrope *a = arg;
    int half = a->hd / 2;

    for (int64_t i = from; i < to; i++)
        for (int j = 0; j < half; j++) {
            double at = a->by_token ? a->pos[i] : (double)i;
            double angle = at * pow(a->theta, -2.0 * j / a->hd);

            a->table[i * a->hd + j] = (float)cos(angle);
            a->table[i * a->hd + half + j] = (float)sin(angle);
        }
}

static int make_table(struct dev *d, struct qkrope *a, const char *op)
{
    int last = -1;

    a->table = cpu_scratch(d, cpu_qkrope_scratch(a->T, a->hd), op);
    if (!a->table || a->T == 0)
        return 0;
    a->part = a->table + (int64_t)a->T * a->hd;
    for (int t = 0; t < a->T; t++)
        last = a->pos[t] > last ? a->pos[t] : last;
    a->by_token = last >= a->T;
    cpu_ranges(d, a->by_token ? a->T : last + 1, 16, fill_table, a);
    return 1;
}

static const float *angles(const struct qkrope *a, int64_t t)
{
    return a->table + (a->by_token ? t : a->pos[t]) * a->hd;
}

SIMD_INLINE float head_rstd(const float *x, int hd, float eps)
{
    float sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int j = 0; j < hd; j++)
        sum += x[j] * x[j];
    return 1.0f / sqrtf(sum / (float)hd + eps);
}

SIMD_INLINE void rotate_head(float *restrict out, const float *restrict x,
                             const float *w, const float *cs, float r, int half)
{
    for (int j = 0; j < half; j++) {
        float x1 = x[j] * r * w[j], x2 = x[j + half] * r * w[j + half];

        out[j] = x1 * cs[j] - x2 * cs[j + half];
        out[j + half] = x2 * cs[j] + x1 * cs[j + half];
    }
}

SIMD_CLONES static void rope_rows(const void *arg, int64_t from, int64_t to)
{
    const struct qkrope *a = arg;
    int hd = a->hd, H = a->H, KV = a->KV;

    for (int64_t t = from; t < to; t++)
        for (int h = 0; h < H + KV; h++) {
            const float *x = a->qkv + (t * (H + 2 * KV) + h) * hd;
            float *out = h < H ? a->q + (t * H + h) * hd : a->k + (t * KV + h - H) * hd;

            rotate_head(out, x, h < H ? a->wq : a->wk, angles(a, t),
                        head_rstd(x, hd, a->eps), hd / 2);
        }
}

/* The transposed rotation, then RMSNorm's gradient; see norm_rows_bwd. */
SIMD_INLINE void rotate_head_bwd(float *restrict dx, float *dw,
                                 const float *restrict dy, const float *restrict x,
                                 const float *w, const float *cs, float r, int half)
{
    float dot = 0;
    int hd = 2 * half;

    for (int j = 0; j < half; j++) { /* of the norm's output, kept in dx */
        dx[j] = dy[j] * cs[j] + dy[j + half] * cs[j + half];
        dx[j + half] = dy[j + half] * cs[j] - dy[j] * cs[j + half];
    }
#pragma omp simd reduction(+ : dot)
    for (int j = 0; j < hd; j++)
        dot += dx[j] * w[j] * x[j];
    dot *= r * r / (float)hd;
#pragma omp simd
    for (int j = 0; j < hd; j++) {
        dw[j] += dx[j] * x[j] * r;
        dx[j] = r * (dx[j] * w[j] - x[j] * dot);
    }
}

SIMD_CLONES static void rope_rows_bwd(const void *arg, int64_t from, int64_t to)
{
    const struct qkrope *a = arg;
    int hd = a->hd, H = a->H, KV = a->KV;
    float *dw = a->part + from / CPU_ROWS * 2 * hd;

    memset(dw, 0, 2 * (size_t)hd * sizeof(float));
    for (int64_t t = from; t < to; t++)
        for (int h = 0; h < H + KV; h++) {
            int64_t at = (t * (H + 2 * KV) + h) * hd;
            const float *dy =
                h < H ? a->dq + (t * H + h) * hd : a->dk + (t * KV + h - H) * hd;

            rotate_head_bwd(a->dqkv + at, h < H ? dw : dw + hd, dy, a->qkv + at,
                            h < H ? a->wq : a->wk, angles(a, t),
                            head_rstd(a->qkv + at, hd, a->eps), hd / 2);
        }
}

void cpu_qkrope_fwd(struct dev *d, void *q, void *k, const void *qkv,
                    const int32_t *pos, const void *wq, const void *wk, float eps,
                    float theta, int T, int H, int KV, int hd)
{
    struct qkrope a = { .q = q,
                        .k = k,
                        .qkv = qkv,
                        .wq = wq,
                        .wk = wk,
                        .pos = pos,
                        .eps = eps,
                        .theta = theta,
                        .T = T,
                        .H = H,
                        .KV = KV,
                        .hd = hd };

    if (make_table(d, &a, "qkrope_fwd"))
        cpu_ranges(d, T, CPU_ROWS, rope_rows, &a);
}

void cpu_qkrope_bwd(struct dev *d, void *dqkv, float *dwq, float *dwk, const void *dq,
                    const void *dk, const void *qkv, const int32_t *pos, const void *wq,
                    const void *wk, float eps, float theta, int T, int H, int KV,
                    int hd)
{
    struct qkrope a = { .dqkv = dqkv,
                        .dq = dq,
                        .dk = dk,
                        .qkv = qkv,
                        .wq = wq,
                        .wk = wk,
                        .pos = pos,
                        .eps = eps,
                        .theta = theta,
                        .T = T,
                        .H = H,
                        .KV = KV,
                        .hd = hd };

    memset(dwq, 0, (size_t)hd * sizeof(float));
    memset(dwk, 0, (size_t)hd * sizeof(float));
    if (!make_table(d, &a, "qkrope_bwd"))
        return;
    cpu_ranges(d, T, CPU_ROWS, rope_rows_bwd, &a);
    for (int64_t i = 0; i < cpu_units(T, CPU_ROWS); i++)
        for (int j = 0; j < hd; j++) {
            dwq[j] += a.part[i * 2 * hd + j];
            dwk[j] += a.part[(i * 2 + 1) * hd + j];
        }
}
/* NOLINTEND(readability-function-size,readability-non-const-parameter) */
