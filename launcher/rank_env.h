/* rank_env.h - the environment of a rank.
 *
 * The user's own, byte for byte, except:
 *   removed   what an outer launcher left: PMIX_*, PMI_*, SLURM_* (not
 *             SLURM_CONF), JSM_*, FLUX_*, and OMPI_* when Open MPI's own launcher
 *             set it (OMPI_COMM_WORLD_SIZE is there)
 *   set       RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK, and
 *             CUDA_VISIBLE_DEVICES when a GPU is placed
 *   default   MASTER_ADDR, OPENBLAS_NUM_THREADS, what Open MPI needs on one
 *             oversubscribed host, and for muster-train MUSTER_WIREUP_TIMEOUT_MS,
 *             a little over the launcher's own: only when the user did not set them
 * At the start the launcher adds the rest, rank_env_finish().
 *
 * GPUs (case C16): every rank of a node sees the GPUs of all ranks of that node
 * in the order of their local ranks, so that LOCAL_RANK is the device's index, as
 * torchrun has it.  A CUDA_VISIBLE_DEVICES of the user stays and must show enough. */
#ifndef LAUNCHER_RANK_ENV_H
#define LAUNCHER_RANK_ENV_H

#include "launcher/env.h"

struct err;
struct run_request;

int rank_env_build(struct env *out, char *const *base, const struct run_request *q,
                   int rank, struct err *err);

/* What is only known at the start, the same for all ranks of a run. */
struct rank_env_start {
    const char *run;  /* borrowed */
    const char *shm;  /* borrowed; a folder in memory that goes with the run, or NULL */
    int master_port;  /* free; 0 when none was found */
    char job_key[33]; /* random; keys the handshakes of wireup's TCP store */
};

void rank_env_choose(struct rank_env_start *s, const char *run, const char *shm);
/* One that nobody listens on and that the kernel does not hand out by itself; 0 when
 * there is none. */
int rank_env_free_port(void);
void rank_env_finish(struct env *e, const struct rank_env_start *s);

/* The CPUs to bind the rank to; "" : none, always so on a simulated topology, whose
 * CPUs and GPUs are not those of this machine. */
const char *rank_cpus(const struct run_request *q, int rank);

/* Does this rank use a GPU of its node? */
int rank_uses_gpu(const struct run_request *q, int rank);

#endif
