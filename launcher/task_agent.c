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
#include "launcher/task_state.h"
#include "launcher/task_wire.h"
#include "trainer/kvdial.h"

enum {
    REACH_MS = 60000,
    ONE_ADDRESS_MS = 5000,
    WORD_MS = 10000,
    SCAN_MS = 50,
    STUCK_MS = 3600000,
    SAME_SIGNAL_MS = 200,
};

struct task {
    int fd, signals; /* fd -1: the launcher is gone */
    struct str in;   /* from the launcher */
    struct task_start start;
    struct proc_before before;
    struct task_keepers keepers;
    int pmix_port, met; /* 0: not looked for */
    int64_t pmix_look_at;
    struct proc rank;   /* pid 0: not started */
    int raw, ended;     /* wait status of the rank */
    int64_t kill_at;    /* clock_ms(); 0: not ending */
    int killing, asked; /* asked: a signal came, from the launcher or another */
};

/* ---- the launcher ---- */

static void lose(struct task *a)
{
    if (a->fd >= 0)
        close(a->fd);
    a->fd = -1;
}

/* A slow launcher slows the rank; one that is gone ends it. */
static void say(struct task *a, enum task_frame type, const char *bytes, size_t n)
{
    struct str s = STR_INIT;

    task_frame_add(&s, type, bytes, n);
    if (a->fd >= 0 && kvdial_write(a->fd, s.text, s.len, clock_ms() + STUCK_MS) < 0)
        lose(a);
    str_release(&s);
}

static void say_json(struct task *a, enum task_frame type, struct js *o)
{
    char *line = js_line(o);

    say(a, type, line, strlen(line));
    free(line);
    js_free(o);
}

/* HOST:PORT; 0 or -1. */
static int parse_address(const char *text, size_t n, struct kvdial *k)
{
    char one[sizeof(k->master)], *colon;

    if (n >= sizeof(one))
        return -1;
    snprintf(one, sizeof(one), "%.*s", (int)n, text);
    colon = strrchr(one, ':');
    if (!colon)
        return -1;
    *colon = '\0';
    snprintf(k->master, sizeof(k->master), "%s", one);
    k->port = (int)strtol(colon + 1, NULL, 10);
    return k->port > 0 && k->port < 65536 ? 0 : -1;
}

static int reach(struct task *a, struct err *err)
{
    const char *at = getenv(TASK_AT), *key = getenv("MUSTER_JOB_KEY");
    int64_t deadline = clock_ms() + REACH_MS, until;
    struct kvdial k = { .port = 0 };

    if (!at || !key)
        return err_set(err, ERR_USAGE,
                       "no launcher is named: muster starts this by itself");
    k.key = kv_key_of(key);
    for (a->fd = -1; a->fd < 0 && clock_ms() < deadline;) {
        for (const char *p = at; *p && a->fd < 0;
             p += strcspn(p, " "), p += *p == ' ') {
            if (parse_address(p, strcspn(p, " "), &k) < 0)
                continue;
            err_release(err);
            until = clock_ms() + ONE_ADDRESS_MS;
            a->fd = kvdial_reach(&k, until < deadline ? until : deadline, err);
        }
    }
    if (a->fd < 0)
        return err_set(err, ERR_TIMEOUT,
                       "the launcher is not reached at any of %s: is there a firewall "
                       "between this node and the one where muster launch runs?",
                       at);
    err_release(err);
    task_keep_alive(a->fd);
    return 0;
}

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
    slurm_master_own_address(a->fd, address);
    if (task_rank_prepare(s, address, &env, &bound, err) < 0)
        return -1;
    spec.env = env.item;
    spec.cpus = bound.cpus;
    if (proc_spawn(&a->rank, &spec, err) == 0)
        rc = proc_started(&a->rank, &spec, err);
    if (rc == 0) {
        line = task_state_line(a->rank.pid, &bound, &env);
        say(a, TASK_EVENT, line, strlen(line));
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
    say_json(a, TASK_FAILED, o);
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
    ssize_t n = recv(a->fd, buf, sizeof(buf), MSG_DONTWAIT);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        lose(a);
    if (n <= 0)
        return 0;
    str_add(&a->in, buf, (size_t)n);
    return take_frames(a, err);
}

/* ---- what it prints and reports ---- */

static void carry(struct task *a, int *fd, enum task_frame type, int most)
{
    char buf[16384];

    while (*fd >= 0 && most-- > 0) {
        ssize_t n = read(*fd, buf, sizeof(buf));
        if (n > 0) {
            say(a, type, buf, (size_t)n);
        } else if (n == 0) {
            close(*fd);
            *fd = -1;
            say(a, type, NULL, 0);
        } else if (errno != EINTR) {
            return;
        }
    }
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
        say(a, TASK_SIGNAL, &signo, 1);
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
        say_json(a, TASK_GONE, o);
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
        say(a, TASK_PMIX, &byte, 1);
    a->met = met;
}

/* Until the next look at something; -1: none is due. */
static int look_ms(const struct task *a, int64_t now)
{
    int keepers = task_keepers_wait_ms(&a->keepers, now), pmix;

    if (!a->pmix_port)
        return keepers;
    pmix = a->pmix_look_at > now ? (int)(a->pmix_look_at - now) : 0;
    return keepers < 0 || pmix < keepers ? pmix : keepers;
}

static int wait_ms(const struct task *a, int64_t now)
{
    if (!a->kill_at && !a->ended)
        return look_ms(a, now);
    return a->killing || a->ended || a->kill_at - now < SCAN_MS
               ? SCAN_MS
               : (int)(a->kill_at - now < 60000 ? a->kill_at - now : 60000);
}

/* The rank is over, or must be: end what is left, by and by. */
static void go_on(struct task *a)
{
    if (a->fd < 0 || (a->ended && !is_childless()))
        end(a);
    if (a->kill_at && clock_ms() >= a->kill_at && !is_childless()) {
        a->killing = 1;
        sweep_signal(NULL, SIGKILL);
    }
}

static int watch(struct task *a, struct err *err)
{
    struct proc *r = &a->rank;

    while (!a->ended || !is_childless()) {
        struct pollfd p[] = { { .fd = a->signals, .events = POLLIN },
                              { .fd = a->fd, .events = POLLIN },
                              { .fd = r->pid ? r->out : -1, .events = POLLIN },
                              { .fd = r->pid ? r->err : -1, .events = POLLIN },
                              { .fd = r->pid ? r->event : -1, .events = POLLIN },
                              { .fd = a->keepers.stepd, .events = POLLIN },
                              { .fd = a->keepers.slurmd, .events = POLLIN } };
        int n = poll(p, ARRAY_LEN(p), wait_ms(a, clock_ms()));

        if (n < 0 && errno != EINTR)
            return err_set(err, ERR_SYSTEM, "poll: %m");
        look_at_pmix(a, clock_ms());
        look_at_keepers(a); /* before what their end did to others */
        take_signals(a);
        if (r->pid) {
            carry(a, &r->event, TASK_EVENT, 4);
            carry(a, &r->out, TASK_OUT, 4);
            carry(a, &r->err, TASK_ERR, 4);
        }
        if (a->fd >= 0 && p[1].revents && hear(a, err) < 0)
            return -1;
        if (!r->pid && (a->fd < 0 || a->kill_at))
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
    carry(a, &a->rank.event, TASK_EVENT, 1 << 20);
    carry(a, &a->rank.out, TASK_OUT, 1 << 20);
    carry(a, &a->rank.err, TASK_ERR, 1 << 20);
    js_put_int(o, "wait_status", a->raw);
    say_json(a, TASK_EXIT, o);
    if (a->fd < 0)
        return;
    shutdown(a->fd, SHUT_WR);
    while (kvdial_wait(a->fd, POLLIN, deadline) == 0 && recv(a->fd, &byte, 1, 0) > 0)
        ;
}

int task_exec(struct err *err)
{
    struct task a = { .fd = -1, .signals = -1 };
    struct js *about;
    int rc = -1;

    task_keepers_open(&a.keepers);
    sweep_adopt();
    catch_signals(&a);
    if (reach(&a, err) < 0)
        return -1;
    about = task_about();
    if (task_number("SLURM_PROCID") == 0)
        js_put(about, "master", slurm_master_about(a.fd));
    say_json(&a, TASK_HELLO, about);
    if (watch(&a, err) == 0) {
        farewell(&a);
        rc = a.rank.status;
    }
    lose(&a);
    task_keepers_close(&a.keepers);
    proc_close(&a.rank);
    task_start_release(&a.start);
    str_release(&a.in);
    return rc;
}
