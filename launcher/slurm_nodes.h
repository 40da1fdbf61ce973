/* slurm_nodes.h - the nodes of the allocation that muster runs in: what the job was
 * given of them, what they are, and where they hang. */
#ifndef LAUNCHER_SLURM_NODES_H
#define LAUNCHER_SLURM_NODES_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct err;
struct topology;

struct slurm_node {
    int gpus;             /* given to the job; 0 none */
    int index[1024];      /* [gpus] as Slurm numbers them, 0, 1, ... when not told */
    char gpu_type[64];    /* "b200", "" none */
    int cpus;             /* given to the job; 0 unknown */
    int sockets, tasks;   /* of the node; that the job asked for there; 0 unknown */
    int64_t memory_bytes; /* given to the job, else of the node; -1 unknown */
    char down[160];       /* why nothing runs there; "" it is up */
};

struct slurm_place {
    char *job;               /* its id */
    char *list;              /* SLURM_JOB_NODELIST */
    struct strlist nodes;    /* the same, one by one */
    struct slurm_node *node; /* [nodes.n] */
};

/* Is this process inside an allocation (SLURM_JOB_ID)? */
int slurm_is_inside(void);

/* From the environment and what scontrol shows of the job and its nodes.  ERR_MISSING
 * outside; ERR_USAGE for a heterogeneous job (case B14). */
int slurm_place_read(struct slurm_place *out, struct err *err);
void slurm_place_release(struct slurm_place *p);

/* As a topology: names, GPUs, CPUs, slots (tasks that the job asked for); where Slurm
 * knows of switches, leaves.  Nodes that are down are left out, and a finding. */
struct topology *slurm_topology(const struct slurm_place *p);

struct gpu;
/* The name of a GPU that Slurm calls `type`: "b200" is "B200". */
void slurm_name_gpu(struct gpu *g, const char *type);
/* Switches and leaves into t, whose nodes are known; nothing where Slurm knows none. */
void slurm_add_fabric(struct topology *t);

/* --- parts, for tests ------------------------------------------------------------- */

/* For these nodes; the rest is unknown. */
void slurm_place_init(struct slurm_place *p, const char *job, const char *list,
                      const struct strlist *nodes);
/* One line of `scontrol show job -d`, "Nodes=n[1-2] CPU_IDs=0-7 Mem=0
 * GRES=gpu:b200:8(IDX:0-7)", into *p, whose nodes are known; 0, -1: another line. */
int slurm_place_line(struct slurm_place *p, const char *line);
/* What `scontrol show node LIST` prints. */
int slurm_place_nodes(struct slurm_place *p, const char *text, size_t len,
                      struct err *err);
/* Switches and leaves of what `scontrol show topology` prints into t, of whose nodes
 * nothing of the kind is known; other nodes of the cluster are passed over. */
int slurm_place_fabric(struct topology *t, const char *text, size_t len,
                       struct err *err);

#endif
