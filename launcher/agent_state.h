/* agent_state.h - an agent while it serves.  Inner to agent*.c. */
#ifndef LAUNCHER_AGENT_STATE_H
#define LAUNCHER_AGENT_STATE_H

#include <stdint.h>

#include "launcher/agent_door.h"
#include "launcher/agent_wire.h"
#include "launcher/frame.h"
#include "launcher/proc.h"

struct beat;
struct err;
struct pmixd;

struct agent_ticket { /* a question of the server that waits for the launcher */
    uint64_t id;
    void *ticket;
    int is_fence;
    struct agent_ticket *next;
};

enum agent_phase {
    AGENT_IDLE,
    AGENT_READY,  /* the server is up */
    AGENT_RUNNING /* until CLOSE */
};

struct agent {
    int in, out;
    struct frame_in from;
    struct frame_out to;
    int epoll, outputs, signals;
    int writable;  /* `out` is watched for room */
    int listening; /* `outputs` is in `epoll` */
    int held;      /* the launcher asked us to read no output */
    int over;      /* leave the loop */
    struct proc_before before;
    struct beat *beat; /* stream 0 is `out` */
    int64_t heard_at, scan_at;
    struct agent_door door;
    /* the job */
    enum agent_phase phase;
    struct agent_job job;
    struct proc *proc; /* [job.n_ranks] */
    int alive, left;   /* ranks not reaped; processes of the job at the last look */
    struct agent_stdin {
        int fd;         /* write end of the rank's stdin, open when has is set */
        int has, ended; /* ended: no more comes */
        int watched;    /* for room */
        struct str bytes;
    } feed;
    struct pmixd *server;
    char *tmpdir, *shmdir;
    char *mark; /* "MUSTER_AGENT=RUN.NODE" in the environment of its processes */
    struct agent_ticket *tickets;
    uint64_t n_tickets;
};

enum agent_source {
    AGENT_STREAM,
    AGENT_ROOM,
    AGENT_SIGNALS,
    AGENT_SERVER,
    AGENT_OUTPUTS,
    AGENT_OUT,
    AGENT_ERR,
    AGENT_EVENTS,
    AGENT_STDIN
};

/* agent.c */
void agent_follow(int epoll, int fd, enum agent_source source, int id);
void agent_failed(struct agent *a, const struct err *err, int rank);

/* agent_hello.c: look at this machine and say who we are. */
int agent_say_hello(struct agent *a, struct err *err);

/* agent_job.c */
int agent_job_open(struct agent *a, struct err *err); /* a->job is there */
void agent_job_start(struct agent *a, int port);      /* says STARTED or FAILED */
void agent_job_close(struct agent *a);
/* Everything of the job ends, before this returns. */
void agent_job_abandon(struct agent *a, int grace_ms);

/* agent_rank.c */
/* Bytes of its stdout, stderr or events; none: that stream is over. */
void agent_rank_put(struct agent *a, enum agent_source source, int rank,
                    const char *bytes, size_t n);
void agent_rank_read(struct agent *a, enum agent_source source, int i, int most);
void agent_rank_reap(struct agent *a);
void agent_rank_look(struct agent *a); /* EMPTY, when the number has changed */

/* agent_stdin.c: what the launcher has for the rank that reads stdin. */
int agent_stdin_open(struct agent *a, int rank, int *read_end, struct err *err);
void agent_stdin_take(struct agent *a, const char *bytes, size_t n); /* 0: its end */
void agent_stdin_write(struct agent *a);
void agent_stdin_close(struct agent *a);

/* agent_pmix.c */
void agent_pmix_events(struct agent *a);
void agent_pmix_answer(struct agent *a, struct frame *f);
int agent_pmix_fetch(struct agent *a, struct frame *f, struct err *err);
void agent_pmix_forget(struct agent *a); /* questions that get no answer */

#endif
