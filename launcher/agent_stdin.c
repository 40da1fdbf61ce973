#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/err.h"
#include "launcher/agent_state.h"

/* A pipe for `rank` when it is the one; *read_end is the caller's to close(), -1: none. */
int agent_stdin_open(struct agent *a, int rank, int *read_end, struct err *err)
{
    int fd[2];

    *read_end = -1;
    if (rank != a->job.stdin_rank)
        return 0;
    if (pipe2(fd, O_CLOEXEC) < 0)
        return err_set(err, ERR_SYSTEM, "pipe: %m");
    fcntl(fd[1], F_SETFL, O_NONBLOCK);
    *read_end = fd[0];
    a->feed = (struct agent_stdin){ .fd = fd[1], .has = 1 };
    return 0;
}

static void watch(struct agent *a, int on)
{
    struct epoll_event e = { .events = EPOLLOUT,
                             .data.u64 = (uint64_t)AGENT_STDIN << 32 };

    if (on != a->feed.watched)
        epoll_ctl(a->epoll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, a->feed.fd, &e);
    a->feed.watched = on;
}

void agent_stdin_close(struct agent *a)
{
    if (!a->feed.has)
        return;
    watch(a, 0);
    close(a->feed.fd);
    str_release(&a->feed.bytes);
    a->feed = (struct agent_stdin){ .has = 0 };
}

void agent_stdin_write(struct agent *a)
{
    struct str *s = &a->feed.bytes;
    size_t taken = 0;
    ssize_t n = 1;

    if (!a->feed.has)
        return;
    while (taken < s->len && n > 0) {
        n = write(a->feed.fd, s->text + taken, s->len - taken);
        taken += n > 0 ? (size_t)n : 0;
    }
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        frame_put_u32(&a->to, FRAME_TAKEN, UINT32_MAX); /* it reads no more */
        agent_stdin_close(a);
        return;
    }
    if (taken) {
        memmove(s->text, s->text + taken, s->len - taken);
        s->len -= taken;
        frame_put_u32(&a->to, FRAME_TAKEN, (uint32_t)taken);
    }
    watch(a, s->len > 0);
    if (!s->len && a->feed.ended)
        agent_stdin_close(a);
}

void agent_stdin_take(struct agent *a, const char *bytes, size_t n)
{
    if (!a->feed.has)
        return;
    str_add(&a->feed.bytes, bytes, n);
    a->feed.ended |= n == 0;
    agent_stdin_write(a);
}
