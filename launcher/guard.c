#include "launcher/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "launcher/guard_keep.h"
#include "launcher/sweep.h"

static const int passed_on[] = { SIGINT,  SIGTERM, SIGHUP, SIGQUIT,
                                 SIGUSR1, SIGUSR2, SIGTSTP };

enum { TICK_MS = 500 };

static pid_t guardian;          /* in the launcher: whose child it is; 0: unguarded */
static char *folder[2];         /* by enum guard_folder; owned; NULL: not made */
static _Atomic unsigned *beats; /* of the launcher, seen by both; NULL: not asked for */

struct guard {
    pid_t launcher;
    int signals; /* signalfd */
    int typed;   /* write end of the launcher's stdin, -1 none */
    char mark[64];
    const struct guard_options *o;
    struct keeper keeper;
    int64_t look_at;
    int64_t leave_by; /* 0: it was not told to end */
    unsigned beats;   /* when it was looked at last, ... */
    int still;        /* ... and so often in a row it was the same */
};

int guard_pid(void)
{
    return guardian;
}

int guard_is_gone(void)
{
    return guardian && getppid() != guardian;
}

char *guard_make_folder(enum guard_folder kind, struct err *err)
{
    const char *base = getenv("TMPDIR");
    char *path;

    base = folder[kind]        ? folder[kind]
           : kind == GUARD_SHM ? "/dev/shm"
           : base && *base     ? base
                               : "/tmp";
    path = xasprintf("%s/muster-XXXXXX", base);
    if (mkdtemp(path))
        return path;
    err_set(err, ERR_SYSTEM, "%s: %m (set TMPDIR to a folder that can be written)",
            path);
    free(path);
    return NULL;
}

static void remove_own(void)
{
    guard_remove_tree(folder[GUARD_TMP]);
}

const char *guard_tmpdir(struct err *err)
{
    if (!folder[GUARD_TMP]) { /* no guardian: tidy up ourselves */
        folder[GUARD_TMP] = guard_make_folder(GUARD_TMP, err);
        if (folder[GUARD_TMP])
            atexit(remove_own);
    }
    return folder[GUARD_TMP];
}

static int ignored(int signo)
{
    struct sigaction now;

    return sigaction(signo, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

static int watch_signals(sigset_t *before)
{
    sigset_t set;

    signal(SIGCHLD, SIG_DFL); /* ignored, it would hide how the launcher ended */
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGCONT);
    for (size_t i = 0; i < ARRAY_LEN(passed_on); i++)
        if (!ignored(passed_on[i]))
            sigaddset(&set, passed_on[i]);
    sigprocmask(SIG_BLOCK, &set, before);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* ---- the terminal's keys to the launcher's stdin ---- */

/* Never waits: what does not fit, because nobody reads, is lost. */
static void pump(struct guard *g)
{
    char buf[4096];
    ssize_t n = read(STDIN_FILENO, buf, sizeof(buf));

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n > 0 && (write(g->typed, buf, (size_t)n) >= 0 || errno == EAGAIN))
        return;
    close(g->typed);
    g->typed = -1;
}

/* ---- the guardian's life ---- */

static void stop_for_a_while(const struct guard *g)
{
    kill(g->launcher, SIGTSTP);
    raise(SIGSTOP);
    kill(g->launcher, SIGCONT);
}

static void pass_on(struct guard *g, int signo)
{
    kill(g->launcher, signo);
    if (signo == SIGUSR1 || signo == SIGUSR2)
        return;
    kill(g->launcher, SIGCONT);
    if (g->o->leave_ms && !g->leave_by)
        g->leave_by = clock_ms() + g->o->leave_ms;
}

static int is_stopped(pid_t pid)
{
    char path[32], text[512] = "";
    const char *at;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        (void)!read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    at = strrchr(text, ')');
    return at && (at[1] == ' ') && (at[2] == 'T' || at[2] == 't');
}

/* Counted in looks, not in time: what stops the whole machine for a while, the guardian
 * with it, is no silence.  One that is not stopped may be busy, on a loaded machine. */
static void look_at_launcher(struct guard *g)
{
    unsigned now = beats ? *beats : 0;
    int most = g->o->silence_ms;

    g->still = now && now == g->beats ? g->still + 1 : 0;
    g->beats = now;
    g->look_at = clock_ms() + TICK_MS;
    if (now && g->still * TICK_MS >= most && !is_stopped(g->launcher))
        most *= GUARD_BUSY;
    if ((now && g->still * TICK_MS >= most) ||
        (g->leave_by && clock_ms() >= g->leave_by))
        kill(g->launcher, SIGKILL);
}

/* 1 when the launcher has ended; *raw is its wait status. */
static int take_signal(struct guard *g, int *raw)
{
    struct signalfd_siginfo s;
    pid_t pid;

    if (read(g->signals, &s, sizeof(s)) != (ssize_t)sizeof(s))
        return 0;
    if (s.ssi_signo == SIGTSTP)
        stop_for_a_while(g);
    else if (s.ssi_signo != SIGCHLD && s.ssi_signo != SIGCONT)
        pass_on(g, (int)s.ssi_signo);
    while ((pid = waitpid(-1, raw, WNOHANG)) > 0)
        if (pid == g->launcher)
            return 1;
    return 0;
}

static int wait_for_launcher(struct guard *g)
{
    int tick = g->o->leave_ms || beats ? TICK_MS : -1, raw = 0;

    for (;;) {
        struct pollfd p[2] = { { g->signals, POLLIN, 0 },
                               { g->typed < 0 ? -1 : STDIN_FILENO, POLLIN, 0 } };
        if (poll(p, 2, tick) < 0)
            continue;
        if (tick > 0 && clock_ms() >= g->look_at)
            look_at_launcher(g);
        if (p[1].revents)
            pump(g);
        if (p[0].revents && take_signal(g, &raw))
            return raw;
    }
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path) < 0 && errno != ENOENT ? -1 : 0;
}

void guard_remove_tree(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void remove_folders(void)
{
    for (int i = 0; i < 2; i++) {
        if (folder[i])
            guard_remove_tree(folder[i]);
        free(folder[i]);
        folder[i] = NULL;
    }
}

void guard_beat(void)
{
    if (beats)
        ++*beats;
}

void guard_leave(void)
{
    if (guard_is_gone())
        atexit(remove_folders);
}

static void leave_terminal(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (int fd = 0; null >= 0 && fd < 3; fd++)
        dup2(null, fd);
    if (null > 2)
        close(null);
}

static int be_guardian(struct guard *g, int *status, struct err *err)
{
    const struct guard_options *o = g->o;
    int raw, left;

    prctl(PR_SET_NAME, "mguard", 0, 0, 0);
    sweep_adopt();
    signal(SIGPIPE, SIG_IGN);
    if (o->leave_terminal)
        leave_terminal();
    if (g->typed >= 0)
        fcntl(g->typed, F_SETFL, O_NONBLOCK);
    keeper_start(&g->keeper, g->mark, o->grace_ms, remove_folders);
    raw = wait_for_launcher(g);
    left = sweep_end(g->mark, o->grace_ms);
    remove_folders();
    keeper_dismiss(&g->keeper);
    if (WIFEXITED(raw) && left == 0) {
        *status = WEXITSTATUS(raw);
        return 1;
    }
    if (left)
        return err_set(err, ERR_SYSTEM,
                       "%d processes of the run cannot be ended: look "
                       "for state D in `ps`",
                       left);
    return err_set(err, ERR_SYSTEM,
                   "the launcher (pid %d) died of signal %d (%s); its ranks were ended",
                   (int)g->launcher, WTERMSIG(raw), strsignal(WTERMSIG(raw)));
}

/* ---- the launcher's first steps ---- */

/* Told to go when no run is there to end: the guardian may be dead, so tidy up. */
static void go(int signo)
{
    for (int i = 0; i < 2; i++)
        if (folder[i])
            rmdir(folder[i]);
    _exit(128 + signo);
}

static void go_when_told(void)
{
    struct sigaction sa = { .sa_handler = go };
    static const int told[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

    sigemptyset(&sa.sa_mask);
    for (size_t i = 0; i < ARRAY_LEN(told); i++)
        if (!ignored(told[i]))
            sigaction(told[i], &sa, NULL);
}

static int be_launcher(struct guard *g, pid_t parent, int in, const sigset_t *before)
{
    char *eq = strchr(g->mark, '='), *marks;
    const char *outer;

    prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    if (getppid() != parent)
        raise(SIGTERM); /* it died before we asked to be told */
    guardian = parent;
    setpgid(0, 0);
    signal(SIGTTOU, SIG_IGN); /* a background group may still write to the terminal */
    signal(SIGPIPE, SIG_IGN); /* a reader or a node that is gone is an errno */
    sweep_adopt();
    if (in >= 0) {
        dup2(in, STDIN_FILENO);
        close(in);
        close(g->typed);
    }
    *eq = '\0';
    outer = getenv(g->mark); /* of a run in which this one runs */
    marks = xasprintf("%s%s%s", outer ? outer : "", outer ? ":" : "", eq + 1);
    setenv(g->mark, marks, 1);
    free(marks);
    *eq = '=';
    close(g->signals);
    keeper_hold(&g->keeper);
    go_when_told();
    sigprocmask(SIG_SETMASK, before, NULL);
    return 0;
}

static int make_folders(struct err *err)
{
    folder[GUARD_TMP] = guard_make_folder(GUARD_TMP, err);
    if (!folder[GUARD_TMP])
        return -1;
    folder[GUARD_SHM] = guard_make_folder(GUARD_SHM, NULL);
    return 0;
}

static int share_beats(const struct guard_options *o, struct err *err)
{
    void *page;

    if (!o->silence_ms)
        return 0;
    page = mmap(NULL, sizeof(*beats), PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return err_set(err, ERR_SYSTEM, "mmap: %m");
    beats = page;
    return 0;
}

int guard_enter(const struct guard_options *o, int *status, struct err *err)
{
    struct guard g = { .typed = -1, .o = o };
    pid_t self = getpid();
    int in[2] = { -1, -1 };
    sigset_t before;
    uint64_t token = (uint64_t)self;

    if (o->pump_stdin && pipe2(in, O_CLOEXEC) < 0)
        return err_set(err, ERR_SYSTEM, "pipe: %m");
    g.typed = in[1];
    if (getrandom(&token, sizeof(token), GRND_NONBLOCK) < 0)
        token ^= (uint64_t)time(NULL) << 32;
    snprintf(g.mark, sizeof(g.mark), "MUSTER_GUARD=%016llx", (unsigned long long)token);
    g.signals = watch_signals(&before); /* from here on nothing ends us halfway */
    if (make_folders(err) < 0 || share_beats(o, err) < 0 ||
        keeper_prepare(&g.keeper, err) < 0)
        return -1;
    fflush(NULL);
    g.launcher = fork();
    if (g.launcher < 0)
        return err_set(err, ERR_SYSTEM, "fork: %m");
    if (g.launcher == 0)
        return be_launcher(&g, self, in[0], &before);
    setpgid(g.launcher, g.launcher);
    if (in[0] >= 0)
        close(in[0]);
    return be_guardian(&g, status, err);
}
