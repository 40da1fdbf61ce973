/* sweep: only the run's own processes, wherever they hide (case C13). */
#include "test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/sweep.h"

static int holds(const struct sweep_process *p, int n, pid_t pid)
{
    for (int i = 0; i < n; i++)
        if (p[i].pid == pid)
            return 1;
    return 0;
}

static pid_t sleeper(void)
{
    pid_t pid = fork();

    if (pid == 0)
        for (;;)
            pause();
    return pid;
}

/* A caller (one process of many under a parent) finds its children, and neither
 * itself, its parent, its siblings nor anybody else. */
static void test_finds_only_descendants(void **state)
{
    pid_t sibling = sleeper(), caller;
    int ends[2], bad, raw;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    caller = fork();
    if (caller == 0) {
        struct sweep_process *p;
        pid_t child = sleeper();
        int n = sweep_find(NULL, &p);

        bad = n != 1 || !holds(p, n, child) || holds(p, n, sibling) ||
              holds(p, n, getpid()) || holds(p, n, getppid()) || holds(p, n, 1);
        free(p);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        bad |= sweep_find(NULL, &p) != 0;
        free(p);
        _exit(bad);
    }
    waitpid(caller, &raw, 0);
    assert_int_equal(raw, 0);
    kill(sibling, SIGKILL);
    waitpid(sibling, NULL, 0);
    close(ends[0]);
    close(ends[1]);
}

/* Signals go to descendants only: a sibling that would die of TERM lives. */
static void test_signals_only_descendants(void **state)
{
    pid_t sibling = sleeper(), caller;
    int raw;

    (void)state;
    caller = fork();
    if (caller == 0) {
        pid_t child = sleeper();
        int hit = sweep_signal(NULL, SIGTERM);

        waitpid(child, &raw, 0);
        _exit(hit == 1 && WIFSIGNALED(raw) && WTERMSIG(raw) == SIGTERM ? 0 : 1);
    }
    waitpid(caller, &raw, 0);
    assert_int_equal(raw, 0);
    assert_int_equal(waitpid(sibling, &raw, WNOHANG), 0);
    kill(sibling, SIGKILL);
    waitpid(sibling, NULL, 0);
}

/* A daemon: two forks, a session of its own, TERM ignored.  The subreaper finds it. */
static void test_ends_daemons(void **state)
{
    pid_t caller = fork();
    int raw;

    (void)state;
    if (caller == 0) {
        pid_t middle;
        int fd[2], c;

        sweep_adopt();
        if (pipe(fd) < 0)
            _exit(9);
        middle = fork();
        if (middle == 0) {
            if (fork() == 0) {
                setsid();
                signal(SIGTERM, SIG_IGN);
                (void)!write(fd[1], "x", 1);
                close(fd[1]);
                for (;;)
                    pause();
            }
            _exit(0);
        }
        waitpid(middle, NULL, 0);
        (void)!read(fd[0], &c, 1);
        _exit(sweep_end(NULL, 100));
    }
    waitpid(caller, &raw, 0);
    assert_int_equal(raw, 0);
}

/* By mark: a process that does not descend from the caller. */
static void test_finds_by_mark(void **state)
{
    char *mark = xasprintf("SWEEP_TEST_MARK=%d", (int)getpid());
    char *const env[] = { mark, NULL };
    char *const argv[] = { (char *)"sleep", (char *)"60", NULL };
    pid_t marked = fork(), caller;
    int raw;

    (void)state;
    if (marked == 0) {
        execve("/bin/sleep", argv, env);
        _exit(127);
    }
    for (int i = 0; i < 100; i++) { /* until it has become sleep */
        struct sweep_process *p;
        int n;

        usleep(10000);
        caller = fork();
        if (caller == 0) {
            n = sweep_find(mark, &p);
            _exit(n == 1 && p[0].pid == marked && sweep_signal(mark, SIGTERM) == 1 ? 0
                                                                                   : 1);
        }
        waitpid(caller, &raw, 0);
        if (raw == 0)
            break;
    }
    assert_int_equal(raw, 0);
    waitpid(marked, &raw, 0);
    assert_true(WIFSIGNALED(raw) && WTERMSIG(raw) == SIGTERM);
    free(mark);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds_only_descendants),
        cmocka_unit_test(test_signals_only_descendants),
        cmocka_unit_test(test_ends_daemons),
        cmocka_unit_test(test_finds_by_mark),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
