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

struct pipes {
    int in, out[2], err[2], event[2], report[2];
};

/* In the child, between fork and exec: only calls that are safe there. */
static void reset_signals(const struct proc_before *before)
{
    struct sigaction now;

    for (int s = 1; s < NSIG; s++)
        if (sigaction(s, NULL, &now) == 0 && now.sa_handler != SIG_DFL &&
            now.sa_handler != SIG_IGN)
            signal(s, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGTTOU, SIG_DFL);
    sigprocmask(SIG_SETMASK, &before->mask, NULL);
}

/* dup2() clears close-on-exec, except onto itself: move the pipes out of the way
 * of 0..3 first. */
static int place_fds(const struct pipes *p, int *report)
{
    int in = fcntl(p->in, F_DUPFD_CLOEXEC, 16);
    int out = fcntl(p->out[1], F_DUPFD_CLOEXEC, 16);
    int err = fcntl(p->err[1], F_DUPFD_CLOEXEC, 16);
    int event = fcntl(p->event[1], F_DUPFD_CLOEXEC, 16);
    int moved = fcntl(p->report[1], F_DUPFD_CLOEXEC, 16);

    if (in < 0 || out < 0 || err < 0 || event < 0 || moved < 0)
        return -1;
    *report = moved;
    return dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0 ||
                   dup2(event, PROC_EVENT_FD) < 0
               ? -1
               : 0;
}

static _Noreturn void become(const struct proc_spec *s, const struct pipes *p,
                             const cpu_set_t *cpus, pid_t parent)
{
    int report = p->report[1], why;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    if (getppid() != parent)
        _exit(128 + SIGTERM);
    if (place_fds(p, &report) == 0 &&
        (!*s->cpus || sched_setaffinity(0, sizeof(*cpus), cpus) == 0)) {
        setrlimit(RLIMIT_NOFILE, &s->before->files);
        reset_signals(s->before);
        /* execvpe, not execve: a script without #! goes to sh, as users expect. */
        execvpe(s->program, s->argv, s->env);
    }
    why = errno;
    (void)!write(report, &why, sizeof(why));
    _exit(127);
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
    close_pair(p->report);
    if (p->in >= 0)
        close(p->in);
}

static int open_all(struct pipes *p, int stdin_fd, struct err *err)
{
    *p = (struct pipes){ -1, { -1, -1 }, { -1, -1 }, { -1, -1 }, { -1, -1 } };
    p->in = stdin_fd >= 0 ? fcntl(stdin_fd, F_DUPFD_CLOEXEC, 0)
                          : open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (p->in >= 0 && pipe2(p->out, O_CLOEXEC) == 0 && pipe2(p->err, O_CLOEXEC) == 0 &&
        pipe2(p->event, O_CLOEXEC) == 0 && pipe2(p->report, O_CLOEXEC) == 0)
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
    pid_t parent = getpid(), pid = -1;
    struct pipes pipes;
    cpu_set_t cpus;
    int rc = -1;

    if (proc_cpus(s->cpus, &cpus, err) < 0)
        return -1;
    if (open_all(&pipes, s->stdin_fd, err) < 0)
        goto out;
    pid = fork();
    if (pid == 0)
        become(s, &pipes, &cpus, parent);
    if (pid < 0) {
        err_set(err, ERR_SYSTEM, "fork: %m");
        goto out;
    }
    setpgid(pid, pid);
    *p = (struct proc){ .pid = pid };
    p->out = keep_end(pipes.out);
    p->err = keep_end(pipes.err);
    p->event = keep_end(pipes.event);
    p->report = pipes.report[0];
    pipes.report[0] = -1;
    rc = 0;
out:
    close_all(&pipes);
    return rc;
}

/* What the child wrote before it gave up; nothing when exec closed the pipe. */
int proc_started(struct proc *p, const struct proc_spec *s, struct err *err)
{
    ssize_t n;
    int why;

    do
        n = read(p->report, &why, sizeof(why));
    while (n < 0 && errno == EINTR);
    close(p->report);
    p->report = -1;
    if (n != (ssize_t)sizeof(why))
        return 0;
    return err_set(err, why == ENOENT ? ERR_MISSING : ERR_SYSTEM,
                   "cannot start %s%s%s: %s%s", s->program, *s->cpus ? " on CPUs " : "",
                   s->cpus, strerror(why), why == EMFILE ? " (raise `ulimit -n`)" : "");
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
    int *fd[] = { &p->out, &p->err, &p->event, &p->report };

    for (size_t i = 0; i < ARRAY_LEN(fd); i++) {
        if (*fd[i] > 0)
            close(*fd[i]);
        *fd[i] = -1;
    }
}
