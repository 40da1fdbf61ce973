/* Verdicts on what must be like its kind, and on counted events. */
#include "test.h"

#include <math.h>

#include "base/js.h"
#include "base/str.h"
#include "checks/catalogue.h"
#include "checks/host.h"
#include "checks/judge.h"
#include "checks/judge_like.h"
#include "checks/measure.h"
#include "checks/verdict.h"

static struct verdicts judged(struct measures *l)
{
    struct judge j = { 0 };
    struct verdicts v = { 0 };

    judge_all(&j, l, &v);
    assert_int_equal(v.n, l->n);
    measures_release(l);
    return v;
}

/* name on n01, n02, ... with these texts ("" unknown), NULL ends. */
static struct verdicts versions(const char *name, const char *const *text)
{
    struct measures l = { 0 };

    for (int i = 0; text[i]; i++) {
        char node[16];
        struct measure *m;

        snprintf(node, sizeof(node), "n%02d", i % 100 + 1);
        m = measures_add(&l, name, node, node);
        if (*text[i])
            m->value = 0;
        measure_say(m, "%s", *text[i] ? text[i] : "no file");
    }
    return judged(&l);
}

static int excluded(const struct verdicts *v)
{
    struct strlist nodes = { 0 };
    int n;

    verdicts_exclude(v, &nodes);
    n = nodes.n;
    strlist_release(&nodes);
    return n;
}

static void test_same(void **state)
{
    const char *const all[] = { "550.1", "550.1", "550.1", NULL };
    const char *const odd[] = { "550.1", "535.2", "550.1", "", NULL };
    const char *const two[] = { "550.1", "535.2", NULL };
    const char *const one[] = { "550.1", NULL };
    struct verdicts v = versions("version_driver", all);

    (void)state;
    assert_int_equal(verdicts_status(&v), 0);
    assert_string_equal(v.item[0].reason, "550.1");
    verdicts_release(&v);

    v = versions("version_driver", odd);
    assert_int_equal(v.item[0].result, VERDICT_PASS);
    assert_string_equal(v.item[0].reason, "550.1, as on 2 of 3");
    assert_int_equal(v.item[1].result, VERDICT_FAIL);
    assert_string_equal(v.item[1].node, "n02");
    assert_non_null(strstr(v.item[1].reason, "535.2 here, 550.1 on 2 of 3; install"));
    assert_int_equal(v.item[3].result, VERDICT_UNMEASURED);
    assert_int_equal(excluded(&v), 1);
    verdicts_release(&v);

    v = versions("version_driver", two); /* both are told, nobody is excluded */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(v.item[i].result, VERDICT_UNDECIDED);
        assert_non_null(strstr(v.item[i].reason, "550.1 on n01; 535.2 on n02"));
    }
    assert_int_equal(excluded(&v), 0);
    assert_int_equal(verdicts_status(&v), 1);
    verdicts_release(&v);

    v = versions("version_kernel", odd); /* not required: a warning */
    assert_int_equal(v.item[1].result, VERDICT_PASS);
    assert_true(v.item[1].warn && !v.item[0].warn);
    assert_int_equal(verdicts_status(&v), 0);
    verdicts_release(&v);

    v = versions("version_driver", one);
    assert_int_equal(verdicts_status(&v), 0);
    verdicts_release(&v);
}

static void test_chance(void **state)
{
    (void)state;
    /* 1 - exp(-0.5) (1 + 0.5 + 0.125) */
    assert_true(fabs(judge_chance(3, 0.5) - 0.0143877) < 1e-6);
    assert_true(fabs(judge_chance(1, 0.1) - 0.0951626) < 1e-6);
    assert_true(judge_chance(0, 5) == 1);
    assert_true(judge_chance(1, 0) == 0);
    assert_true(judge_chance(1e6, 3) < 1e-9);
}

/* Versions of the driver as /proc/driver/nvidia/version has had them. */
static void test_driver_version(void **state)
{
    static const char *const rows[][2] = {
        { "NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024",
          "535.183.01" },
        { "NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (x@y)",
          "580.95.05" },
        { "NVIDIA UNIX Kernel Module", "" },
        { "", "" },
    };
    char out[64];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(host_driver_version(rows[i][0], out, sizeof(out)),
                         *rows[i][1] ? 0 : -1);
        assert_string_equal(out, rows[i][1]);
    }
}

/* What measures carry besides travels in JSON. */
static void test_json(void **state)
{
    struct measures l = { 0 }, again = { 0 };
    struct measure *m = measures_add(&l, "x", "n1 mlx5_0", "n1");
    struct js *o;

    (void)state;
    m->seconds = 12.5;
    snprintf(m->kind, sizeof(m->kind), "MT_0001");
    o = measure_json(m);
    assert_int_equal(measures_add_json(&again, o, NULL), 0);
    js_free(o);
    assert_true(again.item[0].seconds == 12.5);
    assert_string_equal(again.item[0].kind, "MT_0001");
    measures_release(&l);
    measures_release(&again);
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(test_same),
        cmocka_unit_test(test_chance),
        cmocka_unit_test(test_driver_version),
        cmocka_unit_test(test_json),
    };

    return cmocka_run_group_tests(t, NULL, NULL);
}
