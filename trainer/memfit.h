/* memfit.h - does a recipe fit in the memory that is there, and what would?
 *
 * Pure: the plan (memplan.h) against a number of bytes. */
#ifndef TRAINER_MEMFIT_H
#define TRAINER_MEMFIT_H

#include <stdint.h>

#include "recipes/recipe.h"

struct err;
struct ops;

enum { N_AC_MODES = AC_FULL + 1 };

struct memfit {
    /* By enum ac_mode: the largest legal local_batch_size, up to the recipe's, whose arena
     * fits; 0: none. */
    int batch[N_AC_MODES];
    /* Where none fits: the smallest shard degree, a doubling of the recipe's, at which
     * local_batch_size 1 with full checkpointing does; 0: none up to 65,536. */
    int shard;
    int64_t
        least_bytes; /* arena of batch 1 with full checkpointing at the recipe's degree */
};

/* The recipe's degrees are numbers (recipe_layout).  `bytes`: what the arena may take. */
void memfit_search(const struct recipe *r, const struct ops *ops, int64_t bytes,
                   struct memfit *out);

/* -1 with the whole sentence, code ERR_FAILED, when arena_bytes is above `bytes`.
 * `where`: "GPU 0", "this rank's share of the machine"; total: what it has in all. */
int memfit_check(const struct recipe *r, const struct ops *ops, int64_t arena_bytes,
                 int64_t bytes, int64_t total, const char *where, struct err *err);

#endif
