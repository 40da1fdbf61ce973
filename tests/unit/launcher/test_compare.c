/* compare: case G03, are two runs comparable? */
#include "test.h"

#include "base/js.h"
#include "base/mem.h"
#include "launcher/compare.h"

static struct js *run(int world, int batch, const char *more)
{
    struct js *o = js_object(), *versions = js_object();
    char *recipe =
        xasprintf("model: {preset: tiny}\n"
                  "training: {local_batch_size: 1, global_batch_size: %d%s}\n",
                  batch, more);

    js_put_str(versions, "muster", "1");
    js_put_str(o, "id", "r");
    js_put_int(o, "world", world);
    js_put_str(o, "recipe", recipe);
    js_put(o, "versions", versions);
    free(recipe);
    return o;
}

static enum comparison compare(struct js *a, struct js *b, struct strlist *why)
{
    struct err err = ERR_INIT;
    enum comparison c = COMPARE_NO;

    assert_ok(compare_runs(a, b, &c, why, &err), &err);
    js_free(a);
    js_free(b);
    return c;
}

static void test_g03_weak_and_strong(void **state)
{
    struct strlist why = { 0 };

    (void)state;
    assert_int_equal(compare(run(1, 256, ""), run(8, 2048, ""), &why), COMPARE_WEAK);
    assert_int_equal(compare(run(1, 256, ""), run(8, 256, ""), &why), COMPARE_STRONG);
    assert_int_equal(compare(run(1, 256, ""), run(8, 512, ""), &why), COMPARE_MIXED);
    assert_int_equal(compare(run(8, 256, ""), run(8, 256, ""), &why), COMPARE_SAME);
    assert_int_equal(compare(run(1, -1, ""), run(8, -1, ""), &why), COMPARE_WEAK);
    assert_int_equal(why.n, 0);
}

static void test_g03_unlike_runs_are_refused(void **state)
{
    struct strlist why = { 0 };
    struct err err = ERR_INIT;
    struct js *a = run(1, 8, ""), *b = js_object();
    enum comparison c;

    (void)state;
    assert_int_equal(compare(run(1, 8, ", steps: 20"),
                             run(8, 8, ", steps: 100, deterministic: true"), &why),
                     COMPARE_NO);
    assert_int_equal(why.n, 2);
    assert_string_equal(why.item[0], "training.deterministic auto and true");
    assert_string_equal(why.item[1], "training.steps 20 and 100");
    strlist_release(&why);
    assert_err(compare_runs(a, b, &c, &why, &err), &err, ERR_USAGE, "not a recipe");
    js_free(a);
    js_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_g03_weak_and_strong),
        cmocka_unit_test(test_g03_unlike_runs_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
