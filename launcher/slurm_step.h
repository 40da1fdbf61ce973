/* slurm_step.h - the one step of a run: what srun is given.
 *
 * The order of ranks is the plan's: a hostfile with one line a rank, and the arbitrary
 * distribution.  The environment of the ranks does not go through srun (its --export
 * cuts at commas): each agent gets it from the launcher, byte for byte. */
#ifndef LAUNCHER_SLURM_STEP_H
#define LAUNCHER_SLURM_STEP_H

#include "launcher/env.h"

struct err;
struct run_request;
struct str;
struct strlist;

/* The command of the step, behind it the agent's: `muster-agent exec`, or `muster agent
 * exec` where muster's lib does not hold the former; argv->item ends with NULL.  `self`
 * is muster's own path. */
void slurm_step_argv(const struct run_request *q, const char *self,
                     struct strlist *argv);
/* One node a line, in rank order (case B13). */
void slurm_step_hosts(const struct run_request *q, struct str *text);
/* What srun sees: `base` without what an outer step or job script left that srun would
 * take for options, and with `hostfile`.  SLURM_PMIX_FENCE=ring unless it is set: the
 * tree fence of Slurm 22.05's PMIx plugin is no barrier. */
void slurm_step_env(char *const *base, const char *hostfile, struct env *out);

/* The environment of a rank as far as the launcher knows it: rank_env_build(), with
 * MASTER_ADDR the node of rank 0 (case C02) and nothing that is meant for one host. */
int slurm_rank_env(const struct run_request *q, int rank, struct env *out,
                   struct err *err);

/* muster's own path; the caller's to free(). */
char *slurm_self(struct err *err);

#endif
