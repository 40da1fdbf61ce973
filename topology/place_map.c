#include "topology/place_map.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topology/place.h"
#include "topology/place_fill.h"
#include "topology/place_order.h"
#include "topology/topology.h"

static int unit_at(const struct place_map *m, const struct placement *p, int tier,
                   int rank)
{
    int node = p->rank[rank].node;

    return tier < 0 ? node : m->tiers->unit[tier][node];
}

/* Groups of both axes in more than one unit of the tier (-1: on more than one node). */
static void count_crossing(const struct place_map *m, const struct placement *p,
                           int tier, long *shard, long *replicate)
{
    char *torn = xcalloc((size_t)p->shard_degree + 1, 1);
    int in_group = 0;

    *shard = *replicate = 0;
    for (int i = 0; i < p->world; i++) {
        int place = i % p->shard_degree, unit = unit_at(m, p, tier, i);
        if (place == 0)
            in_group = 0;
        in_group |= unit != unit_at(m, p, tier, i - place);
        if (place == p->shard_degree - 1)
            *shard += in_group;
        if (!torn[place] && unit != unit_at(m, p, tier, place))
            torn[place] = 1;
    }
    for (int k = 0; k < p->shard_degree; k++)
        *replicate += torn[k];
    free(torn);
}

static int most_ranks(const struct placement *p)
{
    int most = 1;

    for (int i = 0; i < p->world; i++)
        most = p->rank[i].local_rank >= most ? p->rank[i].local_rank + 1 : most;
    return most;
}

static void bound_axis(const struct place_map *m, const struct placement *p, int tier,
                       struct map_axis *axis)
{
    int units = m->tiers->units[tier], per_node = most_ranks(p);
    long *nodes = xcalloc((size_t)units + 1, sizeof(*nodes)), room = 0;

    for (int i = 0; i < p->n_fit; i++)
        nodes[m->tiers->unit[tier][p->fit[i]]]++;
    for (int u = 0; u < units; u++)
        room += nodes[u] * per_node / axis->size;
    axis->bound[tier] = !p->n_fit ? -1 : axis->groups > room ? axis->groups - room : 0;
    free(nodes);
}

int place_map_whole(const struct place_map *m, const struct placement *p, int tier)
{
    long ranks = (m->shard.groups - m->shard.crossing[tier]) * (long)p->shard_degree;
    int per_node = most_ranks(p);

    return (int)((ranks + per_node - 1) / per_node);
}

int place_map_largest(const struct place_map *m, const struct placement *p, int tier)
{
    int *nodes = xcalloc((size_t)m->tiers->units[tier] + 1, sizeof(*nodes)), most = 0;

    for (int i = 0; i < p->n_fit; i++) {
        int here = ++nodes[m->tiers->unit[tier][p->fit[i]]];
        most = here > most ? here : most;
    }
    free(nodes);
    return most;
}

/* Shard groups that are whole lie in two units where one cannot hold them all. */
static void bound_replicas(struct place_map *m, const struct placement *p, int tier)
{
    if (p->n_fit && p->replicate_degree > 1 &&
        place_map_whole(m, p, tier) > place_map_largest(m, p, tier))
        m->replicate.bound[tier] = m->replicate.groups;
}

/* Replicate groups that keep to NICs of one rail. */
static int count_railed(const struct placement *p, const struct topology *t)
{
    char *mixed = xcalloc((size_t)p->shard_degree + 1, 1);
    int railed = 0, known = 1;

    for (int i = 0; i < p->world && known; i++) {
        const struct place *at = &p->rank[i], *first = &p->rank[i % p->shard_degree];
        int rail = at->nic >= 0 ? t->nodes[at->node].nics[at->nic].rail : -1;
        known = rail >= 0 && at->local_rank == first->local_rank;
        if (known && rail != t->nodes[first->node].nics[first->nic].rail)
            mixed[i % p->shard_degree] = 1;
    }
    for (int k = 0; k < p->shard_degree; k++)
        railed += !mixed[k];
    free(mixed);
    return known ? railed : -1;
}

void place_map_make(const struct placement *p, const struct topology *t,
                    struct place_map *out)
{
    struct place_map m = { .tiers = place_tiers_new(t) };
    long shard, replicate;

    m.shard.groups = m.replicate.size = p->replicate_degree;
    m.shard.size = m.replicate.groups = p->shard_degree;
    count_crossing(&m, p, -1, &shard, &replicate);
    m.shard.on_nodes = (int)shard;
    m.replicate.on_nodes = (int)replicate;
    for (int k = 0; k < m.tiers->n; k++) {
        count_crossing(&m, p, k, &m.shard.crossing[k], &m.replicate.crossing[k]);
        bound_axis(&m, p, k, &m.shard);
        bound_axis(&m, p, k, &m.replicate);
        bound_replicas(&m, p, k);
    }
    m.railed = p->replicate_degree > 1 ? count_railed(p, t) : -1;
    *out = m;
}

void place_map_release(struct place_map *m)
{
    place_tiers_free(m->tiers);
    m->tiers = NULL;
}

struct placement *placement_as(const struct placement *p, const struct topology *t,
                               int by_name)
{
    struct placement *other;

    if (p->n_fit < p->n_nodes)
        return NULL;
    other = xcalloc(1, sizeof(*other));
    *other = *p;
    other->fit = xcalloc((size_t)p->n_fit + 1, sizeof(*other->fit));
    other->order = xcalloc((size_t)p->n_nodes + 1, sizeof(*other->order));
    other->rank = xcalloc((size_t)p->world + 1, sizeof(*other->rank));
    memcpy(other->fit, p->fit, (size_t)p->n_fit * sizeof(*p->fit));
    memcpy(other->order, p->fit, (size_t)p->n_nodes * sizeof(*p->order));
    memcpy(other->rank, p->rank, (size_t)p->world * sizeof(*p->rank));
    if (by_name)
        place_by_name(t, p->fit, p->n_fit, p->n_nodes, other->order);
    place_fill(other, t);
    return other;
}
