/* proc.h - one rank as a process: start it, signal it, read its status.
 *
 * Every rank leads a process group of its own and dies (SIGTERM) with the thread
 * that started it, so call proc_spawn() from the main thread.  Nothing of the
 * launcher leaks into it: descriptors are close-on-exec, the signal mask, the
 * dispositions and the limit on open files are the ones muster was started with. */
#ifndef LAUNCHER_PROC_H
#define LAUNCHER_PROC_H

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

struct err;

/* What the launcher changes for itself and a rank must not inherit. */
struct proc_before {
    sigset_t mask;
    struct rlimit files;
};

struct proc_spec {
    const char *program; /* path to execute, from proc_find() */
    char *const *argv;
    char *const *env;
    int stdin_fd;     /* -1: /dev/null */
    const char *cpus; /* kernel list ("0-3,8"); "": no binding */
    const struct proc_before *before;
};

struct proc {
    pid_t pid;
    int out, err, event; /* read ends, nonblocking; -1 when closed */
    int why;             /* errno of what kept it from becoming its program; or 0 */
    int ended;           /* reaped: `status` is set */
    int status;          /* exit status, or 128+n for signal n */
    int signo;           /* of that signal; 0: it exited */
};

/* The descriptor a rank finds its event pipe at (MUSTER_EVENT_FD). */
enum { PROC_EVENT_FD = 3 };

/* Block the signals in `set` and raise the soft limit on open files for `ranks`
 * ranks, remembering what was before.  Undo with proc_restore(). */
void proc_prepare(struct proc_before *before, const sigset_t *set, int ranks);
void proc_restore(const struct proc_before *before);

/* The path execvp() would take, looked up in PATH; the caller's to free().
 * NULL: ERR_MISSING, named with the folders that were searched. */
char *proc_find(const char *command, const char *path, struct err *err);

/* Start it; returns when it is its program, or gave up.  Then, for each:
 * proc_started() fails with the reason of one that gave up (ERR_MISSING when the file or
 * its interpreter is not there); that process ends by itself. */
int proc_spawn(struct proc *p, const struct proc_spec *s, struct err *err);
int proc_started(const struct proc *p, const struct proc_spec *s, struct err *err);

void proc_reaped(struct proc *p, int wait_status);
/* To the whole group, while the leader is not reaped (its number is then ours). */
void proc_signal(const struct proc *p, int signo);
void proc_close(struct proc *p); /* the pipes */

/* Kernel CPU list to a set; -1 and ERR_USAGE when it is none. */
int proc_cpus(const char *list, cpu_set_t *set, struct err *err);

#endif
