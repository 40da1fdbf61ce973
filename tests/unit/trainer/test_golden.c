/* Logits, loss and every gradient against Hugging Face transformers' Qwen3-MoE.
 * tests/golden/make_golden.py made the files. */
#include "test.h"

#include <math.h>

#include "model_run.h"
#include "trainer/safetensors.h"

enum { B = 2, S = 24, T = B * S };

/* The script's SHAPE. */
static const struct model shape = { .layers = 2,
                                    .hidden = 40,
                                    .heads = 4,
                                    .kv_heads = 2,
                                    .head_dim = 12,
                                    .experts = 6,
                                    .top_k = 2,
                                    .expert_ffn = 20,
                                    .vocab = 72,
                                    .renormalise = 1,
                                    .rope_theta = 1e6,
                                    .norm_eps = 1e-6,
                                    .route_scale = 1,
                                    .init_std = 0.02 };

static void *read_tensor(struct st_file *f, const char *name, int64_t *count)
{
    struct err err = ERR_INIT;
    const struct st_tensor *t = st_find(f, name);
    void *p;

    if (!t)
        fail_msg("no tensor %s", name);
    *count = (t->end - t->begin) / 4;
    p = malloc((size_t)(t->end - t->begin));
    assert_ok(st_read(f, t, 0, p, t->end - t->begin, &err), &err);
    return p;
}

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

/* Which of Hugging Face's tensors make up ours; NULL: the same name. */
static const struct {
    const char *ours, *part[4];
} fused[] = {
    { "self_attn.qkv_proj.weight",
      { "self_attn.q_proj.weight", "self_attn.k_proj.weight",
        "self_attn.v_proj.weight" } },
    { "mlp.experts.w13", { "mlp.experts.gate_up_proj" } },
    { "mlp.experts.w2", { "mlp.experts.down_proj" } },
};

typedef void visit_fn(struct st_file *f, const char *name, float *ours);

/* Every Hugging Face tensor behind tensor `t`, with its place in `base`. */
static void visit(struct st_file *f, const char *kind, const char *prefix,
                  const struct unit_tensor *t, float *base, visit_fn *fn)
{
    const char *same[] = { t->name, NULL }, *const *part = same;
    float *at = base + t->offset;
    char name[128];

    for (size_t i = 0; i < sizeof(fused) / sizeof(fused[0]); i++)
        if (strcmp(fused[i].ours, t->name) == 0)
            part = fused[i].part;
    for (; *part; part++) {
        const struct st_tensor *st;

        snprintf(name, sizeof(name), "%s.%s%s", kind, prefix, *part);
        fn(f, name, at);
        st = st_find(f, name);
        at += (st->end - st->begin) / 4;
    }
    assert_int_equal(at - base, t->offset + t->count);
}

static void visit_all(struct model_run *r, struct st_file *f, const char *kind,
                      float **bases, visit_fn *fn)
{
    char prefix[64];

    for (int u = 0; u < r->units; u++)
        for (int i = 0; i < r->layout[u].n; i++) {
            const struct unit_tensor *t = &r->layout[u].tensor[i];

            snprintf(prefix, sizeof(prefix), "model.layers.%d.", u - 1);
            visit(f, kind,
                  r->layout[u].kind == UNIT_LAYER          ? prefix
                  : strcmp(t->name, "lm_head.weight") == 0 ? ""
                                                           : "model.",
                  t, bases[u], fn);
        }
}

static void load(struct st_file *f, const char *name, float *ours)
{
    int64_t n;
    float *p = read_tensor(f, name, &n);

    memcpy(ours, p, (size_t)n * sizeof(float));
    free(p);
}

static void check(struct st_file *f, const char *name, float *ours)
{
    int64_t n;
    float *p = read_tensor(f, name, &n);

    compare(name, ours, p, n);
    free(p);
}

static int load_batch(struct model_run *r, struct st_file *f, int boundary)
{
    int64_t n;
    int32_t *tokens = read_tensor(f, "tokens", &n);
    int32_t *targets = read_tensor(f, "targets", &n);
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
    float *logits = malloc(sizeof(float) * T * (size_t)shape.vocab), *want;
    int64_t n;

    want = read_tensor(f, "logits", &n);
    assert_int_equal(n, T * shape.vocab);
    r->c.ops->rmsnorm_fwd(r->c.dev, r->c.work.norm, r->c.work.rstd, r->x,
                          r->param[r->units - 1], (float)shape.norm_eps, T,
                          shape.hidden);
    r->c.ops->linear_fwd(r->c.dev, logits, r->c.work.norm, table, NULL, T, shape.vocab,
                         shape.hidden);
    compare("logits", logits, want, n);
    free(logits);
    free(want);
}

static void golden(const char *file, enum ac_mode ac, int tied, int chunk)
{
    struct err err = ERR_INIT;
    struct model m = shape;
    struct model_run r;
    struct st_file *f;
    int counted;
    int64_t n;
    float *want, got;

    m.tied = tied;
    assert_ok(st_open(file, &f, &err), &err);
    model_run_open(&r, &m, ac, B, S, chunk, 2);
    counted = load_batch(&r, f, (int)strtol(st_meta(f, "boundary"), NULL, 10));
    visit_all(&r, f, "weight", r.param, load);
    got = model_run_step(&r, 1.0f / (float)counted) / (float)counted;
    want = read_tensor(f, "loss", &n);
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
    golden("tests/golden/qwen3_moe_untied.safetensors", AC_NONE, 0, 48);
}

/* Case F16: one table, its gradient the sum of both uses; the file has no lm_head. */
static void test_tied(void **state)
{
    (void)state;
    golden("tests/golden/qwen3_moe_tied.safetensors", AC_SELECTIVE, 1, 17);
}

static void test_document_mask(void **state)
{
    (void)state;
    golden("tests/golden/qwen3_moe_masked.safetensors", AC_FULL, 0, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_untied),
        cmocka_unit_test(test_tied),
        cmocka_unit_test(test_document_mask),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
