/* Why groups of a placement cross what they cross, in words. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "topology/place.h"
#include "topology/place_map.h"
#include "topology/place_order.h"
#include "topology/topology.h"

static void add_line(struct strlist *out, char *line)
{
    strlist_add(out, line);
    free(line);
}

/* The unit of a node as people know it. */
static void add_unit(const struct place_map *m, const struct topology *t, int tier,
                     int node, struct str *s)
{
    int leaf = place_leaf(t, node);

    if (m->tiers->kind[tier] == TIER_DOMAIN)
        str_addf(s, "%s",
                 t->nodes[node].nvlink_domain[0] ? t->nodes[node].nvlink_domain
                                                 : t->nodes[node].name);
    else if (leaf < 0)
        str_addf(s, "%s, whose leaf is unknown,", t->nodes[node].name);
    else
        str_addf(s, "%s%s", m->tiers->kind[tier] == TIER_PART ? "the part of " : "",
                 t->switches[leaf].name);
}

static int ranks_in(const struct place_map *m, const struct placement *p, int tier,
                    int first, int unit)
{
    int ranks = 0;

    for (int i = first; i < first + p->shard_degree; i++)
        ranks += m->tiers->unit[tier][p->rank[i].node] == unit;
    return ranks;
}

/* "16 ranks in leaf0, 8 in leaf2"; ranks of a group that share a unit need not be
 * neighbours. */
static void add_units(const struct place_map *m, const struct placement *p,
                      const struct topology *t, int tier, int first, struct str *s)
{
    char *told = xcalloc((size_t)m->tiers->units[tier] + 1, 1);

    for (int i = first, n = 0; i < first + p->shard_degree; i++) {
        int unit = m->tiers->unit[tier][p->rank[i].node], ranks;
        if (told[unit])
            continue;
        told[unit] = 1;
        ranks = ranks_in(m, p, tier, first, unit);
        str_addf(s, "%s%d rank%s in ", n++ ? ", " : "", ranks, str_s(ranks));
        add_unit(m, t, tier, p->rank[i].node, s);
    }
    free(told);
}

/* Where the groups lie that cross this tier and none above it. */
static void tell_groups(const struct place_map *m, const struct placement *p,
                        const struct topology *t, int tier, struct strlist *out)
{
    int told = 0;

    for (int r = 0; r < p->replicate_degree && told < GROUPS_TOLD; r++) {
        int first = r * p->shard_degree, last = first + p->shard_degree - 1;
        const int *unit = m->tiers->unit[tier];
        const int *above = tier + 1 < m->tiers->n ? m->tiers->unit[tier + 1] : NULL;
        int crosses = 0, higher = 0;
        struct str s = STR_INIT;
        for (int i = first; i <= last; i++) {
            int a = p->rank[first].node, b = p->rank[i].node;
            crosses |= unit[a] != unit[b];
            higher |= above && above[a] != above[b];
        }
        if (!crosses || higher)
            continue;
        str_addf(&s, "shard group %d (ranks %d to %d): ", r, first, last);
        add_units(m, p, t, tier, first, &s);
        strlist_add(out, s.text);
        str_release(&s);
        told++;
    }
}

static void tell_tier(const struct place_map *m, const struct placement *p, int tier,
                      struct strlist *out)
{
    const char *name = place_tier_name(m->tiers, tier, 0);
    const char *several = place_tier_name(m->tiers, tier, 1);
    long crossing = m->shard.crossing[tier], bound = m->shard.bound[tier];
    int per_node = 1, need;

    for (int i = 0; i < p->world; i++)
        per_node =
            p->rank[i].local_rank >= per_node ? p->rank[i].local_rank + 1 : per_node;
    need = (p->shard_degree + per_node - 1) / per_node;
    if (bound < 0)
        add_line(out, xasprintf("%ld of %d shard groups cross %s: hosts are taken in "
                                "the order and with the slots that they came with",
                                crossing, m->shard.groups, several));
    else if (bound == m->shard.groups && place_map_largest(m, p, tier) < need)
        add_line(out, xasprintf("every shard group crosses %s: it takes %d nodes, and "
                                "no %s has more than %d",
                                several, need, name, place_map_largest(m, p, tier)));
    else if (bound == crossing)
        add_line(out, xasprintf("%ld of %d shard groups cross %s, and no mapping has "
                                "fewer: the %s have room for %ld whole groups of %d "
                                "nodes, and what is left of each is too small for one",
                                crossing, m->shard.groups, several, several,
                                m->shard.groups - bound, need));
    else
        add_line(out,
                 xasprintf("%ld of %d shard groups cross %s, %ld more than the bound: "
                           "%s",
                           crossing, m->shard.groups, several, crossing - bound,
                           p->shard_degree % per_node
                               ? "groups share nodes, which are no multiple of them"
                               : "this order is predicted to be faster, or the nodes "
                                 "for fewer were kept out"));
}

static void tell_replicas(const struct place_map *m, const struct placement *p,
                          int tier, struct strlist *out)
{
    long crossing = m->replicate.crossing[tier];

    if (!crossing || crossing != m->replicate.bound[tier])
        return;
    add_line(out, xasprintf(
                      "%ld of %d replicate groups cross %s: shard groups that are "
                      "whole take %d nodes, and no %s has more than %d",
                      crossing, m->replicate.groups, place_tier_name(m->tiers, tier, 1),
                      place_map_whole(m, p, tier), place_tier_name(m->tiers, tier, 0),
                      place_map_largest(m, p, tier)));
}

static const char *reason(const struct topology *t, const char *name)
{
    const char *warned = "";
    size_t len = strlen(name);

    for (int i = 0; i < t->n_findings; i++) {
        const struct finding *f = &t->findings[i];
        if (strncmp(f->object, name, len) != 0 || (f->object[len] & ~' '))
            continue;
        if (f->severity == SEVERITY_FAIL)
            return f->text;
        if (f->severity == SEVERITY_WARN)
            warned = f->text;
    }
    return warned;
}

/* Suspects of the nodes that could serve. */
static void tell_suspects(const struct placement *p, const struct topology *t,
                          struct strlist *out)
{
    char *suspect = xcalloc((size_t)t->n_nodes + 1, 1);
    char *used = xcalloc((size_t)t->n_nodes + 1, 1);
    int told = 0;

    place_suspects(t, suspect);
    for (int k = 0; k < p->n_nodes; k++)
        used[p->order[k]] = 1;
    for (int i = 0; i < p->n_fit && told < GROUPS_TOLD; i++) {
        int node = p->fit[i];
        if (!suspect[node])
            continue;
        told++;
        add_line(out, xasprintf("%s is %s: %s", t->nodes[node].name,
                                used[node] ? "taken, too few others are there, although"
                                           : "kept out",
                                reason(t, t->nodes[node].name)));
    }
    free(used);
    free(suspect);
}

void place_map_explain(const struct place_map *m, const struct placement *p,
                       const struct topology *t, struct strlist *out)
{
    for (int k = m->tiers->n - 1; k >= 0; k--) {
        if (!m->shard.crossing[k])
            continue;
        tell_tier(m, p, k, out);
        tell_groups(m, p, t, k, out);
    }
    for (int k = m->tiers->n - 1; k >= 0; k--)
        tell_replicas(m, p, k, out);
    tell_suspects(p, t, out);
}
