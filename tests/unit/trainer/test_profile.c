/* Profiles: what intervals add up to, the trace, the table. */
#include <math.h>
#include <unistd.h>

#include "base/js.h"
#include "base/mem.h"
#include "test.h"
#include "trainer/coll.h"
#include "trainer/metrics.h"
#include "trainer/ops.h"
#include "trainer/profile.h"

static void test_spans(void **state)
{
    struct span s[] = { { 30, 40 }, { 0, 10 },  { 5, 20 },
                        { 20, 22 }, { 50, 50 }, { 35, 37 } };
    struct span b[] = { { 8, 12 }, { 21, 33 }, { 39, 60 } };

    (void)state;
    assert_int_equal(spans_merge(s, 6), 2);
    assert_int_equal(s[0].from, 0);
    assert_int_equal(s[0].to, 22);
    assert_int_equal(s[1].from, 30);
    assert_int_equal(s[1].to, 40);
    assert_int_equal(spans_length(s, 2), 32);
    /* 4 + 1 + 3 + 1 of it are in b */
    assert_int_equal(spans_outside(s, 2, b, 3), 32 - 9);
    assert_int_equal(spans_outside(s, 2, b, 0), 32);
    assert_int_equal(spans_outside(s, 0, b, 3), 0);
    assert_int_equal(spans_outside(b, 3, s, 2), 37 - 9);
    assert_int_equal(spans_merge(s, 0), 0);
}

/* Two streams: products 10-50 and 60-80, a gather 0-30 and a reduction 70-95. */
static const struct profile_event events[] = {
    { .from = 10, .to = 50, .op = 0, .kind = PROFILE_DENSE },
    { .from = 60, .to = 80, .op = 1, .kind = PROFILE_EXPERTS },
    { .from = 0, .to = 30, .track = 7, .op = 2, .kind = PROFILE_COLLECTIVE },
    { .from = 70, .to = 95, .track = 7, .op = 3, .kind = PROFILE_COLLECTIVE },
    { .from = 75,
      .to = 78,
      .track = 7,
      .op = -1,
      .kind = PROFILE_OTHER,
      .name = "k\"1" },
};

static void test_adopt(void **state)
{
    struct profile_event e[] = {
        { .track = 7, .op = -1, .kind = PROFILE_MEMORY },
        { .track = 7, .op = 2, .kind = PROFILE_COLLECTIVE },
        { .track = 1, .op = 3, .kind = PROFILE_COLLECTIVE },
        { .track = 1, .op = 4, .kind = PROFILE_DENSE },
        { .track = 1, .op = -1, .kind = PROFILE_MEMORY },
        { .track = 9, .op = -1, .kind = PROFILE_OTHER },
    };

    (void)state;
    profile_adopt(e, 6);
    assert_int_equal(e[0].kind, PROFILE_COLLECTIVE);
    assert_int_equal(e[3].kind, PROFILE_DENSE);
    assert_int_equal(e[4].kind, PROFILE_MEMORY); /* computing uses that track, too */
    assert_int_equal(e[5].kind, PROFILE_OTHER);
    profile_adopt(e, 0);
}

static void test_totals(void **state)
{
    struct profile_totals t;

    (void)state;
    profile_sum(events, 5, 0, 100, &t);
    assert_int_equal(t.span_ns, 100);
    assert_int_equal(t.kind_ns[PROFILE_DENSE], 40);
    assert_int_equal(t.kind_ns[PROFILE_EXPERTS], 20);
    assert_int_equal(t.kind_calls[PROFILE_COLLECTIVE], 2);
    assert_int_equal(t.compute_ns, 60);
    assert_int_equal(t.communication_ns, 55);
    assert_int_equal(t.exposed_ns, 10 + 15); /* 0-10, 80-95 */
    assert_int_equal(t.idle_ns, 10 + 5);     /* 50-60, 95-100 */
    profile_sum(events, 5, 5, 90, &t);       /* cut at both ends */
    assert_int_equal(t.exposed_ns, 5 + 10);
    assert_int_equal(t.idle_ns, 10);
    profile_sum(events, 0, 0, 100, &t);
    assert_int_equal(t.idle_ns, 100);
}

static const struct profile_op ops[] = {
    { .name = "linear_fwd",
      .kind = PROFILE_DENSE,
      .size = { 4, 5, 6 },
      .flops = 240,
      .from = 1,
      .to = 2 },
    { .name = "linear_fwd",
      .kind = PROFILE_DENSE,
      .size = { 4, 5, 6 },
      .flops = 240,
      .from = 3,
      .to = 4 },
    { .name = "all_gather",
      .kind = PROFILE_COLLECTIVE,
      .bytes = 1000,
      .bus = 0.5,
      .from = 5,
      .to = 6 },
    { .name = "all_gather",
      .kind = PROFILE_COLLECTIVE,
      .bytes = 2000,
      .bus = 0.5,
      .from = 7,
      .to = 8 },
};

static void test_rows(void **state)
{
    struct profile_event more[] = {
        events[0],
        events[1],
        events[2],
        events[3],
        { .from = 45, .to = 55, .op = 0, .kind = PROFILE_DENSE }
    };
    struct profile_row rows[4];

    (void)state;
    /* two calls of one shape; the first has kernels 10-50 and 45-55 */
    assert_int_equal(profile_rows(more, 5, ops, 4, 1, rows), 1);
    assert_int_equal(rows[0].calls, 2);
    assert_int_equal(rows[0].ns, 45 + 20);
    assert_int_equal(profile_rows(more, 5, ops, 4, 0, rows), 2);
    assert_int_equal(rows[0].op->bytes, 1000); /* 30 ns against 25 */
    assert_int_equal(rows[1].ns, 25);
}

static void test_text_and_trace(void **state)
{
    struct profile_data d = { .op = (struct profile_op *)ops,
                              .n_ops = 4,
                              .event = (struct profile_event *)events,
                              .n_events = 5,
                              .to = 100,
                              .first_step = 3,
                              .last_step = 4,
                              .others_s = 40e-9,
                              .rank = 1,
                              .device = "cuda" };
    char path[] = "/tmp/muster-profile-XXXXXX";
    int fd = mkstemp(path), kernels = 0;
    struct err err = ERR_INIT;
    struct js *root, *list;
    char *text;

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    text = profile_text(&d);
    assert_non_null(strstr(text, "profile of rank 1 (cuda), steps 3 to 4"));
    assert_non_null(
        strstr(text, "exposed 0.000 (25.0 % of the step); idle 0.000 (15.0 %)"));
    assert_non_null(strstr(text, "overhead: 25.0 %"));
    assert_non_null(strstr(text, "4 x 5 x 6"));
    free(text);
    d.others_s = NAN;
    d.dropped = 7;
    text = profile_text(&d);
    assert_non_null(strstr(text, "every step was profiled"));
    assert_non_null(strstr(text, "7 records found no room"));
    free(text);
    assert_ok(profile_write_trace(&d, path, &err), &err);
    assert_ok(js_load(path, &root, &err), &err);
    list = js_get(root, "traceEvents");
    for (size_t i = 0; i < js_len(list); i++) {
        const struct js *e = js_at(list, i), *args = js_get(e, "args");

        assert_int_equal(js_get_int(e, "pid", -1), 1);
        if (strcmp(js_str(e, "ph", ""), "X") != 0 || js_get_int(e, "tid", -1) < 0)
            continue;
        kernels++;
        if (js_get_real(e, "ts", -1) == 0) { /* the gather: 1000 B x 0.5 in 30 ns */
            assert_string_equal(js_str(e, "name", ""), "all_gather");
            assert_true(fabs(js_get_real(args, "busbw_gb_s", 0) - 500.0 / 30) < 1e-6);
            assert_true(fabs(js_get_real(e, "dur", 0) - 0.03) < 1e-9);
        }
        if (strcmp(js_str(e, "cat", ""), "other") == 0)
            assert_string_equal(js_str(e, "name", ""), "k\"1");
    }
    assert_int_equal(kernels, 5);
    js_free(root);
    assert_err(profile_write_trace(&d, "/no/such/folder/x", &err), &err, ERR_SYSTEM,
               "/no/such/folder/x");
    unlink(path);
}

/* Calls through the recording tables: the same results, and each a range. */
static void test_recording(void **state)
{
    const struct ops *o = &ops_cpu;
    const struct coll_ops *c = &coll_self;
    char *folder = xstrdup("/tmp/muster-profile-XXXXXX"), *cmd;
    float x[6] = { 1, 2, 3, 4, 5, 6 }, y[4] = { 0 }, w[6] = { 1, 0, 0, 0, 1, 0 };
    struct err err = ERR_INIT;
    struct profile *p;
    struct dev *d;

    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_ok(ops_cpu.open(&d, 0, 1, &err), &err);
    assert_ok(profile_open(&p, &o, d, &c, folder, 0, &err), &err);
    assert_ptr_not_equal(o, &ops_cpu);
    o->linear_fwd(d, y, x, w, NULL, 2, 2, 3); /* not yet recorded */
    assert_null(profile_table(p));
    assert_ok(profile_begin(p, 2, &err), &err);
    for (int i = 0; i < 3; i++)
        o->linear_fwd(d, y, x, w, NULL, 2, 2, 3);
    o->zero(d, x, sizeof(x));
    assert_ok(profile_end(p, 2, NAN, &err), &err);
    assert_true(y[0] == 1 && y[1] == 2 && y[2] == 4 && y[3] == 5);
    assert_non_null(strstr(profile_table(p), "2 x 2 x 3       3.0"));
    assert_null(strstr(profile_table(p), "2 x 2 x 3       4.0"));
    assert_non_null(strstr(profile_table(p), "a CPU has no kernels"));
    profile_free(p);
    ops_cpu.close(d);
    cmd = xasprintf("cd %s && test -s rank0.json && test -s rank0.txt && rm -r %s",
                    folder, folder);
    assert_int_equal(system(cmd), 0); /* NOLINT: a name this test made */
    free(cmd);
    free(folder);
}

static void test_rates_leave_it_out(void **state)
{
    struct run_summary s = { 0 };

    (void)state;
    for (int i = 1; i <= 6; i++) {
        struct step_metrics m = { .step = i,
                                  .step_s = i == 3 || i == 4 ? 100 : 1,
                                  .profiled = i == 3 || i == 4,
                                  .loss = i,
                                  .validation_loss = NAN };

        run_summary_add(&s, &m);
    }
    assert_int_equal(s.steps, 6);
    assert_true(s.loss_last == 6);
    assert_true(run_summary_step_s(&s, 2) == 1);
    run_summary_release(&s);
    run_summary_add(&s,
                    &(struct step_metrics){ .step = 1, .step_s = 1, .profiled = 1 });
    assert_true(isnan(run_summary_step_s(&s, 2)));
    run_summary_release(&s);
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(test_spans),
        cmocka_unit_test(test_adopt),
        cmocka_unit_test(test_totals),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_text_and_trace),
        cmocka_unit_test(test_recording),
        cmocka_unit_test(test_rates_leave_it_out),
    };

    return cmocka_run_group_tests(t, NULL, NULL);
}
