/* backend_agents.c - ranks on several nodes, each behind an agent (node.h). */
#include "launcher/backend.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/agents_state.h"
#include "launcher/hub.h"
#include "launcher/node.h"
#include "launcher/pmix_server.h"
#include "launcher/rank_env.h"
#include "launcher/run_state.h"
#include "topology/place.h"

enum { READY_MS = 60000, CLOSE_MS = 5000, TICK_MS = 250 };

/* ---- sending ---- */

static void watch_room(struct run *run, struct agents *a, int n)
{
    struct member *m = &a->member[n];
    int wants = !m->link->lost && frame_pending(&m->link->to) > 0;
    struct epoll_event e = { .events = EPOLLOUT,
                             .data.u64 =
                                 (uint64_t)RUN_BACKEND << 32 | (uint32_t)(a->n + n) };

    if (wants != m->waiting)
        epoll_ctl(run->epoll, wants ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, m->link->write_fd,
                  &e);
    m->waiting = wants;
}

void agents_flush(struct run *run)
{
    struct agents *a = run->backend_data;

    for (int n = 0; n < a->n; n++) {
        node_flush(a->member[n].link);
        watch_room(run, a, n);
    }
}

void agents_tell(struct run *run, enum frame_type type, int value)
{
    struct agents *a = run->backend_data;

    for (int n = 0; n < a->n; n++)
        if (!a->member[n].link->lost)
            frame_put_u32(&a->member[n].link->to, type, (uint32_t)value);
    agents_flush(run);
}

/* ---- ends ---- */

static void end_ranks(struct run *run, int n)
{
    const struct agents *a = run->backend_data;

    for (int r = 0; r < run->world; r++) {
        if (a->node_of[r] != n || a->over[r])
            continue;
        a->over[r] = 1;
        run->rank[r].sent_away = 1;
        if (a->went)
            run_rank_ended(run, r, 0);
        else
            run->alive--;
    }
}

/* A node that does not play any more: its agent ends what is there by itself. */
static void drop(struct run *run, int n)
{
    struct agents *a = run->backend_data;
    struct member *m = &a->member[n];

    epoll_ctl(run->epoll, EPOLL_CTL_DEL, m->link->proc.out, NULL);
    m->link->lost = 1;
    watch_room(run, a, n);
    node_hang_up(m->link);
    m->closed = 1;
    m->left = 0;
    end_ranks(run, n);
}

void agents_blame(struct run *run, int n)
{
    const struct agents *a = run->backend_data;

    for (int r = 0; r < run->world; r++)
        if (a->node_of[r] == n)
            run->result->blamed[r] = 1;
}

static void lost(struct run *run, int n, const char *why)
{
    const struct agents *a = run->backend_data;
    char *text = xasprintf("node %s is lost: %s", a->member[n].link->name, why);

    if (run->phase == RUN_GOING)
        agents_blame(run, n);
    run_end(run, ERR_SYSTEM, "node", -1, text);
    free(text);
    drop(run, n);
}

static void failed(struct run *run, int n, const struct err *why)
{
    const struct agents *a = run->backend_data;
    char *text = xasprintf("node %s: %s", a->member[n].link->name, err_text(why));

    if (run->phase == RUN_GOING)
        agents_blame(run, n);
    run_end(run, (int)why->code, a->went ? "node" : "start", -1, text);
    free(text);
    drop(run, n);
}

void agents_call_off(struct run *run)
{
    struct agents *a = run->backend_data;

    for (int n = 0; n < a->n && !a->went; n++) {
        a->member[n].left = 0;
        end_ranks(run, n);
    }
}

static void read_member(struct run *run, int n)
{
    const struct agents *a = run->backend_data;
    struct node_link *l = a->member[n].link;
    struct err err = ERR_INIT;
    struct frame f;
    int rc, got;
    char *why;

    if (l->lost)
        return;
    rc = node_read(l);
    while ((got = frame_next(&l->from, &f, &err)) == 1) {
        got = agents_take(run, n, &f, &err);
        if (got < 0)
            break;
    }
    if (got < 0) {
        failed(run, n, &err);
    } else if (rc < 0) {
        why = node_why_lost(l);
        lost(run, n, why);
        free(why);
    }
    err_release(&err);
}

/* ---- the clock ---- */

static void not_ready(struct run *run)
{
    struct agents *a = run->backend_data;
    struct str text = STR_INIT;

    str_addf(&text,
             "did not take the job within %lld s:", (long long)(a->ready_ms / 1000));
    for (int n = 0; n < a->n; n++) {
        if (a->member[n].ready)
            continue;
        str_addf(&text, " node %s", a->member[n].link->name);
        agents_blame(run, n);
    }
    run_end(run, ERR_TIMEOUT, "timeout", -1, text.text);
    str_release(&text);
}

static void tick(struct run *run)
{
    struct agents *a = run->backend_data;
    int64_t now = clock_ms();
    char text[64];

    nodes_idle(a->nodes);
    for (int n = 0; n < a->n; n++) {
        struct node_link *l = a->member[n].link;
        if (l->lost)
            continue;
        snprintf(text, sizeof(text), "nothing came from it for %d s",
                 FRAME_SILENCE_MS / 1000);
        /* What waits to be read, because we were busy or not let run, is no silence. */
        if (now - l->heard_at > FRAME_SILENCE_MS)
            read_member(run, n);
        if (now - l->heard_at > FRAME_SILENCE_MS && !l->lost)
            lost(run, n, text);
    }
    if (!a->went && run->phase == RUN_GOING && now > a->ready_by)
        not_ready(run);
    if (!a->went && run->phase != RUN_GOING)
        agents_call_off(run);
}

static void agents_ready(struct run *run, int id)
{
    struct agents *a = run->backend_data;
    uint64_t times;

    if (id < a->n)
        read_member(run, id);
    else if (id == 2 * a->n && read(a->timer, &times, sizeof(times)) > 0)
        tick(run);
    else if (id == 2 * a->n + 1)
        agents_stdin_ready(run);
    agents_flush(run);
}

/* ---- the run's life ---- */

static int agents_check(const struct run_request *q, struct err *err)
{
    (void)q;
    (void)err;
    return 0;
}

static void fill_members(struct run *run, struct agents *a)
{
    const struct placement *p = run->q->placement;

    a->n = p->n_nodes;
    a->member = xcalloc((size_t)a->n, sizeof(*a->member));
    a->node_of = xcalloc((size_t)run->world, sizeof(*a->node_of));
    a->over = xcalloc((size_t)run->world, 1);
    for (int n = 0; n < a->n; n++) {
        a->member[n].link = &a->nodes->link[p->order[n]];
        a->member[n].left = -1;
        for (int r = 0; r < run->world; r++)
            if (p->rank[r].node == p->order[n])
                a->node_of[r] = n;
    }
}

static int agents_prepare(struct run *run, struct err *err)
{
    struct agents *a = run->backend_data = xcalloc(1, sizeof(*a));
    const struct itimerspec often = { { 0, TICK_MS * 1000000L },
                                      { 0, TICK_MS * 1000000L } };

    a->nodes = run->q->nodes;
    a->in.node = -1;
    fill_members(run, a);
    for (int n = 0; n < a->n; n++)
        a->member[n].link->busy = 1;
    a->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (a->timer < 0 || timerfd_settime(a->timer, 0, &often, NULL) < 0)
        return err_set(err, ERR_SYSTEM, "timerfd: %m");
    for (int n = 0; n < a->n; n++)
        if (a->member[n].link->lost)
            return err_set(err, ERR_SYSTEM, "node %s is lost", a->member[n].link->name);
    run_follow(run->epoll, a->timer, RUN_BACKEND, 2 * a->n);
    a->hub = hub_new(a->n, run->world, a->node_of, pmixd_not_found, agents_answer, run);
    return 0;
}

static int agents_start(struct run *run, const struct run_launch *l, int *rank,
                        struct err *err)
{
    struct agents *a = run->backend_data;
    struct rank_env_start start;

    *rank = -1;
    rank_env_choose(&start, run->id, NULL);
    a->ready_ms = run->q->start_timeout_ms > 0 && run->q->start_timeout_ms < READY_MS
                      ? run->q->start_timeout_ms
                      : READY_MS;
    a->ready_by = clock_ms() + a->ready_ms;
    run->alive = run->world;
    for (int n = 0; n < a->n; n++) {
        struct node_link *link = a->member[n].link;
        if (agents_put_job(run, l, start.job_key, n, err) < 0) {
            agents_call_off(run);
            return -1;
        }
        link->heard_at = clock_ms();
        run_follow(run->epoll, link->proc.out, RUN_BACKEND, n);
    }
    agents_flush(run);
    return 0;
}

/* A node's carrier ended: its stream says so too. */
static void agents_child(struct run *run, pid_t pid, int wait_status)
{
    const struct agents *a = run->backend_data;

    for (int i = 0; a && i < a->nodes->n; i++)
        if (a->nodes->link[i].proc.pid == pid)
            proc_reaped(&a->nodes->link[i].proc, wait_status);
}

static void agents_signal(struct run *run, int signo)
{
    agents_tell(run, FRAME_SIGNAL, signo);
}

static void agents_end(struct run *run, int signo)
{
    const struct agents *a = run->backend_data;

    for (int r = 0; r < run->world; r++)
        run->rank[r].sent_away |= !a->over[r];
    agents_tell(run, FRAME_END, signo);
    agents_call_off(run);
}

static int agents_is_empty(const struct run *run)
{
    const struct agents *a = run->backend_data;

    for (int n = 0; n < a->n; n++)
        if (a->member[n].left != 0)
            return 0;
    return 1;
}

static void agents_hold(struct run *run, int on)
{
    agents_tell(run, FRAME_HOLD, on);
}

/* The servers leave together. */
static void wait_for_closed(struct run *run, struct agents *a)
{
    int64_t until = clock_ms() + CLOSE_MS;
    int open = 1;

    while (open && clock_ms() < until) {
        open = 0;
        for (int n = 0; n < a->n; n++) {
            read_member(run, n);
            open += !a->member[n].closed;
        }
        agents_flush(run);
        if (open)
            clock_nap_us(1000);
    }
}

static void agents_close(struct run *run)
{
    struct agents *a = run->backend_data;

    if (!a)
        return;
    for (int n = 0; n < a->n; n++)
        if (!a->member[n].link->lost)
            frame_put(&a->member[n].link->to, FRAME_CLOSE);
    if (a->hub)
        wait_for_closed(run, a);
    for (int n = 0; n < a->n; n++) {
        epoll_ctl(run->epoll, EPOLL_CTL_DEL, a->member[n].link->proc.out, NULL);
        a->member[n].link->busy = 0;
    }
    if (a->timer > 0)
        close(a->timer);
    hub_free(a->hub);
    free(a->member);
    free(a->node_of);
    free(a->over);
    free(a);
    run->backend_data = NULL;
}

const struct run_backend backend_agents = {
    .name = "agents",
    .check = agents_check,
    .prepare = agents_prepare,
    .start = agents_start,
    .ready = agents_ready,
    .child = agents_child,
    .signal = agents_signal,
    .end = agents_end,
    .is_empty = agents_is_empty,
    .close = agents_close,
    .hold = agents_hold,
};
