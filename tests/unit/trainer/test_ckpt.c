/* Checkpoints: complete or absent, any shard degree, damage has a name (F15). */
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "recipes/recipe.h"
#include "test.h"
#include "trainer/ckpt.h"
#include "trainer/coll.h"
#include "trainer/memplan.h"
#include "trainer/meter.h"
#include "trainer/ops.h"
#include "trainer/units.h"

/* One rank of a shard group, alone in its world: the pieces that a rank writes
 * and reads do not depend on the others. */
struct rank {
    struct recipe recipe;
    const struct ops *ops;
    struct dev *dev;
    const struct coll_ops *coll;
    struct units units;
    struct meter meter;
    void *place;
    struct ckpt ckpt;
};

static void rank_open(struct rank *k, int shard, int shard_rank)
{
    struct err err = ERR_INIT;
    struct model *m = &k->recipe.model;
    size_t bytes;

    memset(k, 0, sizeof(*k));
    recipe_init(&k->recipe);
    assert_ok(model_preset("tiny", m, &err), &err);
    k->recipe.training.global_batch_size = 4;
    k->recipe.checkpoint.keep = 2;
    assert_ok(ops_find("cpu", &k->ops, &err), &err);
    assert_ok(k->ops->open(&k->dev, 0, 1, &err), &err);
    assert_ok(coll_find(k->ops, 1, &k->coll, &err), &err);
    units_make(m, shard, &k->units);
    k->meter = (struct meter){ .ops = k->ops,
                               .dev = k->dev,
                               .coll = k->coll,
                               .size = 1,
                               .shard = 1,
                               .layers = m->layers,
                               .experts = m->experts };
    assert_ok(k->coll->open(&k->meter.world, NULL, k->ops, k->dev, 1000, &err), &err);
    assert_ok(k->ops->alloc(k->dev, (size_t)meter_bytes(m), &k->place, &err), &err);
    meter_carve(&k->meter, k->place);
    k->ckpt = (struct ckpt){ .ops = k->ops,
                             .dev = k->dev,
                             .units = &k->units,
                             .recipe = &k->recipe,
                             .meter = &k->meter,
                             .world = 1,
                             .shard_rank = shard_rank };
    bytes = (size_t)k->units.shard_count * sizeof(float);
    for (int i = 0; i < CKPT_KINDS; i++)
        k->ckpt.state[i] = calloc(1, bytes);
    k->ckpt.bias = calloc((size_t)m->layers * (size_t)m->experts, sizeof(float));
}

static void rank_close(struct rank *k)
{
    for (int i = 0; i < CKPT_KINDS; i++)
        free(k->ckpt.state[i]);
    free(k->ckpt.bias);
    meter_release(&k->meter);
    k->coll->close(k->meter.world);
    k->ops->free(k->dev, k->place);
    k->ops->close(k->dev);
    recipe_release(&k->recipe);
}

/* A number that tells unit, kind and element of the whole unit apart; pads are 0. */
static float value_of(const struct rank *k, int unit, int kind, int64_t i)
{
    if (i >= units_at(&k->units, unit)->count)
        return 0;
    return (float)(unit * 3 + kind) + (float)i * 1e-6F;
}

static void fill(struct rank *k)
{
    for (int unit = 0; unit < k->units.n; unit++) {
        int64_t part = units_part(&k->units, unit);

        for (int kind = 0; kind < CKPT_KINDS; kind++)
            for (int64_t i = 0; i < part; i++)
                k->ckpt.state[kind][units_shard_offset(&k->units, unit) + i] =
                    value_of(k, unit, kind, k->ckpt.shard_rank * part + i);
    }
    for (int i = 0; i < k->recipe.model.layers * k->recipe.model.experts; i++)
        k->ckpt.bias[i] = 0.1F * (float)i;
}

static void check(const struct rank *k)
{
    for (int unit = 0; unit < k->units.n; unit++) {
        int64_t part = units_part(&k->units, unit);

        for (int kind = 0; kind < CKPT_KINDS; kind++)
            for (int64_t i = 0; i < part; i++) {
                float got =
                    k->ckpt.state[kind][units_shard_offset(&k->units, unit) + i];

                if (got != value_of(k, unit, kind, k->ckpt.shard_rank * part + i))
                    fail_msg("unit %d kind %d element %lld: %g", unit, kind,
                             (long long)i, (double)got);
            }
    }
}

static char *folder(char *text)
{
    strcpy(text, "/tmp/muster-ckpt-XXXXXX");
    assert_non_null(mkdtemp(text));
    return text;
}

static void drop(const char *dir)
{
    char *cmd = xasprintf("rm -rf %s", dir);

    assert_int_equal(system(cmd), 0); /* NOLINT: a name this test made */
    free(cmd);
}

static void test_round_trip(void **state)
{
    struct ckpt_at at = { 12, 3456 }, got;
    struct err err = ERR_INIT;
    struct rank a, b;
    char text[64], *dir = folder(text), *where, *want;

    (void)state;
    rank_open(&a, 1, 0);
    fill(&a);
    assert_ok(ckpt_save(&a.ckpt, dir, &at, &err), &err);
    rank_open(&b, 1, 0);
    assert_ok(ckpt_load(&b.ckpt, dir, &got, &where, &err), &err);
    want = ckpt_dir_path(dir, 12);
    assert_string_equal(where, want);
    assert_int_equal(got.step, 12);
    assert_int_equal(got.tokens, 3456);
    check(&b);
    assert_memory_equal(a.ckpt.bias, b.ckpt.bias,
                        sizeof(float) * (size_t)a.recipe.model.layers *
                            (size_t)a.recipe.model.experts);
    free(want);
    free(where);
    rank_close(&a);
    rank_close(&b);
    drop(dir);
}

/* Written as `from` parts, read as `to`. */
static void reshard(int from, int to)
{
    struct err err = ERR_INIT;
    char text[64], *dir = folder(text);

    for (int r = 0; r < from; r++) {
        struct rank k;

        rank_open(&k, from, r);
        fill(&k);
        assert_ok(ckpt_shard_write(&k.ckpt, dir, &err), &err);
        rank_close(&k);
    }
    for (int r = 0; r < to; r++) {
        struct rank k;

        rank_open(&k, to, r);
        for (int p = 0; p < from; p++)
            assert_ok(ckpt_shard_read(&k.ckpt, dir, p, from, &err), &err);
        check(&k);
        rank_close(&k);
    }
    drop(dir);
}

static void test_reshard(void **state)
{
    (void)state;
    reshard(4, 1);
    reshard(1, 4);
    reshard(2, 3);
    reshard(3, 2);
}

static void save_steps(struct rank *k, const char *dir, int64_t from, int64_t to)
{
    struct err err = ERR_INIT;

    for (int64_t s = from; s <= to; s++)
        assert_ok(ckpt_save(&k->ckpt, dir, &(struct ckpt_at){ s, 0 }, &err), &err);
}

static void test_keep_and_newest(void **state)
{
    struct err err = ERR_INIT;
    struct ckpt_at got;
    struct rank k;
    char text[64], *dir = folder(text), *where, *path;
    int64_t *steps;

    (void)state;
    rank_open(&k, 1, 0);
    path = xasprintf("%s/step-00000003.tmp", dir); /* a save that was cut off */
    assert_int_equal(mkdir(path, 0777), 0);
    save_steps(&k, dir, 8, 10);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(ckpt_dir_list(dir, &steps), 2);
    assert_int_equal(steps[0], 9);
    assert_int_equal(steps[1], 10);
    free(steps);
    free(path);
    save_steps(&k, dir, 10, 10); /* over itself */
    path = xasprintf("%s/step-00000010/complete", dir);
    assert_int_equal(unlink(path), 0);
    assert_ok(ckpt_load(&k.ckpt, dir, &got, &where, &err), &err);
    assert_int_equal(got.step, 9);
    free(where);
    free(path);
    path = ckpt_dir_path(dir, 10);
    assert_err(ckpt_load(&k.ckpt, path, &got, &where, &err), &err, ERR_USAGE,
               "not complete");
    free(path);
    path = xasprintf("%s/none", dir);
    assert_err(ckpt_load(&k.ckpt, path, &got, &where, &err), &err, ERR_MISSING,
               "no complete checkpoint");
    free(path);
    rank_close(&k);
    drop(dir);
}

static void flip(const char *path, long at)
{
    FILE *fp = fopen(path, "r+b");
    int c;

    assert_non_null(fp);
    assert_int_equal(fseek(fp, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    c = fgetc(fp);
    assert_int_equal(fseek(fp, -1, SEEK_CUR), 0);
    assert_int_not_equal(fputc(c ^ 1, fp), EOF);
    assert_int_equal(fclose(fp), 0);
}

static void test_damage(void **state)
{
    struct err err = ERR_INIT;
    struct ckpt_at got;
    struct rank k;
    char text[64], *dir = folder(text), *where, *one, *file;

    (void)state;
    rank_open(&k, 1, 0);
    fill(&k);
    save_steps(&k, dir, 5, 5);
    one = ckpt_dir_path(dir, 5);
    file = ckpt_shard_path(one, 0, 1);
    flip(file, -100000);
    assert_err(ckpt_load(&k.ckpt, dir, &got, &where, &err), &err, ERR_USAGE,
               "shard-00000-of-00001.safetensors: ");
    flip(file, -100000);
    assert_int_equal(truncate(file, 50000), 0);
    assert_err(ckpt_load(&k.ckpt, dir, &got, &where, &err), &err, ERR_USAGE,
               "shard-00000-of-00001.safetensors");
    assert_int_equal(unlink(file), 0);
    assert_err(ckpt_load(&k.ckpt, dir, &got, &where, &err), &err, ERR_MISSING,
               "shard-00000-of-00001.safetensors");
    free(file);
    file = xasprintf("%s/index.json", one);
    flip(file, 60);
    assert_err(ckpt_load(&k.ckpt, dir, &got, &where, &err), &err, ERR_USAGE,
               "index.json");
    free(file);
    free(one);
    rank_close(&k);
    drop(dir);
}

static void test_another_run(void **state)
{
    struct err err = ERR_INIT;
    struct ckpt_at got;
    struct rank k;
    char text[64], *dir = folder(text), *where;

    (void)state;
    rank_open(&k, 1, 0);
    save_steps(&k, dir, 5, 5);
    k.recipe.training.global_batch_size = 8;
    assert_err(ckpt_load(&k.ckpt, dir, &got, &where, &err), &err, ERR_USAGE,
               "training.global_batch_size 4");
    k.recipe.training.global_batch_size = 4;
    k.recipe.training.seed = 9;
    assert_err(ckpt_load(&k.ckpt, dir, &got, &where, &err), &err, ERR_USAGE,
               "training.seed");
    k.recipe.training.seed = 0;
    k.recipe.model.top_k = 1;
    assert_err(ckpt_load(&k.ckpt, dir, &got, &where, &err), &err, ERR_USAGE,
               "model.top_k 2");
    rank_close(&k);
    drop(dir);
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(test_round_trip),      cmocka_unit_test(test_reshard),
        cmocka_unit_test(test_keep_and_newest), cmocka_unit_test(test_damage),
        cmocka_unit_test(test_another_run),
    };

    return cmocka_run_group_tests(t, NULL, NULL);
}
