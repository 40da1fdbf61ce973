#include "topology/place_fill.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "recipes/recipe.h"
#include "topology/cost.h"
#include "topology/place.h"
#include "topology/place_bind.h"
#include "topology/place_order.h"
#include "topology/topology.h"

int place_usable_gpus(const struct node *n)
{
    int usable = 0;

    for (int i = 0; i < n->n_gpus && !n->set_aside; i++)
        usable += n->gpus[i].mig != 1;
    return usable;
}

/* node.gpus[] index of the i-th GPU without MIG. */
static int nth_gpu(const struct node *n, int i)
{
    for (int g = 0; g < n->n_gpus; g++)
        if (n->gpus[g].mig != 1 && i-- == 0)
            return g;
    return -1;
}

/* The fastest NIC that is not down; -1 none. */
static int fastest_nic(const struct node *n)
{
    int best = -1;

    for (int i = 0; i < n->n_nics; i++)
        if (n->nics[i].up != 0 &&
            (best < 0 || n->nics[i].gbits_per_s > n->nics[best].gbits_per_s))
            best = i;
    return best;
}

void place_fill(struct placement *p, const struct topology *t)
{
    for (int i = 0, k = -1; i < p->world; i++) {
        struct place *at = &p->rank[i];
        const struct node *n;
        k += at->local_rank == 0;
        n = &t->nodes[p->order[k]];
        at->node = p->order[k];
        at->gpu = p->on_gpus ? nth_gpu(n, at->local_rank) : at->local_rank;
        at->numa = p->on_gpus ? n->gpus[at->gpu].numa : -1;
        at->nic = p->on_gpus ? n->gpus[at->gpu].nic : fastest_nic(n);
    }
}

void place_fill_cpus(struct placement *p, const struct topology *t)
{
    for (int i = 0, count; i < p->world; i += count) {
        for (count = 1; i + count < p->world && p->rank[i + count].local_rank; count++)
            ;
        place_bind(&p->rank[i], count, p->on_gpus, &t->nodes[p->rank[i].node]);
    }
}

enum { PARAMETERS = 1 << 29 }; /* of a layer where there is no model */

/* --- which is the fastest --------------------------------------------------------- */

/* Seconds of all groups; *known is cleared where something on their way is unknown. */
static double time_of(enum collective c, int64_t bytes, const struct cost_groups *g,
                      const struct placement *p, const struct topology *t,
                      const struct cost_model *m, int *known)
{
    struct cost cost = cost_concurrent(c, bytes, g, p, t, m);

    if (isnan(cost.seconds) || !cost.fabric_known)
        *known = 0;
    return isnan(cost.seconds) ? 0 : cost.seconds;
}

double place_seconds(const struct recipe *r, const struct placement *p,
                     const struct topology *t, const struct cost_model *m, int *known)
{
    int *shards, *copies, modelled = r && r->model.layers > 0;
    struct cost_groups shard = cost_shard_groups(p, &shards);
    struct cost_groups replicate = cost_replicate_groups(p, &copies);
    int layers = modelled ? r->model.layers : 1;
    int64_t layer = modelled ? model_params_total(&r->model) / layers : PARAMETERS;
    int gathers = r && r->parallelism.reshard_after_forward ? 2 : 1;
    double s;

    *known = 1;
    s = gathers * time_of(COLLECTIVE_ALL_GATHER, layer * (p->on_gpus ? 2 : 4), &shard,
                          p, t, m, known);
    if (r)
        s += time_of(COLLECTIVE_REDUCE_SCATTER, layer * 4, &shard, p, t, m, known);
    s *= p->accumulation;
    if (p->replicate_degree > 1)
        s += time_of(COLLECTIVE_ALL_REDUCE, layer * 4 / p->shard_degree, &replicate, p,
                     t, m, known);
    free(shards);
    free(copies);
    return layers * s;
}

static int count_suspects(const char *suspect, const int *order, int n)
{
    int count = 0;

    for (int i = 0; i < n; i++)
        count += suspect[order[i]];
    return count;
}

/* Nodes so that the replicas of a shard lie together instead of the shards of a
 * replica; 0: shard groups are no whole nodes, or there is one. */
static int across(const struct placement *p, const struct topology *t, int *order)
{
    int groups = p->replicate_degree, group = p->n_nodes / groups, *packed;
    struct place_tiers *tiers;

    if (group < 2 || groups < 2 || group * groups != p->n_nodes)
        return 0;
    packed = xcalloc((size_t)p->n_nodes, sizeof(*packed));
    tiers = place_tiers_new(t);
    place_order(t, tiers, p->fit, p->n_fit, p->n_nodes, groups, packed);
    for (int k = 0; k < p->n_nodes; k++)
        order[k % groups * group + k / groups] = packed[k];
    place_tiers_free(tiers);
    free(packed);
    return 1;
}

enum { ACROSS, LISTED, BY_NAME, N_WAYS };

/* p on another order, when it differs and is allowed. */
static int try_order(struct placement *other, const struct placement *p,
                     const struct topology *t, int way, const char *suspect)
{
    size_t size = (size_t)p->n_nodes * sizeof(*p->order);

    memcpy(other->order, p->fit, size);
    if (way == BY_NAME)
        place_by_name(t, p->fit, p->n_fit, p->n_nodes, other->order);
    if ((way == ACROSS && !across(p, t, other->order)) ||
        memcmp(other->order, p->order, size) == 0 ||
        count_suspects(suspect, other->order, p->n_nodes) >
            count_suspects(suspect, p->order, p->n_nodes))
        return 0;
    place_fill(other, t);
    return 1;
}

static void try_all(const struct recipe *r, struct placement *p,
                    const struct topology *t, const struct cost_model *m,
                    struct placement *other)
{
    char *suspect = xcalloc((size_t)t->n_nodes + 1, 1);
    int known;
    double best = place_seconds(r, p, t, m, &known), s;

    place_suspects(t, suspect);
    for (int way = 0; way < N_WAYS && known; way++) {
        int as_well = 0;
        if (!try_order(other, p, t, way, suspect))
            continue;
        s = place_seconds(r, other, t, m, &as_well);
        if (!as_well || s >= best * (1 - 1e-9))
            continue;
        best = s;
        memcpy(p->order, other->order, (size_t)p->n_nodes * sizeof(*p->order));
        place_fill(p, t);
    }
    free(suspect);
}

void place_fastest(const struct recipe *r, struct placement *p,
                   const struct topology *t)
{
    struct cost_model *m = cost_model_new(t);
    struct placement other = *p;

    other.order = xcalloc((size_t)p->n_nodes + 1, sizeof(*other.order));
    other.rank = xcalloc((size_t)p->world + 1, sizeof(*other.rank));
    memcpy(other.rank, p->rank, (size_t)p->world * sizeof(*other.rank));
    try_all(r, p, t, m, &other);
    free(other.order);
    free(other.rank);
    cost_model_free(m);
}
