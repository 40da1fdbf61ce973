#include <stdlib.h>

#include "base/err.h"
#include "base/js.h"
#include "base/log.h"
#include "base/mem.h"
#include "launcher/fingerprint.h"
#include "launcher/run.h"
#include "launcher/secret.h"
#include "launcher/secret_recipe.h"
#include "launcher/slurm_nodes.h"
#include "launcher/store.h"
#include "recipes/recipe.h"
#include "topology/place.h"
#include "topology/topology.h"

static char *line_of(struct js *v)
{
    char *line = js_line(v);

    js_free(v);
    return line;
}

static char *command_line(char **command)
{
    struct js *a = js_array();
    struct strlist clean = { 0 };

    secret_clean_command(command, &clean);
    for (int i = 0; i < clean.n; i++)
        js_push(a, js_string(clean.item[i]));
    strlist_release(&clean);
    return line_of(a);
}

static int note_start(const char *id, const char *dir, const struct run_request *q,
                      struct err *err)
{
    char *recipe = q->recipe ? secret_recipe_text(q->recipe) : NULL;
    char *command = q->command ? command_line(q->command) : NULL;
    char *topology = line_of(topology_json(q->topology));
    char *placement = line_of(placement_json(q->placement, q->topology));
    char fingerprint[17];
    struct store_run r = { .id = id,
                           .dir = dir,
                           .climb = q->parent ? q->parent : getenv("MUSTER_CLIMB"),
                           .recipe = recipe,
                           .command = command,
                           .fingerprint = fingerprint,
                           .topology = topology,
                           .placement = placement,
                           .world = q->placement->world,
                           .job = q->slurm ? q->slurm->job : NULL,
                           .batch = q->part && q->part->batch,
                           .again = q->part && q->part->attempt > 0,
                           .name = q->recipe    ? q->recipe->name
                                   : q->command ? q->command[0]
                                                : "run" };
    struct store *s = NULL;
    int rc;

    topology_fingerprint(q->topology, fingerprint);
    rc = store_open(NULL, &s, err);
    if (rc == 0)
        rc = store_run_start(s, &r, err);
    store_close(s);
    free(recipe);
    free(command);
    free(topology);
    free(placement);
    return rc;
}

void store_note_start(const char *id, const char *dir, const struct run_request *q)
{
    struct err err = ERR_INIT;

    if (note_start(id, dir, q, &err) < 0)
        log_warn("%s is not in the store: %s", id, err_text(&err));
    err_release(&err);
}

static int note_end(const struct run_result *r, struct err *err)
{
    char *events = xasprintf("%s/events.jsonl", r->dir);
    struct js *result = run_result_json(r);
    struct store *s = NULL;
    int rc = store_open(NULL, &s, err);

    if (rc == 0)
        rc = store_steps_load(s, r->id, events, err);
    if (rc == 0)
        rc = store_run_end(s, r->id, result, err);
    store_close(s);
    js_free(result);
    free(events);
    return rc;
}

void store_note_end(const struct run_result *r)
{
    struct err err = ERR_INIT;

    if (note_end(r, &err) < 0)
        log_warn("the end of %s is not in the store: %s", r->id, err_text(&err));
    err_release(&err);
}

static int note_requeue(const struct run_result *r, const char *reason, struct err *err)
{
    char *events = xasprintf("%s/events.jsonl", r->dir);
    struct store *s = NULL;
    int rc = store_open(NULL, &s, err);

    if (rc == 0)
        rc = store_steps_load(s, r->id, events, err);
    if (rc == 0)
        rc = store_run_waits(s, r->id, reason, err);
    store_close(s);
    free(events);
    return rc;
}

void store_note_requeue(const struct run_result *r, const char *reason)
{
    struct err err = ERR_INIT;

    if (note_requeue(r, reason, &err) < 0)
        log_warn("that %s waits again is not in the store: %s", r->id, err_text(&err));
    err_release(&err);
}
