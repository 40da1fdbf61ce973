#include "test.h"

#include <math.h>

#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "checks/catalogue.h"
#include "checks/judge.h"
#include "checks/replay.h"
#include "recipes/recipe.h"
#include "topology/place.h"
#include "topology/topology.h"

static const struct judge plain;

static const struct verdict *find(const struct verdicts *l, const char *object)
{
    for (int i = 0; i < l->n; i++)
        if (strcmp(l->item[i].object, object) == 0)
            return &l->item[i];
    fail_msg("no verdict about '%s'", object);
    return NULL;
}

static void judge_file(const char *path, struct verdicts *out)
{
    struct measures m = { 0 };
    struct err err = ERR_INIT;

    assert_ok(replay_load(path, &m, &err), &err);
    judge_all(&plain, &m, out);
    measures_release(&m);
}

static void test_d04_rails(void **state)
{
    struct verdicts v = { 0 };
    struct strlist nodes = { 0 };
    int failed = 0;

    (void)state;
    judge_file("tests/cases/d04_rails.tsv", &v);
    assert_int_equal(v.n, 8);
    for (int i = 0; i < v.n; i++)
        failed += v.item[i].result == VERDICT_FAIL;
    assert_int_equal(failed, 2);
    assert_int_equal(find(&v, "gn01 mlx5_3")->result, VERDICT_FAIL);
    assert_non_null(strstr(find(&v, "gn01 mlx5_3")->reason, "13.2 of 400"));
    assert_int_equal(find(&v, "gn02 mlx5_1")->result, VERDICT_FAIL);
    assert_non_null(strstr(find(&v, "gn02 mlx5_1")->reason, "240.3 of 400"));
    assert_int_equal(find(&v, "gn01 mlx5_0")->result, VERDICT_PASS);
    assert_int_equal(verdicts_status(&v), 1);
    verdicts_exclude(&v, &nodes);
    assert_int_equal(nodes.n, 2);
    assert_string_equal(nodes.item[0], "gn01");
    assert_string_equal(nodes.item[1], "gn02");
    strlist_release(&nodes);
    verdicts_release(&v);
}

static void test_c07_memlock(void **state)
{
    struct verdicts v = { 0 };

    (void)state;
    judge_file("tests/cases/c07_limits.txt", &v);
    assert_int_equal(v.n, 2);
    assert_string_equal(v.item[0].name, "memlock");
    assert_int_equal(v.item[0].result, VERDICT_FAIL);
    assert_true(v.item[0].measured == 65536 && isinf(v.item[0].expected));
    assert_non_null(strstr(v.item[0].reason, "65536 bytes, read inside the task"));
    assert_non_null(strstr(v.item[0].reason, "LimitMEMLOCK=infinity"));
    assert_string_equal(v.item[1].name, "nofile");
    assert_int_equal(v.item[1].result, VERDICT_PASS);
    assert_true(v.item[1].warn);
    assert_non_null(strstr(v.item[1].reason, "1024"));
    verdicts_release(&v);
}

/* One measure, judged. */
static struct verdict judge_value(const char *name, double value, double need,
                                  const char *unit, struct verdicts *keep)
{
    struct measures m = { 0 };

    measure_set(measures_add(&m, name, "x", "n1"), value, need, unit);
    judge_all(&plain, &m, keep);
    measures_release(&m);
    return keep->item[keep->n - 1];
}

static void test_results(void **state)
{
    struct verdicts v = { 0 };

    (void)state;
    /* C08: 8 ranks, two segments each */
    assert_int_equal(judge_value("shm", 20 << 20, 154206208, "B", &v).result,
                     VERDICT_FAIL);
    assert_int_equal(judge_value("shm", 154206208, 154206208, "B", &v).result,
                     VERDICT_PASS);
    assert_int_equal(judge_value("all_reduce.result", 1, NAN, "values", &v).result,
                     VERDICT_FAIL);
    assert_int_equal(judge_value("all_reduce.result", 0, NAN, "values", &v).result,
                     VERDICT_PASS);
    assert_true(judge_value("governor", 4, NAN, "CPUs", &v).warn);
    assert_int_equal(judge_value("clock", 3, 1, "s", &v).result, VERDICT_PASS);
    assert_true(v.item[v.n - 1].warn);
    assert_int_equal(judge_value("memory", NAN, NAN, "B", &v).result,
                     VERDICT_UNMEASURED);
    assert_int_equal(judge_value("no_such", 1, 1, "B", &v).result, VERDICT_UNMEASURED);
    /* D05: a report of 47 at 400 Gb/s */
    assert_int_equal(judge_value("nic", 47, 400, "GB/s", &v).result, VERDICT_PASS);
    assert_int_equal(judge_value("nic", 47, 400, "GiB/s", &v).result,
                     VERDICT_UNDECIDED);
    assert_int_equal(judge_value("nic", 47, 400, "Gb/s", &v).result, VERDICT_FAIL);
    assert_int_equal(judge_value("nic", 47, 400, "apples", &v).result,
                     VERDICT_UNMEASURED);
    verdicts_release(&v);
}

static int status_of(enum verdict_result a, int required, enum verdict_result b)
{
    struct verdicts l = { 0 };
    struct verdict one = {
        .name = "x", .node = "n1", .result = a, .required = required
    };
    struct strlist nodes = { 0 };
    int status;

    verdicts_add(&l, &one);
    one.result = b;
    verdicts_add(&l, &one);
    status = verdicts_status(&l);
    verdicts_exclude(&l, &nodes);
    assert_int_equal(nodes.n, a == VERDICT_FAIL || b == VERDICT_FAIL);
    strlist_release(&nodes);
    verdicts_release(&l);
    return status;
}

static void test_status(void **state)
{
    (void)state;
    assert_int_equal(status_of(VERDICT_PASS, 1, VERDICT_PASS), 0);
    assert_int_equal(status_of(VERDICT_PASS, 1, VERDICT_FAIL), 1);
    assert_int_equal(status_of(VERDICT_PASS, 1, VERDICT_UNDECIDED), 1);
    assert_int_equal(status_of(VERDICT_PASS, 1, VERDICT_UNMEASURED), 3);
    assert_int_equal(status_of(VERDICT_PASS, 0, VERDICT_UNMEASURED), 0);
    assert_int_equal(status_of(VERDICT_UNMEASURED, 1, VERDICT_FAIL), 1);
}

/* A group of CPU ranks: S such that busbw is easy, times in ms. */
static struct verdict judge_group(const double *ms, int n, struct verdicts *keep)
{
    struct measures m = { 0 };
    struct measure *one;

    measure_set(measures_add(&m, "memory_copy", "rank 0", "n1"), 12, NAN, "GB/s");
    measure_set(measures_add(&m, "memory_copy", "rank 1", "n1"), 10, NAN, "GB/s");
    one = measures_add(&m, "all_gather", "shard group, ranks 0-1", "");
    snprintf(one->device, sizeof(one->device), "cpu");
    snprintf(one->unit, sizeof(one->unit), "GB/s");
    one->ranks = 2;
    one->bytes = 10000000;
    one->n_times = n;
    one->times_ms = xcalloc((size_t)n, sizeof(*ms));
    memcpy(one->times_ms, ms, (size_t)n * sizeof(*ms));
    judge_all(&plain, &m, keep);
    measures_release(&m);
    return keep->item[keep->n - 1];
}

static void test_busbw(void **state)
{
    /* expected 5 GB/s of bus bandwidth, so 1 ms; the floor is a tenth, 10 ms */
    static const double good[] = { 90, 2, 2, 2 }, slow[] = { 1, 30, 31, 32 };
    static const double torn[] = { 1, 3, 31, 32 };
    struct verdicts v = { 0 };
    struct verdict one = judge_group(good, 4, &v);

    (void)state;
    assert_int_equal(one.result, VERDICT_PASS);
    assert_true(fabs(one.expected - 5) < 1e-9 && fabs(one.measured - 2.5) < 1e-9);
    assert_int_equal(v.n, 1); /* memory_copy is a reference, no verdict */
    one = judge_group(slow, 4, &v);
    assert_int_equal(one.result, VERDICT_FAIL);
    assert_non_null(strstr(one.reason, "memory copies"));
    assert_string_equal(one.node, "");
    one = judge_group(torn, 4, &v);
    assert_int_equal(one.result, VERDICT_UNDECIDED);
    one = judge_group(good, 1, &v);
    assert_int_equal(one.result, VERDICT_UNMEASURED);
    verdicts_release(&v);
}

/* D02 on a discovered topology: 8 GPUs behind NVSwitch. */
static void test_d02_faster_than_the_wire(void **state)
{
    static double ms[2];
    struct err err = ERR_INIT;
    struct topology *t;
    struct placement *p;
    struct judge j = { 0 };
    double link;

    (void)state;
    assert_ok(topology_from_spec("recipes/clusters/h200-16x8.yaml", &t, &err), &err);
    assert_ok(placement_make(NULL, t, 8, &p, &err), &err);
    j.placement = p;
    j.topology = t;
    for (int in_switch = 0; in_switch < 2; in_switch++) {
        struct measures m = { 0 };
        struct measure *one = measures_add(&m, "all_reduce", "shard group", "");
        struct verdicts v = { 0 };

        j.in_switch = in_switch;
        snprintf(one->device, sizeof(one->device), "cuda");
        snprintf(one->group, sizeof(one->group), "shard");
        one->ranks = 8;
        one->bytes = (int64_t)16 << 30;
        link = 370.8; /* 18 links of 20.6 GB/s */
        ms[0] = ms[1] = (double)one->bytes / 1e9 * 1.75 / (link * 480 / 450) * 1e3;
        one->times_ms = xcalloc(2, sizeof(double));
        memcpy(one->times_ms, ms, sizeof(ms));
        one->n_times = 2;
        judge_all(&j, &m, &v);
        assert_int_equal(v.item[0].result,
                         in_switch ? VERDICT_PASS : VERDICT_UNDECIDED);
        measures_release(&m);
        verdicts_release(&v);
    }
    placement_free(p);
    topology_free(t);
}

static void test_missing(void **state)
{
    struct measures m = { 0 };
    struct verdicts v = { 0 };
    int quick;

    (void)state;
    measure_set(measures_add(&m, "all_gather.result", "g", ""), 0, NAN, "values");
    judge_missing(&m, "group", LEVEL_QUICK, "the probe ended early", &v);
    assert_int_equal(v.n, 2);
    assert_int_equal(verdicts_status(&v), 3);
    quick = v.n;
    judge_missing(&m, "group", LEVEL_STANDARD, "the probe ended early", &v);
    assert_int_equal(v.n, quick + 5);
    verdicts_release(&v);
    measures_release(&m);
}

static void test_replay_errors(void **state)
{
    static const char *const bad[][2] = {
        { "gn01\tmlx5_0\t395\n", ":1: not a row" },
        { "gn01\tmlx5_0\tfast\t400\n", ":1: not a row" },
        { "# Gb/s\n\ngn01 mlx5_0 1 0\n", ":3: not a row" },
        { "{\"event\":\"measure\"}\n", "without a name" },
        { "{\"event\":\"alive\"}\n", "no measurement" },
        { "{\"event\":\n", "not valid JSON" },
        { "hello\n", "no recording" },
        { "", "no recording" },
    };
    char path[] = "/tmp/muster-replay-XXXXXX";
    int fd = mkstemp(path);
    struct err err = ERR_INIT;

    (void)state;
    assert_true(fd >= 0);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct measures m = { 0 };
        FILE *fp = fopen(path, "we");

        fputs(bad[i][0], fp);
        fclose(fp);
        assert_err(replay_load(path, &m, &err), &err, ERR_USAGE, bad[i][1]);
        measures_release(&m);
    }
    remove(path);
}

/* What is printed beside measured and expected. */
static void test_ratio(void **state)
{
    const struct verdict some = { .measured = 13.2, .expected = 400 };
    const struct verdict none[] = {
        { .measured = NAN, .expected = 1 },
        { .measured = 1, .expected = NAN },
        { .measured = 1, .expected = 0 },
        { .measured = 0, .expected = 0 },
        { .measured = 65536, .expected = INFINITY },
    };
    char *text = verdict_number(1e300, "B/s");

    (void)state;
    assert_true(fabs(verdict_ratio(&some) - 0.033) < 1e-12);
    for (size_t i = 0; i < ARRAY_LEN(none); i++)
        assert_true(isnan(verdict_ratio(&none[i])));
    assert_string_equal(text, "1e+300 B/s");
    free(text);
}

static void test_catalogue(void **state)
{
    int n;
    const struct check *all = catalogue(&n);

    (void)state;
    assert_true(n > 15);
    for (int i = 0; i < n; i++) {
        assert_ptr_equal(catalogue_find(all[i].name), &all[i]); /* no name twice */
        assert_true(strlen(all[i].name) < 32 && *all[i].why && *all[i].target);
    }
    assert_null(catalogue_find("nothing"));
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(test_d04_rails),
        cmocka_unit_test(test_c07_memlock),
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_busbw),
        cmocka_unit_test(test_d02_faster_than_the_wire),
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_replay_errors),
        cmocka_unit_test(test_ratio),
        cmocka_unit_test(test_catalogue),
    };

    return cmocka_run_group_tests(t, NULL, NULL);
}
