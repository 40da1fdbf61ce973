/* watch: who failed first, who is missing, who is silent, who is misplaced. */
#include "test.h"

#include "base/js.h"
#include "base/mem.h"
#include "launcher/watch.h"

enum { WORLD = 8 };

static struct watch *start(int64_t meet, int64_t silence, int expect)
{
    static struct watch_plan plan[WORLD];
    const struct watch_config c = { WORLD, plan, meet, silence, expect };

    for (int r = 0; r < WORLD; r++)
        plan[r] = (struct watch_plan){ r < 4 ? "gn01" : "gn02", "", "" };
    plan[1].busid = "0000:18:00.0";
    plan[2].cpus = "0-3";
    return watch_new(&c, 1000);
}

static void say(struct watch *w, int rank, int64_t now, const char *text)
{
    struct err err = ERR_INIT;
    struct js *e;

    assert_ok(js_parse(text, strlen(text), "event", &e, &err), &err);
    watch_event(w, rank, e, now);
    js_free(e);
}

#define assert_verdict(w, now, status_, cause_, culprit_, text) \
    do {                                                        \
        const struct watch_verdict *v_ = watch_judge(w, now);   \
        assert_non_null(v_);                                    \
        assert_string_equal(v_->reason, text);                  \
        assert_int_equal(v_->status, status_);                  \
        assert_string_equal(v_->cause, cause_);                 \
        assert_int_equal(v_->culprit, culprit_);                \
    } while (0)

static void test_first_failure(void **state)
{
    struct watch *w = start(0, 0, 0);

    (void)state;
    watch_exit(w, 0, 0, 0, "");
    assert_null(watch_judge(w, 1001));
    watch_exit(w, 3, 7, 0, "disk is full");
    assert_verdict(w, 1002, 7, "rank", 3,
                   "rank 3 on gn01 ended with status 7; its last words: disk is full");
    watch_exit(w, 1, 9, 0, "");
    assert_int_equal(watch_judge(w, 1003)->culprit, 3); /* the verdict stays */
    watch_free(w);
}

static void test_at_once_a_signal_came_first(void **state)
{
    struct watch *w = start(0, 0, 0);

    (void)state;
    watch_exit(w, 0, 1, 0, "peer closed the connection");
    watch_exit(w, 5, 139, 11, "");
    watch_exit(w, 6, 1, 0, "");
    assert_verdict(w, 1001, 139, "signal", 5,
                   "rank 5 on gn02 died of signal 11 (Segmentation fault)");
    watch_free(w);
}

/* exit(137) is a status, whatever shells make of it; SIGKILL has a usual cause. */
static void test_statuses_are_not_signals(void **state)
{
    struct watch *w = start(0, 0, 0);

    (void)state;
    watch_exit(w, 4, 137, 0, "");
    assert_verdict(w, 1001, 137, "rank", 4, "rank 4 on gn02 ended with status 137");
    watch_free(w);
    w = start(0, 0, 0);
    watch_exit(w, 4, 137, 9, "");
    assert_verdict(w, 1001, 137, "signal", 4,
                   "rank 4 on gn02 died of signal 9 (Killed, not by muster: out of "
                   "memory?)");
    watch_free(w);
}

static void test_at_once_the_earliest_error(void **state)
{
    struct watch *w = start(0, 0, 0);

    (void)state;
    say(w, 2, 1001,
        "{\"event\":\"error\",\"t\":20.5,\"code\":1,\"text\":\"lost rank 4\"}");
    say(w, 4, 1001, "{\"event\":\"error\",\"t\":20.1,\"code\":3,\"text\":\"no data\"}");
    watch_exit(w, 2, 1, 0, "");
    watch_exit(w, 4, 3, 0, "noise");
    assert_verdict(w, 1001, 3, "rank", 4,
                   "rank 4 on gn02 ended with status 3: no data");
    watch_free(w);
}

/* What NCCL says of a rank whose peer is gone. */
static void test_who_only_noticed_is_not_named(void **state)
{
    static const char noticed[] =
        "{\"event\":\"error\",\"t\":20.0,\"code\":4,\"text\":\"NCCL: remote process "
        "exited\",\"of_peer\":true}";
    struct watch *w = start(0, 0, 0);

    (void)state;
    say(w, 2, 1001, noticed);
    watch_exit(w, 2, 4, 0, "");
    assert_null(watch_judge(w, 1002));
    assert_int_equal(watch_next(w), 3002);
    watch_exit(w, 5, 137, 9, "");
    assert_verdict(w, 1004, 137, "signal", 5,
                   "rank 5 on gn02 died of signal 9 (Killed, not by muster: out of "
                   "memory?)");
    watch_free(w);
    w = start(0, 0, 0); /* nobody else fails */
    say(w, 2, 1001, noticed);
    watch_exit(w, 2, 4, 0, "");
    assert_null(watch_judge(w, 1002));
    assert_verdict(w, 3002, 4, "rank", 2,
                   "rank 2 on gn01 ended with status 4: NCCL: remote process exited");
    watch_free(w);
}

static void test_a_silent_rank_has_a_last_step(void **state)
{
    struct watch *w = start(0, 5000, 0);

    (void)state;
    for (int r = 0; r < WORLD; r++)
        say(w, r, 2000, "{\"event\":\"step\",\"step\":41}");
    for (int r = 0; r < WORLD; r++)
        if (r != 6)
            say(w, r, 6999, "{\"event\":\"alive\",\"step\":42}");
    assert_null(watch_judge(w, 6999));
    assert_verdict(w, 7000, 5, "timeout", 6,
                   "no sign of life for 5 s: rank 6 on gn02 (last step 41)");
    for (int r = 0; r < WORLD; r++)
        assert_int_equal(watch_misses(w, r), r == 6);
    watch_free(w);
}

/* A rank that only follows another's failure ends first, as often as not. */
static void test_the_blamed_rank_is_waited_for(void **state)
{
    static const char follows[] =
        "{\"event\":\"error\",\"t\":20.0,\"code\":1,\"text\":\"rank 4 could not\","
        "\"because_of\":4}";
    struct watch *w = start(0, 0, 0);

    (void)state;
    say(w, 2, 1001, follows);
    watch_exit(w, 2, 1, 0, "");
    assert_null(watch_judge(w, 1002));
    assert_int_equal(watch_next(w), 3002);
    say(w, 4, 1003, "{\"event\":\"error\",\"t\":20.1,\"code\":3,\"text\":\"no data\"}");
    watch_exit(w, 4, 3, 0, "");
    assert_verdict(w, 1004, 3, "rank", 4,
                   "rank 4 on gn02 ended with status 3: no data");
    watch_free(w);
    w = start(0, 0, 0); /* and not for ever */
    say(w, 2, 1001, follows);
    watch_exit(w, 2, 1, 0, "");
    assert_null(watch_judge(w, 1002));
    assert_null(watch_judge(w, 3001));
    assert_verdict(w, 3002, 1, "rank", 2,
                   "rank 2 on gn01 ended with status 1: rank 4 could not");
    watch_free(w);
}

static void test_abort_and_improper_end(void **state)
{
    struct watch *w = start(0, 0, 0);

    (void)state;
    watch_exit(w, 0, 1, 0, "");
    watch_abort(w, 6, 9, "giving up");
    assert_verdict(w, 1001, 9, "rank", 6,
                   "rank 6 on gn02 aborted with status 9: giving up");
    watch_free(w);
    w = start(0, 0, 0);
    watch_pmix(w, 1, WATCH_CONNECTED, 1001);
    watch_pmix(w, 2, WATCH_CONNECTED, 1001);
    watch_pmix(w, 2, WATCH_FINALIZED, 1002);
    watch_exit(w, 2, 0, 0, "");
    assert_null(watch_judge(w, 1003));
    watch_exit(w, 1, 0, 0, "");
    assert_int_equal(watch_judge(w, 1003)->status, 1);
    assert_int_equal(watch_judge(w, 1003)->culprit, 1);
    watch_free(w);
}

/* Case C20: the missing are named with their hosts, at the deadline and not before. */
static void test_missing_ranks(void **state)
{
    struct watch *w = start(5000, 0, 0);

    (void)state;
    assert_int_equal(watch_next(w), -1); /* nobody waits yet */
    assert_null(watch_judge(w, 100000));
    for (int r = 0; r < WORLD; r++)
        if (r != 3 && r != 6)
            watch_pmix(w, r, WATCH_CONNECTED, 100000 + r);
    assert_int_equal(watch_next(w), 105000);
    assert_null(watch_judge(w, 104999));
    assert_verdict(
        w, 105000, 5, "timeout", -1,
        "2 of 8 ranks did not arrive at PMIx_Init within 5 s: rank 3 on gn01, "
        "rank 6 on gn02");
    watch_free(w);
}

static void test_a_recipe_must_arrive(void **state)
{
    struct watch *w = start(5000, 0, 1);

    (void)state;
    for (int r = 1; r < WORLD; r++)
        say(w, r, 2000, "{\"event\":\"arrive\",\"stage\":\"wireup\"}");
    watch_shift(w, 1000); /* the user pressed Ctrl-Z for a second */
    assert_null(watch_judge(w, 6999));
    assert_verdict(
        w, 7000, 5, "timeout", 0,
        "1 of 8 ranks did not arrive at the first meeting within 5 s: rank 0 "
        "on gn01");
    watch_free(w);
}

static void test_a_meeting_may_repeat(void **state)
{
    struct watch *w = start(5000, 0, 1);

    (void)state;
    for (int round = 0; round < 3; round++)
        for (int r = 0; r < WORLD; r++)
            say(w, r, 2000 + round * 4000,
                "{\"event\":\"arrive\",\"stage\":\"fence\"}");
    assert_null(watch_judge(w, 99000));
    say(w, 4, 99000, "{\"event\":\"arrive\",\"stage\":\"fence\"}");
    watch_exit(w, 5, 0, 0, "");
    assert_null(watch_judge(w, 103999));
    assert_non_null(
        strstr(watch_judge(w, 104000)->reason, "7 of 8 ranks did not arrive at fence"));
    assert_non_null(
        strstr(watch_judge(w, 104000)->reason, "rank 5 on gn02 (ended with status 0)"));
    watch_free(w);
}

/* Ranks that met whom they wanted and left keep nobody waiting. */
static void test_nobody_waits(void **state)
{
    struct watch *w = start(5000, 0, 0);

    (void)state;
    watch_pmix(w, 0, WATCH_CONNECTED, 1000);
    watch_pmix(w, 0, WATCH_FINALIZED, 2000);
    assert_int_equal(watch_next(w), -1);
    assert_null(watch_judge(w, 99000));
    watch_free(w);
}

static void test_silence(void **state)
{
    struct watch *w = start(0, 3000, 0);

    (void)state;
    for (int r = 0; r < WORLD; r++)
        if (r != 7)
            watch_output(w, r, 3500);
    watch_exit(w, 0, 0, 0, "");
    assert_int_equal(watch_next(w), 4000);
    assert_null(watch_judge(w, 3999));
    assert_verdict(w, 4000, 5, "timeout", 7, "no sign of life for 3 s: rank 7 on gn02");
    watch_free(w);
}

static void test_places(void **state)
{
    static const struct {
        int rank;
        const char *event, *want;
    } rows[] = {
        { 0, "{\"event\":\"place\",\"host\":\"gn09\"}",
          "rank 0 runs on gn09, but the plan puts it on gn01" },
        { 1, "{\"event\":\"place\",\"host\":\"gn01\",\"busid\":\"0000:2A:00.0\"}",
          "rank 1 on gn01 uses GPU 0000:2A:00.0, but the plan gives it 0000:18:00.0" },
        { 2, "{\"event\":\"place\",\"host\":\"gn01\",\"cpus\":\"0-1\"}",
          "rank 2 on gn01 runs on CPUs 0-1, but the plan gives it 0-3" },
        { 2, "{\"event\":\"place\",\"host\":\"gn01\",\"cpus\":\"0,1,2,3\"}", NULL },
        { 1, "{\"event\":\"place\",\"host\":\"gn01\",\"busid\":\"0000:18:00.0\"}",
          NULL },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct watch *w = start(0, 0, 0);
        say(w, rows[i].rank, 1001, rows[i].event);
        if (rows[i].want)
            assert_verdict(w, 1001, 1, "start", rows[i].rank, rows[i].want);
        else
            assert_null(watch_judge(w, 1001));
        watch_free(w);
    }
}

/* CPUs that were chosen on the node count as the plan's. */
static void test_bound_there(void **state)
{
    static const char task[] = "{\"event\":\"task\",\"want_cpus\":\"4-5\"}";
    struct watch *w = start(0, 0, 0);

    (void)state;
    say(w, 5, 1001, task);
    say(w, 5, 1001, "{\"event\":\"place\",\"host\":\"gn02\",\"cpus\":\"4,5\"}");
    assert_null(watch_judge(w, 1001));
    say(w, 6, 1001, task);
    say(w, 6, 1001, "{\"event\":\"place\",\"host\":\"gn02\",\"cpus\":\"0-7\"}");
    assert_verdict(w, 1001, 1, "start", 6,
                   "rank 6 on gn02 runs on CPUs 0-7, but the plan gives it 4-5");
    watch_free(w);
}

/* Case C19: two machines of one name.  Case C16: one card in two ranks. */
static void test_clashes(void **state)
{
    struct watch *w = start(0, 0, 0);

    (void)state;
    say(w, 0, 1001, "{\"event\":\"place\",\"host\":\"gn01\",\"boot_id\":\"A\"}");
    assert_null(watch_judge(w, 1001));
    say(w, 3, 1001, "{\"event\":\"place\",\"host\":\"gn01\",\"boot_id\":\"B\"}");
    assert_verdict(w, 1001, 1, "start", 3,
                   "same host name, different machine: ranks 0 and 3 are both on gn01, "
                   "but with boot ids A and B (give the nodes different names)");
    watch_free(w);
    w = start(0, 0, 0);
    say(w, 0, 1001,
        "{\"event\":\"place\",\"host\":\"gn01\",\"boot_id\":\"A\",\"busid\":\"0000:18:"
        "00.0\"}");
    say(w, 1, 1001,
        "{\"event\":\"place\",\"host\":\"gn01\",\"boot_id\":\"A\",\"busid\":\"0000:18:"
        "00.0\"}");
    assert_verdict(w, 1001, 1, "start", 1,
                   "ranks 0 and 1 both use GPU 0000:18:00.0 of gn01");
    watch_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_failure),
        cmocka_unit_test(test_at_once_a_signal_came_first),
        cmocka_unit_test(test_statuses_are_not_signals),
        cmocka_unit_test(test_at_once_the_earliest_error),
        cmocka_unit_test(test_the_blamed_rank_is_waited_for),
        cmocka_unit_test(test_who_only_noticed_is_not_named),
        cmocka_unit_test(test_a_silent_rank_has_a_last_step),
        cmocka_unit_test(test_abort_and_improper_end),
        cmocka_unit_test(test_missing_ranks),
        cmocka_unit_test(test_bound_there),
        cmocka_unit_test(test_a_recipe_must_arrive),
        cmocka_unit_test(test_a_meeting_may_repeat),
        cmocka_unit_test(test_nobody_waits),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_clashes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
