/* Logits, loss and every gradient against Hugging Face transformers' Qwen3-MoE.
 * tests/golden/make_golden.py made the files. */
#include "test.h"

#include <math.h>

#include "golden_file.h"
#include "model_run.h"

static void compare(const char *name, const float *got, const float *want, int64_t n)
{
    double most = 0, worst = 0;

    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)want[i]));
        worst = fmax(worst, fabs((double)got[i] - (double)want[i]));
        if (!(fabs((double)got[i]) < INFINITY))
            fail_msg("%s[%d] is %g", name, (int)i, (double)got[i]);
    }
    if (!(worst <= 1e-5 * most) || most == 0)
        fail_msg("%s differs by %.2e of its largest value", name, worst / most);
}

static void load(void *arg, struct st_file *f, const char *name, float *ours)
{
    int64_t n;
    float *p = golden_read(f, name, &n);

    (void)arg;
    memcpy(ours, p, (size_t)n * sizeof(float));
    free(p);
}

static void check(void *arg, struct st_file *f, const char *name, float *ours)
{
    int64_t n;
    float *p = golden_read(f, name, &n);

    (void)arg;
    compare(name, ours, p, n);
    free(p);
}

static void visit_all(struct model_run *r, struct st_file *f, const char *kind,
                      float **bases, golden_fn *fn)
{
    for (int u = 0; u < r->units; u++)
        for (int i = 0; i < r->layout[u].n; i++)
            golden_visit(f, kind, u, &r->layout[u], &r->layout[u].tensor[i], bases[u],
                         fn, NULL);
}

static int load_batch(struct model_run *r, struct st_file *f, int boundary)
{
    int T = r->b.T, S = r->b.S;
    int64_t n;
    int32_t *tokens = golden_read(f, "tokens", &n);
    int32_t *targets = golden_read(f, "targets", &n);
    int counted = 0;

    assert_int_equal(n, T);
    for (int t = 0; t < T; t++) {
        int second = boundary > 0 && t % S >= boundary;

        r->tokens[t] = tokens[t];
        r->targets[t] = targets[t];
        r->doc_start[t] = second ? boundary : 0;
        r->pos[t] = t % S - r->doc_start[t];
        counted += targets[t] >= 0;
    }
    if (boundary > 0)
        r->b.doc_start = r->doc_start;
    free(tokens);
    free(targets);
    return counted;
}

/* The head's logits are gone after the loss: make them again from the norm. */
static void check_logits(struct model_run *r, struct st_file *f)
{
    const struct unit_layout *l = &r->layout[r->units - 1];
    const float *table =
        r->m.tied ? r->param[0] : r->param[r->units - 1] + l->tensor[1].offset;
    int T = r->b.T;
    float *logits = malloc(sizeof(float) * (size_t)T * (size_t)r->m.vocab), *want;
    int64_t n;

    want = golden_read(f, "logits", &n);
    assert_int_equal(n, T * r->m.vocab);
    r->c.ops->rmsnorm_fwd(r->c.dev, r->c.work.norm, r->c.work.rstd, r->x,
                          r->param[r->units - 1], (float)r->m.norm_eps, T, r->m.hidden);
    r->c.ops->linear_fwd(r->c.dev, logits, r->c.work.norm, table, NULL, T, r->m.vocab,
                         r->m.hidden);
    compare("logits", logits, want, n);
    free(logits);
    free(want);
}

static void golden(const char *file, enum ac_mode ac, int chunk)
{
    struct err err = ERR_INIT;
    struct model m;
    struct model_run r;
    struct st_file *f;
    int counted;
    int64_t n;
    float *want, got;

    assert_ok(st_open(file, &f, &err), &err);
    golden_model(f, &m);
    model_run_open(&r, &m, ac, golden_int(f, "batch"), golden_int(f, "seq"), chunk, 2);
    counted = load_batch(&r, f, (int)strtol(st_meta(f, "boundary"), NULL, 10));
    visit_all(&r, f, "weight", r.param, load);
    got = model_run_step(&r, 1.0f / (float)counted) / (float)counted;
    want = golden_read(f, "loss", &n);
    compare("loss", &got, want, 1);
    check_logits(&r, f);
    visit_all(&r, f, "grad", r.grad, check);
    assert_ok(r.c.ops->status(r.c.dev, &err), &err);
    free(want);
    model_run_close(&r);
    st_close(f);
}

static void test_untied(void **state)
{
    (void)state;
    golden("tests/golden/qwen3_moe_untied.safetensors", AC_NONE, 48);
}

/* Case F16: one table, its gradient the sum of both uses; the file has no lm_head. */
static void test_tied(void **state)
{
    (void)state;
    golden("tests/golden/qwen3_moe_tied.safetensors", AC_SELECTIVE, 17);
}

static void test_document_mask(void **state)
{
    (void)state;
    golden("tests/golden/qwen3_moe_masked.safetensors", AC_FULL, 10);
}

/* Widths that the GPU's kernels take: what tests/bench/gpu_grads.c starts from. */
static void test_wide(void **state)
{
    (void)state;
    golden("tests/golden/qwen3_moe_gpu.safetensors", AC_NONE, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_untied),
        cmocka_unit_test(test_tied),
        cmocka_unit_test(test_document_mask),
        cmocka_unit_test(test_wide),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
