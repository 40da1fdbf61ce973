/* Whole models: layout, memory, finite differences, and that checkpointing, threads
 * and chunks change nothing. */
#include "grad_check.h"

enum { B = 2, S = 11, T = B * S, CHUNK = 9 };

/* Odd sizes everywhere; a shared expert; weights scaled. */
static const struct model odd = { .layers = 2,
                                  .hidden = 20,
                                  .heads = 4,
                                  .kv_heads = 2,
                                  .head_dim = 6,
                                  .experts = 5,
                                  .top_k = 2,
                                  .expert_ffn = 7,
                                  .shared_ffn = 9,
                                  .vocab = 23,
                                  .renormalise = 1,
                                  .rope_theta = 1e4,
                                  .norm_eps = 1e-6,
                                  .route_scale = 1.5,
                                  .init_std = 0.02 };

static void open_odd(struct model_run *r, enum ac_mode ac, int tied, int threads,
                     int chunk)
{
    struct model m = odd;

    m.tied = tied;
    model_run_open(r, &m, ac, B, S, chunk, threads);
    model_run_fill(r, 5, 0.3f);
    r->bias = run_alloc(r, sizeof(float) * (size_t)m.experts);
    r->bias[3] = 0.2f;
    r->targets[4] = -1;
    for (int t = 0; t < T; t++) { /* documents of 4 and 7 tokens */
        r->doc_start[t] = t % S < 4 ? 0 : 4;
        r->pos[t] = t % S - r->doc_start[t];
    }
    r->b.doc_start = r->doc_start;
}

/* --- layout --------------------------------------------------------------------- */
static void check_layout(const struct model *m)
{
    int64_t total = 0;

    for (int u = 0; u < m->layers + 2; u++) {
        enum unit_kind kind = u == 0               ? UNIT_EMBED
                              : u == m->layers + 1 ? UNIT_HEAD
                                                   : UNIT_LAYER;

        for (int shard = 1; shard <= 12; shard += 11) {
            struct unit_layout l;
            int64_t end = 0;

            unit_layout(m, kind, shard, &l);
            for (int i = 0; i < l.n; i++) {
                int64_t count = 1;

                for (int j = 0; j < l.tensor[i].dims; j++)
                    count *= l.tensor[i].shape[j];
                assert_int_equal(count, l.tensor[i].count);
                assert_int_equal(l.tensor[i].offset % 128, 0);
                assert_in_range(l.tensor[i].offset - end, 0, 127);
                end = l.tensor[i].offset + l.tensor[i].count;
                total += shard == 1 ? count : 0;
            }
            assert_in_range(l.count - end, 0, 127);
            assert_int_equal(l.padded % (128 * shard), 0);
            assert_in_range(l.padded - l.count, 0, 128 * shard - 1);
        }
    }
    assert_int_equal(total, model_params_total(m));
}

static void test_layout(void **state)
{
    struct err err = ERR_INIT;
    struct model m = odd;
    struct unit_layout l;

    (void)state;
    check_layout(&m);
    m.tied = 1;
    check_layout(&m);
    unit_layout(&m, UNIT_HEAD, 1, &l);
    assert_null(unit_find(&l, "lm_head.weight")); /* case F16: one storage */
    assert_ok(model_preset("qwen3-30b-a3b", &m, &err), &err);
    check_layout(&m); /* 30,532,122,624 parameters in 64-bit offsets */
    unit_layout(&m, UNIT_LAYER, 8, &l);
    assert_int_equal(unit_find(&l, "mlp.experts.w13")->shape[1], 2 * 768);
    assert_true(unit_find(&l, "input_layernorm.weight")->init_std == 0);
    assert_near("o_proj std", 0, unit_find(&l, "self_attn.o_proj.weight")->init_std,
                0.02 / sqrt(96), 1e-9);
}

/* --- memory ----------------------------------------------------------------------- */
struct span {
    char *at;
    size_t bytes;
};

static int by_place(const void *a, const void *b)
{
    const struct span *x = a, *y = b;

    return (x->at > y->at) - (x->at < y->at);
}

/* The spans fill [base, base + bytes) but for rounding to 256. */
static void check_spans(struct span *span, int n, char *base, size_t bytes)
{
    char *at = base;

    qsort(span, (size_t)n, sizeof(*span), by_place);
    for (int i = 0; i < n; i++) {
        assert_ptr_equal(span[i].at, at);
        at += (span[i].bytes + 255) / 256 * 256;
    }
    assert_int_equal(at - base, bytes);
}

static int saved_spans(const struct saved *s, struct span *out)
{
    const struct model *m = &odd;
    size_t R = T * (size_t)m->top_k, E = (size_t)m->experts, f = 4;
    const struct span all[] = {
        { s->x, f * T * (size_t)m->hidden },
        { s->qkv, f * T * (size_t)model_qkv_dim(m) },
        { s->attn, f * T * 24 },
        { (char *)s->lse, f * T * 4 },
        { s->mid, f * T * (size_t)m->hidden },
        { (char *)s->rstd1, f * T },
        { (char *)s->rstd2, f * T },
        { (char *)s->logits, f * T * E },
        { (char *)s->route.expert, f * R },
        { (char *)s->route.weight, f * R },
        { (char *)s->route.count, f * E },
        { (char *)s->route.offset, f * (E + 1) },
        { (char *)s->route.token, f * R },
        { (char *)s->route.row, f * R },
        { s->h, f * R * 14 },
        { s->hs, f * T * 18 },
    };
    int n = 0;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i].at)
            out[n++] = all[i];
    return n;
}

static void test_saved_is_exact(void **state)
{
    size_t all = saved_bytes(&odd, &ops_cpu, AC_NONE, B, S);

    (void)state;
    for (enum ac_mode ac = AC_NONE; ac <= AC_FULL; ac++) {
        size_t kept = saved_bytes(&odd, &ops_cpu, ac, B, S);
        size_t again = recompute_bytes(&odd, &ops_cpu, ac, B, S);
        char *a = malloc(kept), *b = malloc(again + 1);
        struct saved s = { 0 };
        struct span span[32];

        assert_int_equal(kept + again, all);
        saved_carve(&s, a, &odd, &ops_cpu, ac, B, S);
        check_spans(span, saved_spans(&s, span), a, kept);
        recompute_carve(&s, b, &odd, &ops_cpu, ac, B, S);
        assert_int_equal(saved_spans(&s, span), 16); /* each has a place now */
        memset(&s, 0, sizeof(s));
        recompute_carve(&s, b, &odd, &ops_cpu, ac, B, S);
        check_spans(span, saved_spans(&s, span), b, again);
        free(a);
        free(b);
    }
    assert_int_equal(saved_bytes(&odd, &ops_cpu, AC_FULL, B, S),
                     (T * 20 * 4 + 255) / 256 * 256);
}

/* The head's chunk of logits shares the place of what only layers use. */
static void test_work_is_exact(void **state)
{
    const struct model *m = &odd;
    struct work w;
    size_t T4 = T * sizeof(float), D = 20;

    (void)state;
    for (int big = 0; big < 2; big++) {
        struct model wide = *m;
        size_t bytes;
        char *base;

        wide.vocab = big ? 100000 : 23;
        bytes = work_bytes(&wide, &ops_cpu, B, S, CHUNK);
        base = malloc(bytes);
        work_carve(&w, base, &wide, &ops_cpu, B, S, CHUNK);
        {
            struct span head[] = { { w.norm, T4 * D },
                                   { w.dnorm, T4 * D },
                                   { (char *)w.rstd, T4 },
                                   { (char *)w.loss, T4 },
                                   { w.logits_chunk, 4 * CHUNK * (size_t)wide.vocab } };
            struct span layer[] = { head[0],
                                    head[1],
                                    head[2],
                                    head[3],
                                    { w.q, T4 * 24 },
                                    { w.k, T4 * 12 },
                                    { w.dq, T4 * 24 },
                                    { w.dk, T4 * 12 },
                                    { w.dqkv, T4 * 48 },
                                    { w.dattn, T4 * 24 },
                                    { (char *)w.dlogits, T4 * 5 },
                                    { (char *)w.dweight, T4 * 2 },
                                    { w.act_s, T4 * 9 },
                                    { w.dact_s, T4 * 9 },
                                    { w.dhs, T4 * 18 } };

            if (big)
                check_spans(head, 5, base, bytes);
            else
                check_spans(layer, 15, base, bytes);
            assert_ptr_equal(w.logits_chunk, w.q);
        }
        free(base);
    }
}

/* --- gradients --------------------------------------------------------------------- */
/* The mean loss in FP64, from the losses by token. */
static double model_loss(void *arg)
{
    struct model_run *r = arg;
    double sum = 0;

    model_run_loss(r);
    for (int t = 0; t < T; t++)
        sum += (double)r->c.work.loss[t];
    return sum * 0.25;
}

/* Every tensor of the model; the choice of experts is held, since it jumps. */
static void model_gradient(int tied)
{
    struct model_run r;
    int32_t *forced;

    open_odd(&r, AC_SELECTIVE, tied, 2, CHUNK);
    forced = run_alloc(&r, sizeof(int32_t) * T * (size_t)odd.top_k);
    for (int i = 0; i < T * odd.top_k; i++)
        forced[i] = (i / 2 + 2 * (i % 2)) % odd.experts;
    r.c.forced = forced;
    model_run_step(&r, 0.25f);
    for (int u = 0; u < r.units; u++)
        for (int i = 0; i < r.layout[u].n; i++) {
            const struct unit_tensor *t = &r.layout[u].tensor[i];

            check_grad(t->name, r.param[u] + t->offset, r.grad[u] + t->offset, t->count,
                       model_loss, &r);
        }
    model_run_close(&r);
}

static void test_model_gradient(void **state)
{
    (void)state;
    model_gradient(0);
    model_gradient(1); /* case F16: the table's gradient is the sum of both uses */
}

/* --- what must not matter -------------------------------------------------------------- */
static void assert_same_run(const struct model_run *a, const struct model_run *b)
{
    assert_true(a->loss_sum == b->loss_sum);
    for (int u = 0; u < a->units; u++)
        for (int64_t i = 0; i < a->layout[u].padded; i++)
            if (memcmp(&a->grad[u][i], &b->grad[u][i], sizeof(float)) != 0)
                fail_msg("unit %d, gradient %d: %.9g and %.9g", u, (int)i,
                         (double)a->grad[u][i], (double)b->grad[u][i]);
}

/* Bit for bit; case F11: recomputation routes as the forward pass did, F10: once. */
static void test_checkpointing_changes_nothing(void **state)
{
    struct model_run a, b;

    (void)state;
    open_odd(&a, AC_NONE, 0, 2, CHUNK);
    model_run_step(&a, 0.1f);
    for (enum ac_mode ac = AC_NONE; ac <= AC_FULL; ac++) {
        open_odd(&b, ac, 0, 2, CHUNK);
        model_run_step(&b, 0.1f);
        assert_same_run(&a, &b);
        model_run_step(&b, 0.1f); /* nothing is left over from the last step */
        assert_same_run(&a, &b);
        model_run_close(&b);
    }
    model_run_close(&a);
}

/* Large enough that every loop and product is cut into several units. */
static void test_threads_change_nothing(void **state)
{
    struct err err = ERR_INIT;
    struct model_run a, b;
    struct model m;

    (void)state;
    assert_ok(model_preset("demo", &m, &err), &err);
    m.layers = 1;
    model_run_open(&a, &m, AC_NONE, 2, 150, 100, 1);
    model_run_fill(&a, 3, 0.1f);
    model_run_step(&a, 0.01f);
    for (int threads = 2; threads <= 5; threads += 3) {
        model_run_open(&b, &m, AC_FULL, 2, 150, 100, threads);
        model_run_fill(&b, 3, 0.1f);
        model_run_step(&b, 0.01f);
        assert_same_run(&a, &b);
        model_run_close(&b);
    }
    model_run_close(&a);
}

static void test_chunks_agree(void **state)
{
    struct model_run a, b;

    (void)state;
    open_odd(&a, AC_NONE, 1, 1, T);
    model_run_step(&a, 1);
    for (int chunk = 0; chunk < T; chunk += 7) { /* 0: all at once */
        open_odd(&b, AC_NONE, 1, 1, chunk);
        model_run_step(&b, 1);
        assert_near("loss", chunk, (double)b.loss_sum, (double)a.loss_sum, 1e-4);
        for (int64_t i = 0; i < a.layout[0].count; i++)
            assert_near("gradient", i, (double)b.grad[0][i], (double)a.grad[0][i],
                        1e-4);
        model_run_close(&b);
    }
    model_run_close(&a);
}

/* Validation changes no gradient; a unit writes nothing between its tensors. */
static void test_nothing_else_is_written(void **state)
{
    struct model_run r;

    (void)state;
    open_odd(&r, AC_NONE, 0, 2, CHUNK);
    for (int u = 0; u < r.units; u++)
        for (int64_t i = 0; i < r.layout[u].padded; i++)
            r.grad[u][i] = 12345;
    model_run_loss(&r);
    assert_true(r.grad[0][0] == 12345 && r.grad[1][0] == 12345 &&
                r.grad[3][0] == 12345);
    model_run_step(&r, 1);
    for (int u = 1; u < r.units; u++)
        for (int i = 0; i < r.layout[u].n; i++) {
            const struct unit_tensor *t = &r.layout[u].tensor[i];
            int64_t next = i + 1 < r.layout[u].n ? t[1].offset : r.layout[u].padded;

            assert_true(r.grad[u][t->offset + t->count - 1] != 12345);
            for (int64_t j = t->offset + t->count; j < next; j++)
                assert_true(r.grad[u][j] == 12345);
        }
    model_run_close(&r);
}

/* Tied: the head adds to the table's gradient, and so does the embedding. */
static void test_tied_gradients_add(void **state)
{
    struct model_run r;
    float *once;
    size_t bytes;

    (void)state;
    open_odd(&r, AC_NONE, 1, 2, CHUNK);
    bytes = (size_t)r.layout[0].padded * sizeof(float);
    once = malloc(bytes);
    model_run_step(&r, 1);
    memcpy(once, r.grad[0], bytes);
    head_forward_backward(&r.c, &r.loss_sum, r.dx, r.grad[r.units - 1], r.x, &r.b,
                          r.param[r.units - 1], r.param[0], r.grad[0], 1, CHUNK);
    for (int u = r.units - 2; u > 0; u--)
        layer_backward(&r.c, r.dx, r.grad[u], &r.saved[u], &r.b, r.param[u], r.bias);
    embed_backward(&r.c, r.grad[0], r.dx, &r.b);
    for (int64_t i = 0; i < r.layout[0].count; i++)
        assert_near("table", i, (double)r.grad[0][i], 2 * (double)once[i], 1e-5);
    free(once);
    model_run_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_saved_is_exact),
        cmocka_unit_test(test_work_is_exact),
        cmocka_unit_test(test_model_gradient),
        cmocka_unit_test(test_checkpointing_changes_nothing),
        cmocka_unit_test(test_threads_change_nothing),
        cmocka_unit_test(test_chunks_agree),
        cmocka_unit_test(test_nothing_else_is_written),
        cmocka_unit_test(test_tied_gradients_add),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
