/* What a group loads: its flows, link by link. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topology/cost_state.h"
#include "topology/place.h"
#include "topology/topology.h"

struct cost_load *cost_load_new(const struct cost_model *m, enum collective c,
                                int64_t bytes, int on_gpus)
{
    struct cost_load *l = xcalloc(1, sizeof(*l));

    l->m = m;
    l->collective = c;
    l->bytes = bytes;
    l->on_gpus = on_gpus;
    l->load = xcalloc((size_t)m->n_links + 1, sizeof(*l->load));
    l->groups = xcalloc((size_t)m->n_links + 1, sizeof(*l->groups));
    l->stamp = xcalloc((size_t)m->n_links + 1, sizeof(*l->stamp));
    l->unit_at = xcalloc((size_t)m->t->n_nodes + 1, sizeof(*l->unit_at));
    l->part_count = xcalloc((size_t)m->n_parts + 1, sizeof(*l->part_count));
    for (int i = 0; i < m->t->n_nodes; i++)
        l->unit_at[i] = -1;
    return l;
}

void cost_load_free(struct cost_load *l)
{
    if (!l)
        return;
    free(l->load);
    free(l->groups);
    free(l->stamp);
    free(l->seen);
    free(l->member);
    free(l->first);
    free(l->of);
    free(l->unit_at);
    free(l->part_count);
    free(l);
}

/* --- adding ----------------------------------------------------------------------------- */

/* Members unit by unit, in the order in which the group names a unit first. */
static int sort_units(struct cost_load *l, const struct place *rank, const int *group,
                      int n)
{
    int units = 0;

    if (n >= l->room) {
        l->room = 2 * n + 1;
        l->member = xrealloc(l->member, (size_t)l->room, sizeof(*l->member));
        l->first = xrealloc(l->first, (size_t)l->room + 1, sizeof(*l->first));
        l->of = xrealloc(l->of, (size_t)l->room, sizeof(*l->of));
    }
    memset(l->first, 0, ((size_t)n + 1) * sizeof(*l->first));
    for (int i = 0; i < n; i++) {
        int *at = &l->unit_at[l->m->node[rank[group[i]].node].unit];
        if (*at < 0)
            *at = units++;
        l->of[i] = *at;
        l->first[*at + 1]++;
    }
    for (int u = 0; u < units; u++)
        l->first[u + 1] += l->first[u];
    for (int i = n - 1; i >= 0; i--) /* each begins where the one before ends */
        l->member[--l->first[l->of[i] + 1]] = group[i];
    for (int u = 0; u < units; u++)
        l->first[u] = l->first[u + 1];
    l->first[units] = n;
    for (int i = 0; i < n; i++)
        l->unit_at[l->m->node[rank[group[i]].node].unit] = -1;
    return units;
}

static struct cost_shape shape_of(struct cost_flows *f)
{
    const struct cost_model *m = f->l->m;
    const struct place *a = cost_member(f, 0, 0);
    const struct node *n = &m->t->nodes[a->node];
    struct cost_shape s = { .ranks = f->n, .nodes = f->units, .inner = COST_MEMORY };
    const struct cost_gpu *g;

    if (!f->l->on_gpus)
        return s;
    g = cost_gpu_of(m, a);
    s.sm = n->gpus[a->gpu].sm;
    s.amd = m->node[a->node].amd;
    s.inner = COST_NVLINK;
    for (int i = 0; i < cost_members(f, 0) && cost_members(f, 0) > 1; i++)
        if (!cost_is_nvlinked(m, cost_member(f, 0, i), cost_member(f, 0, i + 1)))
            s.inner = COST_PCIE;
    s.inner_rate = m->link[s.inner == COST_NVLINK ? g->nvlink : g->pcie].bytes_per_s *
                   cost_useful_share(f, a, 0);
    for (int k = 0; k < g->n_nics; k++)
        s.outer_rate +=
            m->link[m->node[a->node].nic + cost_nic_of(m, a, k)].bytes_per_s;
    return s;
}

static struct cost_seen *seen_for(struct cost_load *l, struct cost_shape s)
{
    struct cost_seen *x;

    for (int i = 0; i < l->n_seen; i++) {
        x = &l->seen[i];
        if (x->shape.ranks == s.ranks && x->shape.nodes == s.nodes &&
            x->shape.inner == s.inner)
            return x;
    }
    l->seen = xrealloc(l->seen, (size_t)l->n_seen + 1, sizeof(*l->seen));
    x = &l->seen[l->n_seen++];
    *x = (struct cost_seen){ .shape = s,
                             .choice = cost_choose(l->collective, l->bytes, &s) };
    return x;
}

static void change(struct cost_load *l, const struct place *rank, const int *group,
                   int n, int sign)
{
    struct cost_flows f = { .l = l, .rank = rank, .n = n, .sign = sign };
    struct cost_seen *seen;

    if (n < 2)
        return;
    l->additions++;
    f.units = sort_units(l, rank, group, n);
    seen = seen_for(l, shape_of(&f));
    seen->groups += sign;
    f.share = seen->choice.efficiency;
    if (l->collective == COLLECTIVE_ALL_TO_ALL)
        cost_flow_pairs(&f);
    else if (l->collective == COLLECTIVE_SENDRECV)
        cost_flow_next(&f);
    else if (seen->choice.algorithm == COST_TREE)
        cost_flow_tree(&f);
    else
        cost_flow_ring(&f);
    l->no_nic_groups += sign * f.no_nic;
}

void cost_load_add(struct cost_load *l, const struct place *rank, const int *group,
                   int n)
{
    change(l, rank, group, n, 1);
}

void cost_load_remove(struct cost_load *l, const struct place *rank, const int *group,
                      int n)
{
    change(l, rank, group, n, -1);
}
