/* slurm_nodes.h - the nodes of the allocation that muster runs in. */
#ifndef LAUNCHER_SLURM_NODES_H
#define LAUNCHER_SLURM_NODES_H

#include "base/str.h"

struct err;
struct topology;

struct slurm_place {
    char *job;            /* its id */
    struct strlist nodes; /* as SLURM_JOB_NODELIST has them */
    int *gpus;            /* [nodes.n] given to the job; 0 none */
    int *cpus;            /* [nodes.n]; 0 unknown */
};

/* Is this process inside an allocation (SLURM_JOB_ID)? */
int slurm_is_inside(void);

/* From the environment and `scontrol show job -d`.  ERR_MISSING outside; ERR_USAGE for
 * a heterogeneous job (case B14). */
int slurm_place_read(struct slurm_place *out, struct err *err);
void slurm_place_release(struct slurm_place *p);

/* One line of `scontrol show job -d`, "Nodes=n[1-2] CPU_IDs=0-7 Mem=0
 * GRES=gpu:b200:8(IDX:0-7)", into *p, whose nodes are known; 0, -1: another line. */
int slurm_place_line(struct slurm_place *p, const char *line);

/* As a topology of which nothing but names, GPUs and CPU counts is known. */
struct topology *slurm_topology(const struct slurm_place *p);

#endif
