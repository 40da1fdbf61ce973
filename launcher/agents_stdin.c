#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "launcher/agents_state.h"
#include "launcher/node.h"
#include "launcher/run_state.h"

enum { PIECE = 1 << 15 };

static void watch(struct run *run, int on)
{
    struct agents *a = run->backend_data;
    struct epoll_event e = { .events = EPOLLIN,
                             .data.u64 = (uint64_t)RUN_BACKEND << 32 |
                                         (uint32_t)(2 * a->n + 1) };

    if (on == a->in.watched)
        return;
    /* A regular file cannot be watched: it can always be read. */
    if (epoll_ctl(run->epoll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, STDIN_FILENO, &e) < 0)
        on = 0;
    a->in.watched = on;
}

static void over(struct run *run)
{
    struct agents *a = run->backend_data;

    watch(run, 0);
    a->in.node = -1;
}

/* One read, as the descriptor may be shared and block. */
static int pass_on(struct run *run)
{
    struct agents *a = run->backend_data;
    struct frame_out *to = &a->member[a->in.node].link->to;
    char buf[PIECE];
    ssize_t n =
        read(STDIN_FILENO, buf, a->in.room < PIECE ? (size_t)a->in.room : PIECE);

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    frame_begin(to, FRAME_STDIN);
    frame_add_piece(to, buf, n > 0 ? (size_t)n : 0);
    frame_end(to, NULL);
    if (n > 0)
        a->in.room -= (int)n;
    else
        over(run);
    return n > 0;
}

/* What there is no room for stays where it is. */
static void go_on(struct run *run)
{
    struct agents *a = run->backend_data;

    if (a->in.node < 0)
        return;
    watch(run, a->in.room > 0);
    while (a->in.node >= 0 && !a->in.watched && a->in.room > 0 && pass_on(run))
        ;
}

void agents_stdin_begin(struct run *run)
{
    struct agents *a = run->backend_data;

    if (!run->q->give_stdin)
        return;
    a->in.node = a->node_of[run->q->stdin_rank];
    a->in.room = FRAME_STDIN_MOST;
    go_on(run);
}

void agents_stdin_ready(struct run *run)
{
    struct agents *a = run->backend_data;

    if (a->in.node < 0 || a->in.room <= 0)
        return;
    pass_on(run);
    go_on(run);
}

void agents_stdin_taken(struct run *run, uint32_t bytes)
{
    struct agents *a = run->backend_data;

    if (a->in.node < 0)
        return;
    if (bytes == UINT32_MAX) {
        over(run);
        return;
    }
    a->in.room = bytes < (uint32_t)(FRAME_STDIN_MOST - a->in.room)
                     ? a->in.room + (int)bytes
                     : FRAME_STDIN_MOST;
    go_on(run);
}
