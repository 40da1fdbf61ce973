/* grad_check.h - a CPU device for a test, random arrays, finite differences.
 *
 * A test defines L(x) = sum of c y(x), c random, gives c as the gradient of y to the
 * backward op, and holds its result to (L(x + h) - L(x - h)) / 2h, taken in FP64. */
#ifndef UNIT_GRAD_CHECK_H
#define UNIT_GRAD_CHECK_H

#include "test.h"

#include <math.h>

#include "model_run.h"

struct fixture {
    struct dev *dev;
    void *scratch;
    uint64_t seed;
};

enum { FIXTURE_SCRATCH = 64 << 20 };

static inline void fixture_open(struct fixture *f, int threads)
{
    struct err err = ERR_INIT;

    f->seed = 7;
    assert_ok(ops_cpu.open(&f->dev, 0, threads, &err), &err);
    assert_ok(ops_cpu.alloc(f->dev, FIXTURE_SCRATCH, &f->scratch, &err), &err);
    ops_cpu.set_scratch(f->dev, f->scratch, FIXTURE_SCRATCH);
}

static inline void fixture_close(struct fixture *f)
{
    struct err err = ERR_INIT;

    assert_ok(ops_cpu.status(f->dev, &err), &err);
    ops_cpu.close(f->dev);
}

/* n numbers in [-by, by); the caller's to free().  n 0 is legal. */
static inline float *random_floats(struct fixture *f, int64_t n, float by)
{
    float *x = calloc((size_t)n + 1, sizeof(float));

    for (int64_t i = 0; i < n; i++)
        x[i] = by * run_uniform(&f->seed);
    return x;
}

/* n NaNs: an output that must be overwritten. */
static inline float *unset_floats(int64_t n)
{
    float *x = calloc((size_t)n + 1, sizeof(float));

    for (int64_t i = 0; i < n; i++)
        x[i] = NAN;
    return x;
}

static inline double dot(const float *a, const float *b, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static inline void assert_near(const char *what, int64_t i, double got, double want,
                               double within)
{
    if (!(fabs(got - want) <= within))
        fail_msg("%s[%d] is %.8g, wanted %.8g (within %.1g)", what, (int)i, got, want,
                 within);
}

static inline void assert_all_near(const char *what, const float *got,
                                   const double *want, int64_t n, double relative)
{
    double most = 1e-6;

    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs(want[i]));
    for (int64_t i = 0; i < n; i++)
        assert_near(what, i, (double)got[i], want[i], relative * most);
}

typedef double loss_fn(void *arg);

/* At most 64 elements of x, evenly spread; h and tolerance suit FP32 values near 1. */
static inline void check_grad(const char *what, float *x, const float *grad, int64_t n,
                              loss_fn *loss, void *arg)
{
    const float h = 0x1p-7f;
    int64_t step = n / 64 + 1;
    double most = 1e-3;

    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)grad[i]));
    for (int64_t i = 0; i < n; i += step) {
        float keep = x[i];
        double up, down;

        x[i] = keep + h;
        up = loss(arg);
        x[i] = keep - h;
        down = loss(arg);
        x[i] = keep;
        assert_near(what, i, (double)grad[i], (up - down) / (2 * (double)h),
                    4e-3 * most);
    }
}

#endif
