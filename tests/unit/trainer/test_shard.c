/* Shards: case F01's sixteen files, and every way a Megatron pair can be wrong.
 * Tests run from the top of the tree. */
#include "test.h"

#include <unistd.h>

#include "base/mem.h"
#include "trainer/shard.h"

#define F01 "tests/cases/f01_shards/"

/* Case F01.  says NULL: opens. */
static const struct {
    const char *file, *says;
    int64_t tokens;
} f01[] = {
    { "good_u16.bin", NULL, 1000 },
    { "good_u32_llama3.bin", NULL, 1000 },
    { "exact_min.bin", NULL, 65 },
    { "one_short.bin", NULL, 64 },
    { "oov_50257.bin", NULL, 1000 },
    { "bad_magic.bin", "magic 20240521 is not", 0 },
    { "eval_magic.bin", "evaluation file", 0 },
    { "bad_version.bin", "version 2, but", 0 },
    { "big_endian.bin", "big-endian", 0 },
    { "truncated.bin", "2987 bytes, but a header and 1000 tokens of 2 bytes need 3024",
      0 },
    { "trailing.bin", "need 3024 (6 extra)", 0 },
    { "count_too_big.bin", "1001 tokens of 2 bytes need 3026", 0 },
    { "count_negative.bin", "token count -5 is negative", 0 },
    { "zero_tokens.bin", "holds no tokens", 0 },
    { "u16_data_u32_header.bin",
      "3024 bytes, but a header and 1000 tokens of 4 bytes "
      "need 5024",
      0 },
    { "header_only_512.bin", "512 bytes, shorter than the 1024-byte header", 0 },
};

static void test_f01(void **state)
{
    struct err err = ERR_INIT;
    struct shard *s;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(f01); i++) {
        char *path = xasprintf(F01 "%s", f01[i].file);
        if (f01[i].says) {
            assert_err(shard_open(path, &s, &err), &err, ERR_USAGE, f01[i].says);
        } else {
            assert_ok(shard_open(path, &s, &err), &err);
            assert_int_equal(shard_info(s)->tokens, f01[i].tokens);
            assert_int_equal(shard_info(s)->documents, -1);
            shard_close(s);
        }
        free(path);
    }
}

static void test_f01_vocabulary(void **state)
{
    struct err err = ERR_INIT;
    struct shard *s;
    int32_t highest, tok[2];

    (void)state;
    assert_ok(shard_open(F01 "oov_50257.bin", &s, &err), &err);
    assert_err(shard_verify(s, 50257, &highest, &err), &err, ERR_USAGE,
               "token 50257 at index 500 is outside the vocabulary of 50257");
    assert_ok(shard_verify(s, 50258, &highest, &err), &err);
    assert_int_equal(highest, 50257);
    assert_ok(shard_verify(s, 0, &highest, &err), &err);
    assert_ok(shard_read(s, 500, 2, tok, &err), &err);
    assert_int_equal(tok[0], 50257);
    shard_close(s);
}

/* --- Megatron ----------------------------------------------------------------- */

static char dir[] = "/tmp/muster-shard-XXXXXX";
static char idx[64], bin[64];

static int make_dir(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(idx, sizeof(idx), "%s/a.idx", dir);
    snprintf(bin, sizeof(bin), "%s/a.bin", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    unlink(idx);
    unlink(bin);
    return rmdir(dir);
}

/* A pair of five sequences in three documents (the middle one empty). */
enum { SEQUENCES = 5, MARKS = 4, TOKENS = 12 };

struct pair {
    const char *magic;
    uint64_t version, sequences, marks;
    uint8_t dtype;
    int32_t length[SEQUENCES];
    int64_t pointer[SEQUENCES], mark[MARKS];
    int width, tokens;
    int idx_cut, idx_extra, bin_extra;
};

static struct pair good_pair(int dtype, int width)
{
    struct pair p = { .magic = "MMIDIDX\0",
                      .version = 1,
                      .sequences = SEQUENCES,
                      .marks = MARKS,
                      .dtype = (uint8_t)dtype,
                      .length = { 3, 0, 4, 1, 4 },
                      .mark = { 0, 3, 3, 5 },
                      .width = width,
                      .tokens = TOKENS };

    for (int i = 1; i < SEQUENCES; i++)
        p.pointer[i] = p.pointer[i - 1] + (int64_t)p.length[i - 1] * width;
    return p;
}

static void put_pair(const struct pair *p)
{
    FILE *fp = fopen(idx, "wb");

    assert_non_null(fp);
    fwrite(p->magic, 1, 9, fp);
    fwrite(&p->version, 8, 1, fp);
    fwrite(&p->dtype, 1, 1, fp);
    fwrite(&p->sequences, 8, 1, fp);
    fwrite(&p->marks, 8, 1, fp);
    fwrite(p->length, sizeof(p->length), 1, fp);
    fwrite(p->pointer, sizeof(p->pointer), 1, fp);
    fwrite(p->mark, sizeof(p->mark), 1, fp);
    for (int i = 0; i < p->idx_extra; i++)
        fputc(0, fp);
    fflush(fp);
    if (p->idx_cut)
        assert_int_equal(ftruncate(fileno(fp), ftell(fp) - p->idx_cut), 0);
    fclose(fp);
    fp = fopen(bin, "wb");
    assert_non_null(fp);
    for (int64_t i = 0; i < p->tokens; i++) { /* token i is i, little-endian */
        fwrite(&i, 1, (size_t)p->width, fp);
    }
    for (int i = 0; i < p->bin_extra; i++)
        fputc(0, fp);
    fclose(fp);
}

static void test_megatron_all_types(void **state)
{
    static const struct {
        int dtype, width;
        const char *name;
    } types[] = { { 1, 1, "uint8" }, { 2, 1, "int8" },  { 3, 2, "int16" },
                  { 4, 4, "int32" }, { 5, 8, "int64" }, { 8, 2, "uint16" } };
    struct err err = ERR_INIT;
    struct shard *s;
    int32_t tok[TOKENS], highest;

    (void)state;
    for (size_t t = 0; t < ARRAY_LEN(types); t++) {
        struct pair p = good_pair(types[t].dtype, types[t].width);
        put_pair(&p);
        assert_ok(shard_open(t % 2 ? idx : bin, &s, &err), &err); /* either name */
        assert_string_equal(shard_info(s)->format, "megatron");
        assert_string_equal(shard_info(s)->token_type, types[t].name);
        assert_int_equal(shard_info(s)->tokens, TOKENS);
        assert_int_equal(shard_info(s)->documents, 3);
        assert_ok(shard_read(s, 0, TOKENS, tok, &err), &err);
        for (int i = 0; i < TOKENS; i++)
            assert_int_equal(tok[i], i);
        assert_ok(shard_verify(s, TOKENS, &highest, &err), &err);
        assert_err(shard_verify(s, 7, &highest, &err), &err, ERR_USAGE,
                   "token 7 at index 7");
        shard_close(s);
    }
}

static void test_megatron_documents(void **state)
{
    struct pair p = good_pair(8, 2);
    struct err err = ERR_INIT;
    struct shard *s;
    int64_t begin, end;

    (void)state;
    p.idx_extra = SEQUENCES; /* with modes */
    put_pair(&p);
    assert_ok(shard_open(idx, &s, &err), &err);
    for (int64_t at = 0; at < TOKENS; at++) {
        assert_ok(shard_document(s, at, &begin, &end, &err), &err);
        assert_int_equal(begin, at < 7 ? 0 : 7);
        assert_int_equal(end, at < 7 ? 7 : TOKENS);
    }
    shard_close(s);
}

static void refuse_pair(const struct pair *p, const char *says)
{
    struct err err = ERR_INIT;
    struct shard *s;

    put_pair(p);
    assert_err(shard_open(idx, &s, &err), &err, ERR_USAGE, says);
}

static void test_megatron_header_faults(void **state)
{
    struct pair p = good_pair(8, 2);

    (void)state;
    p.magic = "MMIDIDY\0";
    refuse_pair(&p, "does not begin with MMIDIDX");
    p = good_pair(8, 2);
    p.version = 2;
    refuse_pair(&p, "index version 2, expected 1");
    p = good_pair(6, 8);
    refuse_pair(&p, "dtype 6 (float64) cannot hold token ids");
    p = good_pair(7, 4);
    refuse_pair(&p, "dtype 7 (float32) cannot hold token ids");
    p = good_pair(0, 2);
    refuse_pair(&p, "dtype code 0 is unknown");
    p = good_pair(9, 2);
    refuse_pair(&p, "dtype code 9 is unknown");
    p = good_pair(8, 2);
    p.sequences = UINT64_MAX / 4; /* x 12 would wrap */
    refuse_pair(&p, "it was cut short");
    p = good_pair(8, 2);
    p.marks = UINT64_MAX / 8 + 2;
    refuse_pair(&p, "it was cut short");
    p = good_pair(8, 2);
    p.idx_cut = 1;
    refuse_pair(&p, "it was cut short");
    p = good_pair(8, 2);
    p.idx_extra = 3;
    refuse_pair(&p, "3 bytes after the document marks");
    p = good_pair(8, 2);
    p.idx_cut = 34 + 12 * SEQUENCES + 8 * MARKS - 20;
    refuse_pair(&p, "20 bytes, shorter than the 34-byte header");
}

static void test_megatron_content_faults(void **state)
{
    struct pair p = good_pair(8, 2);

    (void)state;
    p.length[2] = -4;
    refuse_pair(&p, "sequence 2 has length -4");
    p = good_pair(8, 2);
    p.pointer[2] = -6;
    refuse_pair(&p, "sequence 2 points to byte -6, but the one before ends at 6");
    p = good_pair(8, 2);
    p.pointer[3] += 2;
    refuse_pair(&p, "sequence 3 points to byte 16, but the one before ends at 14");
    p = good_pair(8, 2);
    p.mark[0] = 1;
    refuse_pair(&p, "document mark 0 is 1");
    p = good_pair(8, 2);
    p.mark[2] = 2;
    refuse_pair(&p, "document mark 2 is 2");
    p = good_pair(8, 2);
    p.mark[3] = 6;
    refuse_pair(&p, "document mark 3 is 6");
    p = good_pair(8, 2);
    p.mark[3] = 4;
    refuse_pair(&p, "the last document mark is 4, expected 5");
    p = good_pair(8, 2);
    p.tokens = TOKENS - 1;
    refuse_pair(&p, "22 bytes, but its index describes 24 (2 missing)");
    p = good_pair(8, 2);
    p.bin_extra = 1;
    refuse_pair(&p, "25 bytes, but its index describes 24 (1 extra)");
    p = good_pair(8, 2);
    memset(p.length, 0, sizeof(p.length));
    memset(p.pointer, 0, sizeof(p.pointer));
    p.tokens = 0;
    refuse_pair(&p, "holds no tokens");
}

static void test_megatron_missing_half(void **state)
{
    struct pair p = good_pair(8, 2);
    struct err err = ERR_INIT;
    struct shard *s;

    (void)state;
    put_pair(&p);
    unlink(bin);
    assert_err(shard_open(idx, &s, &err), &err, ERR_MISSING, "a.bin: No such file");
    put_pair(&p);
    unlink(idx);
    assert_err(shard_open(bin, &s, &err), &err, ERR_USAGE,
               "shorter than the 1024-byte");
}

static void put_wide(int dtype, int64_t value)
{
    struct pair p = good_pair(dtype, dtype == 5 ? 8 : 4);
    FILE *fp;

    put_pair(&p);
    fp = fopen(bin, "r+b");
    assert_non_null(fp);
    fseek(fp, 5L * p.width, SEEK_SET);
    fwrite(&value, 1, (size_t)p.width, fp);
    fclose(fp);
}

/* A negative id, or one that int32 cannot hold, is named as it stands. */
static void test_ids_outside_int32(void **state)
{
    struct err err = ERR_INIT;
    struct shard *s;
    int32_t highest;

    (void)state;
    put_wide(5, 5000000000);
    assert_ok(shard_open(idx, &s, &err), &err);
    assert_err(shard_verify(s, 0, &highest, &err), &err, ERR_USAGE,
               "token 5000000000 at index 5");
    shard_close(s);
    put_wide(4, -2);
    assert_ok(shard_open(idx, &s, &err), &err);
    assert_err(shard_verify(s, 0, &highest, &err), &err, ERR_USAGE,
               "token -2 at index 5");
    shard_close(s);
}

static void test_cut_while_open(void **state)
{
    struct pair p = good_pair(8, 2);
    struct err err = ERR_INIT;
    int32_t tok[TOKENS];
    int64_t begin, end;
    struct shard *s;

    (void)state;
    put_pair(&p);
    assert_ok(shard_open(idx, &s, &err), &err);
    assert_int_equal(truncate(bin, 10), 0);
    assert_int_equal(truncate(idx, 40), 0);
    assert_err(shard_read(s, 0, TOKENS, tok, &err), &err, ERR_USAGE,
               "cut while in use");
    assert_err(shard_document(s, 3, &begin, &end, &err), &err, ERR_USAGE,
               "cut while in use");
    shard_close(s);
}

/* Over 2 GB: sizes and offsets are 64 bit.  The file is a hole. */
static void test_large_file(void **state)
{
    const uint32_t header[3] = { 20240801, 7, 1500000000 };
    const int64_t tokens = 1500000000, bytes = 1024 + tokens * 4;
    const int32_t last = 77;
    struct err err = ERR_INIT;
    struct shard *s;
    int32_t tok[2];
    FILE *fp = fopen(bin, "wb");

    (void)state;
    unlink(idx);
    assert_non_null(fp);
    fwrite(header, sizeof(header), 1, fp);
    if (fseeko(fp, bytes - 4, SEEK_SET) != 0 || fwrite(&last, 4, 1, fp) != 1 ||
        fclose(fp) != 0) {
        truncate(bin, 0);
        skip(); /* no sparse files here */
    }
    assert_ok(shard_open(bin, &s, &err), &err);
    assert_true(shard_info(s)->tokens == tokens);
    assert_ok(shard_read(s, tokens - 2, 2, tok, &err), &err);
    assert_int_equal(tok[1], 77);
    shard_close(s);
    assert_int_equal(truncate(bin, bytes - 1), 0);
    assert_err(shard_open(bin, &s, &err), &err, ERR_USAGE,
               "need 6000001024 (1 missing)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f01),
        cmocka_unit_test(test_f01_vocabulary),
        cmocka_unit_test(test_megatron_all_types),
        cmocka_unit_test(test_megatron_documents),
        cmocka_unit_test(test_megatron_header_faults),
        cmocka_unit_test(test_megatron_content_faults),
        cmocka_unit_test(test_megatron_missing_half),
        cmocka_unit_test(test_ids_outside_int32),
        cmocka_unit_test(test_cut_while_open),
        cmocka_unit_test(test_large_file),
    };

    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
