/* run_state.h - one run while it runs.  Inner to run*.c and backend*.c. */
#ifndef LAUNCHER_RUN_STATE_H
#define LAUNCHER_RUN_STATE_H

#include <stdint.h>
#include <stdio.h>

#include "base/str.h"
#include "launcher/line.h"
#include "launcher/proc.h"
#include "launcher/run.h"
#include "launcher/watch.h"

struct run_backend;
struct echo;
struct js;
struct output;

struct run_rank {
    struct proc proc; /* pid 0: not started */
    struct output *output;
    struct line_buffer events; /* of the event pipe */
    int sent_away;             /* muster ended it */
};

enum run_phase {
    RUN_GOING,
    RUN_ENDING,  /* TERM was sent; KILL follows at phase_ends */
    RUN_KILLING, /* KILL is sent until nothing is left, or phase_ends */
    RUN_OVER
};

struct run {
    const struct run_request *q;
    struct run_result *result;
    struct err *err;
    char *id, *dir;
    char *mark; /* "MUSTER_RUN=ID": in the environment of all its processes */
    int world;
    struct run_rank *rank;
    struct watch_plan *plan; /* [world] */
    char self[65];           /* this host's name */
    struct watch *watch;
    const struct run_backend *backend;
    void *backend_data;
    struct echo *echo;
    struct proc_before before;
    FILE *events;
    int epoll;   /* signals, the backend, event pipes, and `outputs` */
    int outputs; /* an epoll of the ranks' stdout and stderr: can be set aside */
    int signals;
    int alive; /* ranks not reaped */
    enum run_phase phase;
    int64_t phase_ends, next_scan;
    int64_t judge_after; /* the backend is finding out: the watch's verdict waits; 0 */
    int64_t paused_at;   /* Ctrl-Z; 0: not paused */
    int64_t full_since;  /* the echo is full: outputs are set aside; 0: no */
    int listening;       /* `outputs` is in `epoll` */
    int64_t limit_look, limit_lead_ms; /* run_limit.c: when it asks again; 0: not yet */
    unsigned task_said;                /* run_task.c: what was warned of, once each */
};

/* What an epoll event is about: kind, rank (RUN_BACKEND: an id of its own). */
enum run_source { RUN_SIGNALS, RUN_BACKEND, RUN_OUTPUTS, RUN_OUT, RUN_ERR, RUN_EVENTS };

/* What each rank executes (run_command.h). */
struct run_launch {
    struct strlist argv;
    char *program;
};

/* run_start.c: the folder, its files, the backend and the ranks.  -1: nothing was
 * started (err says why).  A rank that cannot be started ends the run instead. */
int run_start(struct run *run, struct err *err);
/* Watch a descriptor for reading: run->epoll, or run->outputs for what may wait
 * while the reader of our own output is slow. */
void run_follow(int epoll, int fd, enum run_source source, int id);
const char *run_host(const struct run *run, int rank);

/* run_loop.c: until every process of the run is gone. */
void run_loop(struct run *run);
/* Decide the outcome, once, and begin to end the run.  `reason` is copied. */
void run_end(struct run *run, int status, const char *cause, int culprit,
             const char *reason);

/* RUN_OUT, RUN_ERR or RUN_EVENTS of a rank; n 0: that stream is over. */
void run_rank_bytes(struct run *run, int rank, enum run_source source,
                    const char *bytes, size_t n);
/* Everything it said must have been brought here, or lie in its pipes. */
void run_rank_ended(struct run *run, int rank, int wait_status);

/* run_event.c: what ranks report, into events.jsonl, the watch and the result. */
void run_event_line(struct run *run, int rank, const char *bytes, size_t n);
/* An event of the launcher's own; takes `fields` over (may be NULL). */
void run_event_note(struct run *run, int rank, const char *event, struct js *fields);

/* run_task.c: an event "task": count it, warn of limits that are too small and of
 * binding that is not as placed. */
void run_task_seen(struct run *run, int rank, const struct js *event);

/* run_result.c */
void run_result_init(struct run_result *r, const char *id, const char *dir, int world);
/* A "step", "done" or "stopped" event of rank 0. */
void run_result_event(struct run_result *r, const struct js *event);
/* The first loss of all attempts of a run, from its events. */
void run_result_whole(struct run_result *r);

#endif
