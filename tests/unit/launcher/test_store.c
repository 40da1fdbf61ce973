/* store: what is written is read back, by two processes and across kill -9. */
#include "test.h"

#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/js.h"
#include "base/mem.h"
#include "launcher/process.h"
#include "launcher/store.h"

static char home[64];

static int make_home(void **state)
{
    (void)state;
    snprintf(home, sizeof(home), "/tmp/store-XXXXXX");
    return mkdtemp(home) ? 0 : -1;
}

/* The store's own files only. */
static int remove_home(void **state)
{
    static const char *const names[] = { "store.sqlite", "store.sqlite-wal",
                                         "store.sqlite-shm", "store.sqlite-journal",
                                         "events.jsonl" };
    char path[128];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", home, names[i]);
        unlink(path);
    }
    return rmdir(home);
}

static struct store *open_store(void)
{
    struct err err = ERR_INIT;
    struct store *s = NULL;

    assert_ok(store_open(home, &s, &err), &err);
    return s;
}

static int add_run(struct store *s, const char *id, const char *climb, struct err *err)
{
    struct store_run r = { .id = id,
                           .dir = home,
                           .climb = climb,
                           .name = "tiny",
                           .recipe = "name: tiny\n",
                           .fingerprint = "abc",
                           .topology = "{\"nodes\": []}",
                           .placement = "[0]",
                           .world = 2 };

    return store_run_start(s, &r, err);
}

static struct js *result(int status, const char *cause)
{
    struct js *o = js_document("launch");

    js_put_int(o, "status", status);
    js_put_str(o, "cause", cause);
    js_put_real(o, "tokens_per_s_per_gpu", 123.5);
    return o;
}

static void write_file(const char *name, const char *text)
{
    char path[128];
    FILE *fp;

    snprintf(path, sizeof(path), "%s/%s", home, name);
    fp = fopen(path, "w");
    assert_non_null(fp);
    fputs(text, fp);
    fclose(fp);
}

static void load_steps(struct store *s, const char *id)
{
    struct err err = ERR_INIT;
    char path[128];

    snprintf(path, sizeof(path), "%s/events.jsonl", home);
    assert_ok(store_steps_load(s, id, path, &err), &err);
}

static void test_run_from_start_to_end(void **state)
{
    struct store *s = open_store();
    struct err err = ERR_INIT;
    struct js *r = result(0, "ok"), *got, *steps;

    (void)state;
    assert_ok(add_run(s, "a-1", NULL, &err), &err);
    assert_int_equal(add_run(s, "a-1", NULL, &err), -1); /* ids are unique */
    err_release(&err);
    got = store_run(s, "a-1", &err);
    assert_string_equal(js_str(got, "state", ""), "running");
    assert_string_equal(js_str(got, "recipe", ""), "name: tiny\n");
    assert_non_null(js_get(js_get(got, "topology"), "nodes"));
    js_free(got);

    write_file("events.jsonl",
               "{\"rank\":0,\"event\":\"step\",\"step\":1,\"loss\":5.5}\n"
               "{\"rank\":1,\"event\":\"step\",\"step\":1}\n"
               "not json \"step\"\n"
               "{\"rank\":0,\"event\":\"alive\",\"step\":1}\n"
               "{\"rank\":0,\"event\":\"step\",\"step\":2,\"loss\":5.25}\n"
               "{\"rank\":0,\"event\":\"step\",\"step\":3,\"lo");
    load_steps(s, "a-1");
    load_steps(s, "a-1"); /* twice is once */
    assert_ok(store_run_end(s, "a-1", r, &err), &err);
    assert_err(store_run_end(s, "a-2", r, &err), &err, ERR_MISSING, "a-2");
    store_close(s);

    s = open_store();
    got = store_run(s, "a-1", &err);
    assert_string_equal(js_str(got, "state", ""), "done");
    assert_true(js_get_real(js_get(got, "result"), "tokens_per_s_per_gpu", 0) == 123.5);
    steps = store_steps(s, "a-1", &err);
    assert_int_equal(js_len(steps), 2);
    assert_true(js_get_real(js_get(js_at(steps, 1), "metrics"), "loss", 0) == 5.25);
    js_free(steps);
    js_free(got);
    js_free(r);
    store_close(s);
}

static void test_states(void **state)
{
    static const struct {
        int status;
        const char *cause, *state;
    } want[] = { { 0, "ok", "done" },
                 { 1, "rank", "failed" },
                 { 137, "signal", "failed" },
                 { 130, "stopped", "stopped" } };
    struct store *s = open_store();
    struct err err = ERR_INIT;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        struct js *r = result(want[i].status, want[i].cause), *got;
        char id[16];
        snprintf(id, sizeof(id), "s-%zu", i);
        assert_ok(add_run(s, id, "c", &err), &err);
        assert_ok(store_run_end(s, id, r, &err), &err);
        got = store_run(s, id, &err);
        assert_string_equal(js_str(got, "state", ""), want[i].state);
        assert_int_equal(js_get_int(got, "status", -1), want[i].status);
        js_free(got);
        js_free(r);
    }
    store_close(s);
}

static void test_find(void **state)
{
    struct store *s = open_store();
    struct store_climb c = { .id = "demo-c",
                             .name = "demo",
                             .recipe = "x",
                             .options = "{}",
                             .fingerprint = "f",
                             .topology = "{}" };
    struct err err = ERR_INIT;
    int is_climb;
    char *id = NULL;

    (void)state;
    assert_ok(add_run(s, "demo-1", NULL, &err), &err);
    assert_ok(add_run(s, "demo-12", NULL, &err), &err);
    assert_ok(store_climb_start(s, &c, &err), &err);
    assert_ok(store_find(s, "demo-1", &id, &is_climb, &err), &err); /* exact wins */
    assert_string_equal(id, "demo-1");
    assert_false(is_climb);
    free(id);
    assert_ok(store_find(s, "last", &id, &is_climb, &err), &err);
    assert_string_equal(id, "demo-c");
    assert_true(is_climb);
    free(id);
    assert_err(store_find(s, "demo", &id, &is_climb, &err), &err, ERR_USAGE,
               "write more of it");
    assert_err(store_find(s, "nothing", &id, &is_climb, &err), &err, ERR_MISSING,
               "muster runs");
    assert_err(store_find(s, "%", &id, &is_climb, &err), &err, ERR_MISSING, "'%'");
    store_close(s);
}

static void test_climb_and_trials(void **state)
{
    struct store *s = open_store();
    struct store_climb c = { .id = "c-1",
                             .name = "demo",
                             .recipe = "name: x\n",
                             .options = "{\"trial_steps\": 3}",
                             .fingerprint = "f",
                             .topology = "{}" };
    struct store_trial t = { .gpus = 2,
                             .candidate = 1,
                             .attempt = 0,
                             .settings = "{\"a\": \"b\"}",
                             .state = "running",
                             .predicted = NAN,
                             .tokens_per_s_per_gpu = NAN,
                             .memory_percent = NAN };
    struct err err = ERR_INIT;
    struct js *got;

    (void)state;
    assert_ok(store_climb_start(s, &c, &err), &err);
    assert_ok(store_trial_put(s, "c-1", &t, &err), &err);
    t.state = "measured";
    t.tokens_per_s_per_gpu = 10;
    assert_ok(store_trial_put(s, "c-1", &t, &err), &err);
    t.gpus = 1;
    assert_ok(store_trial_put(s, "c-1", &t, &err), &err);
    assert_int_equal(store_trial_put(s, "no such climb", &t, &err), -1);
    err_release(&err);
    got = store_trials(s, "c-1", &err);
    assert_int_equal(js_len(got), 2);
    assert_int_equal(js_get_int(js_at(got, 0), "gpus", 0), 1);
    assert_string_equal(js_str(js_get(js_at(got, 1), "settings"), "a", ""), "b");
    assert_string_equal(js_str(js_at(got, 1), "state", ""), "measured");
    js_free(got);
    store_close(s);
}

static void test_climb_is_taken_over_once(void **state)
{
    struct store *s = open_store();
    struct store_climb c = { .id = "c-1",
                             .name = "demo",
                             .recipe = "name: x\n",
                             .options = "{\"trial_steps\": 3}",
                             .fingerprint = "f",
                             .topology = "{}" };
    struct err err = ERR_INIT;
    struct js *got;

    (void)state;
    assert_ok(store_climb_start(s, &c, &err), &err);
    /* this very process runs it: nobody may take it over */
    assert_err(store_climb_resume(s, "c-1", &err), &err, ERR_FAILED, "still running");
    assert_ok(store_climb_end(s, "c-1", "stopped", NULL, &err), &err);
    assert_ok(store_climb_resume(s, "c-1", &err), &err);
    got = store_climb(s, "c-1", &err);
    assert_string_equal(js_str(got, "state", ""), "running");
    assert_int_equal(js_get_int(js_get(got, "options"), "trial_steps", 0), 3);
    js_free(got);
    assert_null(store_climb(s, "c-2", &err));
    assert_int_equal(err.code, ERR_MISSING);
    err_release(&err);
    store_close(s);
}

static void test_newer_or_broken_file_is_refused(void **state)
{
    struct err err = ERR_INIT;
    struct store *s = open_store();
    char path[128];
    sqlite3 *db;

    (void)state;
    store_close(s);
    snprintf(path, sizeof(path), "%s/store.sqlite", home);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA user_version = 99", NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    s = NULL;
    assert_err(store_open(home, &s, &err), &err, ERR_USAGE, "version 99");
    assert_null(s);
    write_file("store.sqlite", "this is no database at all, but long enough to look\n");
    assert_err(store_open(home, &s, &err), &err, ERR_SYSTEM, "not a database");
    assert_err(store_open("/no/such/home", &s, &err), &err, ERR_SYSTEM,
               "/no/such/home");
}

/* A child adds runs, and says so through a pipe, until it is killed. */
static pid_t start_writer(int tag, int count, int fd)
{
    pid_t pid = fork();

    if (pid) {
        assert_true(pid > 0); /* kill(-1) would end the world */
        return pid;
    }
    for (int i = 0; i < count; i++) {
        struct err err = ERR_INIT;
        struct store *s = NULL;
        char id[32];
        snprintf(id, sizeof(id), "w%d-%d", tag, i);
        if (store_open(home, &s, &err) < 0 || add_run(s, id, NULL, &err) < 0) {
            fprintf(stderr, "%s\n", err_text(&err));
            _exit(1);
        }
        store_close(s);
        if (fd >= 0 && write(fd, "x", 1) != 1)
            _exit(2);
    }
    _exit(0);
}

/* Both also race to create and migrate the file. */
static void test_two_processes_write(void **state)
{
    pid_t pid[2];
    struct err err = ERR_INIT;
    struct store *s;
    struct js *runs;

    (void)state;
    for (int i = 0; i < 2; i++)
        pid[i] = start_writer(i, 20, -1);
    for (int i = 0; i < 2; i++) {
        int status = -1;
        waitpid(pid[i], &status, 0);
        assert_int_equal(status, 0);
    }
    s = open_store();
    runs = store_runs(s, NULL, 0, &err);
    assert_int_equal(js_len(runs), 40);
    js_free(runs);
    store_close(s);
}

static void expect_whole(int least)
{
    struct err err = ERR_INIT;
    struct store *s = open_store();
    struct js *runs = store_runs(s, NULL, 0, &err);
    char path[128];
    sqlite3 *db;
    sqlite3_stmt *st;

    assert_true((int)js_len(runs) >= least);
    js_free(runs);
    store_close(s);
    snprintf(path, sizeof(path), "%s/store.sqlite", home);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &st, NULL);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(st, 0), "ok");
    sqlite3_finalize(st);
    sqlite3_close(db);
}

/* What was answered is there, whenever the kill comes. */
static void test_kill_at_any_instant(void **state)
{
    int answered = 0;

    (void)state;
    for (int round = 0; round < 12; round++) {
        int fd[2];
        char c;
        pid_t pid;
        assert_int_equal(pipe(fd), 0);
        pid = start_writer(100 + round, 100000, fd[1]);
        close(fd[1]);
        for (int i = 0; i <= round / 4 && read(fd[0], &c, 1) == 1; i++)
            answered++;
        usleep((useconds_t)(round * 311));
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        while (read(fd[0], &c, 1) == 1)
            answered++;
        close(fd[0]);
        expect_whole(answered);
    }
    assert_true(answered >= 12);
}

static void test_settle_finds_the_lost(void **state)
{
    struct err err = ERR_INIT;
    struct store *s;
    struct js *got;
    pid_t pid = fork();

    (void)state;
    assert_true(pid >= 0);
    if (pid == 0) {
        s = NULL;
        if (store_open(home, &s, &err) == 0)
            add_run(s, "lost-1", NULL, &err);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    s = open_store();
    assert_ok(add_run(s, "mine", NULL, &err), &err);
    assert_ok(store_settle(s, &err), &err);
    got = store_run(s, "lost-1", &err);
    assert_string_equal(js_str(got, "state", ""), "lost");
    assert_non_null(strstr(js_str(got, "reason", ""), "ended without a word"));
    js_free(got);
    got = store_run(s, "mine", &err);
    assert_string_equal(js_str(got, "state", ""), "running");
    js_free(got);
    store_close(s);
}

static void test_process_identity(void **state)
{
    struct err err = ERR_INIT;
    char *self = process_self(), other[256];

    (void)state;
    assert_int_equal(process_find(self), PROCESS_ALIVE);
    assert_ok(process_signal(self, 0, &err), &err);
    /* the same pid, started at another time, is another process */
    snprintf(other, sizeof(other), "%s1", self);
    assert_int_equal(process_find(other), PROCESS_GONE);
    assert_err(process_signal(other, 0, &err), &err, ERR_MISSING, "is gone");
    assert_int_equal(process_find("elsewhere:b:1:2"), PROCESS_REMOTE);
    assert_err(process_signal("elsewhere:b:1:2", 0, &err), &err, ERR_MISSING,
               "runs on elsewhere");
    assert_int_equal(process_find("nonsense"), PROCESS_GONE);
    free(self);
}

/* The child's identity through a pipe; then it is a zombie until it is reaped. */
static void test_a_zombie_is_gone(void **state)
{
    char id[256] = "";
    int ends[2];
    siginfo_t ended;
    pid_t pid;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
        char *self = process_self();
        (void)!write(ends[1], self, strlen(self));
        _exit(0);
    }
    assert_true(pid > 0);
    assert_true(read(ends[0], id, sizeof(id) - 1) > 0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT), 0);
    assert_int_equal(process_find(id), PROCESS_GONE);
    waitpid(pid, NULL, 0);
    close(ends[0]);
    close(ends[1]);
}

static void state_is(struct store *s, const char *id, const char *want)
{
    struct err err = ERR_INIT;
    struct js *got = store_run(s, id, &err);

    assert_non_null(got);
    assert_string_equal(js_str(got, "state", ""), want);
    js_free(got);
}

static void test_batch_job_from_queue_to_end(void **state)
{
    struct store_run r = {
        .id = "b-1", .dir = home, .name = "tiny", .job = "12", .batch = 1, .world = 2
    };
    struct store *s = open_store();
    struct err err = ERR_INIT;
    struct js *done = result(0, "ok"), *open;

    (void)state;
    assert_ok(store_run_submit(s, &r, &err), &err);
    assert_ok(store_run_waits(s, "b-1", "Resources", &err), &err);
    state_is(s, "b-1", "pending");
    assert_ok(store_settle(s, &err),
              &err); /* whose process is gone, or not: it waits */
    state_is(s, "b-1", "pending");
    open = store_open_jobs(s, &err);
    assert_int_equal(js_len(open), 1);
    assert_string_equal(js_str(js_at(open, 0), "job", ""), "12");
    js_free(open);
    assert_ok(store_run_start(s, &r, &err), &err);
    state_is(s, "b-1", "running");
    assert_ok(store_run_submit(s, &r, &err), &err); /* slower than its job */
    state_is(s, "b-1", "running");
    assert_ok(store_run_waits(s, "b-1", "requeued", &err), &err);
    r.again = 1;
    assert_ok(store_run_start(s, &r, &err), &err);
    state_is(s, "b-1", "running");
    assert_ok(store_run_end(s, "b-1", done, &err), &err);
    assert_ok(store_run_over(s, "b-1", "lost", 1, "late", &err), &err);
    assert_ok(store_run_waits(s, "b-1", "late", &err), &err);
    state_is(s, "b-1", "done");
    r.id = "b-2";
    assert_ok(store_run_submit(s, &r, &err), &err);
    assert_ok(store_run_over(s, "b-2", "cancelled", 1, "scancel", &err), &err);
    state_is(s, "b-2", "cancelled");
    js_free(done);
    store_close(s);
}

#define IN_HOME(test) cmocka_unit_test_setup_teardown(test, make_home, remove_home)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_HOME(test_run_from_start_to_end),
        IN_HOME(test_states),
        IN_HOME(test_batch_job_from_queue_to_end),
        IN_HOME(test_find),
        IN_HOME(test_climb_and_trials),
        IN_HOME(test_climb_is_taken_over_once),
        IN_HOME(test_newer_or_broken_file_is_refused),
        IN_HOME(test_two_processes_write),
        IN_HOME(test_kill_at_any_instant),
        IN_HOME(test_settle_finds_the_lost),
        cmocka_unit_test(test_process_identity),
        cmocka_unit_test(test_a_zombie_is_gone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
