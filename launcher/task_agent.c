#include "launcher/task_agent.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "launcher/env.h"
#include "launcher/proc.h"
#include "launcher/slurm_master.h"
#include "launcher/sweep.h"
#include "launcher/task_about.h"
#include "launcher/task_bind.h"
#include "launcher/task_keepers.h"
#include "launcher/task_pmix.h"
#include "launcher/task_rank.h"
#include "launcher/task_reach.h"
#include "launcher/task_state.h"
#include "launcher/task_voice.h"
#include "launcher/task_wire.h"
#include "trainer/kvdial.h"

enum {
    WORD_MS = 10000,
    SCAN_MS = 50,
    SAME_SIGNAL_MS = 200,
    GATHER_MS = 50,
    WAIT_MOST_MS = 60000,
    PIECE = 16384,
};

/* What is waited for: STREAMS are out, err and events, KEEPER is of two. */
enum { SIGNALS, LAUNCHER, STREAMS, KEEPER = STREAMS + 3 };

struct task {
    int signals;
    struct task_voice voice; /* to the launcher, and its connection */
    struct str in;           /* from the launcher */
    struct task_start start;
    struct proc_before before;
    struct task_keepers keepers;
    int pmix_port, met; /* 0: not looked for */
    int64_t pmix_look_at;
    int64_t events_at;  /* clock_ms() when they are read; 0: when there are some */
    struct proc rank;   /* pid 0: not started */
    int raw, ended;     /* wait status of the rank */
    int64_t kill_at;    /* clock_ms(); 0: not ending */
    int killing, asked; /* asked: a signal came, from the launcher or another */
};

/* ---- the rank ---- */

/* srun gives its stdin to this task alone. */
static int reads_stdin(void)
{
    const char *task = getenv("SLURM_PROCID");

    return str_eq(getenv(TASK_STDIN), task);
}

/* What is known of the rank itself is said before anything that it says. */
static int start_rank(struct task *a, struct err *err)
{
    struct task_start *s = &a->start;
    struct proc_spec spec = { .program = s->program,
                              .argv = s->argv.item,
                              .stdin_fd = reads_stdin() ? STDIN_FILENO : -1,
                              .before = &a->before };
    struct task_bound bound;
    char *line, address[48];
    struct env env;
    int rc = -1;

    if (chdir(s->cwd) < 0)
        return err_set(err, ERR_MISSING,
                       "%s: %m on this node: start from a folder that all nodes have",
                       s->cwd);
    slurm_master_own_address(a->voice.fd, address);
    if (task_rank_prepare(s, address, &env, &bound, err) < 0)
        return -1;
    spec.env = env.item;
    spec.cpus = bound.cpus;
    if (proc_spawn(&a->rank, &spec, err) == 0)
        rc = proc_started(&a->rank, &spec, err);
    if (rc == 0) {
        line = task_state_line(a->rank.pid, &bound, &env);
        task_voice_keep(&a->voice, TASK_EVENT, line, strlen(line));
        free(line);
    }
    task_keepers_begin(&a->keepers, clock_ms());
    a->pmix_port = s->look_ms > 0 ? task_pmix_port() : 0;
    a->pmix_look_at = clock_ms() + s->look_ms;
    env_release(&env);
    return rc;
}

static void end(struct task *a)
{
    if (a->kill_at)
        return;
    a->kill_at = clock_ms() + a->start.grace_ms;
    sweep_signal(NULL, SIGTERM);
}

static void take_signal(struct task *a, int signo)
{
    a->asked = 1;
    if (signo == SIGKILL) {
        a->killing = 1;
        a->kill_at = clock_ms();
        sweep_signal(NULL, SIGKILL);
    } else if (signo == SIGTERM) {
        end(a);
    } else {
        proc_signal(&a->rank, signo);
    }
}

static void fail(struct task *a, const struct err *err)
{
    struct js *o = js_object();

    js_put_int(o, "code", (int)err->code);
    js_put_str(o, "text", err_text(err));
    task_voice_say_json(&a->voice, TASK_FAILED, o);
}

static int take_frame(struct task *a, enum task_frame type, const char *bytes, size_t n,
                      struct err *err)
{
    if (type == TASK_SIGNAL) {
        take_signal(a, task_frame_signal(bytes, n));
    } else if (type == TASK_START && !a->rank.pid) {
        if (task_start_parse(bytes, n, &a->start, err) == 0 && start_rank(a, err) == 0)
            return 0;
        fail(a, err);
        return -1;
    }
    return 0;
}

static int take_frames(struct task *a, struct err *err)
{
    enum task_frame type;
    const char *bytes;
    size_t n, used = 0;
    long whole;
    int rc = 0;

    while (rc == 0 && (whole = task_frame_parse(a->in.text + used, a->in.len - used,
                                                &type, &bytes, &n)) > 0) {
        rc = take_frame(a, type, bytes, n, err);
        used += (size_t)whole;
    }
    memmove(a->in.text, a->in.text + used, a->in.len - used);
    a->in.len -= used;
    return rc;
}

static int hear(struct task *a, struct err *err)
{
    char buf[16384];
    ssize_t n = recv(a->voice.fd, buf, sizeof(buf), MSG_DONTWAIT);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        task_voice_lose(&a->voice);
    if (n <= 0)
        return 0;
    str_add(&a->in, buf, (size_t)n);
    return take_frames(a, err);
}

/* ---- what it prints and reports ---- */

/* Bytes read; 0: the stream is over; -1: there is nothing now. */
static ssize_t carry_piece(struct task *a, int *fd, enum task_frame type)
{
    char buf[PIECE];
    ssize_t n;

    do
        n = read(*fd, buf, sizeof(buf));
    while (n < 0 && errno == EINTR);
    if (n == 0) {
        close(*fd);
        *fd = -1;
    }
    if (n > 0 && type != TASK_EVENT)
        task_voice_say(&a->voice, type, buf, (size_t)n);
    else if (n >= 0)
        task_voice_keep(&a->voice, type, buf, (size_t)n);
    return n;
}

/* What a pipe gives short of a whole piece is all that it held. */
static void carry(struct task *a, int *fd, enum task_frame type)
{
    int most = 4;

    while (*fd >= 0 && most-- > 0 && carry_piece(a, fd, type) == PIECE)
        ;
}

static void carry_rest(struct task *a, int *fd, enum task_frame type)
{
    while (*fd >= 0 && carry_piece(a, fd, type) > 0)
        ;
}

/* A rank says several things one after the other: after the first, a moment passes until
 * all are read. */
static void carry_events(struct task *a, int64_t now, int at_once)
{
    if (!a->events_at && !at_once) {
        a->events_at = now + GATHER_MS;
        return;
    }
    a->events_at = 0;
    carry(a, &a->rank.event, TASK_EVENT);
    task_voice_flush(&a->voice);
}

/* p: of out, err and event. */
static void carry_all(struct task *a, const struct pollfd p[3], int64_t now)
{
    int out = p[0].revents != 0, err = p[1].revents != 0;

    if (p[2].revents || (a->events_at && (out || err || now >= a->events_at)))
        carry_events(a, now, out || err);
    if (out)
        carry(a, &a->rank.out, TASK_OUT);
    if (err)
        carry(a, &a->rank.err, TASK_ERR);
}

/* ---- signals and ends ---- */

static void reap(struct task *a)
{
    pid_t pid;
    int raw;

    while ((pid = waitpid(-1, &raw, WNOHANG)) > 0)
        if (pid == a->rank.pid) {
            a->raw = raw;
            a->ended = 1;
            proc_reaped(&a->rank, raw);
        }
}

/* As a subreaper it has children while it has descendants. */
static int is_childless(void)
{
    siginfo_t info;

    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
}

/* Slurm's own TERM (time limit, scancel) goes to the rank, and the launcher hears.
 * USR1 and USR2 it sent to the rank too: it signals all processes of a step. */
static void take_signals(struct task *a)
{
    struct signalfd_siginfo s;

    while (read(a->signals, &s, sizeof(s)) == (ssize_t)sizeof(s)) {
        char signo = (char)s.ssi_signo;
        if (signo == SIGCHLD || signo == SIGCONT)
            continue;
        a->asked = 1;
        task_voice_say(&a->voice, TASK_SIGNAL, &signo, 1);
        if (signo != SIGUSR1 && signo != SIGUSR2 && signo != SIGPIPE)
            end(a);
    }
    reap(a);
}

static void catch_signals(struct task *a)
{
    static const int caught[] = { SIGTERM, SIGINT,  SIGHUP,  SIGQUIT, SIGUSR1,
                                  SIGUSR2, SIGCONT, SIGCHLD, SIGPIPE };
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_LEN(caught); i++)
        sigaddset(&set, caught[i]);
    signal(SIGCHLD, SIG_DFL);
    proc_prepare(&a->before, &set, 1);
    a->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void look_at_keepers(struct task *a)
{
    static const char *const words[] = { [KEEPER_STEPD] = "slurmstepd",
                                         [KEEPER_SLURMD] = "slurmd",
                                         [KEEPER_SLURMD_BACK] = "slurmd is back" };
    enum task_keeper what;
    struct js *o;
    pid_t pid;

    while ((what = task_keepers_look(&a->keepers, clock_ms(), &pid)) != KEEPER_NONE) {
        o = js_object();
        js_put_str(o, "what", words[what]);
        js_put_int(o, "pid", pid);
        task_voice_say_json(&a->voice, TASK_GONE, o);
    }
}

static void look_at_pmix(struct task *a, int64_t now)
{
    int met;
    char byte;

    if (!a->pmix_port || a->ended || now < a->pmix_look_at)
        return;
    a->pmix_look_at = now + a->start.look_ms;
    met = task_pmix_is_met(a->pmix_port) != 0;
    byte = (char)met;
    if (met != a->met)
        task_voice_say(&a->voice, TASK_PMIX, &byte, 1);
    a->met = met;
}

static void sooner(int *ms, int64_t at, int64_t now)
{
    int64_t left = at > now ? at - now : 0;

    if (at && (*ms < 0 || left < *ms))
        *ms = (int)(left < WAIT_MOST_MS ? left : WAIT_MOST_MS);
}

/* Until something is due; -1: nothing is. */
static int wait_ms(const struct task *a, int64_t now)
{
    int ms = task_keepers_wait_ms(&a->keepers, now);

    if (a->pmix_port)
        sooner(&ms, a->pmix_look_at, now);
    sooner(&ms, a->events_at, now);
    sooner(&ms, a->voice.due, now);
    if (!a->killing)
        sooner(&ms, a->kill_at, now);
    if (a->killing || a->ended)
        sooner(&ms, now + SCAN_MS, now);
    return ms;
}

/* The rank is over, or must be: end what is left, by and by. */
static void go_on(struct task *a)
{
    if (a->voice.fd < 0 || (a->ended && !is_childless()))
        end(a);
    if (a->kill_at && clock_ms() >= a->kill_at && !is_childless()) {
        a->killing = 1;
        sweep_signal(NULL, SIGKILL);
    }
}

static void look_around(struct task *a, const struct pollfd *p, int64_t now)
{
    look_at_pmix(a, now);
    if (p[KEEPER].revents || p[KEEPER + 1].revents ||
        task_keepers_wait_ms(&a->keepers, now) == 0)
        look_at_keepers(a); /* before what their end did to others */
    if (p[SIGNALS].revents)
        take_signals(a);
}

static int watch(struct task *a, struct err *err)
{
    struct proc *r = &a->rank;

    while (!a->ended || !is_childless()) {
        struct pollfd p[] = {
            [SIGNALS] = { .fd = a->signals, .events = POLLIN },
            [LAUNCHER] = { .fd = a->voice.fd, .events = POLLIN },
            [STREAMS] = { .fd = r->pid ? r->out : -1, .events = POLLIN },
            { .fd = r->pid ? r->err : -1, .events = POLLIN },
            { .fd = r->pid && !a->events_at ? r->event : -1, .events = POLLIN },
            [KEEPER] = { .fd = a->keepers.stepd, .events = POLLIN },
            { .fd = a->keepers.slurmd, .events = POLLIN },
        };
        int n = poll(p, ARRAY_LEN(p), wait_ms(a, clock_ms()));
        int64_t now = clock_ms();

        if (n < 0 && errno != EINTR)
            return err_set(err, ERR_SYSTEM, "poll: %m");
        look_around(a, p, now);
        carry_all(a, &p[STREAMS], now);
        if (a->voice.due && now >= a->voice.due)
            task_voice_flush(&a->voice);
        if (a->voice.fd >= 0 && p[LAUNCHER].revents && hear(a, err) < 0)
            return -1;
        if (!r->pid && (a->voice.fd < 0 || a->kill_at))
            return err_set(err, ERR_FAILED, "ended before the rank was started");
        go_on(a);
    }
    return 0;
}

/* The last word is heard before the connection ends. */
static void farewell(struct task *a)
{
    struct js *o = js_object();
    int64_t deadline = clock_ms() + WORD_MS;
    char byte;

    /* Slurm signals rank and agent one after the other: who sent it comes first. */
    if (a->rank.status > 128 && !a->asked) {
        clock_nap_us((int64_t)SAME_SIGNAL_MS * 1000);
        take_signals(a);
    }
    carry_rest(a, &a->rank.event, TASK_EVENT);
    carry_rest(a, &a->rank.out, TASK_OUT);
    carry_rest(a, &a->rank.err, TASK_ERR);
    js_put_int(o, "wait_status", a->raw);
    task_voice_say_json(&a->voice, TASK_EXIT, o);
    if (a->voice.fd < 0)
        return;
    shutdown(a->voice.fd, SHUT_WR);
    while (kvdial_wait(a->voice.fd, POLLIN, deadline) == 0 &&
           recv(a->voice.fd, &byte, 1, 0) > 0)
        ;
}

int task_exec(struct err *err)
{
    struct task a = { .signals = -1, .voice = TASK_VOICE_INIT };
    struct js *about;
    int rc = -1;

    task_keepers_open(&a.keepers);
    sweep_adopt();
    catch_signals(&a);
    a.voice.fd = task_reach(err);
    if (a.voice.fd < 0)
        return -1;
    about = task_about();
    if (task_number("SLURM_PROCID") == 0)
        js_put(about, "master", slurm_master_about(a.voice.fd));
    task_voice_say_json(&a.voice, TASK_HELLO, about);
    if (watch(&a, err) == 0) {
        farewell(&a);
        rc = a.rank.status;
    }
    task_voice_release(&a.voice);
    task_keepers_close(&a.keepers);
    proc_close(&a.rank);
    task_start_release(&a.start);
    str_release(&a.in);
    return rc;
}
