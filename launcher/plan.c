#include "launcher/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "launcher/spares.h"
#include "topology/place.h"
#include "topology/topology.h"
#include "trainer/ops.h"

/* Memory of the smallest device that a rank has: its GPU, or its share of the node. */
static int64_t device_bytes(const struct topology *t, const struct placement *p)
{
    int *sharing = xcalloc((size_t)t->n_nodes + 1, sizeof(*sharing));
    int64_t least = INT64_MAX;

    for (int i = 0; i < p->world; i++)
        sharing[p->rank[i].node]++;
    for (int i = 0; i < p->world && least >= 0; i++) {
        const struct place *at = &p->rank[i];
        const struct node *n = &t->nodes[at->node];
        int64_t here = p->on_gpus ? n->gpus[at->gpu].memory_bytes : n->memory_bytes;
        if (here >= 0 && !p->on_gpus)
            here /= sharing[at->node];
        least = here < 0 ? -1 : here < least ? here : least;
    }
    free(sharing);
    return least;
}

static void write_degrees(struct recipe *r, const struct placement *p)
{
    r->parallelism.data_parallel_shard_degree = p->shard_degree;
    r->parallelism.data_parallel_replicate_degree = p->replicate_degree;
}

int plan_too_large(const struct plan *p)
{
    return p->memory.percent > 100;
}

static void add_warnings(struct plan *p)
{
    double ceiling = 100 * p->recipe.scale.memory_ceiling;
    char *line = NULL;

    placement_warnings(p->placement, p->topology, &p->warnings);
    if (plan_too_large(p))
        line =
            xasprintf("memory: %.1f %% of the device, it does not fit: raise the shard "
                      "degree, checkpoint activations, or lower local_batch_size",
                      p->memory.percent);
    else if (p->memory.percent > ceiling)
        line =
            xasprintf("memory: %.1f %% of the device, above scale.memory_ceiling %.1f "
                      "%%",
                      p->memory.percent, ceiling);
    else if (isnan(p->memory.percent))
        line =
            xstrdup("memory: the device's size is unknown, so nobody knows whether it "
                    "fits");
    if (line)
        strlist_add(&p->warnings, line);
    free(line);
}

int plan_make(const struct recipe *r, const struct topology *t, int world,
              const struct predict_assumptions *assumed, struct plan *out,
              struct err *err)
{
    struct plan p = { .topology = t };

    if (placement_make(r, t, world, &p.placement, err) < 0)
        return -1;
    recipe_copy(&p.recipe, r);
    write_degrees(&p.recipe, p.placement);
    p.device = p.placement->on_gpus ? "cuda" : "cpu";
    memplan_make(&p.recipe, ops_sizes(p.device), p.placement->shard_degree,
                 device_bytes(t, p.placement), &p.memory);
    predict_make(&p.recipe, t, p.placement, assumed, &p.predicted);
    add_warnings(&p);
    *out = p;
    return 0;
}

void plan_add_map(struct plan *p, const struct predict_assumptions *assumed)
{
    p->map = xcalloc(1, sizeof(*p->map));
    plan_map_make(&p->recipe, p->topology, p->placement, assumed, &p->predicted,
                  p->map);
}

void plan_release(struct plan *p)
{
    if (p->map)
        plan_map_release(p->map);
    free(p->map);
    recipe_release(&p->recipe);
    placement_free(p->placement);
    strlist_release(&p->warnings);
    strlist_release(&p->commands);
}

static struct js *strings_json(const struct strlist *l)
{
    struct js *a = js_array();

    for (int i = 0; i < l->n; i++)
        js_push(a, js_string(l->item[i]));
    return a;
}

static struct js *flops_json(const struct recipe *r)
{
    struct js *o = js_object();

    for (int i = 0; i < N_FLOP_CONVENTIONS; i++) {
        enum flop_convention c = (enum flop_convention)i;
        js_put_real(o, flop_convention_name(c),
                    model_flops_per_token(&r->model, r->training.seq_len, c));
    }
    return o;
}

int plan_is_simulated(const struct plan *p)
{
    return p->topology->simulated || p->recipe.cluster.device == DEVICE_SIM;
}

struct js *plan_json(const struct plan *p)
{
    struct js *o = js_document("plan"), *placed;
    const char *key;
    struct js *value;

    js_put_str(o, "recipe", p->recipe.name);
    js_put_bool(o, "simulated", plan_is_simulated(p));
    js_put_str(o, "topology", p->topology->source);
    js_put_int(o, "params_total", model_params_total(&p->recipe.model));
    js_put_int(o, "params_active", model_params_active(&p->recipe.model));
    js_put(o, "flops_per_token", flops_json(&p->recipe));
    js_put(o, "memory", memplan_json(&p->memory));
    js_put(o, "predicted", predict_json(&p->predicted));
    placed = placement_json(p->placement, p->topology);
    for (size_t i = 0; js_pair(placed, i, &key, &value); i++)
        js_put(o, key, js_ref(value));
    js_free(placed);
    if (p->map)
        js_put(o, "mapping", plan_map_json(p->map));
    js_put(o, "warnings", strings_json(&p->warnings));
    js_put(o, "spares", spares_json(p->topology));
    js_put(o, "commands", strings_json(&p->commands));
    return o;
}
