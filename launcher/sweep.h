/* sweep.h - find and end every process of a run, whatever it did to hide.
 *
 * A process belongs to the run when it descends from the caller (a subreaper
 * keeps orphans among its descendants, so a double fork and setsid() do not
 * help), or when it runs as the same user with the mark "NAME=VALUE" in its
 * environment (there also "NAME=OTHER:VALUE"), or descends from one that does.  The caller itself, its ancestors and pids <= 1 never belong, and no
 * process group is signalled but process by process, each held by a pidfd
 * and checked again, so that a recycled pid is not hit (case C13). */
#ifndef LAUNCHER_SWEEP_H
#define LAUNCHER_SWEEP_H

#include <sys/types.h>

struct sweep_process {
    pid_t pid;
    unsigned long long started; /* field 22 of /proc/PID/stat: tells pids apart */
};

/* Processes of the run that are not zombies.  `mark` may be NULL.
 * Returns how many; *out is the caller's to free(). */
int sweep_find(const char *mark, struct sweep_process **out);

/* Send `signo` to every process of the run; returns how many got it. */
int sweep_signal(const char *mark, int signo);

/* A child of the caller that never belongs, with all below it; one at a time. */
void sweep_spare(pid_t child);

/* Make the caller the parent of its orphaned descendants from now on
 * (PR_SET_CHILD_SUBREAPER). */
void sweep_adopt(void);

/* TERM, wait for grace_ms, KILL until none is left (5 s at most), reaping every
 * child on the way.  For a caller that has no event loop.  Returns how many
 * processes are left, 0 in any case but an unkillable one (state D). */
int sweep_end(const char *mark, int grace_ms);

#endif
