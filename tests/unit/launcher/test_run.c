/* run_execute(): many runs in one process, as a climb makes them. */
#include "test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/js.h"
#include "base/log.h"
#include "base/mem.h"
#include "launcher/guard.h"
#include "launcher/run.h"
#include "topology/place.h"
#include "topology/topology.h"

enum { WORLD = 3 };

static struct topology *machine;
static struct placement place;

static int set_up(void **state)
{
    static int order[1] = { 0 };
    static struct place rank[WORLD];
    static char home[] = "/tmp/muster-test-XXXXXX";

    *state = mkdtemp(home);
    setenv("MUSTER_HOME", home, 1);
    log_set_level(LOG_QUIET);
    machine = topology_new("test", 1);
    snprintf(machine->nodes[0].name, sizeof(machine->nodes[0].name), "here");
    for (int r = 0; r < WORLD; r++)
        rank[r] = (struct place){ .gpu = r, .nic = -1, .numa = -1, .local_rank = r };
    place = (struct placement){
        .world = WORLD, .n_nodes = 1, .order = order, .rank = rank
    };
    return 0;
}

static int tear_down(void **state)
{
    guard_remove_tree(*state);
    topology_free(machine);
    return 0;
}

static struct run_request shell(const char *script)
{
    static char *argv[4] = { (char *)"sh", (char *)"-c" };

    argv[2] = (char *)script;
    return (struct run_request){ .topology = machine,
                                 .placement = &place,
                                 .command = argv,
                                 .quiet = 1,
                                 .grace_ms = 500 };
}

static int open_fds(void)
{
    int n = 0;

    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void test_one_after_another(void **state)
{
    struct err err = ERR_INIT;
    struct run_request q = shell("exit $RANK");
    struct run_result r;
    int fds = 0;

    (void)state;
    for (int i = 0; i < 12; i++) {
        q = shell(i % 2 ? "exit 0" : "test $RANK != 2 || exit 7; sleep 30");
        assert_ok(run_execute(&q, &r, &err), &err);
        assert_int_equal(r.status, i % 2 ? 0 : 7);
        assert_int_equal(r.culprit, i % 2 ? -1 : 2);
        assert_string_equal(r.cause, i % 2 ? "ok" : "rank");
        assert_int_equal(r.rank_status[0], i % 2 ? 0 : -1);
        run_result_release(&r);
        if (i == 3)
            fds = open_fds();
    }
    assert_int_equal(open_fds(), fds);
}

static int stop_at_start(void *arg, const struct js *e)
{
    *(int *)arg += 1;
    return strcmp(js_str(e, "event", ""), "start") == 0;
}

static void test_the_starter_may_stop_it(void **state)
{
    struct err err = ERR_INIT;
    struct run_request q = shell("sleep 30");
    struct run_result r;
    int events = 0;

    (void)state;
    q.event = stop_at_start;
    q.event_arg = &events;
    assert_ok(run_execute(&q, &r, &err), &err);
    assert_string_equal(r.cause, "stopped");
    assert_true(events > WORLD);
    run_result_release(&r);
}

static int stop_when_all_are_ready(void *arg, const struct js *e)
{
    *(int *)arg += strcmp(js_str(e, "event", ""), "ready") == 0;
    return *(int *)arg == WORLD;
}

/* Ranks that are to save together cannot, once one of them is gone: they are not
 * given the long grace of a stop. */
static void test_no_long_grace_without_all_ranks(void **state)
{
    struct run_request q = shell("test $RANK = 1 || trap '' TERM\n"
                                 "echo '{\"event\":\"ready\"}' >&$MUSTER_EVENT_FD\n"
                                 "while :; do sleep 0.05; done");
    struct err err = ERR_INIT;
    int64_t begun = clock_ms();
    struct run_result r;
    int ready = 0;

    (void)state;
    q.event = stop_when_all_are_ready;
    q.event_arg = &ready;
    q.stop_grace_ms = 60000;
    assert_ok(run_execute(&q, &r, &err), &err);
    assert_string_equal(r.cause, "stopped");
    assert_true(clock_ms() - begun < 30000);
    run_result_release(&r);
}

/* Events by the contract of heartbeat.h, from any program. */
static void test_events_make_the_result(void **state)
{
    struct err err = ERR_INIT;
    struct run_request q =
        shell("echo '{\"event\":\"step\",\"step\":1,\"loss\":5.5}' >&3;"
              "echo not json >&3;"
              "printf '{\"event\":\"done\",\"steps\":2,\"loss_first\":5.5,' >&3;"
              "echo '\"loss_last\":4.5,\"tokens_per_s_per_gpu\":100}' >&3");
    struct run_result r;
    struct js *o;

    (void)state;
    assert_ok(run_execute(&q, &r, &err), &err);
    assert_int_equal(r.status, 0);
    assert_int_equal(r.steps, 2);
    assert_true(r.loss_first == 5.5 && r.loss_last == 4.5);
    assert_true(r.tokens_per_s_per_gpu == 100);
    assert_non_null(r.summary);
    o = run_result_json(&r);
    assert_string_equal(js_str(o, "schema", ""), "muster/launch/1");
    assert_int_equal(js_len(js_get(o, "rank_status")), WORLD);
    js_free(o);
    run_result_release(&r);
}

static void test_nothing_is_left_of_what_cannot_start(void **state)
{
    struct err err = ERR_INIT;
    struct run_request q = shell("");
    char *path = xasprintf("%s/runs", (char *)*state);
    struct stat before, after;
    struct run_result r;

    q.command[0] = (char *)"no-such-program";
    assert_int_equal(stat(path, &before), 0);
    assert_err(run_execute(&q, &r, &err), &err, ERR_MISSING, "no-such-program");
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_nlink, after.st_nlink);
    q.command[0] = (char *)"sh";
    place.n_nodes = 2;
    assert_err(run_execute(&q, &r, &err), &err, ERR_MISSING, "needs 2 nodes");
    place.n_nodes = 1;
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_after_another),
        cmocka_unit_test(test_the_starter_may_stop_it),
        cmocka_unit_test(test_no_long_grace_without_all_ranks),
        cmocka_unit_test(test_events_make_the_result),
        cmocka_unit_test(test_nothing_is_left_of_what_cannot_start),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
