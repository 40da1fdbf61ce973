/* model: counts of the presets, mission.md's conventions, cases F06, F07, F16, G02. */
#include "test.h"

#include <math.h>

#include "recipes/model.h"

static struct model preset(const char *name)
{
    struct err err = ERR_INIT;
    struct model m = { 0 };

    assert_ok(model_preset(name, &m, &err), &err);
    return m;
}

/* Rounded to `digits` behind the point. */
static int near(double got, double want, int digits)
{
    return fabs(got - want) <= 0.5 * pow(10, -digits) * (1 + 1e-9);
}

static void test_30b_counts(void **state)
{
    struct model m = preset("qwen3-30b-a3b");

    (void)state;
    assert_true(model_params_total(&m) == 30532122624);
    assert_true(model_params_active(&m) == 3353032704);
    assert_true(model_params_active(&m) - (int64_t)m.vocab * m.hidden == 3041867776);
    /* one layer without norms; a layer's share of trainer.md holds them */
    assert_int_equal(model_qkv_dim(&m), 5120);
}

static void test_30b_flops(void **state)
{
    static const struct {
        enum flop_convention c;
        const char *name;
        double gflop, mfu[3];
    } want[] = {
        { FLOPS_REFERENCE, "reference", 29.782, { 37.6, 37.1, 35.3 } },
        { FLOPS_TORCHTITAN, "torchtitan", 27.915, { 35.2, 34.7, 33.1 } },
        { FLOPS_CAUSAL, "causal", 23.083, { 29.1, 28.7, 27.4 } },
    };
    static const double rates[] = { 28400, 28000, 26700 };
    struct model m = preset("qwen3-30b-a3b");

    (void)state;
    for (int i = 0; i < N_FLOP_CONVENTIONS; i++) {
        double flops = model_flops_per_token(&m, 4096, want[i].c);
        assert_string_equal(flop_convention_name(want[i].c), want[i].name);
        assert_true(near(flops / 1e9, want[i].gflop, 3));
        for (int k = 0; k < 3; k++)
            assert_true(near(model_mfu(flops, rates[k], 2250e12), want[i].mfu[k], 1));
    }
}

static struct model f06(void)
{
    return (struct model){ .layers = 16,
                           .hidden = 2048,
                           .heads = 16,
                           .kv_heads = 4,
                           .head_dim = 128,
                           .experts = 64,
                           .top_k = 8,
                           .expert_ffn = 1024,
                           .vocab = 32000 };
}

/* Case F06 counts no norms in FLOPs and has none on q and k: what muster's
 * models add there is known exactly and taken off. */
static void test_f06_mfu_of_a_mixture(void **state)
{
    struct model m = f06();
    int64_t qk_norms = (int64_t)m.layers * 2 * m.head_dim;
    int64_t matmul = model_params_matmul(&m, 0);
    double full = 6.0 * (double)matmul + model_attention_flops(&m, 4096, 0);
    double causal = 6.0 * (double)matmul + model_attention_flops(&m, 4096, 1);

    (void)state;
    assert_true(model_params_total(&m) - qk_norms == 6743459840);
    assert_true(model_params_active(&m) - qk_norms == 1106315264);
    assert_true(matmul == 1040711680);
    assert_true(full == 7854882816.0);
    assert_true(causal == 7049576448.0);
    assert_true(near(model_mfu(full, 60000, 989.4e12), 47.63, 2));
    assert_true(near(model_mfu(causal, 60000, 989.4e12), 42.75, 2));
    /* what muster prints counts the norms too: one part in 20000 more */
    assert_true(
        near(model_mfu(model_flops_per_token(&m, 4096, FLOPS_CAUSAL), 60000, 989.4e12),
             42.75, 2));
    /* counting all experts gives the impossible figure, which is flagged */
    full = 6.0 * (double)(model_params_total(&m) - qk_norms) +
           model_attention_flops(&m, 4096, 0);
    assert_true(near(model_mfu(full, 60000, 989.4e12), 255.13, 2));
    assert_string_not_equal(model_mfu_note(255.13), "");
    assert_string_equal(model_mfu_note(47.63), "");
    assert_string_equal(model_mfu_note(100), "");
}

/* Case F07: a run's rate over one card's peak says 45.4 %; per card it is 2.84 %. */
static void test_f07_rate_is_per_gpu(void **state)
{
    double run_rate = 0.454 * 989e12 / 1e9;

    (void)state;
    assert_true(near(model_mfu(1e9, run_rate, 989e12), 45.4, 1));
    assert_true(near(model_mfu(1e9, run_rate / 16, 989e12), 2.84, 2));
    assert_true(isnan(model_mfu(1e9, 1, 0)));
}

static void test_f16_tied_counts_once(void **state)
{
    struct model m = preset("tiny"), tied = m;
    int64_t table = (int64_t)m.vocab * m.hidden;

    (void)state;
    tied.tied = 1;
    assert_true(model_params_total(&m) - model_params_total(&tied) == table);
    assert_true(model_params_active(&m) - model_params_active(&tied) == table);
    assert_true(model_params_matmul(&tied, 1) == model_params_matmul(&tied, 0));
    assert_true(model_params_matmul(&m, 0) == model_params_matmul(&tied, 0));
}

static void test_presets(void **state)
{
    struct err err = ERR_INIT;
    struct model m;
    int n;
    const char *const *names = model_preset_names(&n);

    (void)state;
    assert_int_equal(n, 4);
    for (int i = 0; i < n; i++) {
        m = preset(names[i]);
        assert_ok(model_validate(&m, names[i], &err), &err);
    }
    m = preset("small-50m");
    assert_true(model_params_total(&m) >= 50000000);
    m = preset("demo");
    assert_true(model_params_total(&m) > 1000000 && model_params_total(&m) < 10000000);
    m = preset("tiny");
    assert_int_equal(m.layers, 2);
    assert_true(m.vocab >= 257);
    assert_err(model_preset("qwen3-30b-a3", &m, &err), &err, ERR_USAGE,
               "did you mean 'qwen3-30b-a3b'?");
}

static void test_validate_lists_all(void **state)
{
    struct err err = ERR_INIT;
    struct model m = preset("tiny");

    (void)state;
    m.kv_heads = 3;
    m.head_dim = 15;
    m.top_k = 9;
    assert_int_equal(model_validate(&m, "here", &err), -1);
    assert_non_null(strstr(err_text(&err), "here: model.kv_heads: 3 does not divide"));
    assert_non_null(strstr(err_text(&err), "here: model.head_dim: 15 is odd"));
    assert_non_null(strstr(err_text(&err), "here: model.top_k: 9 is above"));
    err_release(&err);
    m.kv_heads = 0;
    assert_int_equal(model_validate(&m, "here", &err), -1);
    err_release(&err);
}

static void test_peaks(void **state)
{
    static const struct {
        const char *name;
        double tflops;
    } want[] = { { "NVIDIA H200", 989 },        { "NVIDIA H100 80GB HBM3", 989 },
                 { "NVIDIA H100 PCIe", 756 },   { "NVIDIA B200", 2250 },
                 { "NVIDIA GB200", 2500 },      { "NVIDIA A100-SXM4-80GB", 312 },
                 { "NVIDIA GeForce RTX 9", 0 }, { "", 0 } };

    (void)state;
    for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++)
        assert_true(model_peak_flops(want[i].name) == want[i].tflops * 1e12);
    assert_true(model_peak_flops(NULL) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_30b_counts),
        cmocka_unit_test(test_30b_flops),
        cmocka_unit_test(test_f06_mfu_of_a_mixture),
        cmocka_unit_test(test_f07_rate_is_per_gpu),
        cmocka_unit_test(test_f16_tied_counts_once),
        cmocka_unit_test(test_presets),
        cmocka_unit_test(test_validate_lists_all),
        cmocka_unit_test(test_peaks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
