/* task_rank.h - what a task of a Slurm step adds to what the launcher said of its rank.
 */
#ifndef LAUNCHER_TASK_RANK_H
#define LAUNCHER_TASK_RANK_H

struct env;
struct err;
struct task_bound;
struct task_start;

/* The rank's environment (the caller's env_release()) and its CPUs.  The launcher's
 * words stay, byte for byte (case C15); over them stands what the step has given this
 * task, and what libraries must be told of this node's network where the user told them
 * nothing.  address: by which this node is reached, "" unknown.  ERR_MISSING: the rank is placed on a GPU and none is visible (case C16);
 * ERR_USAGE: NCCL_SOCKET_IFNAME fits no interface here (case C04). */
int task_rank_prepare(const struct task_start *s, const char *address, struct env *env,
                      struct task_bound *bound, struct err *err);

#endif
