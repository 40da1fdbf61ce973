#include "launcher/plan_map.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/js.h"
#include "launcher/predict.h"
#include "recipes/recipe.h"
#include "topology/place.h"

static const char *const order_name[] = { "chosen", "listed", "host_name" };
static const char *const order_words[] = { "chosen", "as listed (Slurm)",
                                           "by host name" };
static const char *const axis_name[] = { "shard", "replicate" };

/* --- making ----------------------------------------------------------------------- */

static void add_traffic(struct map_traffic *a, const struct cost *c, double times)
{
    a->seconds += times * c->seconds;
    for (int i = 0; i < N_COST_TIERS; i++)
        a->bytes[i] += times * c->bytes[i];
}

static void add_order(struct plan_map *m, enum map_order o, const struct recipe *r,
                      const struct topology *t, const struct placement *p,
                      const struct prediction *x)
{
    struct map_traffic *shard = &m->traffic[o][AXIS_SHARD];
    struct map_traffic *replicate = &m->traffic[o][AXIS_REPLICATE];
    double times = (double)p->accumulation * r->model.layers;

    m->known[o] = 1;
    place_map_make(p, t, &m->order[o]);
    add_traffic(shard, &x->gather,
                r->parallelism.reshard_after_forward ? 2 * times : times);
    add_traffic(shard, &x->scatter, times);
    shard->exposed_s = x->exposed_shard_s;
    add_traffic(replicate, &x->replica, r->model.layers);
    replicate->exposed_s = x->exposed_replicate_s;
}

void plan_map_make(const struct recipe *r, const struct topology *t,
                   const struct placement *p, const struct predict_assumptions *assumed,
                   const struct prediction *x, struct plan_map *out)
{
    struct plan_map m = { .known = { 0 } };

    add_order(&m, MAP_CHOSEN, r, t, p, x);
    for (int o = MAP_LISTED; o < N_MAP_ORDERS; o++) {
        struct placement *other = placement_as(p, t, o == MAP_BY_NAME);
        struct prediction y;
        if (!other)
            continue;
        y = *x;
        m.same[o] =
            memcmp(other->order, p->order, (size_t)p->n_nodes * sizeof(int)) == 0;
        if (!m.same[o])
            predict_make(r, t, other, assumed, &y);
        add_order(&m, (enum map_order)o, r, t, other, &y);
        placement_free(other);
    }
    place_map_explain(&m.order[MAP_CHOSEN], p, t, &m.why);
    *out = m;
}

void plan_map_release(struct plan_map *m)
{
    for (int o = 0; o < N_MAP_ORDERS; o++)
        if (m->known[o])
            place_map_release(&m->order[o]);
    strlist_release(&m->why);
}

static const struct map_axis *axis_of(const struct plan_map *m, int order, int axis)
{
    const struct place_map *p = &m->order[order];

    return axis == AXIS_SHARD ? &p->shard : &p->replicate;
}

/* --- text --------------------------------------------------------------------------- */

static const char *say_bytes(double bytes, char out[32])
{
    static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    size_t u = 0;

    for (; bytes >= 1024 && u + 1 < sizeof(unit) / sizeof(*unit); u++)
        bytes /= 1024;
    snprintf(out, 32, bytes < 10 && u ? "%.1f %s" : "%.0f %s", bytes, unit[u]);
    return out;
}

static void print_bytes(const struct map_traffic *a, FILE *fp)
{
    char text[32];
    int n = 0;

    for (int i = 0; i < N_COST_TIERS; i++)
        if (a->bytes[i] > 0)
            fprintf(fp, "%s%s %s", n++ ? ", " : "; ", cost_tier_name((enum cost_tier)i),
                    say_bytes(a->bytes[i], text));
    fprintf(fp, "\n");
}

static void print_order(const struct plan_map *m, int order, int axis, FILE *fp)
{
    const struct map_axis *a = axis_of(m, order, axis);
    const struct map_traffic *traffic = &m->traffic[order][axis];
    const struct place_tiers *tiers = m->order[order].tiers;

    fprintf(fp, "    %-18s", order_words[order]);
    if (m->same[order]) {
        fprintf(fp, " the same order\n");
        return;
    }
    if (isnan(traffic->seconds))
        fprintf(fp, " time unknown");
    else
        fprintf(fp, " %.4f s, exposed %.4f", traffic->seconds, traffic->exposed_s);
    fprintf(fp, "; cross nodes %d", a->on_nodes);
    for (int k = 0; k < tiers->n; k++)
        fprintf(fp, ", %s %ld", place_tier_name(tiers, k, 1), a->crossing[k]);
    print_bytes(traffic, fp);
}

static void print_bound(const struct plan_map *m, int axis, FILE *fp)
{
    const struct map_axis *a = axis_of(m, MAP_CHOSEN, axis);
    const struct place_tiers *tiers = m->order[MAP_CHOSEN].tiers;

    for (int k = 0; k < tiers->n && a->bound[k] >= 0; k++)
        fprintf(fp, "%s%s %ld (gap %ld)", k ? ", " : "    at least           ",
                place_tier_name(tiers, k, 1), a->bound[k],
                a->crossing[k] - a->bound[k]);
    if (tiers->n && a->bound[0] >= 0)
        fprintf(fp, "\n");
}

void plan_map_print(const struct plan_map *m, FILE *fp)
{
    const struct place_map *chosen = &m->order[MAP_CHOSEN];

    fprintf(fp, "mapping   of one step, predicted: ");
    for (int k = 0; k < chosen->tiers->n; k++)
        fprintf(fp, "%s%d %s", k ? ", " : "the nodes are in ", chosen->tiers->units[k],
                place_tier_name(chosen->tiers, k, 1));
    fprintf(fp, "%s\n",
            chosen->tiers->n ? "" : "all nodes are alike to it, or nothing is known");
    for (int axis = 0; axis < N_MAP_AXES; axis++) {
        const struct map_axis *a = axis_of(m, MAP_CHOSEN, axis);
        if (a->size == 1) {
            fprintf(fp, "  %s groups: none talk, each is one rank\n", axis_name[axis]);
            continue;
        }
        fprintf(fp, "  %s: %d group%s of %d\n", axis_name[axis], a->groups,
                str_s(a->groups), a->size);
        for (int o = 0; o < N_MAP_ORDERS; o++)
            if (m->known[o])
                print_order(m, o, axis, fp);
        print_bound(m, axis, fp);
    }
    if (chosen->railed >= 0)
        fprintf(fp, "  rails: %d of %d replicate groups keep to one\n", chosen->railed,
                chosen->replicate.groups);
    for (int i = 0; i < m->why.n; i++)
        fprintf(fp, "  why: %s\n", m->why.item[i]);
}

/* --- JSON ------------------------------------------------------------------------------ */

/* {"leaf": n, ...} */
static struct js *tiers_json(const struct place_tiers *t, const long *value)
{
    struct js *o = js_object();

    for (int k = 0; k < t->n; k++)
        if (value[k] >= 0)
            js_put_int(o, place_tier_name(t, k, 0), value[k]);
    return o;
}

static struct js *order_json(const struct plan_map *m, int order, int axis)
{
    const struct map_axis *a = axis_of(m, order, axis);
    const struct map_traffic *traffic = &m->traffic[order][axis];
    struct js *o = js_object(), *bytes = js_object();

    js_put_str(o, "order", order_name[order]);
    js_put_real(o, "seconds", traffic->seconds);
    js_put_real(o, "exposed_s", traffic->exposed_s);
    js_put_int(o, "cross_nodes", a->on_nodes);
    js_put(o, "cross", tiers_json(m->order[order].tiers, a->crossing));
    for (int i = 0; i < N_COST_TIERS; i++)
        if (traffic->bytes[i] > 0)
            js_put_real(bytes, cost_tier_name((enum cost_tier)i), traffic->bytes[i]);
    js_put(o, "tier_bytes", bytes);
    return o;
}

static struct js *axis_json(const struct plan_map *m, int axis)
{
    const struct map_axis *a = axis_of(m, MAP_CHOSEN, axis);
    struct js *o = js_object(), *orders = js_array();

    js_put_str(o, "axis", axis_name[axis]);
    js_put_int(o, "groups", a->groups);
    js_put_int(o, "size", a->size);
    js_put(o, "bound", tiers_json(m->order[MAP_CHOSEN].tiers, a->bound));
    for (int i = 0; i < N_MAP_ORDERS; i++)
        if (m->known[i])
            js_push(orders, order_json(m, i, axis));
    js_put(o, "orders", orders);
    return o;
}

struct js *plan_map_json(const struct plan_map *m)
{
    const struct place_map *chosen = &m->order[MAP_CHOSEN];
    struct js *o = js_object(), *tiers = js_object(), *axes = js_array();
    struct js *why = js_array();

    for (int k = 0; k < chosen->tiers->n; k++)
        js_put_int(tiers, place_tier_name(chosen->tiers, k, 0),
                   chosen->tiers->units[k]);
    js_put(o, "tiers", tiers);
    for (int i = 0; i < N_MAP_AXES; i++)
        js_push(axes, axis_json(m, i));
    js_put(o, "axes", axes);
    if (chosen->railed >= 0)
        js_put_int(o, "railed", chosen->railed);
    for (int i = 0; i < m->why.n; i++)
        js_push(why, js_string(m->why.item[i]));
    js_put(o, "why", why);
    return o;
}
