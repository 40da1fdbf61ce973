#include "launcher/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"

void proc_prepare(struct proc_before *before, const sigset_t *set, int ranks)
{
    struct rlimit more;
    rlim_t want = 256 + 8 * (rlim_t)ranks;

    sigprocmask(SIG_BLOCK, set, &before->mask);
    getrlimit(RLIMIT_NOFILE, &before->files);
    more = before->files;
    if (more.rlim_cur < want) {
        more.rlim_cur = want < more.rlim_max ? want : more.rlim_max;
        setrlimit(RLIMIT_NOFILE, &more);
    }
}

void proc_restore(const struct proc_before *before)
{
    setrlimit(RLIMIT_NOFILE, &before->files);
    sigprocmask(SIG_SETMASK, &before->mask, NULL);
}

/* ---- finding the program ---- */

static int runnable(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static char *find_in_path(const char *command, const char *path)
{
    while (path) {
        size_t n = strcspn(path, ":");
        char *full = n ? xasprintf("%.*s/%s", (int)n, path, command)
                       : xasprintf("./%s", command);
        if (runnable(full))
            return full;
        free(full);
        path = path[n] ? path + n + 1 : NULL;
    }
    return NULL;
}

char *proc_find(const char *command, const char *path, struct err *err)
{
    char *found;

    if (strchr(command, '/')) {
        if (runnable(command))
            return xstrdup(command);
        err_set(err, ERR_MISSING, "%s: %s", command,
                access(command, F_OK) < 0 ? strerror(errno)
                                          : "is not a file that can be executed");
        return NULL;
    }
    if (!path)
        path = "/usr/local/bin:/usr/bin:/bin";
    found = *command ? find_in_path(command, path) : NULL;
    if (!found)
        err_set(err, ERR_MISSING, "no program '%s' in PATH (%s)", command, path);
    return found;
}

/* ---- binding ---- */

int proc_cpus(const char *list, cpu_set_t *set, struct err *err)
{
    const char *at = list;
    char *end;

    CPU_ZERO(set);
    while (*at) {
        unsigned long from = strtoul(at, &end, 10), to = from;
        if (end != at && *end == '-') {
            at = end + 1;
            to = strtoul(at, &end, 10);
        }
        if (end == at || to < from || to >= CPU_SETSIZE || (*end && *end != ','))
            return err_set(err, ERR_USAGE, "'%s' is no list of CPUs (as 0-3,8)", list);
        for (unsigned long c = from; c <= to; c++)
            CPU_SET(c, set);
        at = *end ? end + 1 : end;
    }
    return 0;
}

/* ---- starting ---- */

enum { STACK = 64 << 10 };

struct pipes {
    int in, out[2], err[2], event[2];
};

/* What the child needs, in memory that it shares with us until exec. */
struct child {
    const struct proc_spec *spec;
    const struct pipes *pipes;
    const cpu_set_t *cpus;
    pid_t parent;
    int why;
};

/* Exec does away with handlers; until then, those that muster may have must not run here:
 * they would write to our memory.  What muster ignores, a rank does not. */
static void reset_signals(const struct proc_before *before)
{
    static const int handled[] = { SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGALRM,
                                   SIGUSR1, SIGUSR2, SIGCHLD, SIGCONT, SIGWINCH };
    struct sigaction now;

    for (size_t i = 0; i < ARRAY_LEN(handled); i++)
        if (sigaction(handled[i], NULL, &now) == 0 && now.sa_handler != SIG_DFL &&
            now.sa_handler != SIG_IGN)
            signal(handled[i], SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGTTOU, SIG_DFL);
    sigprocmask(SIG_SETMASK, &before->mask, NULL);
}

/* dup2() clears close-on-exec, except onto itself: out of the way of 0..3 first. */
static int clear_of_ranks(int fd)
{
    return fd > PROC_EVENT_FD ? fd : fcntl(fd, F_DUPFD_CLOEXEC, PROC_EVENT_FD + 1);
}

static int place_fds(const struct pipes *p)
{
    int in = clear_of_ranks(p->in), out = clear_of_ranks(p->out[1]);
    int err = clear_of_ranks(p->err[1]), event = clear_of_ranks(p->event[1]);

    if (in < 0 || out < 0 || err < 0 || event < 0)
        return -1;
    return dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0 ||
                   dup2(event, PROC_EVENT_FD) < 0
               ? -1
               : 0;
}

/* In the child: only calls that are safe beside a parent that stands still. */
static int become(void *arg)
{
    struct child *c = arg;
    const struct proc_spec *s = c->spec;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    if (getppid() != c->parent)
        return 128 + SIGTERM;
    if (place_fds(c->pipes) == 0 &&
        (!*s->cpus || sched_setaffinity(0, sizeof(*c->cpus), c->cpus) == 0)) {
        setrlimit(RLIMIT_NOFILE, &s->before->files);
        reset_signals(s->before);
        /* execvpe, not execve: a script without #! goes to sh, as users expect. */
        execvpe(s->program, s->argv, s->env);
    }
    c->why = errno;
    return 127;
}

/* As posix_spawn() does it, which knows neither groups that die with their parent nor
 * CPUs: the child runs on a stack of its own in our memory, of which a fork would copy
 * the page tables only to throw them away.  We stand still until it is another program.
 * execvpe() puts argv on that stack for a script. */
static pid_t start(struct child *c)
{
    size_t n = STACK;
    sigset_t all, mask;
    char *stack;
    pid_t pid;

    for (int i = 0; c->spec->argv[i]; i++)
        n += sizeof(char *);
    n = (n + 63) & ~(size_t)63; /* as malloc() aligns: both ends fit a stack */
    stack = xrealloc(NULL, n, 1);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &mask);
    pid = clone(become, stack + n, CLONE_VM | CLONE_VFORK | SIGCHLD, c);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    free(stack);
    return pid;
}

static void close_pair(int fd[2])
{
    for (int i = 0; i < 2; i++)
        if (fd[i] >= 0)
            close(fd[i]);
    fd[0] = fd[1] = -1;
}

static void close_all(struct pipes *p)
{
    close_pair(p->out);
    close_pair(p->err);
    close_pair(p->event);
    if (p->in >= 0)
        close(p->in);
}

static int open_all(struct pipes *p, int stdin_fd, struct err *err)
{
    *p = (struct pipes){ -1, { -1, -1 }, { -1, -1 }, { -1, -1 } };
    p->in = stdin_fd >= 0 ? fcntl(stdin_fd, F_DUPFD_CLOEXEC, 0)
                          : open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (p->in >= 0 && pipe2(p->out, O_CLOEXEC) == 0 && pipe2(p->err, O_CLOEXEC) == 0 &&
        pipe2(p->event, O_CLOEXEC) == 0)
        return 0;
    return err_set(err, ERR_SYSTEM, "pipes of a rank: %m%s",
                   errno == EMFILE ? " (raise `ulimit -n`)" : "");
}

static int keep_end(int fd[2])
{
    int mine = fd[0];

    fcntl(mine, F_SETFL, O_NONBLOCK);
    fd[0] = -1;
    return mine;
}

int proc_spawn(struct proc *p, const struct proc_spec *s, struct err *err)
{
    struct pipes pipes;
    cpu_set_t cpus;
    struct child c = { .spec = s, .pipes = &pipes, .cpus = &cpus, .parent = getpid() };
    pid_t pid;
    int rc = -1;

    if (proc_cpus(s->cpus, &cpus, err) < 0)
        return -1;
    if (open_all(&pipes, s->stdin_fd, err) < 0)
        goto out;
    pid = start(&c);
    if (pid < 0) {
        err_set(err, ERR_SYSTEM, "clone: %m");
        goto out;
    }
    *p = (struct proc){ .pid = pid, .why = c.why };
    p->out = keep_end(pipes.out);
    p->err = keep_end(pipes.err);
    p->event = keep_end(pipes.event);
    rc = 0;
out:
    close_all(&pipes);
    return rc;
}

int proc_started(const struct proc *p, const struct proc_spec *s, struct err *err)
{
    if (!p->why)
        return 0;
    return err_set(err, p->why == ENOENT ? ERR_MISSING : ERR_SYSTEM,
                   "cannot start %s%s%s: %s%s", s->program, *s->cpus ? " on CPUs " : "",
                   s->cpus, strerror(p->why),
                   p->why == EMFILE ? " (raise `ulimit -n`)" : "");
}

void proc_reaped(struct proc *p, int wait_status)
{
    p->ended = 1;
    p->status = WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status)
                                         : WEXITSTATUS(wait_status);
    p->signo = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
}

void proc_signal(const struct proc *p, int signo)
{
    if (p->pid > 1 && !p->ended)
        kill(-p->pid, signo);
}

void proc_close(struct proc *p)
{
    int *fd[] = { &p->out, &p->err, &p->event };

    for (size_t i = 0; i < ARRAY_LEN(fd); i++) {
        if (*fd[i] > 0)
            close(*fd[i]);
        *fd[i] = -1;
    }
}
