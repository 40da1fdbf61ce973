/* The CPU operations but for attention and experts: against FP64 loops and finite
 * differences, at T = 0, one row and odd sizes. */
#include "grad_check.h"

#include "trainer/ops_cpu.h"
#include "trainer/simd.h"

static const struct ops *const ops = &ops_cpu;
static struct fixture fx;

/* --- device ------------------------------------------------------------------- */
static void test_find(void **state)
{
    struct err err = ERR_INIT;
    const struct ops *found = NULL;

    (void)state;
    assert_ok(ops_find("cpu", &found, &err), &err);
    assert_ptr_equal(found, &ops_cpu);
    assert_err(ops_find("gpu", &found, &err), &err, ERR_USAGE, "'gpu' is not one of");
    setenv("MUSTER_CUDA_MODULE", "/nonexistent/muster-cuda.so", 1);
    assert_err(ops_find("cuda", &found, &err), &err, ERR_MISSING,
               "/nonexistent/muster-cuda.so is not there; build it with");
    setenv("MUSTER_CUDA_MODULE", "/proc/self/status", 1);
    assert_err(ops_find("cuda", &found, &err), &err, ERR_MISSING, "device 'cuda'");
    unsetenv("MUSTER_CUDA_MODULE");
    assert_string_equal(ops_sizes("cpu")->name, "cpu");
    assert_null(ops_sizes("abacus"));
}

static void test_small_scratch_is_an_error(void **state)
{
    struct err err = ERR_INIT;
    struct dev *d;
    float x[4] = { 0 }, rstd[1] = { 0 };

    (void)state;
    assert_ok(ops->open(&d, 0, 1, &err), &err);
    ops->rmsnorm_bwd(d, x, x, x, x, rstd, x, 1, 4);
    assert_err(ops->status(d, &err), &err, ERR_FAILED, "rmsnorm_bwd needs 16 bytes");
    assert_err(ops->sync(d, &err), &err, ERR_FAILED, "rmsnorm_bwd");
    ops->close(d);
}

static void test_memory(void **state)
{
    struct err err = ERR_INIT;
    size_t used, total;
    char *p;

    (void)state;
    ops->memory(fx.dev, &used, &total);
    assert_true(used > 0 && used < total);
    assert_err(ops->alloc(fx.dev, total + 1, (void **)&p, &err), &err, ERR_SYSTEM,
               "this machine has");
    assert_ok(ops->alloc(fx.dev, 5000, (void **)&p, &err), &err);
    assert_int_equal(p[0] | p[4999], 0);
    ops->free(fx.dev, p);
    assert_err(ops->open(&(struct dev *){ NULL }, 0, 0, &err), &err, ERR_USAGE,
               "0 threads");
    assert_non_null(strstr(ops->describe(fx.dev), "OpenBLAS"));
}

static void count_unit(void *arg, int unit, int worker)
{
    (void)worker;
    ((int *)arg)[unit]++;
}

static void test_pool_runs_each_unit_once(void **state)
{
    struct err err = ERR_INIT;
    struct pool *pool;
    int seen[200] = { 0 };

    (void)state;
    assert_ok(pool_new(&pool, 3, &err), &err);
    for (int round = 1; round <= 200; round++) {
        pool_run(pool, round, count_unit, seen);
        for (int i = 0; i < 200; i++)
            assert_int_equal(seen[i], i < round);
        memset(seen, 0, sizeof(seen));
    }
    pool_free(pool);
}

static void test_exp(void **state)
{
    (void)state;
    for (float x = -87.2f; x < 88.2f; x += 0.01f) {
        double want = exp((double)x);

        assert_near("exp", 0, (double)simd_exp(x), want, 2e-7 * want);
    }
    assert_true(simd_exp(0) == 1.0f && simd_exp(-100) == 0 && simd_exp(-INFINITY) == 0);
    assert_true(isnan(simd_exp(NAN)));
}

/* --- elementwise, embedding ------------------------------------------------------- */
static void test_elementwise(void **state)
{
    enum { N = 70001 };
    float *a = random_floats(&fx, N, 1), *b = random_floats(&fx, N, 1);
    float *out = unset_floats(N), sum;
    int32_t counts[3] = { 1, 2, 3 }, more[3] = { 10, 20, 30 };
    double sumsq, want = 0;

    (void)state;
    ops->add(fx.dev, out, a, b, N);
    for (int i = 0; i < N; i++)
        assert_true(out[i] == a[i] + b[i]);
    ops->from_f32(fx.dev, out, a, N);
    ops->add_f32(fx.dev, out, b, N);
    ops->scale_f32(fx.dev, out, 0.5f, N);
    for (int i = 0; i < N; i++)
        assert_true(out[i] == (a[i] + b[i]) * 0.5f);
    ops->add_i32(fx.dev, counts, more, 3);
    assert_int_equal(counts[0] + 100 * counts[2], 11 + 3300);
    for (int i = 0; i < N; i++)
        want += (double)a[i];
    ops->sum_f32(fx.dev, &sum, a, N);
    assert_near("sum", 0, (double)sum, want, 1e-4);
    ops->sumsq_f32(fx.dev, &sumsq, a, N);
    assert_near("sumsq", 0, sumsq, dot(a, a, N), 1e-7 * sumsq);
    ops->sumsq_f32(fx.dev, &sumsq, a, 0);
    assert_true(sumsq == 0);
    free(a);
    free(b);
    free(out);
}

static void test_embedding(void **state)
{
    enum { V = 5, D = 131, T = 4 };
    const int32_t tokens[T] = { 3, 0, 3, 3 };
    float *table = random_floats(&fx, V * D, 1), *out = unset_floats(T * D);
    float *dout = random_floats(&fx, T * D, 1), *dtable = random_floats(&fx, V * D, 1);
    float *before = malloc(V * D * sizeof(float));

    (void)state;
    memcpy(before, dtable, V * D * sizeof(float));
    ops->embed_fwd(fx.dev, out, tokens, table, T, D, V);
    ops->embed_bwd(fx.dev, dtable, tokens, dout, T, D, V);
    for (int j = 0; j < D; j++) {
        assert_true(out[2 * D + j] == table[3 * D + j]);
        assert_true(dtable[3 * D + j] ==
                    before[3 * D + j] + dout[j] + dout[2 * D + j] + dout[3 * D + j]);
        assert_true(dtable[D + j] == before[D + j]);
    }
    free(table);
    free(out);
    free(dout);
    free(dtable);
    free(before);
}

/* --- RMSNorm ------------------------------------------------------------------------ */
struct norm_case {
    float *x, *w, *c, *out, *rstd;
    int T, D;
};

static double norm_loss(void *arg)
{
    struct norm_case *n = arg;

    ops->rmsnorm_fwd(fx.dev, n->out, n->rstd, n->x, n->w, 1e-5f, n->T, n->D);
    return dot(n->c, n->out, (int64_t)n->T * n->D);
}

static void rmsnorm(int T, int D)
{
    int64_t n = (int64_t)T * D;
    struct norm_case k = { random_floats(&fx, n, 1),
                           random_floats(&fx, D, 1),
                           random_floats(&fx, n, 1),
                           unset_floats(n),
                           unset_floats(T),
                           T,
                           D };
    float *dx = random_floats(&fx, n, 1), *dw = unset_floats(D);
    float *before = malloc((size_t)(n + 1) * sizeof(float));

    memcpy(before, dx, (size_t)n * sizeof(float));
    norm_loss(&k);
    ops->rmsnorm_bwd(fx.dev, dx, dw, k.c, k.x, k.rstd, k.w, T, D);
    for (int64_t i = 0; i < n; i++)
        dx[i] -= before[i]; /* dx adds */
    check_grad("rmsnorm dx", k.x, dx, n, norm_loss, &k);
    check_grad("rmsnorm dw", k.w, dw, D, norm_loss, &k);
    free(k.x);
    free(k.w);
    free(k.c);
    free(k.out);
    free(k.rstd);
    free(dx);
    free(dw);
    free(before);
}

static void test_rmsnorm(void **state)
{
    (void)state;
    rmsnorm(0, 8);
    rmsnorm(1, 1);
    rmsnorm(1, 40);
    rmsnorm(7, 33);
    rmsnorm(131, 16);
}

/* --- dense products -------------------------------------------------------------------- */
static void linear(int T, int N, int K)
{
    float *x = random_floats(&fx, (int64_t)T * K, 1);
    float *w = random_floats(&fx, (int64_t)N * K, 1);
    float *add = random_floats(&fx, (int64_t)T * N, 1), *out = unset_floats(T * N);
    float *dx = unset_floats((int64_t)T * K), *dw = unset_floats((int64_t)N * K);
    double *want = calloc((size_t)(T + 1) * (size_t)N, sizeof(double));
    double *wdx = calloc((size_t)(T + 1) * (size_t)K, sizeof(double));
    double *wdw = calloc((size_t)N * (size_t)K, sizeof(double));

    for (int t = 0; t < T; t++)
        for (int n = 0; n < N; n++)
            for (int k = 0; k < K; k++) {
                want[t * N + n] += (double)x[t * K + k] * (double)w[n * K + k];
                wdx[t * K + k] += (double)add[t * N + n] * (double)w[n * K + k];
                wdw[n * K + k] += (double)add[t * N + n] * (double)x[t * K + k];
            }
    ops->linear_fwd(fx.dev, out, x, w, NULL, T, N, K);
    assert_all_near("linear", out, want, T * N, 2e-6);
    ops->linear_dgrad(fx.dev, dx, add, w, 0, T, N, K);
    assert_all_near("dgrad", dx, wdx, T * K, 2e-6);
    ops->linear_dgrad(fx.dev, dx, add, w, 1, T, N, K);
    ops->linear_wgrad(fx.dev, dw, add, x, 0, T, N, K);
    assert_all_near("wgrad", dw, wdw, N * K, 4e-6);
    ops->linear_wgrad(fx.dev, dw, add, x, 1, T, N, K);
    for (int i = 0; i < T * K; i++)
        wdx[i] *= 2;
    for (int i = 0; i < N * K; i++)
        wdw[i] *= 2;
    assert_all_near("dgrad twice", dx, wdx, T * K, 4e-6);
    assert_all_near("wgrad twice", dw, wdw, N * K, 4e-6);
    for (int i = 0; i < T * N; i++)
        want[i] += (double)add[i];
    ops->linear_fwd(fx.dev, out, x, w, add, T, N, K);
    assert_all_near("linear + add", out, want, T * N, 2e-6);
    ops->linear_fwd(fx.dev, add, x, w, add, T, N, K);
    assert_true(memcmp(add, out, (size_t)(T * N) * sizeof(float)) == 0);
    free(x);
    free(w);
    free(add);
    free(out);
    free(dx);
    free(dw);
    free(want);
    free(wdx);
    free(wdw);
}

static void test_linear(void **state)
{
    (void)state;
    linear(0, 3, 5); /* the gradient of no tokens is zero */
    linear(1, 1, 1);
    linear(1, 17, 33);
    linear(37, 5, 3);
    linear(33, 290, 20); /* cut by columns */
    linear(517, 9, 12);  /* cut by rows */
}

/* --- loss --------------------------------------------------------------------------------- */
struct xent_case {
    float *logits, *work, loss[3];
    int32_t targets[3];
    int V;
};

static double xent_loss(void *arg)
{
    struct xent_case *x = arg;

    memcpy(x->work, x->logits, 3 * (size_t)x->V * sizeof(float));
    ops->cross_entropy(fx.dev, x->loss, x->work, x->targets, 0.5f, 3, x->V);
    return 0.5 * ((double)x->loss[0] + (double)x->loss[1] + (double)x->loss[2]);
}

static void test_cross_entropy(void **state)
{
    enum { V = 37 };
    struct xent_case x = { .targets = { 36, -1, 0 }, .V = V };
    float grad[3 * V];

    (void)state;
    x.logits = random_floats(&fx, 3 * V, 4);
    x.work = malloc(3 * V * sizeof(float));
    xent_loss(&x);
    memcpy(grad, x.work, sizeof(grad));
    assert_true(x.loss[1] == 0);
    for (int j = 0; j < V; j++)
        assert_true(grad[V + j] == 0); /* not counted: loss 0, gradient 0 */
    check_grad("cross-entropy", x.logits, grad, 3 * V, xent_loss, &x);
    ops->cross_entropy(fx.dev, x.loss, x.work, x.targets, 1, 0, V);
    for (int j = 0; j < V; j++) /* even logits: log V */
        x.work[j] = 1000;
    ops->cross_entropy(fx.dev, x.loss, x.work, x.targets, 1, 1, V);
    assert_near("uniform", 0, (double)x.loss[0], log(V), 1e-6);
    free(x.logits);
    free(x.work);
}

/* --- optimizer ----------------------------------------------------------------------------- */
static void test_adamw(void **state)
{
    enum { N = 1003 };
    float *w = random_floats(&fx, N, 1), *g = random_floats(&fx, N, 1);
    float *m = calloc(N, sizeof(float)), *v = calloc(N, sizeof(float));
    float *out = unset_floats(N);
    double wd[N], md[N] = { 0 }, vd[N] = { 0 };

    (void)state;
    for (int i = 0; i < N; i++)
        wd[i] = (double)w[i];
    for (int step = 1; step <= 5; step++) {
        const struct adamw a = { 0.01f, 0.9f, 0.95f, 1e-8f, 0.1f, step };

        ops->adamw(fx.dev, w, m, v, out, g, 2.0f, &a, N);
        for (int i = 0; i < N; i++) {
            double gi = 2.0 * (double)g[i];

            md[i] = 0.9 * md[i] + 0.1 * gi;
            vd[i] = 0.95 * vd[i] + 0.05 * gi * gi;
            wd[i] -=
                0.01 * 0.1 * wd[i] + 0.01 * (md[i] / (1 - pow(0.9, step))) /
                                         (sqrt(vd[i] / (1 - pow(0.95, step))) + 1e-8);
        }
    }
    assert_all_near("adamw", w, wd, N, 1e-6);
    assert_true(memcmp(w, out, N * sizeof(float)) == 0);
    free(w);
    free(g);
    free(m);
    free(v);
    free(out);
}

static int open_fixture(void **state)
{
    (void)state;
    fixture_open(&fx, 2);
    return 0;
}

static int close_fixture(void **state)
{
    (void)state;
    fixture_close(&fx);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_small_scratch_is_an_error),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_pool_runs_each_unit_once),
        cmocka_unit_test(test_exp),
        cmocka_unit_test(test_elementwise),
        cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_rmsnorm),
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_cross_entropy),
        cmocka_unit_test(test_adamw),
    };

    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
