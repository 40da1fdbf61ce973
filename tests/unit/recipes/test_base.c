/* err, str, js: the contracts in their headers. */
#include "test.h"

#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"

static void test_err_keeps_all_of_it(void **state)
{
    struct err err = ERR_INIT;
    char *big = xcalloc(100001, 1);

    (void)state;
    memset(big, 'x', 100000);
    assert_int_equal(err_set(&err, ERR_SYSTEM, "%s", big), -1);
    assert_int_equal(strlen(err_text(&err)), 100000);
    err_wrap(&err, "reading %s", "a");
    assert_int_equal(strlen(err_text(&err)), 100000 + strlen("reading a: "));
    err_release(&err);
    assert_int_equal(err.code, ERR_NONE);
    free(big);
}

static void test_err_lists_problems(void **state)
{
    struct err err = ERR_INIT;

    (void)state;
    err_more(&err, ERR_USAGE, "f:%d: one", 1);
    err_more(&err, ERR_USAGE, "f:%d: two", 2);
    assert_string_equal(err_text(&err), "f:1: one\nf:2: two");
    assert_int_equal(err.code, ERR_USAGE);
    err_release(&err);
}

static void test_err_set_may_quote_itself(void **state)
{
    struct err err = ERR_INIT;

    (void)state;
    err_set(&err, ERR_FAILED, "inner");
    err_set(&err, ERR_SYSTEM, "outer: %s", err_text(&err));
    assert_string_equal(err_text(&err), "outer: inner");
    err_release(&err);
}

static void test_str_grows(void **state)
{
    struct str s = STR_INIT;
    char *taken;

    (void)state;
    for (int i = 0; i < 1000; i++)
        str_addf(&s, "%03d", i % 1000);
    assert_int_equal(s.len, 3000);
    taken = str_take(&s);
    assert_int_equal(strlen(taken), 3000);
    assert_null(s.text);
    free(taken);
}

static void test_nearest(void **state)
{
    const char *names[] = { "launch", "plan", "report" };

    (void)state;
    assert_string_equal(str_nearest("plam", names, 3), "plan");
    assert_string_equal(str_nearest("lanch", names, 3), "launch");
    assert_null(str_nearest("x", names, 3));
    assert_null(str_nearest("nothing-like-it", names, 3));
}

static void test_js_round_trip(void **state)
{
    struct err err = ERR_INIT;
    struct js *o = js_document("plan"), *back;
    char *line;

    (void)state;
    js_put_int(o, "world", 9007199254740993);
    js_put_str(o, "bad", "\xff\xfe");
    js_put_real(o, "nan", 0.0 / 0.0);
    line = js_line(o);
    assert_ok(js_parse(line, strlen(line), "line", &back, &err), &err);
    assert_string_equal(js_str(back, "schema", ""), "muster/plan/1");
    assert_true(js_get_int(back, "world", 0) == 9007199254740993);
    assert_string_equal(js_str(back, "bad", ""), "??");
    assert_err(js_parse("{\"a\":1,\"a\":2}", 13, "dup", &back, &err), &err, ERR_USAGE,
               "dup:1");
    assert_err(js_parse("{} x", 4, "tail", &back, &err), &err, ERR_USAGE, "tail");
    free(line);
    js_free(o);
    js_free(back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_err_keeps_all_of_it),
        cmocka_unit_test(test_err_lists_problems),
        cmocka_unit_test(test_err_set_may_quote_itself),
        cmocka_unit_test(test_str_grows),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_js_round_trip),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
