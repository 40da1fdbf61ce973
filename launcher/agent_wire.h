/* agent_wire.h - what muster and an agent tell each other: who the agent is, and the
 * job that it shall run.  Encoding and decoding, nothing else. */
#ifndef LAUNCHER_AGENT_WIRE_H
#define LAUNCHER_AGENT_WIRE_H

#include <stdint.h>

#include "base/str.h"
#include "launcher/env.h"

struct err;
struct frame;
struct frame_out;

/* The agent's first message.  Texts are owned. */
struct agent_hello {
    uint32_t protocol; /* FRAME_PROTOCOL */
    char *version;     /* of muster */
    char *build;       /* of the very program, agent_build() */
    char *host;        /* its own name */
    char *machine;     /* boot id and network: two hosts that agree are one */
    char *address;     /* by which muster reached it, "127.0.0.1" on this machine */
    char *interface;   /* that has this address, "" unknown */
    char *network;     /* its network, "10.99.0.0/24", "" unknown */
    char *nccl, *gloo, *mpi; /* why each must be told of it (net_look.h); "" not */
    char *topology;          /* JSON of `muster topo` */
};

void agent_hello_put(struct frame_out *o, const struct agent_hello *h);
/* -1: malformed (nothing to release then). */
int agent_hello_take(struct frame *f, struct agent_hello *h, struct err *err);
void agent_hello_release(struct agent_hello *h);

struct agent_rank {
    int rank;
    char *cpus;     /* kernel list, "" : no binding */
    struct env env; /* complete but for what the node adds, rank_env_finish() */
};

/* One node's part of a run.  All is owned. */
struct agent_job {
    char *run;     /* its id; also the PMIx namespace */
    char *cwd;     /* where ranks start */
    char *dir;     /* the run's folder: it must be there, "": not needed */
    char *program; /* one of muster's own, beside it; "": argv[0], found by PATH */
    char *job_key;
    char *file, *text; /* a file (its path in argv) that the node gets as `text`; "" */
    struct strlist needs; /* files that must be readable there ... */
    int64_t *need_bytes;  /* [needs.n]: ... and have this size */
    struct strlist argv;  /* a taken one ends with NULL */
    int stdin_rank;       /* gets what STDIN says; -1 none */
    int grace_ms;         /* TERM to KILL when the launcher is lost */
    int node, n_nodes, world;
    struct strlist nodes; /* names, [n_nodes] */
    int *node_of;         /* [world] */
    int n_ranks;
    struct agent_rank *ranks; /* those of `node`, ascending */
};

int agent_job_put(struct frame_out *o, const struct agent_job *j, struct err *err);
/* Checked: every number in its range, the ranks are those that node_of says. */
int agent_job_take(struct frame *f, struct agent_job *j, struct err *err);
void agent_job_release(struct agent_job *j);

/* The status of an agent that is of another build than the one asked for. */
enum { AGENT_OTHER_BUILD = 76 };

/* 16 hex digits over the bytes of this program, so that two builds are told apart
 * whatever they call themselves. */
const char *agent_build(void);
/* FNV-1a over a file, 8 bytes at a time, from h on; h itself when it cannot be read. */
uint64_t agent_hash_file(uint64_t h, const char *path);

#endif
