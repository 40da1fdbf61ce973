/* Router and experts on the CPU: choice, order of rows, gradients. */
#include "grad_check.h"

static const struct ops *const ops = &ops_cpu;
static struct fixture fx;

/* --- routes -------------------------------------------------------------------- */
static struct route route_new(int T, int E, int K)
{
    size_t n = (size_t)T * (size_t)K + 1;

    return (struct route){
        malloc(n * sizeof(int32_t)),         malloc(n * sizeof(float)),
        malloc((size_t)E * sizeof(int32_t)), malloc(((size_t)E + 1) * sizeof(int32_t)),
        malloc(n * sizeof(int32_t)),         malloc(n * sizeof(int32_t))
    };
}

static void route_free(struct route *r)
{
    free(r->expert);
    free(r->weight);
    free(r->count);
    free(r->offset);
    free(r->token);
    free(r->row);
}

/* Rows sorted by expert, tokens in order inside one, row[] the inverse. */
static void check_rows(const struct route *r, int T, int E, int K)
{
    assert_int_equal(r->offset[0], 0);
    assert_int_equal(r->offset[E], T * K);
    for (int e = 0; e < E; e++)
        assert_int_equal(r->offset[e + 1] - r->offset[e], r->count[e]);
    for (int i = 0; i < T * K; i++) {
        int e = r->expert[i], row = r->row[i];

        assert_true(row >= r->offset[e] && row < r->offset[e + 1]);
        assert_int_equal(r->token[row], i / K);
        assert_true(row == r->offset[e] || r->token[row - 1] <= r->token[row]);
    }
}

static void test_choice(void **state)
{
    const float logits[3 * 4] = { 1, 1, 1, 1, 0, 3, 1, 2, -1, -2, -1, -2 };
    struct route r = route_new(3, 4, 2);
    double p = exp(3) / (1 + exp(3) + exp(1) + exp(2));

    (void)state;
    ops->route(fx.dev, &r, logits, NULL, 0, 0, 2.0f, 3, 4, 2);
    assert_int_equal(r.expert[0] * 10 + r.expert[1], 1); /* ties: lower index */
    assert_int_equal(r.expert[2] * 10 + r.expert[3], 13);
    assert_int_equal(r.expert[4] * 10 + r.expert[5], 2);
    assert_near("weight", 2, (double)r.weight[2], 2 * p, 1e-6); /* x route_scale */
    check_rows(&r, 3, 4, 2);
    ops->route(fx.dev, &r, logits, NULL, 0, 1, 2.0f, 3, 4, 2);
    assert_near("renormalised", 0, (double)r.weight[2] + (double)r.weight[3], 2, 1e-6);
    route_free(&r);
}

/* The bias moves the choice and leaves the weights alone. */
static void test_bias_only_selects(void **state)
{
    const float logits[4] = { 0, 1, 2, 3 }, bias[4] = { 10, 0, 0, -10 };
    struct route r = route_new(1, 4, 2);
    double sum = 1 + exp(1) + exp(2) + exp(3);

    (void)state;
    ops->route(fx.dev, &r, logits, bias, 0, 0, 1.0f, 1, 4, 2);
    assert_int_equal(r.expert[0], 0);
    assert_int_equal(r.expert[1], 2);
    assert_near("weight", 0, (double)r.weight[0], 1 / sum, 1e-7);
    assert_near("weight", 1, (double)r.weight[1], exp(2) / sum, 1e-6);
    route_free(&r);
}

static void test_forced_choice(void **state)
{
    const float logits[4] = { 0, 1, 2, 3 };
    struct route r = route_new(1, 4, 2);

    (void)state;
    r.expert[0] = 3;
    r.expert[1] = 0;
    ops->route(fx.dev, &r, logits, NULL, 1, 1, 1.0f, 1, 4, 2);
    assert_int_equal(r.expert[0] * 10 + r.expert[1], 30);
    assert_near("weight", 0, (double)r.weight[0], exp(3) / (1 + exp(3)), 1e-6);
    check_rows(&r, 1, 4, 2);
    route_free(&r);
}

/* Case F11: 2.001 and 2.004 are the same number in BF16; the router is FP32. */
static void test_f11_precision(void **state)
{
    const float logits[2] = { 2.001f, 2.004f };
    struct route r = route_new(1, 2, 1);

    (void)state;
    ops->route(fx.dev, &r, logits, NULL, 0, 0, 1.0f, 1, 2, 1);
    assert_int_equal(r.expert[0], 1);
    route_free(&r);
}

/* Whatever the logits, experts are in range and differ; the weights say NaN. */
static void test_bad_logits(void **state)
{
    float logits[5 * 70];
    struct route r = route_new(5, 70, 3);

    (void)state;
    for (int i = 0; i < 5 * 70; i++)
        logits[i] = i % 70 == 66 ? 1 : i / 70 == 1 ? INFINITY : NAN;
    ops->route(fx.dev, &r, logits, NULL, 0, 1, 1.0f, 5, 70, 3);
    for (int t = 0; t < 5; t++)
        assert_true(r.expert[3 * t] != r.expert[3 * t + 1] &&
                    r.expert[3 * t] != r.expert[3 * t + 2] &&
                    r.expert[3 * t + 1] != r.expert[3 * t + 2]);
    check_rows(&r, 5, 70, 3);
    assert_true(isnan(r.weight[0]));
    route_free(&r);
}

/* Case F10: two ranks, E = 4, top-1; rank r sends all to expert r with p = 0.7.
 * What muster counts gives E sum(f P) = 2.8 on each rank and 1.6 over both; routing
 * again (recomputation) counts nothing twice. */
static void test_f10_balance(void **state)
{
    enum { T = 6, E = 4 };
    struct route r = route_new(T, E, 1);
    double f[E] = { 0 }, P[E] = { 0 };

    (void)state;
    for (int rank = 0; rank < 2; rank++) {
        float logits[T * E];
        double local = 0;

        for (int i = 0; i < T * E; i++)
            logits[i] = logf(i % E == rank ? 0.7f : 0.1f);
        for (int again = 0; again < 2; again++)
            ops->route(fx.dev, &r, logits, NULL, 0, 0, 1.0f, T, E, 1);
        for (int e = 0; e < E; e++) {
            double p = e == r.expert[0] ? (double)r.weight[0] : 0.1;

            local += E * (r.count[e] / (double)T) * p;
            f[e] += r.count[e] / (2.0 * T);
            P[e] += p / 2;
        }
        assert_near("local", rank, local, 2.8, 1e-6);
    }
    assert_near("global", 0, E * (f[0] * P[0] + f[1] * P[1] + f[2] * P[2]), 1.6, 1e-6);
    route_free(&r);
}

struct route_case {
    struct route r;
    float *logits, *c;
    int renormalise, T, E, K;
};

static double route_loss(void *arg)
{
    struct route_case *c = arg;

    ops->route(fx.dev, &c->r, c->logits, NULL, 1, c->renormalise, 1.5f, c->T, c->E,
               c->K);
    return dot(c->c, c->r.weight, (int64_t)c->T * c->K);
}

static void route_gradient(int renormalise, int T, int E, int K)
{
    struct route_case c = { route_new(T, E, K),
                            random_floats(&fx, (int64_t)T * E, 2),
                            random_floats(&fx, (int64_t)T * K, 1),
                            renormalise,
                            T,
                            E,
                            K };
    float *dlogits = unset_floats((int64_t)T * E);

    ops->route(fx.dev, &c.r, c.logits, NULL, 0, renormalise, 1.5f, T, E, K);
    ops->route_bwd(fx.dev, dlogits, c.c, c.logits, &c.r, renormalise, 1.5f, T, E, K);
    check_grad("route", c.logits, dlogits, (int64_t)T * E, route_loss, &c);
    route_free(&c.r);
    free(c.logits);
    free(c.c);
    free(dlogits);
}

static void test_route_gradient(void **state)
{
    (void)state;
    route_gradient(1, 0, 4, 2);
    route_gradient(1, 1, 1, 1);
    route_gradient(0, 3, 5, 2);
    route_gradient(1, 3, 5, 2);
    route_gradient(1, 70, 7, 7);
}

static void test_router_adds(void **state)
{
    enum { T = 3, E = 5, D = 7 };
    float *x = random_floats(&fx, T * D, 1), *w = random_floats(&fx, E * D, 1);
    float *dz = random_floats(&fx, T * E, 1), *dx = random_floats(&fx, T * D, 1);
    float *dw = unset_floats(E * D), *z = unset_floats(T * E);
    double want = (double)dx[D + 2], logit = 0, grad = 0;

    (void)state;
    ops->router_fwd(fx.dev, z, x, w, T, E, D);
    ops->router_bwd(fx.dev, dx, dw, dz, x, w, T, E, D);
    for (int j = 0; j < D; j++)
        logit += (double)x[D + j] * (double)w[4 * D + j];
    for (int e = 0; e < E; e++)
        want += (double)dz[E + e] * (double)w[e * D + 2];
    for (int t = 0; t < T; t++)
        grad += (double)dz[t * E + 4] * (double)x[t * D + 2];
    assert_near("logits", 0, (double)z[E + 4], logit, 1e-6);
    assert_near("dx", 0, (double)dx[D + 2], want, 1e-6);
    assert_near("dw", 0, (double)dw[4 * D + 2], grad, 1e-6);
    free(x);
    free(w);
    free(dz);
    free(dx);
    free(dw);
    free(z);
}

/* --- experts -------------------------------------------------------------------------- */
struct experts_case {
    struct route r;
    float *x, *w13, *w2, *add, *c, *y, *h;
    int T, D, E, K, F;
};

static double experts_loss(void *arg)
{
    struct experts_case *e = arg;

    ops->experts_fwd(fx.dev, e->y, e->h, e->x, e->add, e->w13, e->w2, &e->r, e->T, e->D,
                     e->E, e->K, e->F);
    return dot(e->c, e->y, (int64_t)e->T * e->D);
}

/* experts of a token: those from `from` on, in order; so some get none. */
static struct experts_case experts_new(int T, int D, int E, int K, int F, int from)
{
    struct experts_case e = { .r = route_new(T, E, K),
                              .x = random_floats(&fx, (int64_t)T * D, 1),
                              .w13 = random_floats(&fx, (int64_t)E * 2 * F * D, 1),
                              .w2 = random_floats(&fx, (int64_t)E * D * F, 1),
                              .add = random_floats(&fx, (int64_t)T * D, 1),
                              .c = random_floats(&fx, (int64_t)T * D, 1),
                              .y = unset_floats((int64_t)T * D),
                              .h = unset_floats((int64_t)T * K * 2 * F),
                              .T = T,
                              .D = D,
                              .E = E,
                              .K = K,
                              .F = F };
    float *logits = random_floats(&fx, (int64_t)T * E, 1);

    for (int i = 0; i < T * K; i++)
        e.r.expert[i] = from + (i / K + i % K) % (E - from);
    ops->route(fx.dev, &e.r, logits, NULL, 1, 1, 1.0f, T, E, K);
    free(logits);
    return e;
}

static void experts_free(struct experts_case *e)
{
    route_free(&e->r);
    free(e->x);
    free(e->w13);
    free(e->w2);
    free(e->add);
    free(e->c);
    free(e->y);
    free(e->h);
}

static double expert_wants(const struct experts_case *e, int t, int j)
{
    double y = (double)e->add[t * e->D + j];

    for (int k = 0; k < e->K; k++) {
        int expert = e->r.expert[t * e->K + k];
        const float *w1 = e->w13 + (int64_t)expert * 2 * e->F * e->D;

        for (int f = 0; f < e->F; f++) {
            double gate = dot(e->x + t * e->D, w1 + f * e->D, e->D);
            double up = dot(e->x + t * e->D, w1 + (e->F + f) * e->D, e->D);

            y += (double)e->r.weight[t * e->K + k] * gate / (1 + exp(-gate)) * up *
                 (double)e->w2[((int64_t)expert * e->D + j) * e->F + f];
        }
    }
    return y;
}

static void check_experts_gradients(struct experts_case *e)
{
    int64_t n13 = (int64_t)e->E * 2 * e->F * e->D, n2 = (int64_t)e->E * e->D * e->F;
    int64_t n = (int64_t)e->T * e->D, nk = (int64_t)e->T * e->K;
    float *dx = unset_floats(n), *dweight = unset_floats(nk);
    float *dw13 = unset_floats(n13), *dw2 = unset_floats(n2);

    ops->experts_bwd(fx.dev, dx, dweight, dw13, dw2, e->c, e->x, e->h, e->w13, e->w2,
                     &e->r, e->T, e->D, e->E, e->K, e->F);
    check_grad("experts dx", e->x, dx, n, experts_loss, e);
    check_grad("experts dweight", e->r.weight, dweight, nk, experts_loss, e);
    check_grad("experts dw13", e->w13, dw13, n13, experts_loss, e);
    check_grad("experts dw2", e->w2, dw2, n2, experts_loss, e);
    for (int i = 0; i < e->E; i++) /* case F11: no token, zero gradient, not NaN */
        for (int j = 0; e->r.count[i] == 0 && j < e->D * e->F; j++)
            assert_true(dw2[i * e->D * e->F + j] == 0 &&
                        dw13[i * 2 * e->D * e->F + j] == 0);
    free(dx);
    free(dweight);
    free(dw13);
    free(dw2);
}

static void experts(int T, int D, int E, int K, int F, int from)
{
    struct experts_case e = experts_new(T, D, E, K, F, from);
    float *h = unset_floats((int64_t)T * K * 2 * F);

    experts_loss(&e);
    for (int t = 0; t < T; t += 1 + T / 50)
        for (int j = 0; j < D; j++)
            assert_near("experts", t, (double)e.y[t * D + j], expert_wants(&e, t, j),
                        2e-5);
    check_experts_gradients(&e);
    experts_loss(&e);
    ops->experts_fwd(fx.dev, NULL, h, e.x, NULL, e.w13, e.w2, &e.r, T, D, E, K, F);
    assert_true(memcmp(h, e.h, (size_t)(T * K * 2 * F) * sizeof(float)) == 0);
    ops->experts_fwd(fx.dev, e.add, h, e.x, e.add, e.w13, e.w2, &e.r, T, D, E, K, F);
    assert_true(memcmp(e.add, e.y, (size_t)(T * D) * sizeof(float)) == 0);
    experts_free(&e);
    free(h);
}

static void test_experts(void **state)
{
    (void)state;
    experts(0, 4, 3, 1, 5, 0);
    experts(1, 1, 1, 1, 1, 0);
    experts(1, 5, 4, 2, 3, 1);
    experts(9, 7, 5, 3, 6, 2);    /* two experts without rows */
    experts(2100, 3, 4, 1, 2, 3); /* one expert has every token: three blocks */
    experts(300, 4, 4, 4, 3, 0);  /* every token visits every expert */
}

/* --- the shared expert's activation ------------------------------------------------------- */
struct swiglu_case {
    float *h, *c, *out;
    int T, F;
};

static double swiglu_loss(void *arg)
{
    struct swiglu_case *s = arg;

    ops->swiglu_fwd(fx.dev, s->out, s->h, s->T, s->F);
    return dot(s->c, s->out, (int64_t)s->T * s->F);
}

static void test_swiglu(void **state)
{
    enum { T = 67, F = 5 };
    struct swiglu_case s = { random_floats(&fx, T * 2 * F, 3),
                             random_floats(&fx, T * F, 1), unset_floats(T * F), T, F };
    float *dh = unset_floats(T * 2 * F);

    (void)state;
    swiglu_loss(&s);
    assert_near("swiglu", 1, (double)s.out[1],
                (double)s.h[1] / (1 + exp(-(double)s.h[1])) * (double)s.h[F + 1], 1e-6);
    ops->swiglu_bwd(fx.dev, dh, s.c, s.h, T, F);
    check_grad("swiglu", s.h, dh, T * 2 * F, swiglu_loss, &s);
    ops->swiglu_fwd(fx.dev, s.out, s.h, 0, F);
    free(s.h);
    free(s.c);
    free(s.out);
    free(dh);
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
        cmocka_unit_test(test_choice),         cmocka_unit_test(test_bias_only_selects),
        cmocka_unit_test(test_forced_choice),  cmocka_unit_test(test_f11_precision),
        cmocka_unit_test(test_bad_logits),     cmocka_unit_test(test_f10_balance),
        cmocka_unit_test(test_route_gradient), cmocka_unit_test(test_router_adds),
        cmocka_unit_test(test_experts),        cmocka_unit_test(test_swiglu),
    };

    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
