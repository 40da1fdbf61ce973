/* safetensors: round trip, and one message for each way a file can be wrong. */
#include "test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "trainer/safetensors.h"

static char dir[] = "/tmp/muster-st-XXXXXX";
static char path[64];

static int make_dir(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof(path), "%s/a.safetensors", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir);
}

/* A file with this header text, `length` in its length field (-1: the true one)
 * and `data` zero bytes. */
static void put_file(const char *header, int64_t length, int data)
{
    FILE *fp = fopen(path, "wb");
    uint64_t n = length < 0 ? strlen(header) : (uint64_t)length;

    assert_non_null(fp);
    fwrite(&n, 8, 1, fp);
    fwrite(header, 1, strlen(header), fp);
    for (int i = 0; i < data; i++)
        fputc(0, fp);
    fclose(fp);
}

static const struct st_tensor declared[] = {
    { .name = (char *)"u8", .type = ST_U8, .dims = 1, .shape = { 3 } },
    { .name = (char *)"w", .type = ST_BF16, .dims = 2, .shape = { 2, 3 } },
    { .name = (char *)"none", .type = ST_F32, .dims = 2, .shape = { 0, 5 } },
    { .name = (char *)"scalar", .type = ST_F64, .dims = 0 },
};

static void write_declared(const struct js *meta, struct err *err)
{
    struct st_writer *w;
    const double x = 1.5;

    assert_ok(st_create(path, declared, 4, meta, &w, err), err);
    assert_ok(st_write(w, 1, 6, "ghijkl", 6, err), err);
    assert_ok(st_write(w, 1, 0, "abcdef", 6, err), err);
    assert_ok(st_write(w, 0, 0, "xyz", 3, err), err);
    assert_ok(st_write(w, 3, 0, &x, 8, err), err);
    assert_ok(st_commit(w, err), err);
}

static void test_round_trip(void **state)
{
    struct err err = ERR_INIT;
    struct js *meta = js_object();
    struct st_file *f;
    const struct st_tensor *t;
    char bytes[12];

    (void)state;
    js_put_str(meta, "format", "pt");
    write_declared(meta, &err);
    js_free(meta);
    assert_ok(st_open(path, &f, &err), &err);
    assert_int_equal(st_count(f), 4);
    assert_string_equal(st_meta(f, "format"), "pt");
    assert_null(st_meta(f, "absent"));
    assert_null(st_find(f, "absent"));
    t = st_find(f, "w");
    assert_non_null(t);
    assert_int_equal(t->type, ST_BF16);
    assert_int_equal(t->dims, 2);
    assert_int_equal(t->shape[1], 3);
    assert_ok(st_read(f, t, 0, bytes, 12, &err), &err);
    assert_memory_equal(bytes, "abcdefghijkl", 12);
    assert_ok(st_read(f, t, 5, bytes, 2, &err), &err);
    assert_memory_equal(bytes, "fg", 2);
    assert_int_equal(st_find(f, "scalar")->begin, 0); /* widest first: aligned */
    assert_err(st_read(f, t, 5, bytes, 8, &err), &err, ERR_USAGE, "outside its 12");
    assert_err(st_read(f, t, INT64_MAX, bytes, 8, &err), &err, ERR_USAGE, "outside");
    assert_err(st_read(f, t, 1, bytes, INT64_MAX, &err), &err, ERR_USAGE, "outside");
    st_close(f);
}

static void test_data_is_aligned(void **state)
{
    struct err err = ERR_INIT;
    uint64_t n;
    FILE *fp;

    (void)state;
    write_declared(NULL, &err);
    fp = fopen(path, "rb");
    assert_non_null(fp);
    assert_int_equal(fread(&n, 8, 1, fp), 1);
    assert_int_equal(n % 8, 0);
    fclose(fp);
}

static void test_file_cut_after_opening(void **state)
{
    struct err err = ERR_INIT;
    struct st_file *f;
    char bytes[12];

    (void)state;
    write_declared(NULL, &err);
    assert_ok(st_open(path, &f, &err), &err);
    assert_int_equal(truncate(path, 16), 0);
    assert_err(st_read(f, st_find(f, "w"), 0, bytes, 12, &err), &err, ERR_USAGE,
               "cut while in use");
    st_close(f);
}

static void test_writer_is_absent_or_complete(void **state)
{
    struct err err = ERR_INIT;
    struct st_writer *w;
    struct st_file *f;
    char *tmp = xasprintf("%s.tmp", path);

    (void)state;
    write_declared(NULL, &err);
    assert_ok(st_create(path, declared, 1, NULL, &w, &err), &err);
    assert_ok(st_write(w, 0, 0, "x", 1, &err), &err);
    assert_err(st_write(w, 0, 2, "xy", 2, &err), &err, ERR_USAGE, "outside its 3");
    assert_err(st_commit(w, &err), &err, ERR_FAILED, "only 1 of 3 bytes");
    assert_int_equal(access(tmp, F_OK), -1);
    assert_ok(st_open(path, &f, &err), &err); /* the old one still stands */
    assert_int_equal(st_count(f), 4);
    st_close(f);
    assert_ok(st_create(path, declared, 1, NULL, &w, &err), &err);
    st_abandon(w);
    assert_int_equal(access(tmp, F_OK), -1);
    free(tmp);
}

static void test_writer_refuses(void **state)
{
    static const int64_t big = INT64_MAX / 2;
    struct err err = ERR_INIT;
    struct st_writer *w;
    struct st_tensor t[2] = { declared[0], declared[0] };

    (void)state;
    assert_err(st_create(path, t, 2, NULL, &w, &err), &err, ERR_USAGE,
               "two tensors are called 'u8'");
    t[0] = (struct st_tensor){
        .name = (char *)"x", .type = ST_F32, .dims = 2, .shape = { big, 3 }
    };
    assert_err(st_create(path, t, 1, NULL, &w, &err), &err, ERR_USAGE, "overflows");
    t[0].name = (char *)"__metadata__";
    t[0].shape[0] = 1;
    assert_err(st_create(path, t, 1, NULL, &w, &err), &err, ERR_USAGE, "cannot be");
    assert_err(st_create("/nonexistent/x", declared, 1, NULL, &w, &err), &err,
               ERR_MISSING, "/nonexistent/x.tmp");
}

/* One row a fault: the header, its length field, data bytes, a part of the message. */
static const struct {
    const char *header;
    int64_t length;
    int data;
    const char *says;
} bad[] = {
    { "", INT64_MAX, 0, "over the limit" },
    { "", -1, 0, "not a JSON object" },
    { "{}", 100, 3, "cut short" },
    { "{}", 100000001, 0, "over the limit" },
    { "[]", -1, 0, "not a JSON object" },
    { " {}", -1, 0, "not a JSON object" },
    { "{\"a\"", -1, 0, "not valid JSON" },
    { "{}x", -1, 0, "not valid JSON" },
    { "{\"a\":1}", -1, 0, "not an object" },
    { "{\"a\":{}}", -1, 0, "no dtype" },
    { "{\"a\":{\"dtype\":\"F99\",\"shape\":[],\"data_offsets\":[0,1]}}", -1, 1,
      "dtype 'F99' is not supported" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
      "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
      -1, 2, "duplicate" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":3,\"data_offsets\":[0,1]}}", -1, 1,
      "shape is not a list" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]}}", -1, 1,
      "dimension 0 is not" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1.0],\"data_offsets\":[0,1]}}", -1, 1,
      "dimension 0 is not" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}",
      -1, 1, "9 dimensions" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],"
      "\"data_offsets\":[0,0]}}",
      -1, 0, "overflows" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],"
      "\"data_offsets\":[0,0]}}",
      -1, 0, "overflows" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4,0],"
      "\"data_offsets\":[0,0]}}",
      -1, 0, "overflows" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[18446744073709551617],"
      "\"data_offsets\":[0,1]}}",
      -1, 1, "not valid JSON" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", -1, 1, "not [begin, end]" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,2]}}", -1, 1,
      "not [begin, end]" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,0]}}", -1, 1,
      "0 <= begin <= end" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[-1,0]}}", -1, 1,
      "0 <= begin <= end" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[9],\"data_offsets\":[0,9]}}", -1, 8,
      "the file holds 8" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,9]}}", -1, 9,
      "is 8 bytes, data_offsets span 9" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
      "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[3,7]}}",
      -1, 7, "'a' and 'b' overlap at data byte 3" },
    { "{\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[5,9]},"
      "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
      -1, 9, "data bytes 4 to 5, before 'b'" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", -1, 6,
      "2 bytes after the last tensor" },
    { "{\"a\\u001b[2J\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", -1,
      1, "the name of tensor 0 holds control characters" },
    { "{\"\x1b\":1}", -1, 0, "not valid JSON" },
    { "{\x1b[2J\n", -1, 0, "not valid JSON" },
    { "{\"__metadata__\":[]}", -1, 0, "__metadata__ is not an object" },
    { "{\"__metadata__\":{\"step\":3}}", -1, 0, "'step' is not a string" },
};

static void test_each_fault_has_its_words(void **state)
{
    struct err err = ERR_INIT;
    struct st_file *f;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        put_file(bad[i].header, bad[i].length, bad[i].data);
        assert_int_equal(st_open(path, &f, &err), -1);
        for (const char *c = err_text(&err); *c; c++) /* one line, for any terminal */
            assert_true((unsigned char)*c >= ' ');
        assert_err(-1, &err, ERR_USAGE, bad[i].says);
    }
    assert_int_equal(truncate(path, 7), 0);
    assert_err(st_open(path, &f, &err), &err, ERR_USAGE, "too short");
    assert_err(st_open(dir, &f, &err), &err, ERR_USAGE, "a folder");
    assert_err(st_open("/dev/null", &f, &err), &err, ERR_USAGE, "device");
    assert_err(st_open("/nonexistent", &f, &err), &err, ERR_MISSING, "/nonexistent");
}

static void test_accepts(void **state)
{
    struct err err = ERR_INIT;
    struct st_file *f;

    (void)state;
    put_file("{}  ", -1, 0); /* no tensor at all; padding */
    assert_ok(st_open(path, &f, &err), &err);
    assert_int_equal(st_count(f), 0);
    st_close(f);
    put_file("{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
             "\"a\":{\"dtype\":\"F32\",\"shape\":[0,9],\"data_offsets\":[0,0]}}",
             -1, 1); /* an empty tensor shares its place */
    assert_ok(st_open(path, &f, &err), &err);
    assert_string_equal(st_at(f, 0)->name, "b"); /* the header's order */
    st_close(f);
}

/* The walk over a header is linear: 50,000 tensors open at once. */
static void test_many_tensors(void **state)
{
    struct err err = ERR_INIT;
    struct str s = STR_INIT;
    struct st_file *f;

    (void)state;
    str_adds(&s, "{");
    for (int i = 0; i < 50000; i++)
        str_addf(&s,
                 "%s\"t%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                 i ? "," : "", i, i, i + 1);
    str_adds(&s, "}");
    put_file(s.text, -1, 50000);
    assert_ok(st_open(path, &f, &err), &err);
    assert_int_equal(st_find(f, "t49999")->begin, 49999);
    st_close(f);
    str_release(&s);
}

/* A file of the reference implementation (tests/cases/make_safetensors.py):
 * every type, an empty tensor, a scalar, a name outside ASCII. */
static void test_reads_reference_file(void **state)
{
    static const struct {
        const char *name;
        enum st_type type;
        int64_t bytes;
        const char *data; /* of the last element */
    } want[] = {
        { "f32", ST_F32, 24, "\x00\x00\xa0\x3f" },                 /* 1.25 */
        { "f64", ST_F64, 48, "\x00\x00\x00\x00\x00\x00\x10\x40" }, /* 4 */
        { "bf16", ST_BF16, 12, "\x20\x40" },                       /* 2.5 */
        { "f16", ST_F16, 12, "\x00\x3d" },                         /* 1.25 */
        { "i64", ST_I64, 48, "\x02\x00\x00\x00\x00\x00\x00\x00" },
        { "i32", ST_I32, 24, "\x05\x00\x00\x00" },
        { "i16", ST_I16, 12, "\x05\x00" },
        { "u16", ST_U16, 12, "\x05\x00" },
        { "i8", ST_I8, 6, "\x05" },
        { "u8", ST_U8, 6, "\x05" },
        { "bool", ST_BOOL, 6, "\x01" },
        { "empty", ST_F32, 0, "" },
        { "scalar", ST_F32, 4, "\x00\x00\x20\x40" },
        { "model.layers.0.\xc3\xbc", ST_F32, 4, "\x00\x00\x80\x3f" },
    };
    struct err err = ERR_INIT;
    struct st_file *f;

    (void)state;
    assert_ok(st_open("tests/cases/safetensors_ref.safetensors", &f, &err), &err);
    assert_int_equal(st_count(f), ARRAY_LEN(want));
    assert_string_equal(st_meta(f, "format"), "pt");
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        const struct st_tensor *t = st_find(f, want[i].name);
        int64_t n = st_type_bytes(want[i].type);
        char got[8];
        assert_non_null(t);
        assert_int_equal(t->type, want[i].type);
        assert_int_equal(t->end - t->begin, want[i].bytes);
        if (want[i].bytes == 0)
            continue;
        assert_ok(st_read(f, t, want[i].bytes - n, got, n, &err), &err);
        assert_memory_equal(got, want[i].data, n);
    }
    st_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_data_is_aligned),
        cmocka_unit_test(test_file_cut_after_opening),
        cmocka_unit_test(test_writer_is_absent_or_complete),
        cmocka_unit_test(test_writer_refuses),
        cmocka_unit_test(test_each_fault_has_its_words),
        cmocka_unit_test(test_accepts),
        cmocka_unit_test(test_many_tensors),
        cmocka_unit_test(test_reads_reference_file),
    };

    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
