/* agents_state.h - a run on several nodes while it runs.  Inner to backend_agents.c and
 * agents_*.c. */
#ifndef LAUNCHER_AGENTS_STATE_H
#define LAUNCHER_AGENTS_STATE_H

#include <stdint.h>

#include "launcher/frame.h"

struct err;
struct hub;
struct hub_answer;
struct node_link;
struct nodes;
struct run;
struct run_launch;

struct member { /* one node of the run */
    struct node_link *link;
    int ready, started, closed, failed;
    int left;        /* processes there when all its ranks have ended; -1 not told */
    int waiting;     /* its write end is watched for room */
    uint64_t folder; /* inode of the working folder there, and its ctime in s */
    int64_t folder_ctime;
};

struct agents {
    struct nodes *nodes;
    int n;
    struct member *member; /* [n], in placement order */
    int *node_of;          /* [world] */
    char *over;            /* [world]: its end was told */
    struct hub *hub;
    int timer, went, held;
    struct agents_stdin { /* of the rank that reads ours */
        int node;         /* -1 none, or over */
        int watched;      /* it is in the epoll */
        int room;         /* bytes that may be sent */
    } in;
    int64_t ready_by, ready_ms;
};

/* agents_frames.c: one message of node n's agent. */
int agents_take(struct run *run, int n, struct frame *f, struct err *err);
void agents_answer(void *arg, const struct hub_answer *h); /* a hub_fn */

/* agents_job.c: the part of a run that node n gets. */
int agents_put_job(const struct run *run, const struct run_launch *l,
                   const char *job_key, int n, struct err *err);

/* agents_stdin.c: our stdin for one rank.  `begin` when ranks run; `ready`: it can be
 * read; `taken`: so many bytes have gone, UINT32_MAX: the rank reads no more. */
void agents_stdin_begin(struct run *run);
void agents_stdin_ready(struct run *run);
void agents_stdin_taken(struct run *run, uint32_t bytes);

/* backend_agents.c */
void agents_blame(struct run *run, int n); /* what fails is told of this node */
void agents_tell(struct run *run, enum frame_type type, int value); /* every agent */
void agents_flush(struct run *run);
void agents_call_off(struct run *run); /* before GO nothing runs: all nodes are done */

#endif
