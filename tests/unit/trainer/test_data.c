/* The training set: amounts (F01, F05), order at any world size (F15), mixtures,
 * the validation split, document marks; and packing (F04). */
#include "test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "recipes/recipe.h"
#include "trainer/data.h"
#include "trainer/data_pack.h"
#include "trainer/shard.h"

static char dir[] = "/tmp/muster-data-XXXXXX";

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) && chdir(dir) == 0 ? 0 : -1;
}

static int remove_dir(void **state)
{
    char *command = xasprintf("rm -rf %s", dir);
    int rc = chdir("/") == 0 ? system(command) : -1; /* NOLINT: our own folder */

    (void)state;
    free(command);
    return rc;
}

/* A uint16 shard of n tokens whose token i is first + i. */
static void put_shard(const char *name, int first, int n)
{
    uint32_t header[256] = { 20240520, 1, (uint32_t)n };
    FILE *fp = fopen(name, "wb");

    assert_non_null(fp);
    fwrite(header, sizeof(header), 1, fp);
    for (int i = 0; i < n; i++) {
        uint16_t t = (uint16_t)(first + i);
        fwrite(&t, 2, 1, fp);
    }
    fclose(fp);
}

static struct recipe recipe_of(const char *const *paths, int n, int T, int B)
{
    struct recipe r;

    recipe_init(&r);
    for (int i = 0; i < n; i++)
        strlist_add(&r.data.path, paths[i]);
    r.training.seq_len = T;
    r.training.local_batch_size = B;
    r.training.global_batch_size = -1;
    r.training.seed = 11;
    r.model.vocab = 65536;
    r.data.validation_fraction = 0;
    r.data.eod_token = -1;
    r.data.document_mask = 0;
    return r;
}

static struct recipe recipe_of_one(const char *path, int T, int B)
{
    return recipe_of(&path, 1, T, B);
}

/* Cases F01 (exact_min, one_short) and F05. */
static void test_need_and_have(void **state)
{
    struct recipe r = recipe_of_one("a.bin", 16, 2);
    struct err err = ERR_INIT;
    struct dataset *d;

    (void)state;
    put_shard("a.bin", 0, 65);
    assert_ok(dataset_open(&r, 2, 0, &d, &err), &err);
    assert_int_equal(dataset_tokens(d), 65);
    assert_int_equal(dataset_samples(d), 4);
    dataset_close(d);
    put_shard("a.bin", 0, 64);
    assert_err(dataset_open(&r, 2, 0, &d, &err), &err, ERR_USAGE,
               "need world*B*T+1 = 2*2*16+1 = 65 tokens, have 64");
    put_shard("a.bin", 0, 5);
    r.training.seq_len = 1024;
    r.training.local_batch_size = 1;
    assert_err(dataset_open(&r, 1, 0, &d, &err), &err, ERR_USAGE,
               "need world*B*T+1 = 1*1*1024+1 = 1025 tokens, have 5");
    put_shard("a.bin", 0, 1030);
    r.data.validation_fraction = 0.01;
    assert_err(dataset_open(&r, 1, 0, &d, &err), &err, ERR_USAGE,
               "have 5 after data.validation_fraction");
    recipe_release(&r);
}

static void test_sources_must_exist(void **state)
{
    const char *two[] = { "big.bin", "small.bin" };
    struct recipe r = recipe_of_one("none/*.bin", 4, 1);
    struct err err = ERR_INIT;
    struct dataset *d;

    (void)state;
    assert_err(dataset_open(&r, 1, 0, &d, &err), &err, ERR_MISSING,
               "none/*.bin: no file matches");
    recipe_release(&r);
    r = recipe_of(NULL, 0, 4, 1);
    assert_err(dataset_open(&r, 1, 0, &d, &err), &err, ERR_USAGE, "no training data");
    recipe_release(&r);
    put_shard("big.bin", 0, 100);
    put_shard("small.bin", 0, 4);
    r = recipe_of(two, 2, 4, 1);
    assert_err(dataset_open(&r, 1, 0, &d, &err), &err, ERR_USAGE,
               "small.bin: need training.seq_len+1 = 5 tokens for one training sample, "
               "have 4");
    recipe_release(&r);
}

/* The first token of each sample, over an epoch: every sample once, whatever
 * the world size (F15), and the tokens follow one another. */
static void collect(const struct recipe *r, int world, int64_t steps, int *first)
{
    struct err err = ERR_INIT;
    struct dataset *d;
    int32_t tok[9];
    int64_t G;

    assert_ok(dataset_open(r, world, 0, &d, &err), &err);
    G = r->training.global_batch_size;
    for (int64_t s = 0; s < steps; s++)
        for (int64_t g = 0; g < G; g++) {
            assert_ok(dataset_sample(d, s, g, tok, NULL, NULL, &err), &err);
            for (int i = 1; i < 9; i++)
                assert_int_equal(tok[i], tok[0] + i);
            first[s * G + g] = tok[0];
        }
    dataset_close(d);
}

static void test_epoch_at_any_world_size(void **state)
{
    struct recipe r = recipe_of_one("c*.bin", 8, 1);
    int one[96], four[96], seen[96] = { 0 };

    (void)state;
    put_shard("c1.bin", 0, 301); /* samples run on from file to file */
    put_shard("c2.bin", 301, 3);
    put_shard("c3.bin", 304, 465);
    r.training.global_batch_size = 12;
    collect(&r, 1, 8, one);
    collect(&r, 4, 8, four);
    assert_memory_equal(one, four, sizeof(one));
    for (int i = 0; i < 96; i++) {
        assert_int_equal(one[i] % 8, 0);
        assert_int_equal(seen[one[i] / 8]++, 0);
    }
    recipe_release(&r);
}

static void test_validation_never_trains(void **state)
{
    struct recipe r = recipe_of_one("v.bin", 8, 1);
    struct err err = ERR_INIT;
    struct dataset *d;
    char seen[2000] = { 0 };
    int32_t tok[9];

    (void)state;
    put_shard("v.bin", 0, 2000);
    r.data.validation_fraction = 0.1;
    r.training.global_batch_size = 1;
    assert_ok(dataset_open(&r, 1, 0, &d, &err), &err);
    assert_int_equal(dataset_tokens(d), 1800);
    for (int64_t s = 0; s < 3 * dataset_samples(d); s++) {
        assert_ok(dataset_sample(d, s, 0, tok, NULL, NULL, &err), &err);
        for (int i = 0; i < 9; i++)
            seen[tok[i]] = 1;
    }
    dataset_close(d);
    assert_ok(dataset_open(&r, 1, 1, &d, &err), &err);
    assert_int_equal(dataset_tokens(d), 200);
    for (int64_t s = 0; s < dataset_samples(d); s++) {
        assert_ok(dataset_sample(d, s, 0, tok, NULL, NULL, &err), &err);
        for (int i = 0; i < 9; i++)
            assert_int_equal(seen[tok[i]], 0);
    }
    dataset_close(d);
    r.data.validation_fraction = 0;
    assert_err(dataset_open(&r, 1, 1, &d, &err), &err, ERR_USAGE, "neither");
    recipe_release(&r);
}

/* A glob that also matches the validation file does not train on it. */
static void test_validation_path_is_left_out(void **state)
{
    struct recipe r = recipe_of_one("p_*.bin", 8, 1);
    struct err err = ERR_INIT;
    struct dataset *d;

    (void)state;
    put_shard("p_train.bin", 0, 100);
    put_shard("p_val.bin", 500, 50);
    strlist_add(&r.data.validation_path, "./p_val.bin");
    assert_ok(dataset_open(&r, 1, 0, &d, &err), &err);
    assert_int_equal(dataset_tokens(d), 100);
    dataset_close(d);
    assert_ok(dataset_open(&r, 1, 1, &d, &err), &err);
    assert_int_equal(dataset_tokens(d), 50);
    dataset_close(d);
    free(r.data.path.item[0]);
    r.data.path.item[0] = xstrdup("p_val.bin");
    assert_err(dataset_open(&r, 1, 0, &d, &err), &err, ERR_USAGE,
               "every file of it is validation data");
    recipe_release(&r);
}

static void test_weights(void **state)
{
    const char *two[] = { "w1.bin", "w2.bin" };
    struct recipe r = recipe_of(two, 2, 8, 1);
    double weights[2] = { 3, 1 };
    struct err err = ERR_INIT;
    struct dataset *d;
    int from_first = 0;
    int32_t tok[9];

    (void)state;
    put_shard("w1.bin", 0, 81); /* 10 samples, weight 3: repeated */
    put_shard("w2.bin", 10000, 8001);
    r.training.global_batch_size = 64;
    r.data.weights.n = 2;
    r.data.weights.item = xcalloc(2, sizeof(double));
    memcpy(r.data.weights.item, weights, sizeof(weights));
    assert_ok(dataset_open(&r, 1, 0, &d, &err), &err);
    for (int64_t k = 0; k < 4096; k++) {
        assert_ok(dataset_sample(d, k / 64, k % 64, tok, NULL, NULL, &err), &err);
        from_first += tok[0] < 10000;
    }
    assert_int_equal(from_first, 3072);
    dataset_close(d);
    r.data.weights.item[0] = -1;
    assert_err(dataset_open(&r, 1, 0, &d, &err), &err, ERR_USAGE, "not a weight");
    r.data.weights.item[0] = r.data.weights.item[1] = 0;
    assert_err(dataset_open(&r, 1, 0, &d, &err), &err, ERR_USAGE, "all are 0");
    r.data.weights.n = 1;
    assert_err(dataset_open(&r, 1, 0, &d, &err), &err, ERR_USAGE,
               "1 weights for 2 entries");
    recipe_release(&r);
}

static void test_vocabulary_guards_the_model(void **state)
{
    struct recipe r = recipe_of_one("o.bin", 8, 1);
    struct err err = ERR_INIT;
    struct dataset *d;
    int32_t tok[9];
    int refused = 0;

    (void)state;
    put_shard("o.bin", 0, 33);
    r.model.vocab = 30;
    assert_ok(dataset_open(&r, 1, 0, &d, &err), &err);
    for (int64_t s = 0; s < 4; s++)
        if (dataset_sample(d, s, 0, tok, NULL, NULL, &err) != 0) {
            assert_non_null(strstr(err_text(&err), "o.bin: token 30 at index 30"));
            err_release(&err);
            refused++;
        }
    assert_int_equal(refused, 1);
    assert_err(dataset_sample(d, 0, 1, tok, NULL, NULL, &err), &err, ERR_USAGE,
               "no sample 1");
    assert_err(dataset_sample(d, INT64_MAX, 0, tok, NULL, NULL, &err), &err, ERR_USAGE,
               "no sample");
    dataset_close(d);
    recipe_release(&r);
}

/* --- documents -------------------------------------------------------------------- */

static void test_documents(void **state)
{
    /* eod is 9; a file boundary after 6 tokens; T = 10 */
    static const uint16_t text[2][6] = { { 1, 9, 2, 3, 9, 4 }, { 5, 6, 9, 7, 8, 9 } };
    static const int32_t starts[10] = { 0, 0, 2, 2, 2, 5, 6, 6, 6, 9 };
    struct recipe r = recipe_of_one("d?.bin", 10, 1);
    struct err err = ERR_INIT;
    int32_t tok[11], start[10], pos[10];
    struct dataset *d;

    (void)state;
    for (int f = 0; f < 2; f++) {
        FILE *fp;
        put_shard(f ? "d1.bin" : "d0.bin", 0, 6);
        fp = fopen(f ? "d1.bin" : "d0.bin", "r+b");
        assert_non_null(fp);
        fseek(fp, 1024, SEEK_SET);
        fwrite(text[f], sizeof(text[f]), 1, fp);
        fclose(fp);
    }
    r.data.document_mask = 1;
    assert_err(dataset_open(&r, 1, 0, &d, &err), &err, ERR_USAGE, "data.eod_token");
    r.data.eod_token = 9;
    assert_ok(dataset_open(&r, 1, 0, &d, &err), &err);
    assert_ok(dataset_sample(d, 0, 0, tok, start, pos, &err), &err);
    for (int p = 0; p < 10; p++) {
        assert_int_equal(start[p], starts[p]);
        assert_int_equal(pos[p], p - starts[p]);
    }
    memset(start, -1, sizeof(start));
    assert_ok(dataset_sample(d, 0, 0, tok, start, NULL, &err), &err);
    assert_int_equal(start[9], 9);
    dataset_close(d);
    r.data.document_mask = 0;
    assert_ok(dataset_open(&r, 1, 0, &d, &err), &err);
    assert_ok(dataset_sample(d, 0, 0, tok, start, pos, &err), &err);
    for (int p = 0; p < 10; p++) {
        assert_int_equal(start[p], 0);
        assert_int_equal(pos[p], p);
    }
    dataset_close(d);
    recipe_release(&r);
}

/* Megatron marks documents by itself: 3 documents of 5, 0 and 8 tokens. */
static void test_megatron_documents(void **state)
{
    const uint64_t counts[2] = { 2, 4 }, version = 1;
    const int32_t lengths[2] = { 5, 8 };
    const int64_t pointers[2] = { 0, 5 }, marks[4] = { 0, 1, 1, 2 };
    struct recipe r = recipe_of_one("m", 12, 1);
    struct err err = ERR_INIT;
    int32_t tok[13], pos[12];
    struct dataset *d;
    FILE *fp;

    (void)state;
    assert_int_equal(mkdir("m", 0700), 0); /* a folder: both files, one shard */
    fp = fopen("m/x.idx", "wb");
    assert_non_null(fp);
    fwrite("MMIDIDX\0", 1, 9, fp);
    fwrite(&version, 8, 1, fp);
    fputc(1, fp);
    fwrite(counts, sizeof(counts), 1, fp);
    fwrite(lengths, sizeof(lengths), 1, fp);
    fwrite(pointers, sizeof(pointers), 1, fp);
    fwrite(marks, sizeof(marks), 1, fp);
    fclose(fp);
    fp = fopen("m/x.bin", "wb");
    assert_non_null(fp);
    fwrite("abcdefghijklm", 1, 13, fp);
    fclose(fp);
    r.data.document_mask = 1;
    assert_ok(dataset_open(&r, 1, 0, &d, &err), &err);
    assert_int_equal(dataset_tokens(d), 13);
    assert_ok(dataset_sample(d, 0, 0, tok, NULL, pos, &err), &err);
    for (int p = 0; p < 12; p++)
        assert_int_equal(pos[p], p < 5 ? p : p - 5);
    dataset_close(d);
    recipe_release(&r);
}

/* --- packing ------------------------------------------------------------------------ */

static void put_text(const char *name, const char *text)
{
    FILE *fp = fopen(name, "wb");

    assert_non_null(fp);
    fputs(text, fp);
    fclose(fp);
}

static void test_pack_bytes(void **state)
{
    const char *inputs[] = { "t1", "t2" };
    const int32_t want[] = { 'h', 'i', 256, 0xc3, 0xa4, 256 };
    struct pack p = { .eod = -1 };
    struct err err = ERR_INIT;
    struct shard *s;
    int64_t tokens;
    int32_t tok[6];

    (void)state;
    put_text("t1", "hi");
    put_text("t2", "\xc3\xa4");
    for (p.token_bytes = 2; p.token_bytes <= 4; p.token_bytes += 2) {
        assert_ok(data_pack(&p, inputs, 2, "t.bin", &tokens, &err), &err);
        assert_int_equal(tokens, 6);
        assert_ok(shard_open("t.bin", &s, &err), &err);
        assert_int_equal(shard_info(s)->token_bytes, p.token_bytes);
        assert_int_equal(shard_info(s)->tokens, 6);
        assert_ok(shard_read(s, 0, 6, tok, &err), &err);
        assert_memory_equal(tok, want, sizeof(want));
        shard_close(s);
    }
    inputs[1] = "absent";
    assert_err(data_pack(&p, inputs, 2, "new.bin", &tokens, &err), &err, ERR_USAGE,
               "tokens of 6 bytes: only 2 or 4");
    p.token_bytes = 0;
    assert_err(data_pack(&p, inputs, 2, "new.bin", &tokens, &err), &err, ERR_MISSING,
               "absent");
    assert_int_equal(access("new.bin", F_OK), -1);
    assert_int_equal(access("new.bin.tmp", F_OK), -1);
}

/* Many buffers: what comes out is what went in. */
static void test_pack_streams(void **state)
{
    enum { N = 300000 };
    const char *inputs[] = { "big" };
    struct pack p = { .eod = -1 };
    struct err err = ERR_INIT;
    struct shard *s;
    int64_t tokens;
    int32_t *tok = xcalloc(N + 1, sizeof(*tok));
    FILE *fp = fopen("big", "wb");

    (void)state;
    assert_non_null(fp);
    for (int i = 0; i < N; i++)
        fputc((i * 7 + i / 256) & 255, fp);
    fclose(fp);
    assert_ok(data_pack(&p, inputs, 1, "big.bin", &tokens, &err), &err);
    assert_int_equal(tokens, N + 1);
    assert_ok(shard_open("big.bin", &s, &err), &err);
    assert_ok(shard_read(s, 0, N + 1, tok, &err), &err);
    for (int i = 0; i < N; i++)
        assert_int_equal(tok[i], (i * 7 + i / 256) & 255);
    assert_int_equal(tok[N], 256);
    shard_close(s);
    free(tok);
}

static void refuse_ids(const struct pack *p, const char *text, const char *says)
{
    const char *inputs[] = { "ids" };
    struct err err = ERR_INIT;
    int64_t tokens;

    put_text("ids", text);
    assert_err(data_pack(p, inputs, 1, "ids.bin", &tokens, &err), &err, ERR_USAGE,
               says);
    assert_int_equal(access("ids.bin", F_OK), -1);
}

/* Case F04: no id is ever cut to 16 bits. */
static void test_pack_ids(void **state)
{
    const char *inputs[] = { "ids" };
    struct pack p = { .ids = 1, .token_bytes = 2, .eod = -1 };
    const int32_t want[] = { 70000, 119546, 128255, 65536, 7 };
    struct err err = ERR_INIT;
    struct shard *s;
    int64_t tokens;
    int32_t tok[5];

    (void)state;
    refuse_ids(&p, "1 2\n3 70000\n", "ids:2: token id 70000 is over 65535");
    refuse_ids(&p, "1\n\n\n12a", "ids:4: '12a' is not a token id");
    refuse_ids(&p, "-1", "ids:1: '-1' is not a token id");
    refuse_ids(&p, "1\n99999999999999999999999\n", "ids:2: token id 999999");
    refuse_ids(&p, " \n", "hold no token");
    p.vocab = 151936;
    refuse_ids(&p, "1", "a vocabulary of 151936 does not fit 2-byte tokens");
    p.vocab = 100;
    refuse_ids(&p, "99 100",
               "ids:1: token id 100 is over 99, the highest that the vocab");
    p.eod = 100;
    refuse_ids(&p, "1", "end-of-document id 100");
    p = (struct pack){ .ids = 1, .vocab = 151936, .eod = 7 };
    put_text("ids", "70000 119546\t128255\r\n65536");
    assert_ok(data_pack(&p, inputs, 1, "ids.bin", &tokens, &err), &err);
    assert_int_equal(tokens, 5);
    assert_ok(shard_open("ids.bin", &s, &err), &err);
    assert_int_equal(shard_info(s)->token_bytes, 4);
    assert_ok(shard_read(s, 0, 5, tok, &err), &err);
    assert_memory_equal(tok, want, sizeof(want));
    shard_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_need_and_have),
        cmocka_unit_test(test_sources_must_exist),
        cmocka_unit_test(test_epoch_at_any_world_size),
        cmocka_unit_test(test_validation_never_trains),
        cmocka_unit_test(test_validation_path_is_left_out),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_vocabulary_guards_the_model),
        cmocka_unit_test(test_documents),
        cmocka_unit_test(test_megatron_documents),
        cmocka_unit_test(test_pack_bytes),
        cmocka_unit_test(test_pack_streams),
        cmocka_unit_test(test_pack_ids),
    };

    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
