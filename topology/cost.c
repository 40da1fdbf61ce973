#include "topology/cost.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "topology/place.h"
#include "topology/topology.h"

/* What a ring sends: wire bytes are factor x S (n-1)/n, or S; rounds of n-1 steps. */
static const struct {
    const char *name;
    double factor;
    int shares; /* (n-1)/n of the buffer, else all of it */
    int rounds; /* of n-1 steps; 0: one step */
} collectives[N_COLLECTIVES] = {
    [COLLECTIVE_ALL_REDUCE] = { "all_reduce", 2, 1, 2 },
    [COLLECTIVE_ALL_GATHER] = { "all_gather", 1, 1, 1 },
    [COLLECTIVE_REDUCE_SCATTER] = { "reduce_scatter", 1, 1, 1 },
    [COLLECTIVE_BROADCAST] = { "broadcast", 1, 0, 1 },
    [COLLECTIVE_ALL_TO_ALL] = { "all_to_all", 1, 1, 1 },
    [COLLECTIVE_SENDRECV] = { "sendrecv", 1, 0, 0 },
    [COLLECTIVE_REDUCE] = { "reduce", 1, 0, 1 },
};

const char *collective_name(enum collective c)
{
    return collectives[c].name;
}

double collective_bus_factor(enum collective c, int ranks)
{
    if (ranks < 2)
        return 0;
    return collectives[c].factor *
           (collectives[c].shares ? (ranks - 1.0) / ranks : 1.0);
}

/* --- rates ---------------------------------------------------------------------- */

static double nvlink_rate(const struct gpu *g)
{
    static const struct {
        int sm;
        double gbytes_per_s; /* of one link */
    } links[] = { { 60, 18 }, { 70, 20 },   { 80, 20 },
                  { 86, 12 }, { 90, 20.6 }, { 100, 40.1 } };

    for (size_t i = 0; i < ARRAY_LEN(links); i++)
        if (links[i].sm == g->sm)
            return links[i].gbytes_per_s * gpu_nvlink_count(g);
    return gpu_nvlink_gbytes_per_s(g);
}

/* Do two GPUs of a node reach each other by NVLink: directly, or both through
 * switches? */
static int nvlinked(const struct node *n, const struct gpu *a, const struct gpu *b)
{
    for (int i = 0; i < a->n_nvlinks; i++) {
        const struct gpu *peer = gpu_peer(n, &a->nvlinks[i]);
        if (peer == b || (!peer && b->n_nvlinks))
            return 1;
    }
    return 0;
}

struct step {
    double gbytes_per_s, alpha_us;
    const char *tier;
};

static struct step inner_gpu_step(const struct node *n, const struct gpu *a,
                                  const struct gpu *b)
{
    double x = nvlink_rate(a), y = nvlink_rate(b);

    if (nvlinked(n, a, b) && x > 0 && y > 0)
        return (struct step){ x < y ? x : y, COST_NVLINK_ALPHA_US, "nvlink" };
    x = a->pcie_gbytes_per_s;
    y = b->pcie_gbytes_per_s;
    x = x < y ? x : y;
    return (struct step){ x > 0 ? x : COST_PCIE_GBYTES, COST_PCIE_ALPHA_US, "pcie" };
}

static int ranks_on(const struct placement *p, int node)
{
    int n = 0;

    for (int i = 0; i < p->world; i++)
        n += p->rank[i].node == node;
    return n;
}

/* GB/s out of a node: its compute NICs, else the fastest of any kind. */
static double node_nic_rate(const struct node *n)
{
    double sum = 0, best = 0;

    for (int i = 0; i < n->n_nics; i++) {
        const struct nic *c = &n->nics[i];
        if (c->up == 0 || c->gbits_per_s <= 0)
            continue;
        sum += c->kind == NIC_COMPUTE ? c->gbits_per_s : 0;
        best = c->gbits_per_s > best ? c->gbits_per_s : best;
    }
    if (sum > 0)
        return sum / 8;
    return best > 0 ? best / 8 : COST_NIC_GBYTES;
}

struct shape {
    struct step inner, outer; /* gbytes_per_s 0: no such step */
    int nodes;
};

static void narrow(struct step *s, struct step with)
{
    if (s->gbytes_per_s <= 0 || with.gbytes_per_s < s->gbytes_per_s)
        *s = with;
}

static struct step inner_step(const struct placement *p, const struct topology *t,
                              int a, int b)
{
    int node = p->rank[a].node;
    const struct node *n = &t->nodes[node];

    if (p->on_gpus)
        return inner_gpu_step(n, &n->gpus[p->rank[a].gpu], &n->gpus[p->rank[b].gpu]);
    return (struct step){ COST_MEMORY_GBYTES / ranks_on(p, node), COST_MEMORY_ALPHA_US,
                          "memory" };
}

/* One node of the group: `count` of its ranks, the first being group[i]. */
static void add_node(struct shape *s, const struct placement *p,
                     const struct topology *t, const int *group, int count)
{
    int node = p->rank[group[0]].node;
    double share = (double)count / ranks_on(p, node);

    for (int i = 1; i < count; i++)
        narrow(&s->inner, inner_step(p, t, group[i - 1], group[i]));
    narrow(&s->outer, (struct step){ node_nic_rate(&t->nodes[node]) * share,
                                     COST_NIC_ALPHA_US, "nic" });
    s->nodes++;
}

static struct shape shape_of(const int *group, int ranks, const struct placement *p,
                             const struct topology *t)
{
    struct shape s = { 0 };
    int count;

    for (int i = 0; i < ranks; i += count) {
        for (count = 1; i + count < ranks; count++)
            if (p->rank[group[i + count]].node != p->rank[group[i]].node)
                break;
        add_node(&s, p, t, group + i, count);
    }
    if (s.nodes == 1)
        s.outer.gbytes_per_s = 0;
    return s;
}

struct cost cost_collective(enum collective c, int64_t bytes, const int *group,
                            int ranks, const struct placement *p,
                            const struct topology *t)
{
    struct cost cost = { .tier = "self" };
    struct shape s;
    struct step slowest;
    int rounds = collectives[c].rounds, outer, steps;

    if (ranks < 2)
        return cost;
    s = shape_of(group, ranks, p, t);
    slowest = s.outer.gbytes_per_s > 0 ? s.outer : s.inner;
    if (s.inner.gbytes_per_s > 0)
        narrow(&slowest, s.inner);
    steps = rounds ? rounds * (ranks - 1) : 1;
    outer = rounds ? rounds * (s.nodes - 1) : s.nodes > 1;
    cost.gbytes_per_s = slowest.gbytes_per_s;
    snprintf(cost.tier, sizeof(cost.tier), "%s", slowest.tier);
    cost.seconds =
        (outer * s.outer.alpha_us + (steps - outer) * s.inner.alpha_us) * 1e-6 +
        collective_bus_factor(c, ranks) * (double)bytes / (slowest.gbytes_per_s * 1e9);
    return cost;
}
