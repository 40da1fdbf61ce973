#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "launcher/agent_state.h"
#include "launcher/sweep.h"

enum { LOOK_MS = 50 };

static int *stream_of(struct proc *p, enum agent_source source)
{
    return source == AGENT_OUT ? &p->out : source == AGENT_ERR ? &p->err : &p->event;
}

void agent_rank_put(struct agent *a, enum agent_source source, int rank,
                    const char *bytes, size_t n)
{
    frame_begin(&a->to, source == AGENT_OUT   ? FRAME_OUT
                        : source == AGENT_ERR ? FRAME_ERR
                                              : FRAME_EVENTS);
    frame_add_u32(&a->to, (uint32_t)rank);
    frame_add_piece(&a->to, bytes, n);
    frame_end(&a->to, NULL);
}

/* Up to `most` reads, so that none starves others. */
void agent_rank_read(struct agent *a, enum agent_source source, int i, int most)
{
    int *fd = stream_of(&a->proc[i], source), rank = a->job.ranks[i].rank;
    char buf[16384];

    while (*fd >= 0 && most-- > 0) {
        ssize_t n = read(*fd, buf, sizeof(buf));
        if (n >= 0)
            agent_rank_put(a, source, rank, buf, (size_t)n);
        else if (errno != EINTR)
            return;
        if (n == 0) {
            close(*fd); /* leaves its epoll by that */
            *fd = -1;
        }
    }
}

void agent_rank_look(struct agent *a)
{
    struct sweep_process *p;
    int n;

    a->scan_at = clock_ms() + LOOK_MS;
    n = sweep_find(a->mark, &p);
    free(p);
    if (n == a->left)
        return;
    a->left = n;
    frame_put_u32(&a->to, FRAME_EMPTY, (uint32_t)n);
}

/* All that it said comes before its end. */
static void rank_ended(struct agent *a, int i, int wait_status)
{
    agent_pmix_events(a);
    for (int s = AGENT_OUT; s <= AGENT_EVENTS; s++)
        agent_rank_read(a, (enum agent_source)s, i, 64);
    proc_reaped(&a->proc[i], wait_status);
    if (--a->alive == 0)
        agent_rank_look(a);
    frame_begin(&a->to, FRAME_EXIT);
    frame_add_u32(&a->to, (uint32_t)a->job.ranks[i].rank);
    frame_add_u32(&a->to, (uint32_t)wait_status);
    frame_end(&a->to, NULL);
}

void agent_rank_reap(struct agent *a)
{
    int raw;
    pid_t pid;

    while ((pid = waitpid(-1, &raw, WNOHANG)) > 0)
        for (int i = 0; a->phase == AGENT_RUNNING && i < a->job.n_ranks; i++)
            if (a->proc[i].pid == pid && !a->proc[i].ended)
                rank_ended(a, i, raw);
}
