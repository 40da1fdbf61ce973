#include "trainer/memfit.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/str.h"
#include "trainer/memplan.h"

enum { MOST_SHARDS = 65536 };

/* recipe_layout's rule: whole micro-batches of every rank make up the global batch. */
static int legal(const struct recipe *r, int batch)
{
    int64_t global = r->training.global_batch_size;
    int64_t ranks = (int64_t)r->parallelism.data_parallel_shard_degree *
                    r->parallelism.data_parallel_replicate_degree;

    return global < 0 || global % (batch * ranks) == 0;
}

static int64_t arena_of(struct recipe *r, const struct ops *ops, enum ac_mode ac,
                        int batch, int shard)
{
    struct memplan plan;

    r->activation_checkpoint.mode = ac;
    r->training.local_batch_size = batch;
    memplan_make(r, ops, shard, -1, &plan);
    return plan.arena_bytes;
}

void memfit_search(const struct recipe *recipe, const struct ops *ops, int64_t bytes,
                   struct memfit *out)
{
    struct recipe r = *recipe; /* what it points to is not touched */
    int shard = r.parallelism.data_parallel_shard_degree, any = 0;

    *out = (struct memfit){ 0 };
    for (int ac = AC_NONE; ac <= AC_FULL; ac++)
        for (int b = recipe->training.local_batch_size; b > 0 && !out->batch[ac]; b--)
            if (legal(recipe, b) &&
                arena_of(&r, ops, (enum ac_mode)ac, b, shard) <= bytes)
                any = out->batch[ac] = b;
    out->least_bytes = arena_of(&r, ops, AC_FULL, 1, shard);
    for (int64_t s = shard; s <= MOST_SHARDS && !any && !out->shard; s *= 2)
        if (arena_of(&r, ops, AC_FULL, 1, (int)s) <= bytes)
            out->shard = (int)s;
}

static void add_fits(struct str *s, const struct memfit *f)
{
    int n = 0;

    for (int ac = AC_NONE; ac <= AC_FULL; ac++)
        if (f->batch[ac] > 0)
            str_addf(
                s, "%straining.local_batch_size %d with activation_checkpoint.mode %s",
                n++ ? ", " : "; what fits: ", f->batch[ac],
                ac_mode_name((enum ac_mode)ac));
    if (n > 0)
        return;
    str_addf(s, "; a batch of 1 with full checkpointing takes %.2f GiB",
             (double)f->least_bytes / (1 << 30));
    if (f->shard)
        str_addf(s, ": it fits with parallelism.data_parallel_shard_degree %d",
                 f->shard);
}

int memfit_check(const struct recipe *r, const struct ops *ops, int64_t arena_bytes,
                 int64_t bytes, int64_t total, const char *where, struct err *err)
{
    struct str s = STR_INIT;
    struct memfit f;
    char *text;

    if (arena_bytes <= bytes)
        return 0;
    memfit_search(r, ops, bytes, &f);
    str_addf(
        &s,
        "out of memory before the start: batch %d with checkpointing %s takes %.2f "
        "GiB, and of the %.2f GiB of %s %.2f can be had",
        r->training.local_batch_size, ac_mode_name(r->activation_checkpoint.mode),
        (double)arena_bytes / (1 << 30), (double)total / (1 << 30), where,
        (double)(bytes > 0 ? bytes : 0) / (1 << 30));
    add_fits(&s, &f);
    text = str_take(&s);
    err_set(err, ERR_FAILED, "%s", text);
    free(text);
    return -1;
}
