/* The router, and the choice of experts. */
#include <math.h>
#include <string.h>

#include "trainer/ops_cpu.h"
#include "trainer/simd.h"

/* NOLINTBEGIN(readability-function-size,readability-non-const-parameter): the
 * signatures are ops.h's. */

void cpu_router_fwd(struct dev *d, float *logits, const void *x, const void *w, int T,
                    int E, int D)
{
    cpu_linear_fwd(d, logits, x, w, NULL, T, E, D);
}

void cpu_router_bwd(struct dev *d, void *dx, float *dw, const float *dlogits,
                    const void *x, const void *w, int T, int E, int D)
{
    cpu_linear_dgrad(d, dx, dlogits, w, 1, T, E, D);
    cpu_linear_wgrad(d, dw, dlogits, x, 0, T, E, D);
}

enum { SCORES = 64 }; /* worked out together */

struct choice {
    const struct route *r;
    const float *logits, *bias, *dweight;
    float *dlogits;
    int forced, renormalise, E, K;
    float scale;
};

SIMD_INLINE float row_max(const float *x, int n)
{
    float max = x[0];

    for (int i = 1; i < n; i++)
        max = x[i] > max ? x[i] : max;
    return max;
}

SIMD_INLINE float exp_sum(const float *x, float max, int n)
{
    float sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < n; i++)
        sum += simd_exp(x[i] - max);
    return sum;
}

/* Put expert e into the list best[0..n) of at most K, scores falling; equals stay
 * in order of index.  Returns the new n. */
SIMD_INLINE int insert(int32_t *best, float *top, int n, int K, int e, float score)
{
    int at;

    if (n == K && !(score > top[n - 1]))
        return n;
    for (at = n < K ? n : K - 1; at > 0 && score > top[at - 1]; at--) {
        best[at] = best[at - 1];
        top[at] = top[at - 1];
    }
    best[at] = e;
    top[at] = score;
    return n < K ? n + 1 : K;
}

/* The K best by p + bias.  A score that is NaN ranks last: the list is legal
 * whatever the logits, and the loss says that something is wrong. */
SIMD_INLINE void choose(const struct choice *c, const float *z, float max, float by,
                        int32_t *best, float *top)
{
    float score[SCORES];
    int n = 0;

    for (int from = 0; from < c->E; from += SCORES) {
        int m = c->E - from < SCORES ? c->E - from : SCORES;

        for (int i = 0; i < m; i++)
            score[i] = simd_exp(z[from + i] - max) * by;
        for (int i = 0; c->bias && i < m; i++)
            score[i] += c->bias[from + i];
        for (int i = 0; i < m; i++)
            n = insert(best, top, n, c->K, from + i,
                       score[i] == score[i] ? score[i] : -INFINITY);
    }
}

SIMD_CLONES static void choose_rows(const void *arg, int64_t from, int64_t to)
{
    const struct choice *c = arg;

    for (int64_t t = from; t < to; t++) {
        const float *z = c->logits + t * c->E;
        int32_t *expert = c->r->expert + t * c->K;
        float *weight = c->r->weight + t * c->K;
        float max = row_max(z, c->E), by = 1.0f / exp_sum(z, max, c->E), sum = 0;

        if (!c->forced)
            choose(c, z, max, by, expert, weight);
        for (int k = 0; k < c->K; k++) {
            weight[k] = simd_exp(z[expert[k]] - max) * by;
            sum += weight[k];
        }
        for (int k = 0; k < c->K; k++)
            weight[k] *= c->renormalise ? c->scale / sum : c->scale;
    }
}

/* Counting sort of the choices by expert; tokens keep their order. */
static void sort_rows(const struct route *r, int T, int E, int K)
{
    int64_t n = (int64_t)T * K;

    memset(r->count, 0, (size_t)E * sizeof(int32_t));
    for (int64_t i = 0; i < n; i++)
        r->count[r->expert[i]]++;
    r->offset[0] = 0;
    for (int e = 0; e < E; e++)
        r->offset[e + 1] = r->offset[e] + r->count[e];
    memset(r->count, 0, (size_t)E * sizeof(int32_t));
    for (int64_t i = 0; i < n; i++) {
        int e = r->expert[i];
        int row = r->offset[e] + r->count[e]++;

        r->token[row] = (int32_t)(i / K);
        r->row[i] = row;
    }
}

void cpu_route(struct dev *d, struct route *r, const float *logits, const float *bias,
               int forced, int renormalise, float scale, int T, int E, int K)
{
    struct choice c = { .r = r,
                        .logits = logits,
                        .bias = bias,
                        .forced = forced,
                        .renormalise = renormalise,
                        .E = E,
                        .K = K,
                        .scale = scale };

    cpu_ranges(d, T, CPU_ROWS, choose_rows, &c);
    sort_rows(r, T, E, K);
}

/* w_k = scale p_k / s, s = sum of the chosen p (or 1): with g_k = dL/dp_k,
 * g_k = scale (dw_k - sum_i dw_i p_i / s) / s, and dz_e = p_e (g_e - sum_k g_k p_k). */
SIMD_CLONES static void choose_rows_bwd(const void *arg, int64_t from, int64_t to)
{
    const struct choice *c = arg;

    for (int64_t t = from; t < to; t++) {
        const float *z = c->logits + t * c->E, *dw = c->dweight + t * c->K;
        const int32_t *expert = c->r->expert + t * c->K;
        float *dz = c->dlogits + t * c->E;
        float max = row_max(z, c->E), by = 1.0f / exp_sum(z, max, c->E);
        float s = 0, mean = 0, dot = 0;

#pragma omp simd
        for (int e = 0; e < c->E; e++)
            dz[e] = simd_exp(z[e] - max) * by;
        for (int k = 0; k < c->K; k++) {
            s += dz[expert[k]];
            mean += dw[k] * dz[expert[k]];
        }
        s = c->renormalise ? s : 1.0f;
        mean = c->renormalise ? mean / s : 0.0f;
        for (int k = 0; k < c->K; k++)
            dot += c->scale * (dw[k] - mean) / s * dz[expert[k]];
        for (int e = 0; e < c->E; e++)
            dz[e] *= -dot;
        for (int k = 0; k < c->K; k++) {
            float p = simd_exp(z[expert[k]] - max) * by;

            dz[expert[k]] += p * c->scale * (dw[k] - mean) / s;
        }
    }
}

void cpu_route_bwd(struct dev *d, float *dlogits, const float *dweight,
                   const float *logits, const struct route *r, int renormalise,
                   float scale, int T, int E, int K)
{
    struct choice c = { .r = r,
                        .logits = logits,
                        .dweight = dweight,
                        .dlogits = dlogits,
                        .renormalise = renormalise,
                        .E = E,
                        .K = K,
                        .scale = scale };

    cpu_ranges(d, T, CPU_ROWS, choose_rows_bwd, &c);
}

void cpu_spread(struct dev *d, int32_t *expert, const int32_t *offset, int64_t mul,
                int64_t add, int T, int E, int K)
{
    (void)d;
    for (int t = 0; t < T; t++) {
        int64_t at = (mul * t + add) % T;

        for (int k = 0, e = 0; k < K; k++) {
            while (e < E - 1 && offset[e + 1] <= k * (int64_t)T + at)
                e++;
            expert[(int64_t)t * K + k] = e;
        }
    }
}
/* NOLINTEND(readability-function-size,readability-non-const-parameter) */
