/* muster ckpt's eyes: what a checkpoint says of itself, and every kind of damage
 * by its name. */
#include "test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "recipes/recipe.h"
#include "trainer/ckpt.h"
#include "trainer/ckpt_verify.h"
#include "trainer/ops.h"
#include "trainer/units.h"

static char top[] = "/tmp/muster-ckptv-XXXXXX";

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(top) ? 0 : -1;
}

static int remove_dir(void **state)
{
    char *command = xasprintf("rm -rf %s", top);
    int rc = system(command); /* NOLINT: our own folder */

    (void)state;
    free(command);
    return rc;
}

/* One rank's part, every number different. */
static void write_shard(struct ckpt *c, const struct model *m, int shard, int rank,
                        const char *tmp)
{
    struct err err = ERR_INIT;
    struct units units;

    units_make(m, shard, &units);
    c->units = &units;
    c->world = shard;
    c->shard_rank = rank;
    for (int k = 0; k < CKPT_KINDS; k++) {
        c->state[k] = xcalloc((size_t)units.shard_count, sizeof(float));
        for (int64_t i = 0; i < units.shard_count; i++)
            c->state[k][i] = (float)(k * 7 + rank) + (float)i * 1e-5F;
    }
    assert_ok(ckpt_shard_write(c, tmp, &err), &err);
    for (int k = 0; k < CKPT_KINDS; k++)
        free(c->state[k]);
}

static void write_index(const struct ckpt *c, const char *tmp, int64_t step,
                        int64_t *checksum)
{
    struct js *index = ckpt_index_make(c, &(struct ckpt_at){ step, step * 100 });
    char *text = js_line(index), *path = xasprintf("%s/index.json", tmp);
    FILE *fp = fopen(path, "w");

    assert_non_null(fp);
    fputs(text, fp);
    fclose(fp);
    *checksum = ckpt_checksum(text, (int64_t)strlen(text));
    free(path);
    free(text);
    js_free(index);
}

/* TOP/step-N of the tiny model in `shard` parts; the caller's to free(). */
static char *write_checkpoint(int64_t step, int shard)
{
    char *dir = ckpt_dir_path(top, step), *tmp = xasprintf("%s.tmp", dir);
    struct err err = ERR_INIT;
    struct ckpt c = { 0 };
    struct units units;
    struct recipe r;
    int64_t checksum;

    recipe_init(&r);
    assert_ok(model_preset("tiny", &r.model, &err), &err);
    c.recipe = &r;
    c.bias = xcalloc((size_t)r.model.layers * (size_t)r.model.experts, sizeof(float));
    assert_ok(ops_find("cpu", &c.ops, &err), &err);
    assert_ok(c.ops->open(&c.dev, 0, 1, &err), &err);
    assert_ok(ckpt_dir_begin(dir, &err), &err);
    for (int i = 0; i < shard; i++)
        write_shard(&c, &r.model, shard, i, tmp);
    units_make(&r.model, shard, &units);
    c.units = &units;
    write_index(&c, tmp, step, &checksum);
    assert_ok(ckpt_dir_publish(dir, checksum, &err), &err);
    c.ops->close(c.dev);
    free(c.bias);
    free(tmp);
    recipe_release(&r);
    return dir;
}

static void flip(const char *path, long at)
{
    FILE *fp = fopen(path, "r+b");
    int c;

    assert_non_null(fp);
    fseek(fp, at, at < 0 ? SEEK_END : SEEK_SET);
    c = fgetc(fp);
    fseek(fp, -1, SEEK_CUR);
    fputc(c ^ 4, fp);
    assert_int_equal(fclose(fp), 0);
}

static void test_sound(void **state)
{
    char *dir = write_checkpoint(3, 2);
    struct err err = ERR_INIT;
    struct ckpt_summary s;
    struct model m;

    (void)state;
    assert_ok(model_preset("tiny", &m, &err), &err);
    assert_ok(ckpt_inspect(dir, &s, &err), &err);
    assert_int_equal(s.step, 3);
    assert_int_equal(s.tokens, 300);
    assert_int_equal(s.shard, 2);
    assert_int_equal(s.layers, m.layers);
    assert_true(s.scalars >= model_params_total(&m));
    assert_true(s.bytes > s.scalars * 4 * CKPT_KINDS);
    assert_ok(ckpt_verify(dir, &s, &err), &err);
    ckpt_summary_release(&s);
    free(dir);
}

static void refuse(const char *dir, enum err_code code, const char *says)
{
    struct err err = ERR_INIT;
    struct ckpt_summary s;

    assert_ok(ckpt_inspect(dir, &s, &err), &err);
    assert_err(ckpt_verify(dir, &s, &err), &err, code, says);
    ckpt_summary_release(&s);
}

static void test_damaged_shards(void **state)
{
    char *dir = write_checkpoint(4, 2), *first = ckpt_shard_path(dir, 0, 2),
         *second = ckpt_shard_path(dir, 1, 2);
    struct err err = ERR_INIT;
    struct ckpt_summary s;
    struct stat st;

    (void)state;
    assert_int_equal(stat(second, &st), 0);
    flip(second, -1); /* the last number of the head */
    refuse(dir, ERR_USAGE,
           "shard-00001-of-00002.safetensors: head.exp_avg_sq is damaged: the checksum "
           "of block 0");
    flip(second, -1);
    flip(first, 3); /* the length of the header */
    refuse(dir, ERR_USAGE, "shard-00000-of-00002.safetensors: header");
    flip(second, -1); /* two problems: both are listed */
    assert_ok(ckpt_inspect(dir, &s, &err), &err);
    assert_int_equal(ckpt_verify(dir, &s, &err), -1);
    assert_non_null(strstr(err_text(&err), "shard-00000"));
    assert_non_null(strstr(err_text(&err), "shard-00001"));
    err_release(&err);
    ckpt_summary_release(&s);
    flip(first, 3);
    flip(second, -1);
    assert_int_equal(truncate(second, st.st_size - 1), 0);
    refuse(dir, ERR_USAGE,
           "shard-00001-of-00002.safetensors: tensor 'head.exp_avg_sq'");
    assert_int_equal(truncate(second, st.st_size / 2), 0);
    refuse(dir, ERR_USAGE, "it was cut short");
    unlink(second);
    refuse(dir, ERR_MISSING, "shard-00001-of-00002.safetensors: No such file");
    free(first);
    free(second);
    free(dir);
}

static void refuse_to_open(const char *dir, enum err_code code, const char *says)
{
    struct err err = ERR_INIT;
    struct ckpt_summary s;

    assert_err(ckpt_inspect(dir, &s, &err), &err, code, says);
}

static void test_damaged_index_and_marker(void **state)
{
    char *dir = write_checkpoint(5, 1), *index = xasprintf("%s/index.json", dir),
         *marker = xasprintf("%s/complete", dir);

    (void)state;
    flip(index, -4); /* in the recipe's text: still JSON */
    refuse_to_open(dir, ERR_USAGE, "index.json: damaged: its checksum");
    flip(index, -4);
    assert_int_equal(truncate(marker, 3), 0);
    refuse_to_open(dir, ERR_USAGE, "complete: no checksum of index.json");
    unlink(marker);
    refuse_to_open(dir, ERR_USAGE, "not complete (no file \"complete\" in it)");
    free(index);
    free(marker);
    free(dir);
}

/* A marker that fits an index which lies. */
static void put_index(const char *dir, const char *text)
{
    char *index = xasprintf("%s/index.json", dir),
         *marker = xasprintf("%s/complete", dir);
    FILE *fp = fopen(index, "w");

    assert_non_null(fp);
    fputs(text, fp);
    fclose(fp);
    fp = fopen(marker, "w");
    assert_non_null(fp);
    fprintf(fp, "%016llx\n",
            (unsigned long long)ckpt_checksum(text, (int64_t)strlen(text)));
    fclose(fp);
    free(index);
    free(marker);
}

static void test_lying_index(void **state)
{
    static const char *const texts[] = {
        "{}",
        "[]",
        "{\"step\":1,\"tokens\":1,\"world\":1,\"shard\":1,\"model\":{\"layers\":1}}",
        "{\"step\":1,\"tokens\":1,\"world\":4,\"shard\":3,\"model\":{\"layers\":1},"
        "\"units\":{\"embed\":{\"padded\":8,\"count\":8},"
        "\"layer\":{\"padded\":9,\"count\":9},\"head\":{\"padded\":9,\"count\":9}}}",
        "{\"step\":1,\"tokens\":1,\"world\":1,\"shard\":0,\"model\":{\"layers\":1}}",
        "{\"step\":1,\"tokens\":1,\"world\":1,\"shard\":1,\"model\":{\"layers\":1000},"
        "\"units\":{\"embed\":{\"padded\":8,\"count\":8},"
        "\"layer\":{\"padded\":9,\"count\":9223372036854775807},"
        "\"head\":{\"padded\":9,\"count\":9}}}",
    };
    char *dir = write_checkpoint(6, 1);

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        put_index(dir, texts[i]);
        refuse_to_open(dir, ERR_USAGE, "index.json: not the index of a checkpoint");
    }
    put_index(dir, "{\"step\":1,");
    refuse_to_open(dir, ERR_USAGE, "not valid JSON");
    /* right in itself, but not what the shard holds */
    put_index(dir, "{\"step\":1,\"tokens\":1,\"world\":1,\"shard\":1,"
                   "\"model\":{\"layers\":900000},"
                   "\"units\":{\"embed\":{\"padded\":8,\"count\":8},"
                   "\"layer\":{\"padded\":9,\"count\":9},"
                   "\"head\":{\"padded\":9,\"count\":9}}}");
    refuse(dir, ERR_USAGE, "no embed.master of 8 elements");
    free(dir);
}

static void test_find(void **state)
{
    char *one = write_checkpoint(20, 1), *two = write_checkpoint(21, 1),
         *half = xasprintf("%s/step-00000022.tmp", top), *slash;
    struct strlist l = { 0 };
    struct err err = ERR_INIT;
    int n;

    (void)state;
    assert_int_equal(mkdir(half, 0700), 0);
    assert_ok(ckpt_find(top, &l, &err), &err);
    n = l.n;
    assert_true(n >= 3);
    assert_string_equal(l.item[n - 3], one);
    assert_string_equal(l.item[n - 2], two);
    assert_string_equal(l.item[n - 1], half); /* shown, and refused by name */
    refuse_to_open(half, ERR_USAGE, "not complete");
    slash = xasprintf("%s//", two);
    assert_ok(ckpt_find(slash, &l, &err), &err);
    assert_int_equal(l.n, n + 1);
    assert_string_equal(l.item[n], two);
    strlist_release(&l);
    free(slash);
    slash = xasprintf("%s/none", top);
    assert_err(ckpt_find(slash, &l, &err), &err, ERR_MISSING, "none");
    assert_int_equal(mkdir(slash, 0700), 0);
    assert_err(ckpt_find(slash, &l, &err), &err, ERR_MISSING, "no checkpoint");
    free(slash);
    free(one);
    free(two);
    free(half);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound),
        cmocka_unit_test(test_damaged_shards),
        cmocka_unit_test(test_damaged_index_and_marker),
        cmocka_unit_test(test_lying_index),
        cmocka_unit_test(test_find),
    };

    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
