/* Cross-entropy, sums, AdamW. */
#include <math.h>
#include <string.h>

#include "trainer/ops_cpu.h"
#include "trainer/simd.h"

/* NOLINTBEGIN(readability-function-size,readability-non-const-parameter): the
 * signatures are ops.h's. */

/* --- cross-entropy ------------------------------------------------------------ */
struct xent {
    float *loss, *logits, scale;
    const int32_t *targets;
    int V;
};

SIMD_INLINE void xent_row(float *loss, float *z, int32_t target, float scale, int V)
{
    float max = z[0], at = z[target], sum = 0, by;

#pragma omp simd reduction(max : max)
    for (int j = 0; j < V; j++)
        max = z[j] > max ? z[j] : max;
#pragma omp simd reduction(+ : sum)
    for (int j = 0; j < V; j++) {
        z[j] = simd_exp(z[j] - max);
        sum += z[j];
    }
    *loss = logf(sum) + (max - at);
    by = scale / sum;
    for (int j = 0; j < V; j++)
        z[j] *= by;
    z[target] -= scale;
}

SIMD_CLONES static void xent_rows(const void *arg, int64_t from, int64_t to)
{
    const struct xent *x = arg;

    for (int64_t t = from; t < to; t++) {
        float *z = x->logits + t * x->V;

        if (x->targets[t] >= 0) {
            xent_row(&x->loss[t], z, x->targets[t], x->scale, x->V);
            continue;
        }
        x->loss[t] = 0;
        memset(z, 0, (size_t)x->V * sizeof(float));
    }
}

void cpu_cross_entropy(struct dev *d, float *loss, void *logits, const int32_t *targets,
                       float scale, int T, int V)
{
    struct xent x = { loss, logits, scale, targets, V };

    cpu_ranges(d, T, 16, xent_rows, &x);
}

/* --- sums: FP64 partial sums of fixed ranges, added in order --------------------- */
enum { SUM_PARTS = 256 };

struct sum {
    const float *x;
    int64_t grain;
    double part[SUM_PARTS];
};

SIMD_CLONES static void sum_range(const void *arg, int64_t from, int64_t to)
{
    struct sum *s = (struct sum *)arg; /* each range writes its own part */
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = from; i < to; i++)
        sum += s->x[i];
    s->part[from / s->grain] = sum;
}

SIMD_CLONES static void sumsq_range(const void *arg, int64_t from, int64_t to)
{
    struct sum *s = (struct sum *)arg; /* each range writes its own part */
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = from; i < to; i++)
        sum += (double)s->x[i] * s->x[i];
    s->part[from / s->grain] = sum;
}

static double sum_parts(struct dev *d, const float *x, int64_t n, cpu_range_fn *fn)
{
    struct sum s = { .x = x, .grain = cpu_units(n, SUM_PARTS) };
    double sum = 0;

    s.grain = s.grain < 4096 ? 4096 : s.grain;
    cpu_ranges(d, n, s.grain, fn, &s);
    for (int64_t i = 0; i < cpu_units(n, s.grain); i++)
        sum += s.part[i];
    return sum;
}

void cpu_sum_f32(struct dev *d, float *out, const float *x, int64_t n)
{
    *out = (float)sum_parts(d, x, n, sum_range);
}

void cpu_sumsq_f32(struct dev *d, double *out, const float *x, int64_t n)
{
    *out = sum_parts(d, x, n, sumsq_range);
}

/* --- AdamW -------------------------------------------------------------------------- */
struct update {
    float *w, *m, *v, *out;
    const float *grad;
    float grad_scale, beta1, beta2, eps, step_size, decay, unbias;
};

SIMD_CLONES static void update_range(const void *arg, int64_t from, int64_t to)
{
    const struct update *u = arg;
    float *restrict w = u->w, *restrict m = u->m, *restrict v = u->v;

    for (int64_t i = from; i < to; i++) {
        float g = u->grad[i] * u->grad_scale;
        float mi = u->beta1 * m[i] + (1.0f - u->beta1) * g;
        float vi = u->beta2 * v[i] + (1.0f - u->beta2) * g * g;

        m[i] = mi;
        v[i] = vi;
        w[i] = w[i] * u->decay - u->step_size * mi / (sqrtf(vi) * u->unbias + u->eps);
    }
    if (u->out && u->out != w)
        memcpy(u->out + from, w + from, (size_t)(to - from) * sizeof(float));
}

/* w = w (1 - lr wd) - lr m^ / (sqrt(v^) + eps), m^ = m / (1 - beta1^t),
 * v^ = v / (1 - beta2^t). */
void cpu_adamw(struct dev *d, float *w, float *m, float *v, void *out,
               const float *grad, float grad_scale, const struct adamw *a, int64_t n)
{
    double unbias1 = 1.0 - pow(a->beta1, (double)a->step);
    double unbias2 = 1.0 - pow(a->beta2, (double)a->step);
    struct update u = { .w = w,
                        .m = m,
                        .v = v,
                        .out = out,
                        .grad = grad,
                        .grad_scale = grad_scale,
                        .beta1 = a->beta1,
                        .beta2 = a->beta2,
                        .eps = a->eps,
                        .step_size = (float)(a->lr / unbias1),
                        .decay = 1.0f - a->lr * a->weight_decay,
                        .unbias = (float)(1.0 / sqrt(unbias2)) };

    cpu_ranges(d, n, 1 << 14, update_range, &u);
}
/* NOLINTEND(readability-function-size,readability-non-const-parameter) */
