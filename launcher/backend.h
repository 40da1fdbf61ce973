/* backend.h - how the ranks of a run are started and reached.
 *
 * One table a way (here: `local`).  The loop of the run (run_loop.c) owns phases,
 * watch and output; a backend brings bytes, events and ends of ranks to it through
 * run_rank_bytes() and run_rank_ended(), and does to the ranks what the loop says.
 * `run->backend_data` is the backend's own; close() frees it. */
#ifndef LAUNCHER_BACKEND_H
#define LAUNCHER_BACKEND_H

#include <stdint.h>
#include <sys/types.h>

struct err;
struct run;
struct run_launch;
struct run_request;

struct run_backend {
    const char *name;
    /* Before anything is made: can it start this request at all? */
    int (*check)(const struct run_request *q, struct err *err);
    /* The run has its folder and its loop: make what ranks need before they start. */
    int (*prepare)(struct run *run, struct err *err);
    /* Start all ranks.  On failure *rank says which one, -1 all; those that run
     * already are ended by the loop. */
    int (*start)(struct run *run, const struct run_launch *l, int *rank,
                 struct err *err);
    /* A descriptor of run_follow(..., RUN_BACKEND, id) can be read. */
    void (*ready)(struct run *run, int id);
    /* A child of the launcher ended; it may be nobody's. */
    void (*child)(struct run *run, pid_t pid, int wait_status);
    /* To the process group of every rank that runs (USR1, USR2, STOP, CONT). */
    void (*signal)(struct run *run, int signo);
    /* TERM or KILL to everything that belongs to the run. */
    void (*end)(struct run *run, int signo);
    /* All ranks have ended: is nothing else of the run left? */
    int (*is_empty)(const struct run *run);
    /* The reader of our output is slow (1), or not any more (0): the ranks shall wait,
     * those whose pipes are not in run->outputs.  NULL: there are none. */
    void (*hold)(struct run *run, int on);
    /* Each second at least, while the run goes on.  NULL: nothing to do. */
    void (*tick)(struct run *run, int64_t now);
    /* Also after a failed prepare(), or without it. */
    void (*close)(struct run *run);
};

extern const struct run_backend backend_local, backend_agents, backend_slurm;

/* The one that fits the request. */
const struct run_backend *backend_choose(const struct run_request *q);

#endif
