/* Steps of a whole trainer in a world of one, and the figures of many ranks. */
#include <math.h>
#include <unistd.h>

#include "base/mem.h"
#include "recipes/recipe.h"
#include "test.h"
#include "trainer/coll.h"
#include "trainer/data.h"
#include "trainer/fsdp.h"
#include "trainer/ops.h"
#include "trainer/trainer.h"

static char dir[64];

/* llm.c's format; many short documents, so that counts differ from row to row. */
static int make_data(void **state)
{
    int32_t header[256] = { 20240520, 1, 6000 };
    uint32_t x = 1;
    char *path;
    FILE *fp;

    (void)state;
    strcpy(dir, "/tmp/muster-trainer-XXXXXX");
    assert_non_null(mkdtemp(dir));
    path = xasprintf("%s/text.bin", dir);
    fp = fopen(path, "wb");
    assert_non_null(fp);
    assert_int_equal(fwrite(header, 4, 256, fp), 256);
    for (int i = 0; i < header[2]; i++) {
        uint16_t token;

        x = x * 1664525U + 1013904223U;
        token = (x >> 16) % 7 == 0 && i % 300 > 150 ? 256 : 97 + (x >> 20) % 20;
        assert_int_equal(fwrite(&token, 2, 1, fp), 1);
    }
    assert_int_equal(fclose(fp), 0);
    free(path);
    return 0;
}

static int drop_data(void **state)
{
    char *cmd = xasprintf("rm -rf %s", dir);
    int rc = system(cmd); /* NOLINT: a name this test made */

    (void)state;
    free(cmd);
    return rc;
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
    set(r, "data.eod_token", "256");
    set(r, "data.document_mask", "true");
    set(r, "training.seq_len", "32");
    set(r, "training.local_batch_size", "4");
    set(r, "training.global_batch_size", "4");
    set(r, "training.steps", "8");
    set(r, "optimizer.lr", "3e-3");
    free(path);
}

static void open_trainer(struct trainer *t, const struct recipe *r)
{
    struct trainer_options o = { .device = DEVICE_CPU, .threads = 1, .timeout_ms = -1 };
    struct err err = ERR_INIT;

    assert_ok(trainer_open(t, r, &o, &err), &err);
}

static void run(const struct recipe *r, int steps, struct step_metrics *out)
{
    struct err err = ERR_INIT;
    struct trainer t;

    open_trainer(&t, r);
    for (int i = 0; i < steps; i++) {
        int stop = 0;

        assert_ok(trainer_step(&t, &stop, &out[i], &err), &err);
        assert_int_equal(stop, 0);
    }
    assert_int_equal(t.arena.used, t.arena.bytes);
    trainer_close(&t);
}

static void near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance * fabs(want)))
        fail_msg("%.9g, wanted %.9g", got, want);
}

/* Case F08 in the whole program: rows of one batch have unlike numbers of
 * counted tokens, and four micro-batches of one row are that batch. */
static void test_accumulation(void **state)
{
    struct step_metrics whole[8], parts[8];
    struct recipe r;

    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        recipe_open(&r);
        r.model.tied = tied;
        run(&r, 8, whole);
        set(&r, "training.local_batch_size", "1");
        run(&r, 8, parts);
        for (int i = 0; i < 8; i++) {
            near(parts[i].loss, whole[i].loss, 1e-5);
            near(parts[i].grad_norm, whole[i].grad_norm, 1e-5);
        }
        assert_true(whole[7].loss < whole[0].loss);
        recipe_release(&r);
    }
}

/* Checkpointing and chunks of the loss change no bit; neither does a second run. */
static void test_same_bits(void **state)
{
    static const char *const changes[][2] = {
        { "activation_checkpoint.mode", "none" },
        { "activation_checkpoint.mode", "selective" },
        { "activation_checkpoint.mode", "full" },
        { "parallelism.reshard_after_forward", "false" },
    };
    struct step_metrics want[4], got[4];
    struct recipe r;

    (void)state;
    recipe_open(&r);
    run(&r, 4, want);
    recipe_release(&r);
    for (size_t c = 0; c < sizeof(changes) / sizeof(changes[0]); c++) {
        recipe_open(&r);
        set(&r, changes[c][0], changes[c][1]);
        run(&r, 4, got);
        for (int i = 0; i < 4; i++) {
            assert_memory_equal(&got[i].loss, &want[i].loss, sizeof(double));
            assert_memory_equal(&got[i].grad_norm, &want[i].grad_norm, sizeof(double));
            near(got[i].load_max_mean, want[i].load_max_mean, 1e-12);
        }
        recipe_release(&r);
    }
}

/* The bias moves once a step, also when layers run twice. */
static void test_bias_once(void **state)
{
    struct err err = ERR_INIT;
    struct step_metrics m;
    struct recipe r;
    struct trainer t;
    int stop = 0;

    (void)state;
    recipe_open(&r);
    set(&r, "activation_checkpoint.mode", "full");
    set(&r, "training.local_batch_size", "2"); /* two micro-batches */
    open_trainer(&t, &r);
    assert_ok(trainer_step(&t, &stop, &m, &err), &err);
    for (int layer = 0; layer < r.model.layers; layer++) {
        int64_t rows = 0;

        for (int e = 0; e < r.model.experts; e++) {
            rows += t.meter.rows[layer * r.model.experts + e];
            assert_true(fabsf(t.bias[layer * r.model.experts + e]) <
                        2.01F * (float)r.model.bias_update_rate);
        }
        assert_int_equal(rows, 4 * 32 * r.model.top_k);
    }
    trainer_close(&t);
    recipe_release(&r);
}

static void test_not_finite(void **state)
{
    struct err err = ERR_INIT;
    struct step_metrics m;
    struct recipe r;
    struct trainer t;
    float bad = NAN, before, after;
    int stop = 0;

    (void)state;
    recipe_open(&r);
    open_trainer(&t, &r);
    assert_ok(trainer_step(&t, &stop, &m, &err), &err);
    before = t.optim.master[100];
    t.ops->upload(t.dev, t.optim.master + units_shard_offset(&t.units, 2), &bad, 4);
    assert_err(trainer_step(&t, &stop, &m, &err), &err, ERR_FAILED,
               "step 2: the loss on rank 0 is not finite");
    after = t.optim.master[100];
    assert_memory_equal(&before, &after, sizeof(float)); /* nothing was updated */
    trainer_close(&t);
    recipe_release(&r);
}

static void test_validation(void **state)
{
    double first, again, later;
    struct err err = ERR_INIT;
    struct step_metrics m;
    struct recipe r;
    struct trainer t;
    int stop = 0;

    (void)state;
    recipe_open(&r);
    set(&r, "data.validation_fraction", "0.2");
    set(&r, "data.validation_interval", "4");
    set(&r, "data.validation_steps", "2");
    open_trainer(&t, &r);
    assert_ok(trainer_validate(&t, &first, &err), &err);
    assert_ok(trainer_validate(&t, &again, &err), &err);
    assert_memory_equal(&first, &again, sizeof(first));
    for (int i = 0; i < 8; i++)
        assert_ok(trainer_step(&t, &stop, &m, &err), &err);
    assert_ok(trainer_validate(&t, &later, &err), &err);
    assert_true(later < first);
    trainer_close(&t);
    set(&r, "training.local_batch_size", "1"); /* the same sequences, in parts */
    open_trainer(&t, &r);
    assert_ok(trainer_validate(&t, &again, &err), &err);
    near(again, first, 1e-6);
    trainer_close(&t);
    recipe_release(&r);
}

/* --- records of other ranks ----------------------------------------------------------- */
static const struct step_record *others;
static int n_others;

static int fake_gather(struct coll *c, struct coll_req **req, void *dst,
                       const void *src, int64_t n, enum coll_type t, struct err *err)
{
    (void)c, (void)src, (void)t, (void)err;
    *req = NULL;
    memcpy(dst, others, (size_t)n * (size_t)n_others);
    return 0;
}

static int fake_finish(struct coll *c, struct coll_req **req, struct err *err)
{
    (void)c, (void)req, (void)err;
    return 0;
}

static void totals_of(const struct step_record *records, int n, int shard,
                      struct step_totals *out)
{
    static const struct coll_ops fake = { .all_gather = fake_gather,
                                          .finish = fake_finish };
    struct err err = ERR_INIT;
    struct meter m = { .coll = &fake, .size = n, .shard = shard };
    struct model model;
    void *place;

    others = records;
    n_others = n;
    assert_ok(model_preset("tiny", &model, &err), &err);
    m.layers = model.layers;
    m.experts = model.experts;
    assert_ok(ops_find("cpu", &m.ops, &err), &err);
    assert_ok(m.ops->open(&m.dev, 0, 1, &err), &err);
    assert_ok(m.ops->alloc(m.dev, (size_t)meter_bytes(&model), &place, &err), &err);
    meter_carve(&m, place);
    meter_begin(&m);
    assert_ok(meter_finish(&m, NULL, 0, 0, 0, out, &err), &err);
    meter_release(&m);
    m.ops->free(m.dev, place);
    m.ops->close(m.dev);
}

/* Cases F08, F09: sums over sums, not means of means. */
static void test_token_weights(void **state)
{
    const struct step_record f08[] = { { .loss_sum = 6, .tokens = 3 },
                                       { .loss_sum = 4, .tokens = 1 } };
    const struct step_record f09[] = { { .loss_sum = 10, .tokens = 5 },
                                       { .loss_sum = 8, .tokens = 1 } };
    struct step_totals t;

    (void)state;
    totals_of(f08, 2, 1, &t);
    near(t.loss_sum / (double)t.tokens, 2.5, 1e-12);
    totals_of(f09, 2, 1, &t);
    near(t.loss_sum / (double)t.tokens, 3.0, 1e-12);
    assert_int_equal(t.stop, 0);
}

/* Shard degree 2, two replicas: the norm counts one replica, faults have a rank. */
static void test_totals(void **state)
{
    struct step_record r[] = { { .sumsq = 1, .tokens = 1 },
                               { .sumsq = 2, .tokens = 1 },
                               { .sumsq = 1, .tokens = 1, .stop = 1 },
                               { .sumsq = 2, .tokens = 1 } };
    struct step_totals t;

    (void)state;
    totals_of(r, 4, 2, &t);
    near(t.sumsq, 3, 1e-12);
    assert_int_equal(t.stop, 1);
    assert_int_equal(t.strayed, -1);
    assert_int_equal(t.bad_loss, -1);
    assert_int_equal(t.bad_grad, -1);
    r[3].sumsq = 2.0000001;
    totals_of(r, 4, 2, &t);
    assert_int_equal(t.strayed, 3);
    r[1].sumsq = INFINITY;
    r[2].loss_sum = NAN;
    totals_of(r, 4, 2, &t);
    assert_int_equal(t.bad_grad, 1);
    assert_int_equal(t.bad_loss, 2);
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(test_accumulation), cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_bias_once),    cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_validation),   cmocka_unit_test(test_token_weights),
        cmocka_unit_test(test_totals),
    };

    return cmocka_run_group_tests(t, make_data, drop_data);
}
