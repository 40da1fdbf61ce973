/* value: cases E01, E02, E03, E07, E08 over their files, and the edges. */
#include "test.h"

#include <math.h>

#include "recipes/value.h"
#include "recipes/yaml.h"

static struct yaml_node *root;

static const char *text_of(const char *key)
{
    const struct yaml_node *n = yaml_get(root, key);

    assert_non_null(n);
    return n->text;
}

static void load(const char *path)
{
    struct err err = ERR_INIT;

    yaml_tree_free(root);
    root = NULL;
    assert_ok(yaml_tree_load(path, &root, &err), &err);
}

static double real(const char *text)
{
    struct err err = ERR_INIT;
    double v = 0;

    assert_ok(value_real(text, &v, &err), &err);
    return v;
}

static void real_fails(const char *text, const char *part)
{
    struct err err = ERR_INIT;
    double v;

    assert_err(value_real(text, &v, &err), &err, ERR_USAGE, part);
}

static int64_t whole(const char *text)
{
    struct err err = ERR_INIT;
    int64_t v = 0;

    assert_ok(value_int64(text, &v, &err), &err);
    return v;
}

static void whole_fails(const char *text, const char *part)
{
    struct err err = ERR_INIT;
    int64_t v;

    assert_err(value_int64(text, &v, &err), &err, ERR_USAGE, part);
}

static void test_e01_floats(void **state)
{
    static const struct {
        const char *key;
        double v;
    } good[] = { { "a", 1e-5 }, { "b", 1e-5 }, { "c", 1e-5 }, { "d", 1e5 },
                 { "e", 1e5 },  { "f", .5 },   { "g", 5 },    { "h", -1e-5 } };
    static const double list[] = { 1e-3, 3e-4, 1e-4 };

    (void)state;
    load("tests/cases/e01_floats.yaml");
    for (size_t i = 0; i < 8; i++)
        assert_true(real(text_of(good[i].key)) == good[i].v);
    for (int i = 0; i < 3; i++)
        assert_true(real(yaml_get(root, "i")->value[i]->text) == list[i]);
    assert_true(yaml_get(root, "j")->quoted);
    real_fails(text_of("k"), "out of range");
    assert_true(isinf(real(text_of("l"))));
    real_fails(text_of("m"), "write it without _ (1000)");
}

static void test_real_edges(void **state)
{
    static const char *const bad[] = { "",    ".",        "e5",  "1e",   "1e+", "0x1p3",
                                       "inf", "nan",      "1,5", "1 5",  " 1",  "1d3",
                                       "--1", "infinity", "+.",  ".nanx" };
    char buf[40];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        real_fails(bad[i], "is not a number");
    real_fails("01.5", "leading zero: write 1.5");
    assert_true(isnan(real(".NaN")));
    assert_true(real("-.inf") < 0);
    assert_true(real("0.5") == 0.5 && real("-0") == 0 && real("+12") == 12);
    assert_string_equal(value_real_text(0.1, buf), "0.1");
    assert_true(real(value_real_text(0.1 + 0.2, buf)) == 0.1 + 0.2);
}

static void test_e02_bools(void **state)
{
    static const struct {
        const char *key;
        int v;
    } want[] = { { "use_ac", 1 },
                 { "profile", 0 },
                 { "shuffle", 1 },
                 { "drop", 0 },
                 { "compile", 1 } };
    struct err err = ERR_INIT;
    int v;

    (void)state;
    load("tests/cases/e02_bools.yaml");
    for (size_t i = 0; i < 5; i++) {
        assert_ok(value_bool(text_of(want[i].key), &v, &err), &err);
        assert_int_equal(v, want[i].v);
    }
    assert_true(yaml_get(root, "verbose")->quoted);
    assert_string_equal(text_of("on"), "1"); /* the key stays text */
    assert_string_equal(text_of("y"), "3");
    assert_string_equal(yaml_get(root, "countries")->value[1]->text, "no");
    assert_err(value_bool("y", &v, &err), &err, ERR_USAGE, "is not true or false");
    assert_err(value_bool("tRue", &v, &err), &err, ERR_USAGE, "tRue");
    assert_err(value_bool("1", &v, &err), &err, ERR_USAGE, "1");
}

static void test_e03_octal(void **state)
{
    struct err err = ERR_INIT;
    int mode;

    (void)state;
    load("tests/cases/e03_octal.yaml");
    assert_ok(value_mode(text_of("umask"), &mode, &err), &err);
    assert_int_equal(mode, 18);
    assert_ok(value_mode(text_of("mode"), &mode, &err), &err);
    assert_int_equal(mode, 511);
    assert_ok(value_mode(text_of("mode12"), &mode, &err), &err);
    assert_int_equal(mode, 511);
    assert_err(value_mode("088", &mode, &err), &err, ERR_USAGE, "octal");
    assert_err(value_mode("10000", &mode, &err), &err, ERR_USAGE, "07777");
    assert_err(value_mode("", &mode, &err), &err, ERR_USAGE, "octal");
    whole_fails(text_of("port"), "ambiguous leading zero");
    whole_fails(text_of("rank"), "ambiguous leading zero: write 8");
    whole_fails(text_of("seed"), "ambiguous leading zero: write 10, or 0o10");
    whole_fails("-007", "write -7");
    assert_int_equal(whole("0o777"), 511);
    assert_int_equal(whole("0"), 0);
}

static void test_e08_large_integers(void **state)
{
    struct err err = ERR_INIT;
    uint64_t u = 0;

    (void)state;
    load("tests/cases/e08_bigint.yaml");
    assert_ok(value_uint64(text_of("seed"), &u, &err), &err);
    assert_true(u == UINT64_MAX);
    assert_err(value_uint64(text_of("seed2"), &u, &err), &err, ERR_USAGE,
               "does not fit in 64 bits");
    assert_ok(value_uint64(text_of("n"), &u, &err), &err);
    assert_true(u == 9007199254740993);
    assert_err(value_uint64(text_of("neg"), &u, &err), &err, ERR_USAGE, "negative");
    assert_ok(value_uint64(text_of("hex"), &u, &err), &err);
    assert_true(u == 31);
}

static void test_int_edges(void **state)
{
    static const char *const bad[] = { "",    "-",   "0x",  "0o", "0xg", "1.0",
                                       "1e3", "++1", "0o8", "1 ", "0x-1" };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        whole_fails(bad[i], "is not a whole number");
    whole_fails("1_000", "write it without _ (1000)");
    assert_true(whole("9223372036854775807") == INT64_MAX);
    assert_true(whole("-9223372036854775808") == INT64_MIN);
    whole_fails("9223372036854775808", "does not fit");
    whole_fails("-9223372036854775809", "does not fit");
    whole_fails("-0x10", "is not a whole number"); /* YAML 1.2: no sign there */
}

static void test_e07_durations(void **state)
{
    static const struct {
        const char *text;
        int64_t seconds;
    } good[] = { { "30", 1800 },         { "0", 0 },
                 { "90s", 90 },          { "5m", 300 },
                 { "2h", 7200 },         { "1d", 86400 },
                 { "1-0", 86400 },       { "1-12", 129600 },
                 { "1-12:30", 131400 },  { "0-0:0:1", 1 },
                 { "100:00:00", 360000 } };
    static const char *const bad[] = { "",   ":",     "1:",   ":1",        "1:2:3:4",
                                       "-1", "1-",    "1-:2", "x",         "1.5h",
                                       "1w", "1-1-1", "30 m", "9999999999" };
    struct err err = ERR_INIT;
    int64_t s = 0;

    (void)state;
    load("tests/cases/e07_sexagesimal.yaml");
    assert_ok(value_duration(text_of("time"), &s, &err), &err);
    assert_int_equal(s, 30 * 60);
    assert_ok(value_duration(text_of("time2"), &s, &err), &err);
    assert_int_equal(s, 4 * 3600);
    assert_ok(value_duration(text_of("time3"), &s, &err), &err);
    assert_int_equal(s, 86400);
    assert_ok(value_duration(text_of("time4"), &s, &err), &err);
    assert_int_equal(s, 4 * 3600);
    assert_string_equal(text_of("mac"), "52:54:00:44:49:56");
    assert_string_equal(text_of("endpoint"), "12:34");
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        assert_ok(value_duration(good[i].text, &s, &err), &err);
        assert_int_equal(s, good[i].seconds);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_err(value_duration(bad[i], &s, &err), &err, ERR_USAGE, "not a duration");
}

static void test_sizes(void **state)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } good[] = { { "0", 0 },
                 { "4096", 4096 },
                 { "64MiB", 67108864 },
                 { "64 MiB", 67108864 },
                 { "1.5GiB", 1610612736 },
                 { "80GB", 80000000000 },
                 { "9223372036854775807", INT64_MAX } };
    static const char *const bad[] = { "",     "MiB",   "64mib", "1.5",
                                       "-1",   "-1GiB", "1_0MB", "99999999PiB",
                                       "64Mi", "1,5GB", "0.3B" };
    struct err err = ERR_INIT;
    int64_t b = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        assert_ok(value_size(good[i].text, &b, &err), &err);
        assert_true(b == good[i].bytes);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_err(value_size(bad[i], &b, &err), &err, ERR_USAGE, "");
}

static void test_words(void **state)
{
    static const char *const words[] = { "none", "selective", "full" };
    struct err err = ERR_INIT;
    int v = 0;

    (void)state;
    assert_ok(value_word("full", words, 3, &v, &err), &err);
    assert_int_equal(v, 2);
    assert_err(
        value_word("selectiv", words, 3, &v, &err), &err, ERR_USAGE,
        "'selectiv' is none of: none, selective, full (did you mean 'selective'?)");
}

static int end(void **state)
{
    (void)state;
    yaml_tree_free(root);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_e01_floats),
        cmocka_unit_test(test_real_edges),
        cmocka_unit_test(test_e02_bools),
        cmocka_unit_test(test_e03_octal),
        cmocka_unit_test(test_e08_large_integers),
        cmocka_unit_test(test_int_edges),
        cmocka_unit_test(test_e07_durations),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_words),
    };

    return cmocka_run_group_tests(tests, NULL, end);
}
