/* Learning rate, clipping, decay runs, initial weights, router bias, figures. */
#include <math.h>

#include "recipes/recipe.h"
#include "test.h"
#include "trainer/balance.h"
#include "trainer/metrics.h"
#include "trainer/optim.h"
#include "trainer/trainer.h"
#include "trainer/units.h"
#include "trainer/weights.h"

static void near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-12 + 1e-9 * fabs(want)))
        fail_msg("%.12g, wanted %.12g", got, want);
}

static void set(struct recipe *r, const char *key, const char *text)
{
    struct err err = ERR_INIT;

    assert_ok(recipe_set(r, key, text, &err), &err);
}

static void test_schedule(void **state)
{
    /* steps 110, warm-up 10: step 60 is half-way through the decay */
    static const struct {
        const char *decay;
        double half, last;
    } cases[] = {
        { "constant", 1, 1 },
        { "linear", 0.1 + 0.9 * 0.5, 0.1 },
        { "cosine", 0.1 + 0.9 * 0.5, 0.1 },
        { "sqrt", 0.1 + 0.9 * (1 - 0.70710678118654752), 0.1 },
    };
    struct recipe r;

    (void)state;
    recipe_init(&r);
    set(&r, "optimizer.lr", "2e-3");
    set(&r, "training.steps", "110");
    set(&r, "lr_scheduler.warmup_steps", "10");
    set(&r, "lr_scheduler.min_lr_factor", "0.1");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        set(&r, "lr_scheduler.decay", cases[i].decay);
        near(optim_lr_at(&r, 1), 2e-4);
        near(optim_lr_at(&r, 5), 1e-3);
        near(optim_lr_at(&r, 10), 2e-3);
        near(optim_lr_at(&r, 60), 2e-3 * cases[i].half);
        near(optim_lr_at(&r, 110), 2e-3 * cases[i].last);
        near(optim_lr_at(&r, 500), 2e-3 * cases[i].last);
    }
    set(&r, "lr_scheduler.decay", "linear");
    near(optim_lr_at(&r, 35), 2e-3 * (0.1 + 0.9 * 0.75));
    set(&r, "lr_scheduler.warmup_steps", "0");
    near(optim_lr_at(&r, 11), 2e-3 * (0.1 + 0.9 * 0.9));
    set(&r, "lr_scheduler.warmup_steps", "110"); /* nothing is left to decay */
    near(optim_lr_at(&r, 110), 2e-3);
    recipe_release(&r);
}

static void test_clipping(void **state)
{
    (void)state;
    near(optim_grad_norm(900, 10), 3);
    near(optim_grad_scale(900, 10, 0), 0.1);       /* off */
    near(optim_grad_scale(900, 10, 5), 0.1);       /* short enough */
    near(optim_grad_scale(900, 10, 1.5), 0.1 / 2); /* twice too long */
}

/* Every element of the shards is in exactly one run. */
static void test_runs(void **state)
{
    struct err err = ERR_INIT;
    struct model m;
    struct units u;

    (void)state;
    assert_ok(model_preset("tiny", &m, &err), &err);
    units_make(&m, 2, &u);
    for (int i = 0; i < u.layer.n; i++)
        u.layer.tensor[i].decay = u.layer.tensor[i].dims > 1;
    for (int rank = 0; rank < 2; rank++) {
        struct optim o = { 0 };
        int64_t at = 0;

        optim_plan(&o, &u, rank);
        assert_true(rank > 0 || o.n_runs > 1);
        for (int i = 0; i < o.n_runs; i++) {
            assert_int_equal(o.run[i].at, at);
            assert_true(i == 0 || o.run[i].decay != o.run[i - 1].decay);
            at += o.run[i].n;
        }
        assert_int_equal(at, u.shard_count);
        optim_release(&o);
    }
}

static void test_weights(void **state)
{
    struct err err = ERR_INIT;
    struct model m;
    struct units u;
    double sum = 0, squares = 0;
    float *whole, *part;
    const struct unit_tensor *t;
    int64_t n;

    (void)state;
    assert_ok(model_preset("tiny", &m, &err), &err);
    units_make(&m, 1, &u);
    n = u.layer.padded;
    whole = calloc((size_t)n, sizeof(float));
    part = calloc((size_t)n, sizeof(float));
    weights_fill(&u, 1, 7, 0, n, whole);
    for (int64_t at = 0; at < n; at += 333) /* cut anywhere, odd places too */
        weights_fill(&u, 1, 7, at, n - at < 333 ? n - at : 333, part + at);
    assert_memory_equal(whole, part, (size_t)n * sizeof(float));
    weights_fill(&u, 2, 7, 0, n, part);
    assert_memory_not_equal(whole, part, (size_t)n * sizeof(float));
    weights_fill(&u, 1, 8, 0, n, part);
    assert_memory_not_equal(whole, part, (size_t)n * sizeof(float));

    for (int i = 0; i < u.layer.n; i++) {
        t = &u.layer.tensor[i];
        sum = squares = 0;
        for (int64_t k = 0; k < t->count; k++) {
            double w = whole[t->offset + k];

            sum += w;
            squares += w * w;
            assert_true(t->init_std != 0 || w == 1);
        }
        if (t->count < 4000)
            continue;
        assert_true(fabs(sum / (double)t->count) < 0.1 * t->init_std);
        assert_true(fabs(sqrt(squares / (double)t->count) / t->init_std - 1) < 0.05);
    }
    free(whole);
    free(part);
}

static void test_balance(void **state)
{
    const int32_t counts[8] = { 10, 2, 4, 4, 5, 5, 5, 5 };
    float bias[8] = { 0 };

    (void)state;
    balance_update(bias, counts, 2, 4, 0.5);
    /* mean 5: signs -1 +1 +1 +1, their mean 0.5 */
    near(bias[0], -0.75);
    near(bias[1], 0.25);
    near(bias[3], 0.25);
    for (int i = 4; i < 8; i++)
        near(bias[i], 0);
    near(balance_load(counts, 2, 4), 2);
    near(balance_load((const int32_t[2]){ 0, 0 }, 1, 2), 0);
}

/* Case G02: 4 sequences of 2048 are 8192 tokens a step, and per GPU an eighth. */
static void test_speed(void **state)
{
    struct step_metrics m = { .step_s = 0.5 };
    struct err err = ERR_INIT;
    struct recipe r;

    (void)state;
    recipe_init(&r);
    assert_ok(model_preset("tiny", &r.model, &err), &err);
    set(&r, "training.seq_len", "2048");
    r.training.global_batch_size = 4;
    metrics_speed(&m, &r, 8, 0);
    near(m.tokens_per_s_per_gpu, 8192 / 0.5 / 8);
    assert_true(isnan(m.mfu_reference) && isnan(m.mfu_causal));
    metrics_speed(&m, &r, 8, 1e12);
    near(m.mfu_reference, 100 * model_flops_per_token(&r.model, 2048, FLOPS_REFERENCE) *
                              m.tokens_per_s_per_gpu / 1e12);
    assert_true(m.mfu_causal < m.mfu_reference);
    recipe_release(&r);
}

/* Case D13: the median without what came first. */
static void test_summary(void **state)
{
    static const double times[] = { 0.812, 0.0451, 0.0449, 0.045, 0.0452 };
    struct run_summary s = { 0 };

    (void)state;
    for (int i = 0; i < 5; i++) {
        struct step_metrics m = { .loss = 5 - i,
                                  .step_s = times[i],
                                  .validation_loss = i == 2 ? 9 : NAN };

        run_summary_add(&s, &m);
    }
    near(run_summary_step_s(&s, 1), 0.04505);
    near(run_summary_step_s(&s, 5), 0.045); /* too few: the second half */
    near(s.loss_first, 5);
    near(s.loss_last, 1);
    near(s.validation_loss, 9);
    run_summary_release(&s);
}

/* Case F13. */
static void test_mesh(void **state)
{
    (void)state;
    for (int rank = 0; rank < 16; rank++) {
        assert_int_equal(trainer_replica_rank(rank, 8), rank < 8 ? 0 : 1);
        assert_int_equal(trainer_shard_rank(rank, 8), rank < 8 ? rank : rank - 8);
    }
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(test_schedule), cmocka_unit_test(test_clipping),
        cmocka_unit_test(test_runs),     cmocka_unit_test(test_weights),
        cmocka_unit_test(test_balance),  cmocka_unit_test(test_speed),
        cmocka_unit_test(test_summary),  cmocka_unit_test(test_mesh),
    };

    return cmocka_run_group_tests(t, NULL, NULL);
}
