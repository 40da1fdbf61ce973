/* task_reach.h - an agent's way to the launcher that started it. */
#ifndef LAUNCHER_TASK_REACH_H
#define LAUNCHER_TASK_REACH_H

struct err;

/* Tries the addresses of MUSTER_AGENT_AT in turn, for a minute, and proves both sides with
 * MUSTER_JOB_KEY.  A connected nonblocking socket, the caller's to close; -1 with err. */
int task_reach(struct err *err);

#endif
