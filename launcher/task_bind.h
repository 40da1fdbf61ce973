/* task_bind.h - the CPUs of one rank, chosen on its node: for launchers that do not see
 * the node (Slurm).  Small enough for every task to do it. */
#ifndef LAUNCHER_TASK_BIND_H
#define LAUNCHER_TASK_BIND_H

enum task_bind {
    TASK_BIND_NONE,  /* leave it as it is */
    TASK_BIND_GPU,   /* near the rank's GPU */
    TASK_BIND_SHARE, /* an equal share of the CPUs */
    TASK_BINDS
};

struct task_bind_ask {
    enum task_bind mode;
    int local_rank, local_world;
    /* Numbers of the device files of the node's ranks, "0,1,2": the k-th is local
     * rank k's (SLURM_STEP_GPUS, else CUDA_VISIBLE_DEVICES); NULL: 0, 1, ... */
    const char *devices;
    const char *slurm; /* SLURM_CPU_BIND_TYPE; NULL */
};

struct task_bound {
    char cpus[256]; /* to bind to; "": leave it */
    const char *by; /* "muster", "slurm", "nobody" */
    char why[160];  /* of what is not bound by muster; "" */
    char told[512]; /* what libraries were told of the network here, and why; "" */
};

/* root: "" the live machine, whose CPUs are those this process may use: a cpuset makes
 * shares smaller and is never left. */
void task_bind_choose(const char *root, const struct task_bind_ask *ask,
                      struct task_bound *out);

#endif
