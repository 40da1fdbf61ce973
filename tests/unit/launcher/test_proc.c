/* Starting a rank: what it inherits and what not, and why it could not be started. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "launcher/proc.h"
#include "test.h"

static struct proc_before before;

static struct proc_spec spec(const char *program, char *const *argv)
{
    static char *const env[] = { (char *)"PATH=/usr/bin:/bin", NULL };

    return (struct proc_spec){
        .program = program,
        .argv = argv,
        .env = env,
        .stdin_fd = -1,
        .cpus = "",
        .before = &before,
    };
}

/* All that comes; "" at a stream that is over at once. */
static void expect_stream(int fd, const char *want)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    char text[256];
    size_t n = 0;
    ssize_t got;

    do {
        assert_int_equal(poll(&p, 1, 30000), 1);
        got = read(fd, text + n, sizeof(text) - 1 - n);
        n += got > 0 ? (size_t)got : 0;
    } while (got > 0);
    assert_int_equal(got, 0);
    text[n] = '\0';
    assert_string_equal(text, want);
}

static int start(struct proc *p, const struct proc_spec *s, struct err *err)
{
    assert_int_equal(proc_spawn(p, s, err), 0);
    return proc_started(p, s, err);
}

static void reap(struct proc *p, int status)
{
    int raw;

    assert_int_equal(waitpid(p->pid, &raw, 0), p->pid);
    proc_reaped(p, raw);
    assert_int_equal(p->status, status);
    proc_close(p);
}

static void test_streams(void **state)
{
    char *argv[] = { (char *)"sh", (char *)"-c",
                     (char *)"echo out; echo err >&2; echo event >&3; "
                             "read x || echo none >&3; exit 7",
                     NULL };
    struct proc_spec s = spec("/bin/sh", argv);
    struct proc p;

    (void)state;
    assert_int_equal(start(&p, &s, NULL), 0);
    expect_stream(p.out, "out\n");
    expect_stream(p.err, "err\n");
    expect_stream(p.event, "event\nnone\n"); /* nothing to read */
    reap(&p, 7);
}

/* It leads a group of its own, and ours knows nothing of what it changed. */
static void test_apart(void **state)
{
    char *argv[] = { (char *)"sleep", (char *)"100", NULL };
    struct proc_spec s = spec("/bin/sleep", argv);
    struct sigaction now;
    sigset_t mask, after;
    struct proc p;

    (void)state;
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&mask);
    sigaddset(&mask, SIGTERM);
    proc_prepare(&before, &mask, 1);
    assert_int_equal(start(&p, &s, NULL), 0);
    assert_int_equal(getpgid(p.pid), p.pid);
    sigprocmask(SIG_SETMASK, NULL, &after);
    assert_true(sigismember(&after, SIGTERM) && !sigismember(&after, SIGHUP));
    sigaction(SIGPIPE, NULL, &now);
    assert_true(now.sa_handler == SIG_IGN);
    proc_signal(&p, SIGTERM); /* which it does not block */
    reap(&p, 128 + SIGTERM);
    proc_restore(&before);
    signal(SIGPIPE, SIG_DFL);
}

static void test_absent(void **state)
{
    char *argv[] = { (char *)"none", NULL };
    struct proc_spec s = spec("/nonexistent/none", argv);
    struct err err = ERR_INIT;
    struct proc p;

    (void)state;
    assert_int_equal(start(&p, &s, &err), -1);
    assert_int_equal(err.code, ERR_MISSING);
    assert_string_equal(err_text(&err), "cannot start /nonexistent/none: No such file "
                                        "or directory");
    err_release(&err);
    reap(&p, 127);

    s = spec("/", argv);
    assert_int_equal(start(&p, &s, &err), -1);
    assert_int_equal(err.code, ERR_SYSTEM);
    err_release(&err);
    reap(&p, 127);
}

/* With more words than the stack of a child would hold without them. */
static void test_script(void **state)
{
    enum { WORDS = 30000 };
    char path[] = "/tmp/proc-test-XXXXXX", *argv[WORDS + 1];
    int fd = mkstemp(path);
    struct proc_spec s = spec(path, argv);
    struct proc p;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "echo $#\n", 8), 8);
    assert_int_equal(fchmod(fd, 0700), 0);
    close(fd);
    for (int i = 0; i < WORDS; i++)
        argv[i] = (char *)"x";
    argv[WORDS] = NULL;
    assert_int_equal(start(&p, &s, NULL), 0);
    expect_stream(p.out, "29999\n");
    reap(&p, 0);
    unlink(path);
}

static void test_cpus(void **state)
{
    char *argv[] = { (char *)"sh", (char *)"-c",
                     (char *)"grep Cpus_allowed_list /proc/self/status | tr -dc 0-9-",
                     NULL };
    struct proc_spec s = spec("/bin/sh", argv);
    cpu_set_t mine;
    struct proc p;
    char one[16];
    int cpu = 0;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(mine), &mine), 0);
    while (!CPU_ISSET((size_t)cpu, &mine))
        cpu++;
    snprintf(one, sizeof(one), "%d", cpu);
    s.cpus = one;
    assert_int_equal(start(&p, &s, NULL), 0);
    expect_stream(p.out, one);
    reap(&p, 0);
}

static int set_up(void **state)
{
    sigset_t none;

    (void)state;
    sigemptyset(&none);
    proc_prepare(&before, &none, 1);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams), cmocka_unit_test(test_apart),
        cmocka_unit_test(test_absent),  cmocka_unit_test(test_script),
        cmocka_unit_test(test_cpus),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
