/* wireup.h - how a rank finds itself and the others.
 *
 * Methods, tried in this order: pmix (srun --mpi=pmix, mpirun, muster's own
 * server), env (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT: a TCP store at the
 * master), single (rank 0 of 1, said in the log).  A singleton inside a bigger
 * allocation is an error (case C01), and so is a PMIx rank or size that differs
 * from what Slurm or the environment says.
 *
 * The identity of a machine is its boot id, never its name (case C19); one name on two
 * machines is found by rank 0.
 * Every wait has a deadline; when it passes, the message names the ranks that
 * are missing and their nodes (case C20), code ERR_TIMEOUT.
 *
 * wireup_open() also opens the heartbeat (heartbeat.h) as soon as the rank is
 * known, and every fence reports "arrive" and "leave" with its name. */
#ifndef TRAINER_WIREUP_H
#define TRAINER_WIREUP_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct err;
struct wireup;

struct wireup_self {
    const char *method; /* "pmix", "env", "single" */
    int rank, world;
    int local_rank, local_world, node_rank;
    char host[64];
    char boot_id[40];
};

/* timeout_ms bounds the whole meeting (-1: MUSTER_WIREUP_TIMEOUT_MS or 120000). */
int wireup_open(struct wireup **out, int timeout_ms, struct err *err);
const struct wireup_self *wireup_self(const struct wireup *w); /* borrowed */

/* Publish bytes under a key; visible to others after the next wireup_fence(). */
int wireup_put(struct wireup *w, const char *key, const void *bytes, size_t n,
               struct err *err);
/* Bytes that `rank` put; *out is the caller's to free(). */
int wireup_get(struct wireup *w, int rank, const char *key, void **out, size_t *n,
               struct err *err);
/* All ranks arrive or the deadline passes (timeout_ms -1: the meeting's).
 * Exchanges what was put. */
int wireup_fence(struct wireup *w, const char *what, int timeout_ms, struct err *err);
void wireup_close(struct wireup *w); /* NULL is fine */

/* Where `rank` runs, as it said itself; borrowed, "" when unknown. */
const char *wireup_host(const struct wireup *w, int rank);
/* The number of machines, counted by boot id and host name; -1 unknown. */
int wireup_machines(const struct wireup *w);
/* Collective: two ranks of one machine on the same device are an error that
 * names both and the bus id (case C16).  busid "": no device, nothing to share. */
int wireup_claim_device(struct wireup *w, const char *busid, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
