/* task_state.h - how a rank really runs, read from its process after it was started. */
#ifndef LAUNCHER_TASK_STATE_H
#define LAUNCHER_TASK_STATE_H

#include <sys/types.h>

struct env;
struct js;
struct task_bound;

/* The fields of the event "task":
 *   pid; host; cpus, mems: what it may use, as the kernel lists them
 *   want_cpus: what it was bound to, "" nothing; bound_by; why (task_bind.h)
 *   net: what its libraries were told of the network on its node, and why
 *   devices: its CUDA_VISIBLE_DEVICES (null: unset); local_rank
 *   limits.{memlock,stack,core} bytes and limits.nofile, soft ones; -1 unlimited,
 *   null unknown
 *   shm_bytes, shm_free_bytes: of /dev/shm; rdma: is there an RDMA device
 * A field is absent when it could not be read. */
struct js *task_state(pid_t pid, const struct task_bound *bound, const struct env *env);
/* The event as its line, '\n' at the end; the caller's to free(). */
char *task_state_line(pid_t pid, const struct task_bound *bound, const struct env *env);

#endif
