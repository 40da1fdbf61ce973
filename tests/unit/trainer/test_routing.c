/* Rows of each expert: recorded, scaled, given to the trainer. */
#include <math.h>
#include <unistd.h>

#include "base/mem.h"
#include "recipes/recipe.h"
#include "test.h"
#include "trainer/balance.h"
#include "trainer/ops.h"
#include "trainer/routing.h"
#include "trainer/safetensors.h"
#include "trainer/trainer.h"

static char dir[64];

static int make_folder(void **state)
{
    int32_t header[256] = { 20240520, 1, 6000 };
    char *path;
    FILE *fp;

    (void)state;
    strcpy(dir, "/tmp/muster-routing-XXXXXX");
    assert_non_null(mkdtemp(dir));
    path = xasprintf("%s/text.bin", dir);
    fp = fopen(path, "wb");
    assert_non_null(fp);
    assert_int_equal(fwrite(header, 4, 256, fp), 256);
    for (uint32_t i = 0, x = 1; i < 6000; i++) {
        uint16_t token = 97 + (x >> 20) % 20;

        x = x * 1664525U + 1013904223U;
        assert_int_equal(fwrite(&token, 2, 1, fp), 1);
    }
    assert_int_equal(fclose(fp), 0);
    free(path);
    return 0;
}

static int drop_folder(void **state)
{
    char *cmd = xasprintf("rm -rf %s", dir);
    int rc = system(cmd); /* NOLINT: a name this test made */

    (void)state;
    free(cmd);
    return rc;
}

static void scaled(const int32_t *in, int n, int64_t total, int64_t most,
                   const int32_t *want)
{
    int32_t out[8];

    routing_scale(in, n, total, most, out);
    for (int i = 0; i < n; i++)
        if (out[i] != want[i])
            fail_msg("expert %d: %d rows, wanted %d", i, out[i], want[i]);
}

static void test_scale(void **state)
{
    (void)state;
    scaled((int32_t[]){ 10, 20, 30 }, 3, 60, 60, (int32_t[]){ 10, 20, 30 });
    scaled((int32_t[]){ 10, 20, 30 }, 3, 6, 6, (int32_t[]){ 1, 2, 3 });
    /* 7/3 each: what is left goes to the first of equals */
    scaled((int32_t[]){ 5, 5, 5 }, 3, 7, 7, (int32_t[]){ 3, 2, 2 });
    /* 0.25, 1.0, 2.75: the largest remainder */
    scaled((int32_t[]){ 1, 4, 11 }, 3, 4, 4, (int32_t[]){ 0, 1, 3 });
    scaled((int32_t[]){ 0, 0, 9 }, 3, 3, 3, (int32_t[]){ 0, 0, 3 });
    /* none above `most` */
    scaled((int32_t[]){ 0, 1, 9 }, 3, 8, 4, (int32_t[]){ 3, 1, 4 });
}

static void set(struct recipe *r, const char *key, const char *text)
{
    struct err err = ERR_INIT;

    assert_ok(recipe_set(r, key, text, &err), &err);
}

static void recipe_open(struct recipe *r)
{
    struct err err = ERR_INIT;
    char *path = xasprintf("[%s/text.bin]", dir);

    recipe_init(r);
    assert_ok(model_preset("tiny", &r->model, &err), &err);
    set(r, "data.path", path);
    set(r, "training.seq_len", "32");
    set(r, "training.local_batch_size", "2");
    set(r, "training.global_batch_size", "4"); /* two micro-batches */
    set(r, "training.steps", "6");
    free(path);
}

/* Rows that a trainer could have recorded: `tokens` x K in each layer, uneven. */
static void record(struct routing_counts *c, const struct model *m, int steps,
                   int64_t tokens)
{
    int32_t *rows = xcalloc((size_t)m->layers * (size_t)m->experts, sizeof(*rows));

    *c = (struct routing_counts){
        .layers = m->layers, .experts = m->experts, .top_k = m->top_k, .tokens = tokens
    };
    for (int s = 0; s < steps; s++) {
        for (int l = 0; l < m->layers; l++) {
            int32_t shares[64];

            for (int e = 0; e < m->experts; e++)
                shares[e] = 1 + (e * 7 + l * 3 + s) % 5;
            routing_scale(shares, m->experts, tokens * m->top_k, tokens,
                          rows + (size_t)l * (size_t)m->experts);
        }
        routing_add(c, rows);
    }
    free(rows);
}

static void round_trip(int64_t tokens, enum st_type type)
{
    char *path = xasprintf("%s/counts.safetensors", dir);
    struct routing_counts want, got;
    struct err err = ERR_INIT;
    struct st_file *f;
    struct recipe r;

    recipe_open(&r);
    record(&want, &r.model, 3, tokens);
    assert_ok(routing_save(path, &want, &r, &err), &err);
    assert_ok(st_open(path, &f, &err), &err);
    assert_int_equal(st_find(f, "counts")->type, type);
    assert_string_equal(st_meta(f, "debug.moe_routing"), "natural");
    st_close(f);
    assert_ok(routing_load(path, &got, &err), &err);
    assert_int_equal(got.steps, 3);
    assert_int_equal(got.layers, want.layers);
    assert_int_equal(got.experts, want.experts);
    assert_int_equal(got.top_k, want.top_k);
    assert_int_equal(got.tokens, tokens);
    assert_memory_equal(got.rows, want.rows,
                        sizeof(int32_t) * 3 * (size_t)(want.layers * want.experts));
    routing_counts_release(&got);
    routing_counts_release(&want);
    recipe_release(&r);
    free(path);
}

static void test_recording(void **state)
{
    (void)state;
    round_trip(128, ST_U16);
    round_trip(1000000, ST_I32);
}

static void test_bad_recordings(void **state)
{
    char *path = xasprintf("%s/bad.safetensors", dir);
    struct routing_counts c, got;
    struct err err = ERR_INIT;
    struct recipe r;
    FILE *fp;

    (void)state;
    recipe_open(&r);
    assert_err(routing_load("/no/such/file", &got, &err), &err, ERR_MISSING,
               "/no/such/file");
    fp = fopen(path, "w");
    assert_non_null(fp);
    fputs("8 numbers and no header", fp);
    fclose(fp);
    assert_err(routing_load(path, &got, &err), &err, ERR_USAGE, "bad.safetensors");
    record(&c, &r.model, 0, 128);
    assert_ok(routing_save(path, &c, &r, &err), &err);
    assert_err(routing_load(path, &got, &err), &err, ERR_USAGE, "counts are empty");
    record(&c, &r.model, 2, 128);
    c.rows[c.layers * c.experts]++;
    assert_ok(routing_save(path, &c, &r, &err), &err);
    assert_err(routing_load(path, &got, &err), &err, ERR_USAGE,
               "step 1, layer 0 holds");
    c.rows[0] = 129;
    assert_ok(routing_save(path, &c, &r, &err), &err);
    assert_err(routing_load(path, &got, &err), &err, ERR_USAGE,
               "expert 0 has 129 rows of 128 tokens");
    routing_counts_release(&c);
    /* another shape of model */
    record(&c, &r.model, 1, 128);
    assert_ok(routing_save(path, &c, &r, &err), &err);
    set(&r, "debug.moe_routing", "replay");
    set(&r, "debug.moe_counts", path);
    r.model.top_k--;
    assert_err(routing_open(&(struct routing){ 0 }, &r, &ops_cpu, NULL, NULL, &err),
               &err, ERR_USAGE, "the model has");
    routing_counts_release(&c);
    recipe_release(&r);
    free(path);
}

/* Exactly the rows, and no expert twice for a token. */
static void spread_once(const int32_t *rows, int T, int E, int K, int64_t mul,
                        int64_t add)
{
    int32_t offset[65] = { 0 }, got[64] = { 0 };
    int32_t *expert = xcalloc((size_t)T * (size_t)K + 1, sizeof(*expert));

    for (int e = 0; e < E; e++)
        offset[e + 1] = offset[e] + rows[e];
    assert_int_equal(offset[E], T * K);
    ops_cpu.spread(NULL, expert, offset, mul, add, T, E, K);
    for (int i = 0; i < T * K; i++) {
        got[expert[i]]++;
        for (int j = i / K * K; j < i; j++)
            assert_int_not_equal(expert[i], expert[j]);
    }
    assert_memory_equal(got, rows, sizeof(int32_t) * (size_t)E);
    free(expert);
}

static void test_spread(void **state)
{
    (void)state;
    spread_once((int32_t[]){ 5, 5, 5, 5 }, 10, 4, 2, 3, 0);
    spread_once((int32_t[]){ 0, 10, 0, 3, 7, 0 }, 10, 6, 2, 7, 9);
    spread_once((int32_t[]){ 10, 10, 0 }, 10, 3, 2, 1, 4);
    spread_once((int32_t[]){ 0, 1, 1 }, 1, 3, 2, 1, 0);
    spread_once((int32_t[]){ 0, 0, 0 }, 0, 3, 2, 1, 0);
    spread_once((int32_t[]){ 64, 1, 63, 40, 24 }, 64, 5, 3, 39, 17);
}

static void run_step(struct trainer *t, struct step_metrics *m)
{
    struct err err = ERR_INIT;
    int stop = 0;

    assert_ok(trainer_step(t, &stop, m, &err), &err);
}

static void open_trainer(struct trainer *t, const struct recipe *r)
{
    struct trainer_options o = { .device = DEVICE_CPU, .threads = 1, .timeout_ms = -1 };
    struct err err = ERR_INIT;

    assert_ok(trainer_open(t, r, &o, &err), &err);
}

/* A trainer's rows are the recorded ones, step by step, also where layers run twice. */
static void test_replay(void **state)
{
    char *path = xasprintf("%s/replay.safetensors", dir);
    struct routing_counts c;
    struct err err = ERR_INIT;
    struct step_metrics m;
    struct recipe r;
    struct trainer t;

    (void)state;
    recipe_open(&r);
    record(&c, &r.model, 3, 128); /* the tokens of a step: nothing to scale */
    assert_ok(routing_save(path, &c, &r, &err), &err);
    set(&r, "debug.moe_routing", "replay");
    set(&r, "debug.moe_counts", path);
    set(&r, "activation_checkpoint.mode", "full");
    open_trainer(&t, &r);
    for (int step = 0; step < 6; step++) {
        int64_t cells = (int64_t)c.layers * c.experts;
        const int32_t *want = c.rows + step / 2 * cells; /* 6 steps over 3 */

        run_step(&t, &m);
        assert_string_equal(m.routing, "replay");
        for (int64_t i = 0; i < cells; i++) /* two micro-batches, rounded each */
            if (abs(t.meter.rows[i] - want[i]) > 1)
                fail_msg("step %d: %d rows, recorded %d", step, t.meter.rows[i],
                         want[i]);
    }
    assert_int_equal(t.arena.used, t.arena.bytes);
    trainer_close(&t);
    routing_counts_release(&c);
    recipe_release(&r);
    free(path);
}

static double load_of(const char *kind)
{
    struct step_metrics m;
    struct recipe r;
    struct trainer t;

    recipe_open(&r);
    set(&r, "debug.moe_routing", kind);
    open_trainer(&t, &r);
    run_step(&t, &m);
    assert_string_equal(m.routing, kind);
    trainer_close(&t);
    recipe_release(&r);
    return m.load_max_mean;
}

/* tiny has too few experts for 10 times the mean: every token's then. */
static void test_made_up(void **state)
{
    struct model m;
    struct err err = ERR_INIT;
    double natural;

    (void)state;
    assert_ok(model_preset("tiny", &m, &err), &err);
    natural = load_of("natural");
    assert_true(natural > 1.05);
    assert_true(fabs(load_of("balanced") - 1) < 1e-9);
    assert_true(fabs(load_of("skewed") - fmin(10, (double)m.experts / m.top_k)) < 0.01);
}

static void test_skew_of_ten(void **state)
{
    struct routing t;
    struct err err = ERR_INIT;
    struct recipe r;
    int32_t rows[128], device[200];
    struct dev *d;
    char *text;

    (void)state;
    recipe_open(&r);
    r.model.layers = 1;
    r.model.experts = 128;
    r.model.top_k = 8;
    set(&r, "debug.moe_routing", "skewed");
    assert_ok(ops_cpu.open(&d, 0, 1, &err), &err);
    assert_true(routing_bytes(&r) <= (int64_t)sizeof(device));
    assert_ok(routing_open(&t, &r, &ops_cpu, d, device, &err), &err);
    for (int e = 0; e < 128; e++)
        rows[e] = device[e + 1] - device[e];
    assert_int_equal(device[128], 64 * 8);
    assert_true(fabs(balance_load(rows, 1, 128) - 10) < 0.01);
    text = routing_describe(&t, &r);
    assert_non_null(strstr(text, "max:mean 10.00"));
    free(text);
    routing_release(&t);
    ops_cpu.close(d);
    recipe_release(&r);
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(test_scale),       cmocka_unit_test(test_recording),
        cmocka_unit_test(test_spread),      cmocka_unit_test(test_bad_recordings),
        cmocka_unit_test(test_replay),      cmocka_unit_test(test_made_up),
        cmocka_unit_test(test_skew_of_ten),
    };

    return cmocka_run_group_tests(t, make_folder, drop_folder);
}
