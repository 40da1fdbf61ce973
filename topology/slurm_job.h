/* slurm_job.h - what a process inside an allocation can read from its environment.
 *
 * Environments are NULL-terminated arrays of "NAME=value", such as environ. */
#ifndef TOPOLOGY_SLURM_JOB_H
#define TOPOLOGY_SLURM_JOB_H

#include <stddef.h>

#include "base/str.h"

#ifdef __cplusplus
extern "C" {
#endif

struct err;

enum { SLURM_GROUPS_MAX = 128, SLURM_TASKS_MAX = 1 << 20, SLURM_LEVELS_MAX = 16 };

/* One component of a heterogeneous job; other jobs have one. */
struct slurm_group {
    struct strlist nodes;
    int *tasks;  /* [nodes.n] tasks of each node; NULL unknown */
    int n_tasks; /* their sum; -1 unknown */
};

struct slurm_job {
    char id[32];
    int het; /* SLURM_HET_SIZE was there */
    int n_groups;
    struct slurm_group *group;
};

/* ERR_MISSING outside an allocation.  A list that does not match SLURM_JOB_NUM_NODES,
 * counts that do not match the list, a component whose list is absent: ERR_USAGE. */
int slurm_job_from_env(char *const *env, struct slurm_job *out, struct err *err);
void slurm_job_release(struct slurm_job *j);

/* The nodes of component `group`, or of all of them in order (-1).  A component that
 * is not there, or a node that two components share, is refused (case B14). */
int slurm_job_nodes(const struct slurm_job *j, int group, struct strlist *nodes,
                    struct err *err);

/* Rank 0's host: MASTER_ADDR as it is, else the first line of SLURM_HOSTFILE when the
 * distribution is arbitrary, else the first node of the component (-1: the first one).
 * Never SLURM_LAUNCH_NODE_IPADDR, which is where the job was submitted (case C02). */
int slurm_job_master(char *const *env, int group, char host[256], struct err *err);

/* "4(x3),2": tasks of each of `nodes` nodes (-1: as many as the text says); `total`
 * (-1: any) is what they must add up to.  *tasks is the caller's to free(), *n their
 * number. */
int slurm_tasks_per_node(const char *text, int nodes, int total, int **tasks, int *n,
                         struct err *err);

/* A hostfile: one host a task, in rank order, on lines or between commas; HOST*3 is
 * three times HOST; # begins a comment.  A host that is not in `allocation` (NULL: any)
 * is an error that names its line.  *ranks is replaced on success. */
int slurm_hostfile_parse(const char *text, const char *where,
                         const struct strlist *allocation, struct strlist *ranks,
                         struct err *err);
int slurm_hostfile_read(const char *path, const struct strlist *allocation,
                        struct strlist *ranks, struct err *err);

/* SLURM_TOPOLOGY_ADDR by SLURM_TOPOLOGY_ADDR_PATTERN, outermost first:
 * "spine.leaf[0-3].n001" and "switch.switch.node" give switch spine; switch leaf0 ..
 * leaf3; node n001.  Dots beyond the pattern belong to the node's name. */
struct slurm_level {
    char kind[16];
    struct strlist names;
};
int slurm_topology_addr(const char *addr, const char *pattern,
                        struct slurm_level level[SLURM_LEVELS_MAX], int *n,
                        struct err *err);
void slurm_levels_release(struct slurm_level *level, int n);

#ifdef __cplusplus
}
#endif
#endif
