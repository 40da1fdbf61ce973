/* SwiGLU experts over the rows that the router gave them. */
#include <string.h>

#include "trainer/ops_cpu.h"
#include "trainer/simd.h"

/* NOLINTBEGIN(readability-function-size,readability-non-const-parameter): the
 * signatures are ops.h's. */

/* Rows of one product: few enough to share out, enough to pay for packing the
 * weights. */
enum { BLOCK = 1024 };

struct experts {
    float *y, *h, *dx, *dweight, *dw13, *dw2;
    const float *x, *dy, *w13, *w2, *add, *hin;
    const struct route *r;
    int T, D, E, K, F;
    /* scratch */
    float *rows;  /* R,D  of x, then of the result */
    float *drows; /* R,D  of dy, then of dx */
    float *act;   /* R,F */
    float *dh;    /* R,2F */
};

/* --- the activation ------------------------------------------------------------ */
SIMD_INLINE void swiglu_row(float *restrict out, const float *restrict h, int F)
{
    for (int j = 0; j < F; j++)
        out[j] = h[j] * simd_sigmoid(h[j]) * h[F + j];
}

struct swiglu {
    float *out;
    const float *dout, *h;
    int F;
};

SIMD_CLONES static void swiglu_rows(const void *arg, int64_t from, int64_t to)
{
    const struct swiglu *s = arg;

    for (int64_t r = from; r < to; r++)
        swiglu_row(s->out + r * s->F, s->h + r * 2 * s->F, s->F);
}

/* a = g s(g) u: da/dg = s (1 + g (1 - s)) u, da/du = g s. */
SIMD_CLONES static void swiglu_rows_bwd(const void *arg, int64_t from, int64_t to)
{
    const struct swiglu *s = arg;
    int F = s->F;

    for (int64_t r = from; r < to; r++) {
        const float *restrict h = s->h + r * 2 * F, *restrict da = s->dout + r * F;
        float *restrict dh = s->out + r * 2 * F;

        for (int j = 0; j < F; j++) {
            float sig = simd_sigmoid(h[j]), silu = h[j] * sig;

            dh[j] = da[j] * h[F + j] * (sig + silu * (1.0f - sig));
            dh[F + j] = da[j] * silu;
        }
    }
}

void cpu_swiglu_fwd(struct dev *d, void *out, const void *h, int T, int F)
{
    struct swiglu s = { .out = out, .h = h, .F = F };

    cpu_ranges(d, T, CPU_ROWS, swiglu_rows, &s);
}

void cpu_swiglu_bwd(struct dev *d, void *dh, const void *dout, const void *h, int T,
                    int F)
{
    struct swiglu s = { .out = dh, .dout = dout, .h = h, .F = F };

    cpu_ranges(d, T, CPU_ROWS, swiglu_rows_bwd, &s);
}

/* --- rows ----------------------------------------------------------------------- */
/* Rows [from, from + n) of expert e. */
struct block {
    int e, from, n;
};

static int count_blocks(const struct route *r, int E)
{
    int n = 0;

    for (int e = 0; e < E; e++)
        n += (int)cpu_units(r->count[e], BLOCK);
    return n;
}

static struct block block_at(const struct experts *a, int unit)
{
    struct block b = { 0 };

    for (b.e = 0; b.e < a->E; b.e++) {
        int n = (int)cpu_units(a->r->count[b.e], BLOCK);

        if (unit < n)
            break;
        unit -= n;
    }
    b.from = a->r->offset[b.e] + unit * BLOCK;
    b.n = a->r->offset[b.e + 1] - b.from;
    b.n = b.n < BLOCK ? b.n : BLOCK;
    return b;
}

static void gather(float *rows, const float *x, const struct experts *a,
                   const struct block *b)
{
    for (int64_t r = b->from; r < b->from + b->n; r++)
        memcpy(rows + r * a->D, x + (int64_t)a->r->token[r] * a->D,
               (size_t)a->D * sizeof(float));
}

/* out[n, N] = in[n, K] w[N, K]^T, or w[K, N] when `wt` is 0. */
static void product(float *out, int N, const float *in, int K, const float *w, int wt,
                    const struct block *b)
{
    blas_gemm(&(struct gemm){ .m = b->n,
                              .n = N,
                              .k = K,
                              .a = in + (int64_t)b->from * K,
                              .lda = K,
                              .b = w,
                              .ldb = wt ? K : N,
                              .bt = wt,
                              .c = out + (int64_t)b->from * N,
                              .ldc = N,
                              .alpha = 1 });
}

/* out[t] = add[t] + sum over k of weight x row; without weights: plain sums. */
struct combine {
    float *out;
    const float *add, *rows, *weight;
    const int32_t *row;
    int D, K;
};

SIMD_CLONES static void combine_rows(const void *arg, int64_t from, int64_t to)
{
    const struct combine *c = arg;

    for (int64_t t = from; t < to; t++) {
        float *out = c->out + t * c->D;
        const float *add = c->add ? c->add + t * c->D : NULL;

        for (int k = 0; k < c->K; k++) {
            const float *row = c->rows + (int64_t)c->row[t * c->K + k] * c->D;
            float by = c->weight ? c->weight[t * c->K + k] : 1.0f;

            if (k == 0 && !add)
                for (int j = 0; j < c->D; j++)
                    out[j] = by * row[j];
            else
                for (int j = 0; j < c->D; j++)
                    out[j] = (k == 0 ? add[j] : out[j]) + by * row[j];
        }
    }
}

/* --- forward ---------------------------------------------------------------------- */
static void forward_unit(void *arg, int unit, int worker)
{
    const struct experts *a = arg;
    struct block b = block_at(a, unit);
    struct swiglu s = { .out = a->act, .h = a->h, .F = a->F };

    (void)worker;
    gather(a->rows, a->x, a, &b);
    product(a->h, 2 * a->F, a->rows, a->D, a->w13 + (int64_t)b.e * 2 * a->F * a->D, 1,
            &b);
    if (!a->y)
        return;
    swiglu_rows(&s, b.from, b.from + b.n);
    product(a->rows, a->D, a->act, a->F, a->w2 + (int64_t)b.e * a->D * a->F, 1, &b);
}

static int carve(struct dev *d, struct experts *a, const char *op)
{
    int64_t R = (int64_t)a->T * a->K;
    float *p = cpu_scratch(d, cpu_experts_scratch(a->T, a->D, a->K, a->F), op);

    if (!p)
        return R == 0;
    a->rows = p;
    a->drows = a->rows + R * a->D;
    a->act = a->drows + R * a->D;
    a->dh = a->act + R * a->F;
    return 1;
}

void cpu_experts_fwd(struct dev *d, void *y, void *h, const void *x, const void *add,
                     const void *w13, const void *w2, const struct route *r, int T,
                     int D, int E, int K, int F)
{
    struct experts a = { .y = y,
                         .h = h,
                         .x = x,
                         .w13 = w13,
                         .w2 = w2,
                         .r = r,
                         .T = T,
                         .D = D,
                         .E = E,
                         .K = K,
                         .F = F };

    if (!carve(d, &a, "experts_fwd"))
        return;
    pool_run(d->pool, count_blocks(r, E), forward_unit, &a);
    if (y)
        cpu_ranges(d, T, CPU_ROWS, combine_rows,
                   &(struct combine){ y, add, a.rows, r->weight, r->row, D, K });
}

/* --- backward ---------------------------------------------------------------------- */
/* dh holds dA' = dy W2 in its first half on entry of each row (at stride 2F).
 * a = swiglu(h); dweight = <dA', a>; act = weight a; dh = dswiglu(weight dA'). */
SIMD_CLONES static void activation_bwd(const struct experts *a, const struct block *b)
{
    int F = a->F;

    for (int64_t r = b->from; r < b->from + b->n; r++) {
        const float *restrict h = a->hin + r * 2 * F;
        float *restrict dh = a->dh + r * 2 * F, *restrict act = a->act + r * F;
        int64_t slot = (int64_t)a->r->token[r] * a->K;
        float w, dot = 0;

        while (a->r->row[slot] != r)
            slot++;
        w = a->r->weight[slot];
#pragma omp simd reduction(+ : dot)
        for (int j = 0; j < F; j++) {
            float sig = simd_sigmoid(h[j]), silu = h[j] * sig, up = h[F + j];
            float da = dh[j];

            dot += da * silu * up;
            act[j] = w * silu * up;
            dh[j] = w * da * up * (sig + silu * (1.0f - sig));
            dh[F + j] = w * da * silu;
        }
        a->dweight[slot] = dot;
    }
}

static void backward_rows(void *arg, int unit, int worker)
{
    const struct experts *a = arg;
    struct block b = block_at(a, unit);

    (void)worker;
    gather(a->drows, a->dy, a, &b);
    gather(a->rows, a->x, a, &b);
    blas_gemm(&(struct gemm){ .m = b.n,
                              .n = a->F,
                              .k = a->D,
                              .a = a->drows + (int64_t)b.from * a->D,
                              .lda = a->D,
                              .b = a->w2 + (int64_t)b.e * a->D * a->F,
                              .ldb = a->F,
                              .c = a->dh + (int64_t)b.from * 2 * a->F,
                              .ldc = 2 * (int64_t)a->F,
                              .alpha = 1 });
    activation_bwd(a, &b);
}

/* dw[M, N] = da[rows, M]^T b[rows, N] over all rows of expert e. */
static void weight_grad(float *dw, const float *da, int M, const float *b, int N,
                        const struct experts *a, int e)
{
    int64_t from = a->r->offset[e];

    blas_gemm(&(struct gemm){ .m = M,
                              .n = N,
                              .k = a->r->count[e],
                              .a = da + from * M,
                              .lda = M,
                              .at = 1,
                              .b = b + from * N,
                              .ldb = N,
                              .c = dw + (int64_t)e * M * N,
                              .ldc = N,
                              .alpha = 1 });
}

static void backward_weights(void *arg, int unit, int worker)
{
    const struct experts *a = arg;

    (void)worker;
    if (unit < a->E)
        weight_grad(a->dw13, a->dh, 2 * a->F, a->rows, a->D, a, unit);
    else
        weight_grad(a->dw2, a->drows, a->D, a->act, a->F, a, unit - a->E);
}

/* After the weights: drows turns from dy into dx. */
static void backward_inputs(void *arg, int unit, int worker)
{
    const struct experts *a = arg;
    struct block b = block_at(a, unit);

    (void)worker;
    product(a->drows, a->D, a->dh, 2 * a->F, a->w13 + (int64_t)b.e * 2 * a->F * a->D, 0,
            &b);
}

void cpu_experts_bwd(struct dev *d, void *dx, float *dweight, float *dw13, float *dw2,
                     const void *dy, const void *x, const void *h, const void *w13,
                     const void *w2, const struct route *r, int T, int D, int E, int K,
                     int F)
{
    struct experts a = { .dx = dx,
                         .dweight = dweight,
                         .dw13 = dw13,
                         .dw2 = dw2,
                         .dy = dy,
                         .x = x,
                         .hin = h,
                         .w13 = w13,
                         .w2 = w2,
                         .r = r,
                         .T = T,
                         .D = D,
                         .E = E,
                         .K = K,
                         .F = F };
    int blocks = count_blocks(r, E);

    if (!carve(d, &a, "experts_bwd"))
        return;
    pool_run(d->pool, blocks, backward_rows, &a);
    pool_run(d->pool, 2 * E, backward_weights, &a);
    pool_run(d->pool, blocks, backward_inputs, &a);
    cpu_ranges(d, T, CPU_ROWS, combine_rows,
               &(struct combine){ dx, NULL, a.drows, NULL, r->row, D, K });
}
/* NOLINTEND(readability-function-size,readability-non-const-parameter) */
