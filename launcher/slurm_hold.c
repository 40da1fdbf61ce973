#include "launcher/slurm_hold.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/proc.h"
#include "launcher/secret.h"
#include "launcher/slurm_ask.h"
#include "launcher/slurm_nodes.h"
#include "launcher/slurm_options.h"
#include "launcher/slurm_reason.h"
#include "launcher/slurm_step.h"
#include "launcher/slurm_wait.h"
#include "recipes/recipe.h"

enum { SAID_MAX = 1 << 20, TICK_MS = 1000, END_MS = 15000 };

struct slurm_hold {
    pid_t pid;          /* 0: it has ended */
    int in, out, words; /* its streams; -1 closed */
    struct str said, complaint;
    int granted;
    struct slurm_wait wait;
};

int slurm_hold_is_wanted(const struct recipe *r)
{
    return r && r->cluster.backend == BACKEND_SLURM && !slurm_is_inside();
}

int slurm_hold_world(const struct recipe *r, int gpus, int *world, struct err *err)
{
    int shard = r->parallelism.data_parallel_shard_degree, accumulation;
    int replicate = r->parallelism.data_parallel_replicate_degree, n = gpus;

    if (!n && shard > 0 && replicate > 0)
        n = shard * replicate;
    if (!n)
        return err_set(err, ERR_USAGE,
                       "--gpus N is missing: how many shall Slurm be asked for?");
    if (recipe_layout(r, n, &shard, &replicate, &accumulation, err) < 0)
        return -1;
    *world = n;
    return 0;
}

/* ---- the command ---- */

/* Of this way or that; argv->item ends with NULL. */
static int make_argv(const struct recipe *r, int world, int library,
                     struct strlist *argv, struct err *err)
{
    char *self = slurm_self(err), *salloc = NULL;
    int rc = self ? 0 : -1;

    if (rc == 0 && !library) {
        salloc = proc_find("salloc", getenv("PATH"), err);
        rc = salloc ? 0 : err_wrap(err, "cluster.backend: slurm");
    }
    if (rc == 0) {
        strlist_add(argv, library ? self : salloc);
        if (library) {
            strlist_add(argv, "agent");
            strlist_add(argv, "slurm");
            strlist_add(argv, "allocate");
        }
        rc = slurm_alloc_options(r, world, argv, err);
    }
    if (rc == 0 && !library) {
        strlist_add(argv, self);
        strlist_add(argv, "agent");
        strlist_add(argv, "slurm");
        strlist_add(argv, "hold");
    }
    argv->item = xrealloc(argv->item, (size_t)argv->n + 1, sizeof(*argv->item));
    argv->item[argv->n] = NULL;
    free(self);
    free(salloc);
    return rc;
}

/* 1: libslurm asks; 0: salloc.  *why: the reason, the caller's to free(). */
static int choose(const struct recipe *r, char **why)
{
    char *option = slurm_needs_salloc(r);
    int yes;

    if (!option)
        return slurm_uses_library(why);
    yes = 0;
    *why = option;
    return yes;
}

int slurm_hold_line(const struct recipe *r, int world, struct str *line,
                    struct str *why, struct err *err)
{
    struct strlist argv = { 0 };
    char *text = NULL;
    int library = choose(r, &text), rc = make_argv(r, world, library, &argv, err);

    if (rc == 0)
        secret_add_command(line, argv.item);
    str_addf(why, library ? "asked for through %s" : "asked for through salloc: %s",
             text);
    free(text);
    strlist_release(&argv);
    return rc;
}

/* ---- the child ---- */

static int open_pipes(int p[6], struct err *err)
{
    for (int i = 0; i < 6; i++)
        p[i] = -1;
    for (int i = 0; i < 6; i += 2)
        if (pipe2(p + i, O_CLOEXEC) < 0)
            return err_set(err, ERR_SYSTEM, "pipe: %m");
    return 0;
}

/* A job that waits does not read: salloc hears of our end by a signal. */
static void be_child(const int p[6], pid_t parent, char *const *argv)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    if (getppid() != parent)
        _exit(ERR_SYSTEM);
    dup2(p[0], STDIN_FILENO);
    dup2(p[3], STDOUT_FILENO);
    dup2(p[5], STDERR_FILENO);
    execv(argv[0], argv);
    dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

static int spawn(struct slurm_hold *h, char *const *argv, struct err *err)
{
    int p[6], rc = open_pipes(p, err);
    pid_t self = getpid();

    if (rc == 0) {
        fflush(NULL);
        h->pid = fork();
        if (h->pid == 0)
            be_child(p, self, argv);
        if (h->pid < 0)
            rc = err_set(err, ERR_SYSTEM, "fork: %m");
    }
    h->in = p[1];
    h->out = p[2];
    h->words = p[4];
    for (int i = 0; i < 6; i++)
        if ((i == 0 || i == 3 || i == 5) && p[i] >= 0)
            close(p[i]);
    return rc;
}

static void shut(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Bounded: what is beyond is not kept. */
static void take(int *fd, struct str *to)
{
    char buf[4096];
    ssize_t n = read(*fd, buf, sizeof(buf));

    if (n > 0 && to->len < SAID_MAX)
        str_add(to, buf, (size_t)n);
    else if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
        shut(fd);
}

/* It is given some time to give the job back. */
static void end_child(struct slurm_hold *h, int by_signal)
{
    int64_t deadline = clock_ms() + END_MS;
    int raw;

    shut(&h->in);
    if (h->pid > 0 && by_signal)
        kill(h->pid, SIGTERM);
    while (h->pid > 0 && waitpid(h->pid, &raw, WNOHANG) == 0) {
        struct pollfd p[2] = { { h->out, POLLIN, 0 }, { h->words, POLLIN, 0 } };
        poll(p, 2, 20); /* it must not wait for us to read */
        if (p[0].revents)
            take(&h->out, &h->said);
        if (p[1].revents)
            take(&h->words, &h->complaint);
        if (clock_ms() < deadline)
            continue;
        kill(h->pid, SIGKILL);
        waitpid(h->pid, &raw, 0);
        if (*h->wait.job)
            slurm_cancel(h->wait.job, 0, NULL);
        break;
    }
    h->pid = 0;
}

/* ---- what it says ---- */

/* salloc says the number on stderr, before its command is there to say it. */
static void find_job(struct slurm_hold *h)
{
    const char *mark = "job allocation ", *at;

    if (!*h->wait.job && h->said.text && strncmp(h->said.text, "job ", 4) == 0 &&
        strchr(h->said.text, '\n'))
        snprintf(h->wait.job, sizeof(h->wait.job), "%.*s",
                 (int)strspn(h->said.text + 4, "0123456789"), h->said.text + 4);
    at = h->complaint.text ? strstr(h->complaint.text, mark) : NULL;
    if (!*h->wait.job && at && strchr(at, '\n'))
        snprintf(h->wait.job, sizeof(h->wait.job), "%.*s",
                 (int)strspn(at + strlen(mark), "0123456789"), at + strlen(mark));
}

static void find_grant(struct slurm_hold *h)
{
    const char *at = h->said.text ? strstr(h->said.text, "\ngranted\n") : NULL;

    h->granted = at != NULL;
}

/* The same names in either way, whatever else salloc would set. */
static void enter(const struct slurm_hold *h)
{
    static const char *const names[] = {
        "SLURM_JOB_ID",        "SLURM_JOBID",
        "SLURM_JOB_NODELIST",  "SLURM_NODELIST",
        "SLURM_NNODES",        "SLURM_JOB_NUM_NODES",
        "SLURM_JOB_PARTITION", "SLURM_JOB_CPUS_PER_NODE",
    };

    for (const char *p = h->said.text; *p; p += strcspn(p, "\n"), p += *p == '\n') {
        char *line = xstrndup(p, strcspn(p, "\n")), *eq = strchr(line, '=');
        for (size_t i = 0; eq && i < ARRAY_LEN(names); i++) {
            *eq = '\0';
            if (str_eq(line, names[i]))
                setenv(line, eq + 1, 1);
        }
        free(line);
    }
}

/* Its last complaint, else its last line; what follows may be about that. */
static char *last_words(const struct str *s)
{
    static const char *const heads[] = { "muster: ", "salloc: ", "error: ",
                                         "Job submit/allocate failed: " };
    const char *best = "it ended and said nothing";
    char *line;

    for (const char *p = s->len ? s->text : ""; *p; p += strcspn(p, "\n"), p += *p != 0)
        if (*p != '\n' &&
            (!strstr(best, "error") || strncmp(p, "salloc: error", 13) == 0 ||
             strncmp(p, "muster: ", 8) == 0))
            best = p;
    for (size_t i = 0; i < ARRAY_LEN(heads); i++)
        if (strncmp(best, heads[i], strlen(heads[i])) == 0)
            best += strlen(heads[i]);
    line = xstrndup(best, strcspn(best, "\n"));
    return line;
}

static int say_refusal(const struct slurm_wait *w, const char *words, struct err *err)
{
    const char *cure = slurm_refusal_cure(words);

    if (*w->job && strncmp(w->state, "CANCELLED", 9) == 0)
        return err_set(err, ERR_FAILED,
                       "job %s was cancelled before it started (scancel, or an "
                       "administrator)",
                       w->job);
    if (*w->job)
        return err_set(err, ERR_FAILED, "job %s got no nodes (state %s): %s", w->job,
                       *w->state ? w->state : "unknown", words);
    return err_set(err, ERR_FAILED, "Slurm refused the job: %s%s%s", words,
                   *cure ? ": " : "", cure);
}

/* The child is gone and there are no nodes. */
static int refused(struct slurm_hold *h, struct err *err)
{
    struct str text = STR_INIT;
    char *words = last_words(&h->complaint);

    if (*h->wait.job &&
        slurm_ask(SLURM_ASK_JOB, h->wait.job, END_MS, &text, NULL) == 0 && text.len)
        slurm_wait_read(&h->wait, text.text);
    say_refusal(&h->wait, words, err);
    str_release(&text);
    free(words);
    return -1;
}

/* ---- the wait ---- */

static int open_signals(sigset_t *before)
{
    static const int told[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    struct sigaction now;
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_LEN(told); i++)
        if (sigaction(told[i], NULL, &now) < 0 || now.sa_handler != SIG_IGN)
            sigaddset(&set, told[i]);
    sigprocmask(SIG_BLOCK, &set, before);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int read_signal(int fd)
{
    struct signalfd_siginfo s;

    return read(fd, &s, sizeof(s)) == (ssize_t)sizeof(s) ? (int)s.ssi_signo : 0;
}

/* Until there are nodes, or cannot be any. */
static int wait_for_nodes(struct slurm_hold *h, int signals, int *signo,
                          struct err *err)
{
    while (!h->granted) {
        struct pollfd p[3] = { { h->out, POLLIN, 0 },
                               { h->words, POLLIN, 0 },
                               { signals, POLLIN, 0 } };

        if (h->out < 0 && h->words < 0)
            return refused(h, err);
        if (poll(p, 3, *h->wait.job ? TICK_MS / 2 : TICK_MS) < 0 && errno != EINTR)
            return err_set(err, ERR_SYSTEM, "poll: %m");
        if (p[0].revents)
            take(&h->out, &h->said);
        if (p[1].revents)
            take(&h->words, &h->complaint);
        find_job(h);
        find_grant(h);
        if ((*signo = read_signal(signals)))
            return err_set(
                err, ERR_FAILED,
                "told to stop by signal %d (%s) while %s%s waited for nodes: "
                "released",
                *signo, strsignal(*signo), *h->wait.job ? "job " : "the job",
                h->wait.job);
        if (!h->granted && slurm_wait_look(&h->wait, err) < 0)
            return -1;
    }
    return 0;
}

static void say_granted(const struct slurm_hold *h)
{
    const char *nodes = getenv("SLURM_JOB_NODELIST");

    log_info("job %s has %s after %lld s", h->wait.job, nodes ? nodes : "its nodes",
             (long long)(clock_ms() - h->wait.begun) / 1000);
}

/* Slurm tries for a minute to find another one. */
static int check_conf(struct err *err)
{
    const char *conf = getenv("SLURM_CONF");

    if (!conf || !*conf || access(conf, R_OK) == 0)
        return 0;
    return err_set(err, ERR_MISSING,
                   "SLURM_CONF is %s, where Slurm's configuration is read: %m", conf);
}

int slurm_hold_open(const struct recipe *r, int world, struct slurm_hold **hold,
                    int *signo, struct err *err)
{
    struct slurm_hold *h = xcalloc(1, sizeof(*h));
    struct strlist argv = { 0 };
    char *why = NULL;
    sigset_t before;
    int signals, rc;

    *signo = 0;
    h->in = h->out = h->words = -1;
    slurm_wait_begin(&h->wait);
    rc = check_conf(err);
    if (rc == 0)
        rc = make_argv(r, world, choose(r, &why), &argv, err);
    signals = open_signals(&before);
    if (rc == 0)
        rc = spawn(h, argv.item, err);
    if (rc == 0)
        rc = wait_for_nodes(h, signals, signo, err);
    slurm_wait_end(&h->wait);
    if (rc < 0)
        end_child(h, 1);
    close(signals);
    sigprocmask(SIG_SETMASK, &before, NULL);
    strlist_release(&argv);
    free(why);
    if (rc < 0) {
        slurm_hold_close(h);
        return -1;
    }
    enter(h);
    say_granted(h);
    *hold = h;
    return 0;
}

void slurm_hold_close(struct slurm_hold *h)
{
    if (!h)
        return;
    end_child(h, 0);
    shut(&h->out);
    shut(&h->words);
    str_release(&h->said);
    str_release(&h->complaint);
    free(h);
}
