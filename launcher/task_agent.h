/* task_agent.h - the node side of a rank: `muster agent exec`, the task that srun starts
 * (in a program of its own, agent_main.c).
 *
 * Reaches its launcher (MUSTER_AGENT_AT, MUSTER_JOB_KEY; task_wire.h), says where it
 * is and under which limits, starts what it is told with the PMIx environment that it
 * inherited, carries output and events, and reports the end.  What the rank leaves
 * behind is ended before that is said.  When the connection is lost or it is told to,
 * it ends everything that descends from it. */
#ifndef LAUNCHER_TASK_AGENT_H
#define LAUNCHER_TASK_AGENT_H

struct err;

/* Returns the exit status of the rank (128+n for a signal), or -1. */
int task_exec(struct err *err);

#endif
