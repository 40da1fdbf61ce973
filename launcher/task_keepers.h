/* task_keepers.h - the daemons of a node that an agent under Slurm depends on.
 *
 * Its parent, the slurmstepd of the step: when that dies, Slurm has lost the tasks of
 * the node.  And slurmd, looked for once the rank runs (one agent a node does): steps
 * outlive it, but Slurm can neither signal nor end them. */
#ifndef LAUNCHER_TASK_KEEPERS_H
#define LAUNCHER_TASK_KEEPERS_H

#include <stdint.h>
#include <sys/types.h>

struct task_keepers {
    int stepd, slurmd; /* pidfds; -1: none, or it is gone */
    pid_t slurmd_pid;
    int looks;       /* this agent looks for slurmd */
    int missed;      /* slurmd was seen to end, or is not there */
    int64_t look_at; /* when next; 0: not at all */
};

enum task_keeper { KEEPER_NONE, KEEPER_STEPD, KEEPER_SLURMD, KEEPER_SLURMD_BACK };

/* Where the kernel has no pidfd_open() nothing is watched. */
void task_keepers_open(struct task_keepers *k);
void task_keepers_close(struct task_keepers *k);

/* The rank runs: slurmd may be looked for from here on. */
void task_keepers_begin(struct task_keepers *k, int64_t now);
/* ms until the next look, -1: none. */
int task_keepers_wait_ms(const struct task_keepers *k, int64_t now);
/* What happened, one at a time; *pid: of which process.  Call it when one of the
 * descriptors can be read or a look is due, until it says KEEPER_NONE. */
enum task_keeper task_keepers_look(struct task_keepers *k, int64_t now, pid_t *pid);

#endif
