#include "launcher/launch.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/launch_args.h"
#include "launcher/node.h"
#include "launcher/secret_recipe.h"
#include "launcher/slurm_hold.h"
#include "launcher/spares.h"
#include "recipes/slurm_signal.h"
#include "topology/place.h"

enum { LIMIT_SPARE_MS = 10000 };

int launch_load_recipe(struct launch *l, struct err *err)
{
    const struct launch_args *a = l->a;
    const char *path = l->recipe_path ? l->recipe_path : a->recipe;

    if (!path || l->has_recipe)
        return 0;
    if (recipe_load(path, &l->recipe, err) < 0)
        return -1;
    l->has_recipe = 1;
    for (int i = 0; !l->recipe_path && i < a->sets.n; i++) {
        char *key = xstrdup(a->sets.item[i]), *eq = strchr(key, '=');
        int rc;
        *eq = '\0';
        rc = recipe_set(&l->recipe, key, eq + 1, err);
        free(key);
        if (rc < 0)
            return err_wrap(err, "--set");
    }
    if (a->spares >= 0)
        l->recipe.cluster.spares = a->spares;
    return recipe_validate(&l->recipe, path, err) < 0 ||
                   secret_recipe_check(&l->recipe, path, err) < 0
               ? -1
               : 0;
}

int launch_spares(const struct launch *l)
{
    if (l->a->spares >= 0)
        return l->a->spares;
    return l->has_recipe ? l->recipe.cluster.spares : 0;
}

/* Are the ranks counted without looking at the machines? */
static int world_is_said(const struct launch *l)
{
    return l->a->gpus ||
           (l->has_recipe && l->recipe.parallelism.data_parallel_shard_degree > 0 &&
            l->recipe.parallelism.data_parallel_replicate_degree > 0);
}

int launch_prepare(struct launch *l, struct err *err)
{
    struct machines_ask ask = l->a->where;
    int world, spares;

    ask.answer_ms = l->a->start_timeout_ms;
    if (launch_load_recipe(l, err) < 0)
        return -1;
    ask.recipe = l->has_recipe ? &l->recipe : NULL;
    ask.spares = spares = launch_spares(l);
    if (!l->machines.topology && machines_open(&ask, &l->machines, err) < 0)
        return -1;
    spares -= l->machines.nodes ? l->machines.nodes->left_out : 0;
    if (!world_is_said(l))
        spares_reserve(l->machines.topology, spares);
    world = machines_world(&l->machines, ask.recipe, l->a->gpus);
    if (l->a->stdin_rank >= world)
        return err_set(err, ERR_USAGE, "--stdin %d: the ranks are 0 to %d",
                       l->a->stdin_rank, world - 1);
    if (machines_place(&l->machines, ask.recipe, world, &l->placement, err) < 0)
        return l->a->gpus ? -1
                          : err_wrap(err, "on %d rank%s (--gpus N says how many)",
                                     world, str_s(world));
    return spares_choose(l->machines.topology, l->placement, spares, err);
}

void launch_release(struct launch *l)
{
    free(l->again_dir);
    js_free(l->attempts);
    placement_free(l->placement);
    machines_close(&l->machines);
    slurm_hold_close(l->hold);
    l->hold = NULL;
    free(l->recipe_path);
    free(l->resume);
    if (l->has_recipe)
        recipe_release(&l->recipe);
}

int64_t launch_said(int64_t ms, int64_t def)
{
    return ms >= 0 ? ms : def;
}

/* The time that Slurm leaves between its signal and its end, but for a little. */
static void set_limit(const struct launch *l, struct run_request *q)
{
    struct slurm_signal s;
    int64_t ms;

    if (!q->slurm || !q->recipe || q->command ||
        slurm_signal_parse(q->recipe->cluster.slurm_signal, &s, NULL) < 0)
        return;
    ms = (int64_t)s.before_s * 1000 - LIMIT_SPARE_MS;
    q->limit = 1;
    q->limit_watch_ms = l->part.batch || l->hold ? 0 : (int64_t)s.before_s * 1000;
    q->limit_grace_ms =
        launch_said(l->a->grace_ms, ms > q->stop_grace_ms ? ms : q->stop_grace_ms);
}

struct run_request launch_request(struct launch *l)
{
    const struct launch_args *a = l->a;

    struct run_request q = {
        .recipe = l->has_recipe ? &l->recipe : NULL,
        .placement = l->placement,
        .command = a->command,
        .resume = l->resume ? l->resume : a->resume,
        .profile = a->profile,
        .part = l->part.dir ? &l->part : NULL,
        .attempts = l->attempts,
        .quiet = a->quiet || a->detach,
        .verbose = a->verbose,
        .no_bind = a->no_bind,
        .lines_to_stderr = a->json,
        .give_stdin = a->stdin_rank >= 0,
        .stdin_rank = a->stdin_rank,
        .start_timeout_ms = launch_said(a->start_timeout_ms, 120000),
        .silence_timeout_ms =
            launch_said(a->silence_timeout_ms, a->command ? 0 : 120000),
        .grace_ms = launch_said(a->grace_ms, RUN_GRACE_MS),
        .stop_grace_ms = launch_said(a->grace_ms, a->command ? RUN_GRACE_MS : 30000),
    };

    machines_request(&l->machines, &q);
    set_limit(l, &q);
    l->part.retries = a->restarts - l->restarts;
    return q;
}
