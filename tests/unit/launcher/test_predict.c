/* The step-time prediction against sums done by hand. */
#include <math.h>

#include "test.h"

#include "base/js.h"
#include "base/mem.h"
#include "launcher/plan.h"
#include "launcher/predict.h"
#include "recipes/recipe.h"
#include "topology/place.h"
#include "topology/source.h"
#include "topology/topology.h"

static struct topology *cluster(int nodes)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;
    char *text = xasprintf("nodes: {count: %d}\ncpu: {cores: 16}\n"
                           "gpus: {per_node: 8, name: NVIDIA H200, memory: 141GiB, "
                           "sm: 90, nvlinks: 18, nvlink_gbytes_per_s: 450}\n"
                           "nics: {per_node: 8, gbits_per_s: 400}\n",
                           nodes);

    assert_ok(topology_from_spec_text(text, strlen(text), "t", &t, &err), &err);
    free(text);
    return t;
}

static void moe(struct recipe *r, int shard, const char *mode)
{
    struct err err = ERR_INIT;

    recipe_init(r);
    assert_ok(recipe_set(r, "model.preset", "qwen3-30b-a3b", &err), &err);
    assert_ok(recipe_set(r, "activation_checkpoint.mode", mode, &err), &err);
    r->training.seq_len = 4096;
    r->training.local_batch_size = 4;
    r->training.global_batch_size = -1;
    r->parallelism.data_parallel_shard_degree = shard;
    r->parallelism.data_parallel_replicate_degree = -1;
}

static struct prediction predict(int world, int shard, const char *mode,
                                 const struct predict_assumptions *assumed)
{
    struct err err = ERR_INIT;
    struct topology *t = cluster((world + 7) / 8);
    struct placement *p = NULL;
    struct prediction x;
    struct recipe r;

    moe(&r, shard, mode);
    assert_ok(placement_make(&r, t, world, &p, &err), &err);
    predict_make(&r, t, p, assumed, &x);
    placement_free(p);
    topology_free(t);
    recipe_release(&r);
    return x;
}

static int near(double a, double b, double share)
{
    return fabs(a - b) <= share * fabs(b);
}

/* One GPU: nothing to communicate; compute is FLOPs / (peak x efficiency). */
static void test_one_gpu(void **state)
{
    struct predict_assumptions a = { .efficiency = 0.5 };
    struct prediction x = predict(1, 1, "none", &a);
    double causal = 23.083e9 * 16384;

    (void)state;
    assert_true(x.exposed_s == 0);
    assert_true(near(x.compute_s, causal / (0.5 * 989e12), 1e-3));
    assert_true(near(x.optimizer_s, 30.0 * 30532122624 / (0.85 * 4800e9), 1e-9));
    assert_true(near(x.step_s, x.compute_s + x.optimizer_s, 1e-12));
    assert_true(near(x.tokens_per_s_per_gpu, 16384 / x.step_s, 1e-12));
    assert_true(
        near(x.mfu_reference, 100 * 29.782e9 * x.tokens_per_s_per_gpu / 989e12, 1e-3));
    assert_true(near(x.layer_backward_s, 2 * x.layer_forward_s, 1e-9));
}

/* A layer of the 30B: 48 of them and the two embeddings are the whole. */
static void test_layer_bytes(void **state)
{
    struct prediction x = predict(16, 8, "none", NULL);
    int64_t layer = (30532122624 - 2LL * 151936 * 2048 - 2048) / 48;

    (void)state;
    assert_true(x.gather_bytes == 2 * layer);
    assert_true(x.scatter_bytes == 4 * layer);
    assert_true(x.replica_bytes == (layer + 7) / 8 * 4);
    assert_string_equal(x.gather.tier, "nvlink");
    assert_string_equal(x.replica.tier, "nic");
}

/* full: one more forward of each layer.  selective: less than that. */
static void test_recompute(void **state)
{
    struct prediction none = predict(8, 8, "none", NULL);
    struct prediction selective = predict(8, 8, "selective", NULL);
    struct prediction full = predict(8, 8, "full", NULL);

    (void)state;
    assert_true(near(full.layer_backward_s,
                     none.layer_backward_s + none.layer_forward_s, 1e-9));
    assert_true(selective.layer_backward_s > none.layer_backward_s);
    assert_true(selective.layer_backward_s < full.layer_backward_s);
}

/* Communication hides while compute is longer, and shows when it is shorter. */
static void test_exposed(void **state)
{
    struct predict_assumptions slow = { .efficiency = 0.01 },
                               fast = { .efficiency = 1 };
    struct prediction hidden = predict(8, 8, "none", &slow);
    struct prediction bare = predict(8, 8, "none", &fast);
    double layers =
        48 * (bare.gather.seconds * 2 + bare.scatter.seconds - bare.layer_backward_s);

    (void)state;
    /* only the embedding's, which nothing precedes or follows */
    assert_true(near(hidden.exposed_s,
                     (2 + 4) * 151936.0 * 2048 * (7.0 / 8 + 1.0 / 16) / (18 * 20.6e9),
                     2e-2));
    assert_true(bare.exposed_s > hidden.exposed_s);
    assert_true(bare.exposed_s > layers * 0.5);
}

/* CPUs have no published peak: no MFU rather than a made-up one. */
static void test_cpu_has_no_mfu(void **state)
{
    static const char text[] = "cpu: {cores: 4}\n";
    struct err err = ERR_INIT;
    struct topology *t = NULL;
    struct recipe r;
    struct plan p;
    struct js *o;
    char *line;

    (void)state;
    assert_ok(topology_from_spec_text(text, strlen(text), "t", &t, &err), &err);
    moe(&r, 2, "none");
    assert_ok(plan_make(&r, t, 2, NULL, &p, &err), &err);
    assert_string_equal(p.device, "cpu");
    assert_true(isnan(p.predicted.mfu_reference));
    assert_true(p.predicted.tokens_per_s_per_gpu > 0);
    assert_true(p.predicted.assumed.peak_flops == 2 * PREDICT_CPU_CORE_FLOPS);
    o = plan_json(&p);
    line = js_line(o);
    assert_non_null(strstr(line, "\"mfu_reference\":null"));
    assert_int_equal(p.recipe.parallelism.data_parallel_replicate_degree, 1);
    free(line);
    js_free(o);
    plan_release(&p);
    recipe_release(&r);
    topology_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_gpu),        cmocka_unit_test(test_layer_bytes),
        cmocka_unit_test(test_recompute),      cmocka_unit_test(test_exposed),
        cmocka_unit_test(test_cpu_has_no_mfu),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
