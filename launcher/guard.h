/* guard.h - three processes for one command, so that nothing outlives it.
 *
 *   guardian   what the shell started.  Keeps the terminal, passes signals on,
 *              waits, and at the end ends whatever is left of the run.
 *   launcher   its child, in a process group of its own.  Does the work.
 *   keeper     its second child (guard_keep.h).  Waits for the death of both.
 *
 * The first two adopt orphans.  When the launcher dies of anything, SIGKILL included,
 * its ranks fall to the guardian, which ends them: TERM, grace, KILL.  When the
 * guardian dies, the kernel sends the launcher SIGTERM, and the launcher does.
 * The guardian calls itself "mguard", so that `killall muster` leaves it.
 *
 * Signals: INT TERM HUP QUIT USR1 USR2 go to the launcher; one that was ignored
 * when muster started (nohup) stays ignored.  TSTP stops the run, CONT lets it
 * go on; one that ends it lets a stopped launcher go on, so that it is heard. */
#ifndef LAUNCHER_GUARD_H
#define LAUNCHER_GUARD_H

struct err;

struct guard_options {
    int grace_ms;       /* TERM to KILL for what is left */
    int pump_stdin;     /* a terminal only serves the guardian's process group: copy
                       what is typed into a pipe that becomes the launcher's 0 */
    int leave_terminal; /* the guardian lets go of 0, 1 and 2 (it says nothing) */
    /* The guardian kills a launcher that ... 0: it never does */
    int leave_ms;   /* ... is there so long after it was told to end */
    int silence_ms; /* ... has not called guard_beat() for so long, and is stopped; ... */
};
enum { GUARD_BUSY = 8 }; /* ... for so many times as long, and is not */

/* Call it before any thread exists.  Returns
 *    0  in the launcher: go on, and return from main as usual;
 *    1  in the guardian, at the end: *status is the exit status to return;
 *   -1  on failure, in either: the launcher died (ERR_SYSTEM), or fork failed. */
int guard_enter(const struct guard_options *o, int *status, struct err *err);

/* A new folder of mode 0700 for temporary files (below $TMPDIR or /tmp), or for
 * shared memory (below /dev/shm; NULL where that cannot be written).  The caller
 * removes it, guard_remove_tree(), and frees the name; when it dies before, the
 * guardian removes it. */
enum guard_folder { GUARD_TMP, GUARD_SHM };
char *guard_make_folder(enum guard_folder kind, struct err *err);

/* In the launcher, where options.silence_ms is set: twice a second at least, from the
 * first time on. */
void guard_beat(void);

/* In the launcher, last: does the tidying of a guardian that has died. */
void guard_leave(void);

/* Remove a folder and all in it, following no links. */
void guard_remove_tree(const char *path);

/* A folder of that kind that stays until this process exits, and is removed then.
 * Borrowed; NULL on failure. */
const char *guard_tmpdir(struct err *err);

/* The guardian's pid, in the launcher; 0: there is none. */
int guard_pid(void);
/* In the launcher: 1 when the guardian has died. */
int guard_is_gone(void);

#endif
