#include "launcher/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "launcher/agent_copied.h"
#include "launcher/agent_state.h"
#include "launcher/beat.h"
#include "launcher/guard.h"
#include "launcher/rank_env.h"
#include "launcher/sweep.h"

enum {
    FULL = 8 << 20,  /* bytes that wait for the launcher: read no output above ... */
    ROOMY = 1 << 20, /* ... until so few are left */
    LOST_GRACE_MS = 2000 /* TERM to KILL when there is no launcher to ask */
};

void agent_follow(int epoll, int fd, enum agent_source source, int id)
{
    struct epoll_event e = { .events = EPOLLIN,
                             .data.u64 = (uint64_t)source << 32 | (uint32_t)id };

    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
}

void agent_failed(struct agent *a, const struct err *err, int rank)
{
    frame_begin(&a->to, FRAME_FAILED);
    frame_add_u32(&a->to, (uint32_t)err->code);
    frame_add_u32(&a->to, (uint32_t)rank);
    frame_add_text(&a->to, err_text(err));
    if (frame_end(&a->to, NULL) < 0) { /* a very long reason */
        frame_begin(&a->to, FRAME_FAILED);
        frame_add_u32(&a->to, (uint32_t)err->code);
        frame_add_u32(&a->to, (uint32_t)rank);
        frame_add_text(&a->to, "(the reason is too long to be told)");
        frame_end(&a->to, NULL);
    }
}

/* ---- what the launcher says ---- */

static int out_of_turn(const struct frame *f, struct err *err)
{
    return err_set(err, ERR_FAILED, "a %s message came out of turn",
                   frame_name(f->type));
}

/* ranks start in ".": agent_files.c went there. */
static void put_ready(struct agent *a)
{
    struct stat st = { .st_ino = 0 };

    (void)stat(".", &st);
    frame_begin(&a->to, FRAME_READY);
    frame_add_u32(&a->to, (uint32_t)rank_env_free_port());
    frame_add_u64(&a->to, st.st_ino);
    frame_add_u64(&a->to, (uint64_t)st.st_ctim.tv_sec);
    frame_end(&a->to, NULL);
}

static int take_job(struct agent *a, struct frame *f, struct err *err)
{
    struct err why = ERR_INIT;

    if (a->phase != AGENT_IDLE)
        return out_of_turn(f, err);
    if (agent_job_take(f, &a->job, err) < 0)
        return -1;
    if (agent_job_open(a, &why) < 0) {
        agent_failed(a, &why, -1);
        agent_job_close(a);
    } else {
        put_ready(a);
    }
    err_release(&why);
    return 0;
}

static int take_go(struct agent *a, struct frame *f, struct err *err)
{
    int port = (int)(frame_u32(f) & 0xffff);

    if (a->phase != AGENT_READY)
        return out_of_turn(f, err);
    if (frame_done(f, err) < 0)
        return -1;
    agent_job_start(a, port);
    return 0;
}

static int take_answer(struct agent *a, struct frame *f, struct err *err)
{
    if (a->phase == AGENT_IDLE)
        return out_of_turn(f, err);
    agent_pmix_answer(a, f);
    return frame_done(f, err);
}

static int take_fetch(struct agent *a, struct frame *f, struct err *err)
{
    return a->phase == AGENT_IDLE ? out_of_turn(f, err) : agent_pmix_fetch(a, f, err);
}

static int take_signal(struct agent *a, struct frame *f, struct err *err)
{
    int signo = (int)frame_u32(f);

    if (frame_done(f, err) < 0)
        return -1;
    if (signo < 1 || signo >= NSIG)
        return err_set(err, ERR_FAILED, "signal %d", signo);
    for (int i = 0; a->phase == AGENT_RUNNING && i < a->job.n_ranks; i++)
        proc_signal(&a->proc[i], signo);
    return 0;
}

static int take_end(struct agent *a, struct frame *f, struct err *err)
{
    int signo = (int)frame_u32(f);

    if (frame_done(f, err) < 0)
        return -1;
    if (a->phase == AGENT_RUNNING)
        sweep_signal(a->mark, signo == SIGKILL ? SIGKILL : SIGTERM);
    return 0;
}

static int take_hold(struct agent *a, struct frame *f, struct err *err)
{
    a->held = frame_u32(f) != 0;
    return frame_done(f, err);
}

static int take_close(struct agent *a, struct frame *f, struct err *err)
{
    agent_job_abandon(a, LOST_GRACE_MS);
    a->held = 0;
    frame_put(&a->to, FRAME_CLOSED);
    return frame_done(f, err);
}

static int take_stdin(struct agent *a, struct frame *f, struct err *err)
{
    size_t n;
    const char *bytes = frame_piece(f, &n);

    if (frame_done(f, err) < 0)
        return -1;
    if (a->feed.bytes.len + n > FRAME_STDIN_MOST)
        return err_set(err, ERR_FAILED, "more stdin came than may be on the way");
    agent_stdin_take(a, bytes, n);
    return 0;
}

static int take_alive(struct agent *a, struct frame *f, struct err *err)
{
    (void)a;
    return frame_done(f, err);
}

static int (*const takes[FRAME_TYPES])(struct agent *, struct frame *, struct err *) = {
    [FRAME_JOB] = take_job,           [FRAME_GO] = take_go,
    [FRAME_FENCE_DONE] = take_answer, [FRAME_MODEX_DONE] = take_answer,
    [FRAME_FETCH] = take_fetch,       [FRAME_SIGNAL] = take_signal,
    [FRAME_END] = take_end,           [FRAME_HOLD] = take_hold,
    [FRAME_CLOSE] = take_close,       [FRAME_ALIVE] = take_alive,
    [FRAME_STDIN] = take_stdin,
};

static int take_stream(struct agent *a, struct err *err)
{
    int rc = frame_read(&a->from, a->in), got;
    struct frame f;

    if (rc < 0)
        a->over = 1; /* the launcher is gone, or done with us */
    if (rc > 0)
        a->heard_at = clock_ms();
    while ((got = frame_next(&a->from, &f, err)) == 1)
        if (!takes[f.type] ? out_of_turn(&f, err) : takes[f.type](a, &f, err))
            return -1;
    return got;
}

/* ---- the loop ---- */

static int take_signals(struct agent *a, struct err *err)
{
    struct signalfd_siginfo s;

    while (read(a->signals, &s, sizeof(s)) == (ssize_t)sizeof(s))
        if (s.ssi_signo != SIGCHLD)
            return err_set(err, ERR_SYSTEM, "the agent got signal %d (%s)",
                           (int)s.ssi_signo, strsignal((int)s.ssi_signo));
    return 0;
}

static int dispatch(struct agent *a, const struct epoll_event *e, struct err *err);

static int take_outputs(struct agent *a, struct err *err)
{
    struct epoll_event e[64];
    int n = epoll_wait(a->outputs, e, 64, 0);

    for (int i = 0; i < n; i++)
        dispatch(a, &e[i], err);
    return 0;
}

static int dispatch(struct agent *a, const struct epoll_event *e, struct err *err)
{
    enum agent_source source = (enum agent_source)(e->data.u64 >> 32);

    switch (source) {
    case AGENT_STREAM:
        return take_stream(a, err);
    case AGENT_ROOM: /* written after every turn */
        return 0;
    case AGENT_SIGNALS:
        return take_signals(a, err);
    case AGENT_SERVER:
        return agent_pmix_events(a), 0;
    case AGENT_OUTPUTS:
        return take_outputs(a, err);
    case AGENT_STDIN:
        return agent_stdin_write(a), 0;
    default:
        agent_rank_read(a, source, (int)(e->data.u64 & UINT32_MAX), 4);
        return 0;
    }
}

/* Ranks wait when the launcher is slow, or asks for it: their pipes fill. */
static void listen_to_outputs(struct agent *a)
{
    struct epoll_event e = { .events = EPOLLIN,
                             .data.u64 = (uint64_t)AGENT_OUTPUTS << 32 };
    size_t waits = frame_pending(&a->to);
    int on = !a->held && waits < (a->listening ? FULL : ROOMY);

    if (a->listening != on)
        epoll_ctl(a->epoll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, a->outputs, &e);
    a->listening = on;
}

static int speak(struct agent *a, struct err *err)
{
    struct epoll_event e = { .events = EPOLLOUT,
                             .data.u64 = (uint64_t)AGENT_ROOM << 32 };
    int wants;

    if (beat_flush(a->beat, 0, &a->to) < 0)
        return err_set(err, ERR_SYSTEM, "the launcher does not listen any more");
    wants = frame_pending(&a->to) > 0;
    if (wants != a->writable)
        epoll_ctl(a->epoll, wants ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, a->out, &e);
    a->writable = wants;
    return 0;
}

static void warn(struct agent *a, const char *text)
{
    frame_begin(&a->to, FRAME_WARN);
    frame_add_text(&a->to, text);
    frame_end(&a->to, NULL);
}

static int turn(struct agent *a, struct err *err)
{
    int looks = a->phase == AGENT_RUNNING && a->alive == 0 && a->left > 0;
    struct epoll_event e[64];
    int n = epoll_wait(a->epoll, e, 64, looks ? 50 : FRAME_ALIVE_MS / 2);
    int64_t now = clock_ms();

    guard_beat();
    for (int i = 0; i < n; i++)
        if (dispatch(a, &e[i], err) < 0)
            return -1;
    agent_rank_reap(a);
    if (looks && now >= a->scan_at && a->phase == AGENT_RUNNING)
        agent_rank_look(a);
    listen_to_outputs(a);
    if (a->phase == AGENT_RUNNING && agent_door_closed(&a->door, now))
        warn(a, "its sshd has ended and lets nobody in any more: this run goes on, "
                "another one cannot start there");
    /* What came while we were busy, or not let run, is no silence. */
    if (now - a->heard_at > FRAME_SILENCE_MS && take_stream(a, err) < 0)
        return -1;
    if (now - a->heard_at > FRAME_SILENCE_MS)
        return err_set(err, ERR_TIMEOUT, "nothing came from the launcher for %d s",
                       FRAME_SILENCE_MS / 1000);
    return speak(a, err);
}

static int open_loop(struct agent *a, struct err *err)
{
    static const int caught[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD };
    sigset_t set;

    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_LEN(caught); i++)
        sigaddset(&set, caught[i]);
    sigaddset(&set, SIGPIPE);
    proc_prepare(&a->before, &set, 128);
    sigdelset(&set, SIGPIPE);
    a->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    a->epoll = epoll_create1(EPOLL_CLOEXEC);
    a->outputs = epoll_create1(EPOLL_CLOEXEC);
    if (a->signals < 0 || a->epoll < 0 || a->outputs < 0)
        return err_set(err, ERR_SYSTEM, "epoll: %m");
    fcntl(a->in, F_SETFL, fcntl(a->in, F_GETFL) | O_NONBLOCK);
    fcntl(a->out, F_SETFL, fcntl(a->out, F_GETFL) | O_NONBLOCK);
    agent_follow(a->epoll, a->signals, AGENT_SIGNALS, 0);
    agent_follow(a->epoll, a->in, AGENT_STREAM, 0);
    return 0;
}

static void close_loop(struct agent *a)
{
    int fd[] = { a->signals, a->epoll, a->outputs };

    for (size_t i = 0; i < ARRAY_LEN(fd); i++)
        if (fd[i] > 0)
            close(fd[i]);
    frame_in_release(&a->from);
    frame_out_release(&a->to);
}

static int rename_host(const char *host, struct err *err)
{
    if (!host || (unshare(CLONE_NEWUTS) == 0 && sethostname(host, strlen(host)) == 0))
        return 0;
    return err_set(err, ERR_SYSTEM, "cannot call this machine %s: %m", host);
}

int agent_serve(const struct agent_options *o, struct err *err)
{
    struct agent a = { .in = o->in, .out = o->out, .from = { .greeted = 1 } };
    int rc = -1;

    sweep_adopt();
    agent_door_find(&a.door);
    if (rename_host(o->host, err) == 0 && open_loop(&a, err) == 0 &&
        agent_say_hello(&a, err) == 0 && beat_new(1, &a.beat, err) == 0) {
        beat_open(a.beat, 0, a.out);
        rc = speak(&a, err);
    }
    a.heard_at = clock_ms();
    agent_copied_clean();
    while (rc == 0 && !a.over) {
        agent_copied_touch();
        rc = turn(&a, err);
    }
    agent_job_abandon(&a, LOST_GRACE_MS);
    beat_free(a.beat);
    close_loop(&a);
    return rc;
}
