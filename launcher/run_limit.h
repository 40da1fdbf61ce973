/* run_limit.h - the time of a Slurm allocation is up, or soon: the ranks save, and the
 * run goes on later.  Inner to run*.c and backend*.c.
 *
 * Slurm sends the signal of cluster.slurm.signal before the time limit, to the batch
 * shell of a batch job (muster itself) or to all processes of a step; without that, TERM
 * at the limit, and as well when the job is cancelled, preempted or loses a node.
 * Which of them it was, Slurm is asked afterwards.
 *
 * The outcome is "limit", status 5, with the checkpoint to go on from.  A batch job is
 * requeued then, when a step was saved since it was started and cluster.slurm.requeue
 * allows one more; its run waits in the same folder and under the same name. */
#ifndef LAUNCHER_RUN_LIMIT_H
#define LAUNCHER_RUN_LIMIT_H

#include <stdint.h>

struct run;

/* A signal came, to the launcher or to an agent.  1: it was that one (USR1 or USR2, of
 * which muster's own ranks take no notice), and the ranks are told to save; 0: it means
 * something else, as all do to a command. */
int run_limit_take(struct run *run, int signo);

/* In an allocation that somebody else asked for, maybe without a signal: from time to
 * time Slurm is asked how much time is left. */
void run_limit_tick(struct run *run, int64_t now);

/* The ranks have ended: put the outcome right, and requeue the job. */
void run_limit_conclude(struct run *run);

#endif
