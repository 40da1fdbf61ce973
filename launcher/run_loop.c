#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/js.h"
#include "base/log.h"
#include "base/mem.h"
#include "launcher/backend.h"
#include "launcher/echo.h"
#include "launcher/guard.h"
#include "launcher/output.h"
#include "launcher/run_limit.h"
#include "launcher/run_state.h"

enum {
    SCAN_MS = 25,        /* between looks at /proc while a run ends */
    KILL_MS = 10000,     /* how long KILL is tried */
    HOLD_BACK_MS = 2000, /* how long a slow reader may hold up the ranks */
    LOST_MS = 2000,      /* grace when a node is lost: there is nobody to save with */
    STOOD_MS = 500,      /* so late the loop was not let run (SIGSTOP, a frozen VM) */
    CATCH_UP_MS = 1000,  /* how long it then reads, at most */
    TELL_MS = 2500,      /* so late it is worth a word */
};

/* ---- ending ---- */

static int64_t grace_of(const struct run *run)
{
    const struct run_request *q = run->q;
    int64_t grace = q->grace_ms > 0 ? q->grace_ms : RUN_GRACE_MS;

    if (q->limit_grace_ms > 0 && strcmp(run->result->cause, "limit") == 0)
        return q->limit_grace_ms;
    if (q->stop_grace_ms > 0 && strcmp(run->result->cause, "stopped") == 0)
        return q->stop_grace_ms;
    if (strcmp(run->result->cause, "node") == 0 && grace > LOST_MS)
        return LOST_MS;
    return grace;
}

static void begin_ending(struct run *run)
{
    run->phase = RUN_ENDING;
    run->phase_ends = clock_ms() + grace_of(run);
    run->next_scan = clock_ms() + SCAN_MS;
    run->backend->end(run, SIGTERM);
}

static void begin_killing(struct run *run)
{
    run->phase = RUN_KILLING;
    run->phase_ends = clock_ms() + KILL_MS;
    run->next_scan = clock_ms();
}

void run_end(struct run *run, int status, const char *cause, int culprit,
             const char *reason)
{
    struct run_result *r = run->result;

    if (*r->cause)
        return;
    snprintf(r->cause, sizeof(r->cause), "%s", cause);
    r->status = status;
    r->culprit = culprit;
    r->reason = xstrdup(reason);
    if (run->phase == RUN_GOING)
        begin_ending(run);
}

static void give_up(struct run *run)
{
    run_end(run, ERR_SYSTEM, "start", -1,
            "processes of the run cannot be killed (state D?)");
    run->phase = RUN_OVER;
}

static void go_on_ending(struct run *run, int64_t now)
{
    if (run->phase == RUN_GOING && run->alive == 0) {
        if (now < run->judge_after) /* not before the verdict */
            return;
        if (run->backend->is_empty(run))
            run->phase = RUN_OVER;
        else
            begin_ending(run); /* what ranks left behind */
        return;
    }
    if (run->phase == RUN_GOING || now < run->next_scan)
        return;
    run->next_scan = now + SCAN_MS;
    if (run->alive == 0 && run->backend->is_empty(run))
        run->phase = RUN_OVER;
    else if (run->phase == RUN_KILLING && now >= run->phase_ends)
        give_up(run);
    else if (run->phase == RUN_KILLING)
        run->backend->end(run, SIGKILL);
    else if (now >= run->phase_ends)
        begin_killing(run);
}

/* ---- what ranks print and report ---- */

static void event_line(void *arg, const char *bytes, size_t n)
{
    const struct run_rank *at = ((void **)arg)[1];
    struct run *run = ((void **)arg)[0];

    run_event_line(run, (int)(at - run->rank), bytes, n);
}

void run_rank_bytes(struct run *run, int rank, enum run_source source,
                    const char *bytes, size_t n)
{
    struct run_rank *r = &run->rank[rank];
    enum output_stream which = source == RUN_OUT ? OUTPUT_OUT : OUTPUT_ERR;
    void *arg[2] = { run, r };

    if (source == RUN_EVENTS) {
        if (n)
            line_feed(&r->events, bytes, n, event_line, arg);
        return;
    }
    if (n == 0) {
        output_end(r->output, which);
        return;
    }
    output_bytes(r->output, which, bytes, n);
    if (run->watch)
        watch_output(run->watch, rank, clock_ms());
}

static void stream_over(struct run *run, enum run_source source, int rank, int *fd)
{
    close(*fd); /* leaves its epoll by that */
    *fd = -1;
    run_rank_bytes(run, rank, source, NULL, 0);
}

static int *stream_fd(struct run_rank *r, enum run_source source)
{
    return source == RUN_OUT   ? &r->proc.out
           : source == RUN_ERR ? &r->proc.err
                               : &r->proc.event;
}

/* Read one stream of a rank; up to `most` reads, so that none starves others. */
static void read_stream(struct run *run, enum run_source source, int rank, int most)
{
    struct run_rank *r = &run->rank[rank];
    int *fd = stream_fd(r, source);
    char buf[16384];

    while (*fd >= 0 && most-- > 0) {
        ssize_t n = read(*fd, buf, sizeof(buf));
        if (n > 0)
            run_rank_bytes(run, rank, source, buf, (size_t)n);
        else if (n == 0)
            stream_over(run, source, rank, fd);
        else if (errno != EINTR)
            return;
    }
}

/* ---- ends of ranks ---- */

/* A rank that did not end well while a run is stopped was not there to save with:
 * the others wait for it in vain, so they get the short grace from here on. */
static void stop_waiting(struct run *run, const struct run_rank *r)
{
    int64_t grace = run->q->grace_ms > 0 ? run->q->grace_ms : RUN_GRACE_MS;
    int64_t ends = clock_ms() + grace;

    if (run->phase == RUN_ENDING && r->proc.status != 0 && ends < run->phase_ends)
        run->phase_ends = ends;
}

/* Everything a rank said before it ended comes before its end. */
void run_rank_ended(struct run *run, int rank, int wait_status)
{
    struct run_rank *r = &run->rank[rank];
    struct js *o = js_object();

    run->alive--;
    read_stream(run, RUN_EVENTS, rank, 64);
    read_stream(run, RUN_OUT, rank, 64);
    read_stream(run, RUN_ERR, rank, 64);
    proc_reaped(&r->proc, wait_status);
    run->result->rank_status[rank] = r->sent_away ? -1 : r->proc.status;
    js_put_int(o, "status", r->proc.status);
    js_put_bool(o, "by_muster", r->sent_away);
    run_event_note(run, rank, "exit", o);
    stop_waiting(run, r);
    if (!r->sent_away)
        watch_exit(run->watch, rank, r->proc.status, r->proc.signo,
                   output_last_words(r->output));
}

static void reap(struct run *run)
{
    int raw;
    pid_t pid;

    while ((pid = waitpid(-1, &raw, WNOHANG)) > 0)
        run->backend->child(run, pid, raw);
}

/* ---- signals to the launcher ---- */

static void pause_ranks(struct run *run)
{
    if (run->paused_at)
        return;
    run->paused_at = clock_ms();
    run->backend->signal(run, SIGSTOP);
}

static void resume_ranks(struct run *run)
{
    if (!run->paused_at)
        return;
    watch_shift(run->watch, clock_ms() - run->paused_at);
    run->paused_at = 0;
    run->backend->signal(run, SIGCONT);
}

static void stop(struct run *run, int signo)
{
    char text[96];

    resume_ranks(run);
    if (run->phase != RUN_GOING && run->phase != RUN_KILLING && signo != SIGHUP) {
        begin_killing(run); /* asked twice: no more grace */
        return;
    }
    if (guard_is_gone())
        snprintf(text, sizeof(text), "muster's guardian process died");
    else
        snprintf(text, sizeof(text), "stopped by signal %d (%s)", signo,
                 strsignal(signo));
    run_end(run, 128 + signo, "stopped", -1, text);
}

static void take_signals(struct run *run)
{
    struct signalfd_siginfo s;

    while (read(run->signals, &s, sizeof(s)) == (ssize_t)sizeof(s)) {
        int signo = (int)s.ssi_signo;
        if (run_limit_take(run, signo))
            continue;
        if (signo == SIGUSR1 || signo == SIGUSR2)
            run->backend->signal(run, signo);
        else if (signo == SIGTSTP)
            pause_ranks(run);
        else if (signo == SIGCONT)
            resume_ranks(run);
        else if (signo != SIGCHLD)
            stop(run, signo);
    }
}

/* ---- a slow reader ---- */

static void listen_to_outputs(struct run *run, int on)
{
    struct epoll_event e = { .events = EPOLLIN,
                             .data.u64 = (uint64_t)RUN_OUTPUTS << 32 };

    if (run->listening != on)
        epoll_ctl(run->epoll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, run->outputs, &e);
    if (run->listening != on && run->backend->hold)
        run->backend->hold(run, !on);
    run->listening = on;
}

/* The ranks wait for a slow reader, but not for ever: then lines are dropped. */
static void hold_back(struct run *run, int64_t now)
{
    if (!run->echo)
        return;
    if (!echo_full(run->echo))
        run->full_since = 0;
    else if (!run->full_since)
        run->full_since = now;
    listen_to_outputs(run, !run->full_since || now - run->full_since >= HOLD_BACK_MS);
}

/* `| head` has seen enough: as any program that writes to a pipe, the run ends. */
static void end_without_reader(struct run *run)
{
    if (run->echo && run->phase == RUN_GOING && echo_reader_gone(run->echo, 1))
        run_end(
            run, 128 + SIGPIPE, "stopped", -1,
            "nobody reads muster's output any more (--quiet runs without a reader)");
}

/* ---- the loop ---- */

static void dispatch(struct run *run, const struct epoll_event *e);

static void take_outputs(struct run *run)
{
    struct epoll_event e[64];
    int n = epoll_wait(run->outputs, e, 64, 0);

    for (int i = 0; i < n; i++)
        dispatch(run, &e[i]);
}

static void dispatch(struct run *run, const struct epoll_event *e)
{
    enum run_source source = (enum run_source)(e->data.u64 >> 32);

    if (source == RUN_SIGNALS)
        take_signals(run);
    else if (source == RUN_BACKEND)
        run->backend->ready(run, (int)(e->data.u64 & UINT32_MAX));
    else if (source == RUN_OUTPUTS)
        take_outputs(run);
    else
        read_stream(run, source, (int)(e->data.u64 & UINT32_MAX), 4);
}

static int sooner(int64_t a, int64_t b)
{
    return (int)(a < b ? (a > 0 ? a : 0) : b);
}

/* What is not read because our own reader is slow is no silence either. */
static int may_judge(const struct run *run, int64_t now)
{
    return run->phase == RUN_GOING && !run->paused_at && run->listening &&
           now >= run->judge_after;
}

static int wait_ms(const struct run *run, int64_t now)
{
    int64_t next = watch_next(run->watch);
    int ms = 1000;

    if (next >= 0 && may_judge(run, now))
        ms = sooner(next - now, ms);
    if (run->phase != RUN_GOING)
        ms = sooner(run->next_scan - now, ms);
    else if (run->judge_after > now)
        ms = sooner(run->judge_after - now, ms);
    if (run->full_since)
        ms = sooner(10, ms);
    return ms;
}

/* Time alone accuses nobody before all that was said is read: a launcher that stood still
 * comes back to full pipes, and to deadlines that are over. */
static void catch_up(struct run *run, int64_t stood)
{
    int64_t now = clock_ms(), until = now + CATCH_UP_MS, next = watch_next(run->watch);
    int due = may_judge(run, now) && next >= 0 && now >= next, n = 1;
    struct epoll_event e[64];

    if (!due && stood < STOOD_MS)
        return;
    if (stood >= TELL_MS)
        log_warn(
            "muster was not let run for %lld s (stopped, or the machine stood still)",
            (long long)stood / 1000);
    while (n != 0 && clock_ms() < until) {
        n = epoll_wait(run->epoll, e, 64, 0);
        for (int i = 0; i < n; i++)
            dispatch(run, &e[i]);
    }
}

static void judge(struct run *run, int64_t now)
{
    const struct watch_verdict *v =
        may_judge(run, now) ? watch_judge(run->watch, now) : NULL;

    if (!v)
        return;
    for (int r = 0; r < run->world; r++)
        if (watch_misses(run->watch, r))
            run->result->blamed[r] = 1;
    run_end(run, v->status, v->cause, v->culprit, v->reason);
}

void run_loop(struct run *run)
{
    struct epoll_event e[64];
    int64_t last = clock_ms();

    while (run->phase != RUN_OVER) {
        int ms = wait_ms(run, clock_ms()), n = epoll_wait(run->epoll, e, 64, ms);
        int64_t now = clock_ms(), stood = now - last - ms;
        last = now;
        for (int i = 0; i < n; i++)
            dispatch(run, &e[i]);
        catch_up(run, stood);
        reap(run);
        now = clock_ms();
        if (run->backend->tick) /* it may know better what the watch sees */
            run->backend->tick(run, now);
        run_limit_tick(run, now);
        judge(run, now);
        go_on_ending(run, now);
        hold_back(run, now);
        end_without_reader(run);
        fflush(run->events);
    }
    /* All writers are gone: what is left in the pipes is the end of it. */
    for (int r = 0; r < run->world; r++)
        for (int s = RUN_OUT; s <= RUN_EVENTS; s++)
            read_stream(run, (enum run_source)s, r, 64);
}
