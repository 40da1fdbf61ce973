#include <stddef.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "recipes/recipe.h"

/* One degree, as given: -1 or at least 1. */
static int check_degree(const char *name, int degree, struct err *err)
{
    if (degree == 0)
        return err_set(err, ERR_USAGE,
                       "parallelism.data_parallel_%s_degree: zero degree: 1 means none",
                       name);
    if (degree < -1)
        return err_set(err, ERR_USAGE,
                       "parallelism.data_parallel_%s_degree: negative degree %d: -1 "
                       "means what is left",
                       name, degree);
    return 0;
}

/* The degree that is left of `world` beside `other`. */
static int left_over(const char *name, int world, int other, int *degree,
                     struct err *err)
{
    if (world % other)
        return err_set(err, ERR_USAGE, "%s degree %d does not divide %d rank%s", name,
                       other, world, str_s(world));
    *degree = world / other;
    return 0;
}

static int resolve_degrees(const struct recipe *r, int world, int *shard,
                           int *replicate, struct err *err)
{
    int s = r->parallelism.data_parallel_shard_degree;
    int p = r->parallelism.data_parallel_replicate_degree;

    if (check_degree("shard", s, err) < 0 || check_degree("replicate", p, err) < 0)
        return -1;
    if (s < 0 && p < 0)
        return err_set(err, ERR_USAGE,
                       "two free degrees: give shard or replicate a "
                       "number");
    if (s < 0 && left_over("replicate", world, p, &s, err) < 0)
        return -1;
    if (p < 0 && left_over("shard", world, s, &p, err) < 0)
        return -1;
    if ((int64_t)s * p != world)
        return err_set(err, ERR_USAGE,
                       "shard %d x replicate %d = %lld, but there are %d ranks", s, p,
                       (long long)s * p, world);
    *shard = s;
    *replicate = p;
    return 0;
}

static int resolve_batch(const struct recipe *r, int world, int *accumulation,
                         struct err *err)
{
    int64_t step = (int64_t)r->training.local_batch_size * world;
    int64_t global = r->training.global_batch_size;

    if (global < 0)
        global = step;
    if (global % step || global / step > INT32_MAX)
        return err_set(
            err, ERR_USAGE,
            "global batch %lld is not a multiple of local batch %d x %d ranks "
            "= %lld",
            (long long)global, r->training.local_batch_size, world, (long long)step);
    *accumulation = (int)(global / step);
    return 0;
}

int recipe_layout(const struct recipe *r, int world, int *shard, int *replicate,
                  int *accumulation, struct err *err)
{
    int per_node = r->cluster.gpus_per_node, s, p, a;

    if (world < 1)
        return err_set(err, ERR_USAGE, "%d ranks: at least one is needed", world);
    if (per_node > 0 && world > per_node && world % per_node)
        return err_set(err, ERR_USAGE,
                       "%d ranks are not a whole number of nodes of %d "
                       "(cluster.gpus_per_node)",
                       world, per_node);
    if (resolve_degrees(r, world, &s, &p, err) < 0 ||
        resolve_batch(r, world, &a, err) < 0)
        return -1;
    *shard = s;
    *replicate = p;
    *accumulation = a;
    return 0;
}

char *recipe_layout_note(const struct recipe *r, int world, int shard)
{
    int per_node = r->cluster.gpus_per_node;

    if (per_node < 1 || world <= per_node || shard >= per_node)
        return NULL;
    return xasprintf("shard groups of %d leave %d of %d GPUs of a node's NVLink unused "
                     "and %d replicas cross nodes",
                     shard, per_node - shard, per_node, world / shard);
}
