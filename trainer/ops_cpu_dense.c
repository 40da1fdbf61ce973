/* Elementwise, embedding, RMSNorm, dense products. */
#include <math.h>
#include <string.h>

#include "trainer/ops_cpu.h"
#include "trainer/simd.h"

/* NOLINTBEGIN(readability-function-size,readability-non-const-parameter): the
 * signatures are ops.h's. */

enum { GRAIN = 1 << 15 };

/* --- elementwise ------------------------------------------------------------ */
struct elementwise {
    float *out;
    const float *a, *b;
    int32_t *iout;
    const int32_t *ia;
    float by;
};

SIMD_CLONES static void add_range(const void *arg, int64_t from, int64_t to)
{
    const struct elementwise *e = arg;

    for (int64_t i = from; i < to; i++)
        e->out[i] = e->a[i] + e->b[i];
}

SIMD_CLONES static void add_i32_range(const void *arg, int64_t from, int64_t to)
{
    const struct elementwise *e = arg;

    for (int64_t i = from; i < to; i++)
        e->iout[i] += e->ia[i];
}

SIMD_CLONES static void scale_range(const void *arg, int64_t from, int64_t to)
{
    const struct elementwise *e = arg;

    for (int64_t i = from; i < to; i++)
        e->out[i] *= e->by;
}

static void copy_range(const void *arg, int64_t from, int64_t to)
{
    const struct elementwise *e = arg;

    memcpy(e->out + from, e->a + from, (size_t)(to - from) * sizeof(float));
}

void cpu_add(struct dev *d, void *out, const void *a, const void *b, int64_t n)
{
    struct elementwise e = { .out = out, .a = a, .b = b };

    cpu_ranges(d, n, GRAIN, add_range, &e);
}

void cpu_add_f32(struct dev *d, float *io, const float *x, int64_t n)
{
    cpu_add(d, io, io, x, n);
}

void cpu_add_i32(struct dev *d, int32_t *io, const int32_t *x, int64_t n)
{
    struct elementwise e = { .iout = io, .ia = x };

    cpu_ranges(d, n, GRAIN, add_i32_range, &e);
}

void cpu_scale_f32(struct dev *d, float *io, float by, int64_t n)
{
    struct elementwise e = { .out = io, .by = by };

    cpu_ranges(d, n, GRAIN, scale_range, &e);
}

void cpu_from_f32(struct dev *d, void *out, const float *x, int64_t n)
{
    struct elementwise e = { .out = out, .a = x };

    cpu_ranges(d, n, GRAIN, copy_range, &e);
}

/* --- embedding ---------------------------------------------------------------- */
struct embed {
    float *out;
    const int32_t *tokens;
    const float *in;
    int T, D;
};

static void embed_rows(const void *arg, int64_t from, int64_t to)
{
    const struct embed *e = arg;

    for (int64_t t = from; t < to; t++)
        memcpy(e->out + t * e->D, e->in + (int64_t)e->tokens[t] * e->D,
               (size_t)e->D * sizeof(float));
}

/* Columns are shared out, so that a table row adds in token order. */
static void embed_columns(const void *arg, int64_t from, int64_t to)
{
    const struct embed *e = arg;

    for (int64_t t = 0; t < e->T; t++) {
        float *row = e->out + (int64_t)e->tokens[t] * e->D;
        const float *grad = e->in + t * e->D;

        for (int64_t j = from; j < to; j++)
            row[j] += grad[j];
    }
}

void cpu_embed_fwd(struct dev *d, void *out, const int32_t *tokens, const void *table,
                   int T, int D, int V)
{
    struct embed e = { out, tokens, table, T, D };

    (void)V;
    cpu_ranges(d, T, CPU_ROWS, embed_rows, &e);
}

void cpu_embed_bwd(struct dev *d, float *dtable, const int32_t *tokens,
                   const void *dout, int T, int D, int V)
{
    struct embed e = { dtable, tokens, dout, T, D };

    (void)V;
    cpu_ranges(d, D, 128, embed_columns, &e);
}

/* --- RMSNorm -------------------------------------------------------------------- */
struct norm {
    float *out, *rstd, *part;
    const float *dout, *x, *saved, *w;
    float eps;
    int D;
};

SIMD_CLONES static void norm_rows(const void *arg, int64_t from, int64_t to)
{
    const struct norm *a = arg;
    int D = a->D;

    for (int64_t t = from; t < to; t++) {
        const float *x = a->x + t * D;
        float *out = a->out + t * D, sum = 0, r;

#pragma omp simd reduction(+ : sum)
        for (int j = 0; j < D; j++)
            sum += x[j] * x[j];
        r = 1.0f / sqrtf(sum / (float)D + a->eps);
        a->rstd[t] = r;
        for (int j = 0; j < D; j++)
            out[j] = x[j] * r * a->w[j];
    }
}

void cpu_rmsnorm_fwd(struct dev *d, void *out, float *rstd, const void *x,
                     const void *w, float eps, int T, int D)
{
    struct norm a = { .out = out, .rstd = rstd, .x = x, .w = w, .eps = eps, .D = D };

    cpu_ranges(d, T, CPU_ROWS, norm_rows, &a);
}

/* y = x r w, r = (mean(x^2) + eps)^-1/2:
 * dx_j = r (dy_j w_j - x_j r^2 sum_i(dy_i w_i x_i) / D). */
SIMD_CLONES static void norm_rows_bwd(const void *arg, int64_t from, int64_t to)
{
    const struct norm *a = arg;
    int D = a->D;
    float *dw = a->part + from / CPU_ROWS * D;

    memset(dw, 0, (size_t)D * sizeof(float));
    for (int64_t t = from; t < to; t++) {
        const float *x = a->x + t * D, *dy = a->dout + t * D;
        float *dx = a->out + t * D, r = a->saved[t], dot = 0;

#pragma omp simd reduction(+ : dot)
        for (int j = 0; j < D; j++)
            dot += dy[j] * a->w[j] * x[j];
        dot *= r * r / (float)D;
#pragma omp simd
        for (int j = 0; j < D; j++) {
            dw[j] += dy[j] * x[j] * r;
            dx[j] += r * (dy[j] * a->w[j] - x[j] * dot);
        }
    }
}

void cpu_rmsnorm_bwd(struct dev *d, void *dx, float *dw, const void *dout,
                     const void *x, const float *rstd, const void *w, int T, int D)
{
    struct norm a = { .out = dx, .dout = dout, .x = x, .saved = rstd, .w = w, .D = D };

    a.part = cpu_scratch(d, cpu_rmsnorm_scratch(T, D), "rmsnorm_bwd");
    if (!a.part && T > 0)
        return;
    cpu_ranges(d, T, CPU_ROWS, norm_rows_bwd, &a);
    cpu_sum_parts(d, dw, a.part, cpu_units(T, CPU_ROWS), D);
}

/* --- dense products --------------------------------------------------------------- */
void cpu_linear_fwd(struct dev *d, void *out, const void *x, const void *w,
                    const void *add, int T, int N, int K)
{
    struct gemm g = { .m = T,
                      .n = N,
                      .k = K,
                      .a = x,
                      .lda = K,
                      .b = w,
                      .ldb = K,
                      .bt = 1,
                      .c = out,
                      .ldc = N,
                      .alpha = 1,
                      .beta = add ? 1 : 0 };

    if (add && add != out)
        ops_cpu.copy(d, out, add, sizeof(float) * (size_t)T * (size_t)N);
    cpu_gemm(d, &g);
}

void cpu_linear_dgrad(struct dev *d, void *dx, const void *dout, const void *w,
                      int accumulate, int T, int N, int K)
{
    struct gemm g = { .m = T,
                      .n = K,
                      .k = N,
                      .a = dout,
                      .lda = N,
                      .b = w,
                      .ldb = K,
                      .c = dx,
                      .ldc = K,
                      .alpha = 1,
                      .beta = accumulate ? 1 : 0 };

    cpu_gemm(d, &g);
}

void cpu_linear_wgrad(struct dev *d, float *dw, const void *dout, const void *x,
                      int accumulate, int T, int N, int K)
{
    struct gemm g = { .m = N,
                      .n = K,
                      .k = T,
                      .a = dout,
                      .lda = N,
                      .at = 1,
                      .b = x,
                      .ldb = K,
                      .c = dw,
                      .ldc = K,
                      .alpha = 1,
                      .beta = accumulate ? 1 : 0 };

    cpu_gemm(d, &g);
}
/* NOLINTEND(readability-function-size,readability-non-const-parameter) */
