/* trainer.h - one rank of a training run: everything it holds, and its steps.
 *
 * Opened in this order: wireup, device, communicators (made and warmed before the
 * arena), memory plan, arena, initial weights, data.  Closed in reverse. */
#ifndef TRAINER_TRAINER_H
#define TRAINER_TRAINER_H

#include <signal.h>
#include <stdint.h>

#include "recipes/recipe.h"
#include "trainer/arena.h"
#include "trainer/batch_feed.h"
#include "trainer/ckpt.h"
#include "trainer/memplan.h"
#include "trainer/meter.h"
#include "trainer/metrics.h"
#include "trainer/model_step.h"
#include "trainer/optim.h"
#include "trainer/routing.h"
#include "trainer/units.h"

struct coll;
struct coll_ops;
struct dataset;
struct err;
struct profile;
struct wireup;
struct wireup_self;

struct trainer_options {
    enum device device; /* DEVICE_AUTO: as the recipe says */
    int threads;        /* BLAS threads on a CPU; 0: this rank's share of the cores */
    const char *profile_folder; /* NULL: no profile */
    int timeout_ms; /* of each collective; -1: MUSTER_COLL_TIMEOUT_MS or 600000 */
};

struct trainer {
    struct recipe recipe; /* owned; degrees and global batch are numbers */
    struct wireup *wireup;
    const struct wireup_self *self;
    const struct ops *ops;
    struct dev *dev;
    int device; /* index given to ops->open */
    int threads;
    const struct coll_ops *coll;
    struct coll *world, *gather, *reduce,
        *replica; /* last three: NULL for groups of 1 */
    /* MUSTER_EARLY, words: `gather` begins the next step's first gathers while AdamW
     * still runs, `norm` sums squares while the last reductions run; unset both, `none`
     * neither. */
    int early_gather, early_norm;
    int shard_rank, replica_rank, accumulation;
    int64_t
        asked_global;  /* training.global_batch_size as the recipe had it; -1: free */
    double peak_flops; /* 0: unknown */

    struct units units;
    struct memplan plan;
    /* Bytes in use on a GPU, by whomever: with the device open, with the communicators
     * warm, with the arena.  0 on the CPU. */
    int64_t used_open, used_joined, used_placed;
    struct arena arena;
    struct fsdp *fsdp;
    struct model_step step;
    struct optim optim;
    struct meter meter;
    struct batch_feed feed;
    struct routing routing;
    struct profile *profile; /* NULL: none asked for */
    struct ckpt ckpt;
    float *bias; /* host [layers, experts], owned */

    struct dataset *data, *validation; /* validation: NULL when there is none */
    struct ckpt_at at;                 /* steps and tokens done */
    double last_s; /* when the last step ended; 0: do not count what was since */
};

/* `r` is copied.  On failure what was opened stays: closing a communicator waits
 * for ranks that may be gone.  End the process, or trainer_close() a world of 1. */
int trainer_open(struct trainer *t, const struct recipe *r,
                 const struct trainer_options *o, struct err *err);
void trainer_close(struct trainer *t);

/* Parts of trainer_open() (trainer_device.c): the device that the options or the
 * recipe name (auto: CUDA where it opens on every rank, else the CPU), and the
 * communicators, warmed; the recipe's degrees and global batch become numbers. */
int trainer_open_device(struct trainer *t, const struct trainer_options *o,
                        struct err *err);
int trainer_open_collectives(struct trainer *t, const struct trainer_options *o,
                             struct err *err);

/* Mesh [replicate, shard], row-major: rank = replica x shard degree + shard, so
 * world 16 at shard 8 has shard groups {0-7} {8-15} and replica groups {i, i+8}
 * (case F13). */
static inline int trainer_shard_rank(int rank, int shard)
{
    return rank % shard;
}

static inline int trainer_replica_rank(int rank, int shard)
{
    return rank / shard;
}

/* One optimizer step (trainer_step.c).  *stop: in whether this rank was asked to
 * stop, out whether any was.  A loss or gradient that is not finite fails before
 * the weights change, naming the step and the rank. */
int trainer_step(struct trainer *t, int *stop, struct step_metrics *out,
                 struct err *err);
/* Mean loss over data.validation_steps global batches, always the same ones,
 * whatever the layout. */
int trainer_validate(struct trainer *t, double *loss, struct err *err);
double trainer_memory_percent(const struct trainer *t);

#endif
