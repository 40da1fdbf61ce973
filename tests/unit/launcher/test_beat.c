/* beat: a side that is busy is not silent, and what it says stays whole.  guard: one that
 * is busy is not taken for one that is stopped. */
#include "test.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "launcher/beat.h"
#include "launcher/frame.h"
#include "launcher/guard.h"

enum { PATIENCE_MS = 60000, PERIODS_MS = 3 * FRAME_ALIVE_MS, BIG = 60000, MANY = 4 };

static struct beat *start(int fd[2])
{
    struct beat *b;

    assert_int_equal(pipe2(fd, O_CLOEXEC | O_NONBLOCK), 0);
    assert_int_equal(beat_new(1, &b, NULL), 0);
    beat_open(b, 0, fd[1]);
    return b;
}

static void test_busy(void **state)
{
    struct frame_in in = { .greeted = 1 };
    struct pollfd p = { .events = POLLIN };
    struct frame f;
    int fd[2];
    struct beat *b = start(fd);

    (void)state;
    p.fd = fd[0];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
        assert_int_equal(frame_read(&in, fd[0]), 1);
        assert_int_equal(frame_next(&in, &f, NULL), 1);
        assert_int_equal(f.type, FRAME_ALIVE);
    }
    beat_close(b, 0);
    while (frame_read(&in, fd[0]) == 1)
        ;
    clock_nap_us(PERIODS_MS * 1000LL);
    assert_int_equal(frame_read(&in, fd[0]), 0);
    beat_free(b);
    frame_in_release(&in);
    close(fd[0]);
    close(fd[1]);
}

/* The pipe is full in the middle of a frame: nothing may be said before the rest of it. */
static void test_half(void **state)
{
    static const char bytes[BIG];
    struct frame_out o = { .sent = 0 };
    struct frame_in in = { .greeted = 1 };
    struct frame f;
    int fd[2], out = 0, got;
    struct beat *b = start(fd);

    (void)state;
    for (int i = 0; i < MANY; i++) {
        frame_begin(&o, FRAME_OUT);
        frame_add_u32(&o, 0);
        frame_add_piece(&o, bytes, BIG);
        assert_int_equal(frame_end(&o, NULL), 0);
    }
    assert_int_equal(beat_flush(b, 0, &o), 0);
    assert_true(frame_pending(&o) > 0);
    clock_nap_us(PERIODS_MS * 1000LL);
    while (out < MANY) {
        assert_int_equal(beat_flush(b, 0, &o), 0);
        assert_true(frame_read(&in, fd[0]) >= 0);
        while ((got = frame_next(&in, &f, NULL)) == 1) {
            out += f.type == FRAME_OUT;
            assert_true(f.type == FRAME_OUT || f.type == FRAME_ALIVE);
            assert_int_equal(f.left, f.type == FRAME_OUT ? BIG + 8 : 0);
        }
        assert_int_equal(got, 0);
    }
    beat_free(b);
    frame_in_release(&in);
    frame_out_release(&o);
    close(fd[0]);
    close(fd[1]);
}

/* In a process of its own: the status, or -1 when the guardian has killed it. */
static int under_guard(int stops)
{
    const struct guard_options o = { .grace_ms = 100, .silence_ms = 1000 };
    struct err err = ERR_INIT;
    int status = 0, raw;
    pid_t pid = fork();

    if (pid == 0) {
        int rc = guard_enter(&o, &status, &err);
        if (rc != 0)
            _exit(rc == 1 ? status : 99);
        guard_beat();
        if (stops)
            raise(SIGSTOP);
        clock_nap_us(2500000); /* away, and not stopped */
        _exit(7);
    }
    assert_int_equal(waitpid(pid, &raw, 0), pid);
    return WIFEXITED(raw) && WEXITSTATUS(raw) != 99 ? WEXITSTATUS(raw) : -1;
}

static void test_guard(void **state)
{
    (void)state;
    assert_int_equal(under_guard(0), 7);
    assert_int_equal(under_guard(1), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_busy),
        cmocka_unit_test(test_half),
        cmocka_unit_test(test_guard),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
