#include "topology/place.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "recipes/recipe.h"
#include "topology/fabric.h"
#include "topology/place_fill.h"
#include "topology/place_order.h"
#include "topology/topology.h"

enum {
    CPU_RANKS_MAX = 4096, /* of one node */
    NO_LIMIT = 1 << 20
};

/* --- which devices a node offers -------------------------------------------------- */

static int wants_gpus(const struct recipe *r, const struct topology *t)
{
    enum device d = r ? r->cluster.device : DEVICE_AUTO;
    int gpus = 0;

    if (d == DEVICE_CUDA)
        return 1;
    for (int i = 0; d != DEVICE_CPU && i < t->n_nodes; i++)
        gpus += t->nodes[i].n_gpus;
    return gpus > 0;
}

/* GPUs with MIG on, for refusals; nothing when there are none. */
static void add_mig(struct str *s, const struct topology *t)
{
    const char *before = "; MIG is on, so not usable whole: ";

    for (int i = 0; i < t->n_nodes; i++)
        for (int g = 0; g < t->nodes[i].n_gpus; g++) {
            if (t->nodes[i].gpus[g].mig != 1)
                continue;
            str_addf(s, "%s%s gpu %d", before, t->nodes[i].name,
                     t->nodes[i].gpus[g].index);
            before = ", ";
        }
}

/* Nodes that are kept out, for refusals; nothing when there are none. */
static void add_set_aside(struct str *s, const struct topology *t)
{
    const char *before = "; kept out: ";

    for (int i = 0; i < t->n_nodes; i++)
        if (t->nodes[i].set_aside) {
            str_addf(s, "%s%s (%s)", before, t->nodes[i].name,
                     t->nodes[i].set_aside == AS_SPARE ? "spare" : "bad");
            before = ", ";
        }
}

/* "2 nodes x 8 = 16 GPUs", or by runs of nodes that differ. */
static void add_what_is_there(struct str *s, const struct topology *t)
{
    int total = 0, same, runs = 0;

    for (int i = 0; i < t->n_nodes; i += same) {
        int gpus = place_usable_gpus(&t->nodes[i]);
        for (same = 1; i + same < t->n_nodes; same++)
            if (place_usable_gpus(&t->nodes[i + same]) != gpus ||
                t->nodes[i + same].set_aside != t->nodes[i].set_aside)
                break;
        if (t->nodes[i].set_aside)
            continue;
        total += gpus * same;
        str_addf(s, "%s%d node%s x %d", runs++ ? " + " : "", same, same == 1 ? "" : "s",
                 gpus);
    }
    str_addf(s, " = %d GPUs", total);
    add_mig(s, t);
    add_set_aside(s, t);
}

static int refuse_gpus(const struct topology *t, const char *who, int world,
                       const char *why, struct err *err)
{
    struct str s = STR_INIT;

    add_what_is_there(&s, t);
    err_set(err, ERR_USAGE, "%s wants %d GPUs, the topology has %s%s", who, world,
            s.text, why);
    str_release(&s);
    return -1;
}

/* --- choosing nodes ------------------------------------------------------------------ */

struct layout {
    const struct topology *t;
    const char *who;
    int world, shard, on_gpus;
    int per_node; /* ranks of a full node */
    int *order;   /* chosen nodes */
    int *fit;     /* [n_fit] those that could have been; none where hosts have slots */
    int n_fit;
    int *count; /* [t->n_nodes] ranks of each of them */
    int n_nodes;
};

/* The fewest nodes that whole shard groups fill: one where groups divide nodes, 3 for
 * groups of 12 on 8 GPUs a node; 1 when the world does not fill its nodes. */
static int nodes_of_group(const struct layout *l, int need)
{
    int a = l->shard, b = l->per_node;

    while (b) {
        int rest = a % b;
        a = b;
        b = rest;
    }
    return need % (l->shard / a) ? 1 : l->shard / a;
}

static int choose(struct layout *l, int need, int least)
{
    int *fit = l->fit, n = 0;

    for (int i = 0; i < l->t->n_nodes; i++)
        if (!l->t->nodes[i].set_aside &&
            (!l->on_gpus || place_usable_gpus(&l->t->nodes[i]) >= least))
            fit[n++] = i;
    l->n_fit = n;
    l->n_nodes = n < need ? n : need;
    if (n >= need) {
        struct place_tiers *tiers = place_tiers_new(l->t);
        place_order(l->t, tiers, fit, n, need, nodes_of_group(l, need), l->order);
        place_tiers_free(tiers);
    }
    for (int k = 0; k < l->n_nodes; k++)
        l->count[k] = l->world - k * l->per_node < l->per_node
                          ? l->world - k * l->per_node
                          : l->per_node;
    return n >= need;
}

/* The most GPUs a node, fewer than per_node, at which as many of each node make the
 * world; 0 none. */
static int fitting_share(const struct layout *l)
{
    for (int each = l->per_node - 1; each > 0; each--) {
        int nodes = 0;
        for (int i = 0; i < l->t->n_nodes; i++)
            nodes += place_usable_gpus(&l->t->nodes[i]) >= each;
        if (l->world % each == 0 && nodes >= l->world / each)
            return each;
    }
    return 0;
}

/* The largest number of ranks a node, at most `limit`, at which the nodes suffice. */
static int choose_gpu_nodes(struct layout *l, int limit, struct err *err)
{
    int most = 0;

    for (int i = 0; i < l->t->n_nodes; i++)
        most = place_usable_gpus(&l->t->nodes[i]) > most
                   ? place_usable_gpus(&l->t->nodes[i])
                   : most;
    l->per_node = limit < most ? limit : most;
    if (l->per_node < 1)
        return refuse_gpus(l->t, l->who, l->world, "", err);
    if (l->world <= l->per_node) {
        l->per_node = l->world;
        choose(l, 1, l->world);
        return 0;
    }
    if (!choose(l, (l->world + l->per_node - 1) / l->per_node, l->per_node)) {
        char why[128] = "";
        int other = fitting_share(l);
        if (other)
            snprintf(why, sizeof(why),
                     ", and too few nodes have %d: cluster.gpus_per_node: %d takes as "
                     "many of each",
                     l->per_node, other);
        else if (limit < most)
            snprintf(why, sizeof(why),
                     ", of which cluster.gpus_per_node takes %d a node", limit);
        return refuse_gpus(l->t, l->who, l->world, why, err);
    }
    if (l->world % l->per_node)
        return err_set(err, ERR_USAGE,
                       "%s: world %d is not a whole number of %d-GPU nodes: take %d "
                       "or %d",
                       l->who, l->world, l->per_node,
                       l->world / l->per_node * l->per_node,
                       (l->world / l->per_node + 1) * l->per_node);
    return 0;
}

/* Slots of a CPU node: its CPUs, by the smallest node. */
static int cpu_slots(const struct topology *t)
{
    int least = 0;

    for (int i = 0; i < t->n_nodes; i++)
        if (!t->nodes[i].set_aside && t->nodes[i].threads > 0 &&
            (!least || t->nodes[i].threads < least))
            least = t->nodes[i].threads;
    return least ? least : 1;
}

/* Where all nodes came with a number of slots: in their order, each with its own. */
static int choose_slots(struct layout *l)
{
    int left = l->world;

    for (int i = 0; i < l->t->n_nodes; i++) {
        if (l->t->nodes[i].set_aside)
            continue;
        if (l->t->nodes[i].slots < 1)
            return 0;
        left -= l->t->nodes[i].slots < left ? l->t->nodes[i].slots : left;
    }
    if (left)
        return 0;
    left = l->world;
    for (int i = 0; left; i++) {
        int slots = l->t->nodes[i].slots;
        if (l->t->nodes[i].set_aside)
            continue;
        l->order[l->n_nodes] = i;
        l->count[l->n_nodes] = slots < left ? slots : left;
        left -= l->count[l->n_nodes++];
    }
    return 1;
}

static int choose_cpu_nodes(struct layout *l, int limit, struct err *err)
{
    int n = 0;

    for (int i = 0; i < l->t->n_nodes; i++)
        n += !l->t->nodes[i].set_aside;
    if (n == 0)
        return refuse_gpus(l->t, l->who, l->world, "", err);
    if (limit == NO_LIMIT && choose_slots(l))
        return 0;
    limit = limit == NO_LIMIT ? cpu_slots(l->t) : limit;
    l->per_node = limit < l->world ? limit : l->world;
    if ((long)l->per_node * n < l->world)
        l->per_node = (l->world + n - 1) / n;
    if (l->per_node > CPU_RANKS_MAX)
        return err_set(err, ERR_USAGE,
                       "%s wants %d CPU ranks on %d node%s, at most %d a node are "
                       "started",
                       l->who, l->world, n, n == 1 ? "" : "s", CPU_RANKS_MAX);
    choose(l, (l->world + l->per_node - 1) / l->per_node, 0);
    return 0;
}

/* --- the whole ------------------------------------------------------------------------ */

static struct placement *fill(const struct layout *l, int shard, int replicate,
                              int accumulation)
{
    struct placement *p = xcalloc(1, sizeof(*p));

    p->world = l->world;
    p->shard_degree = shard;
    p->replicate_degree = replicate;
    p->accumulation = accumulation;
    p->on_gpus = l->on_gpus;
    p->n_nodes = l->n_nodes;
    p->order = l->order;
    p->fit = l->fit;
    p->n_fit = l->n_fit;
    p->rank = xcalloc((size_t)l->world, sizeof(*p->rank));
    for (int i = 0, k = 0, local = 0; i < l->world; i++, local++) {
        if (local == l->count[k]) {
            local = 0;
            k++;
        }
        p->rank[i].local_rank = local;
        p->rank[i].shard = i % shard;
        p->rank[i].replicate = i / shard;
    }
    place_fill(p, l->t);
    return p;
}

int placement_make(const struct recipe *r, const struct topology *t, int world,
                   struct placement **out, struct err *err)
{
    struct layout l = { .t = t, .world = world, .who = "the run" };
    int shard = world, replicate = 1, accumulation = 1, limit = NO_LIMIT, rc;

    if (world < 1)
        return err_set(err, ERR_USAGE, "a world of %d ranks cannot be: take 1 or more",
                       world);
    if (r) {
        if (recipe_layout(r, world, &shard, &replicate, &accumulation, err) < 0)
            return -1;
        limit = r->cluster.gpus_per_node > 0 ? r->cluster.gpus_per_node : limit;
        l.who = r->name && r->name[0] ? r->name : "the recipe";
    }
    l.shard = shard;
    l.on_gpus = wants_gpus(r, t);
    l.order = xcalloc((size_t)t->n_nodes + 1, sizeof(*l.order));
    l.count = xcalloc((size_t)t->n_nodes + 1, sizeof(*l.count));
    l.fit = xcalloc((size_t)t->n_nodes + 1, sizeof(*l.fit));
    rc =
        l.on_gpus ? choose_gpu_nodes(&l, limit, err) : choose_cpu_nodes(&l, limit, err);
    if (rc == 0)
        rc = fabric_check_span(t, l.order, l.n_nodes, err);
    if (rc == 0) {
        *out = fill(&l, shard, replicate, accumulation);
        if (l.n_fit > 1 && t->n_switches > 0)
            place_fastest(r, *out, t);
        place_fill_cpus(*out, t);
    } else {
        free(l.order);
        free(l.fit);
    }
    free(l.count);
    return rc;
}

void placement_free(struct placement *p)
{
    if (!p)
        return;
    free(p->order);
    free(p->fit);
    free(p->rank);
    free(p);
}
