#include "topology/cost.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "topology/cost_state.h"
#include "topology/place.h"
#include "topology/topology.h"

/* What a ring sends over each edge: factor x S (n-1)/n, or S. */
static const struct {
    const char *name;
    double factor;
    int shares; /* (n-1)/n of the buffer, else all of it */
} collectives[N_COLLECTIVES] = {
    [COLLECTIVE_ALL_REDUCE] = { "all_reduce", 2, 1 },
    [COLLECTIVE_ALL_GATHER] = { "all_gather", 1, 1 },
    [COLLECTIVE_REDUCE_SCATTER] = { "reduce_scatter", 1, 1 },
    [COLLECTIVE_BROADCAST] = { "broadcast", 1, 0 },
    [COLLECTIVE_ALL_TO_ALL] = { "all_to_all", 1, 1 },
    [COLLECTIVE_SENDRECV] = { "sendrecv", 1, 0 },
    [COLLECTIVE_REDUCE] = { "reduce", 1, 0 },
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

double cost_ring_bytes(enum collective c, int64_t bytes, int ranks)
{
    return collective_bus_factor(c, ranks) * (double)bytes;
}

const char *cost_tier_name(enum cost_tier t)
{
    static const char *const names[N_COST_TIERS] = { "self", "memory", "nvlink",
                                                     "pcie", "cpu",    "nic",
                                                     "leaf", "spine",  "unknown" };

    return names[t];
}

/* --- what limits, in words -------------------------------------------------------- */

static void describe_device(const struct cost_model *m, const struct cost_link *k,
                            int groups, char *out, size_t size)
{
    const struct node *n = &m->t->nodes[k->node];
    const struct gpu *g = k->device >= 0 ? &n->gpus[k->device] : NULL;
    double rate = k->bytes_per_s / 1e9;
    char share[32] = "";

    if (groups > 1)
        snprintf(share, sizeof(share), ", shared by %d groups", groups);
    if (!g)
        snprintf(out, size, "%s's PCIe link of %s, %.1f GB/s%s", n->name,
                 n->pcis[-1 - k->device].busid, rate, share);
    else if (k->tier == COST_NVLINK)
        snprintf(out, size, "%s gpu %d's %d NVLinks of %.1f GB/s%s", n->name, g->index,
                 gpu_nvlink_count(g), rate, share);
    else
        snprintf(out, size, "%s gpu %d's PCIe of %.1f GB/s%s", n->name, g->index, rate,
                 share);
}

static void describe(const struct cost_model *m, int link, int groups, char *out,
                     size_t size)
{
    const struct cost_link *k = &m->link[link];
    const char *node = k->node < 0 ? "" : m->t->nodes[k->node].name;
    const char *plural = groups == 1 ? "" : "s";

    if (k->tier == COST_NVLINK || k->tier == COST_PCIE)
        describe_device(m, k, groups, out, size);
    else if (k->tier == COST_NIC && k->device >= 0)
        snprintf(out, size, "%s %s of %g Gb/s, shared by %d group%s", node,
                 m->t->nodes[k->node].nics[k->device].name, k->bytes_per_s * 8 / 1e9,
                 groups, plural);
    else if (k->tier == COST_NIC)
        snprintf(out, size, "%s's network of %g Gb/s (assumed), shared by %d group%s",
                 node, k->bytes_per_s * 8 / 1e9, groups, plural);
    else if (k->tier == COST_MEMORY)
        snprintf(out, size, "%s's memory of %g GB/s (assumed), shared by %d group%s",
                 node, k->bytes_per_s / 1e9, groups, plural);
    else if (k->tier == COST_CPU)
        snprintf(out, size, "between the CPUs of %s, %g GB/s, shared by %d group%s",
                 node, k->bytes_per_s / 1e9, groups, plural);
    else
        cost_fabric_describe(m, k->device, groups, out, (int)size);
}

/* --- reading a load ------------------------------------------------------------------- */

struct most {
    double seconds;
    int link;     /* -1: none is loaded */
    int unknown;  /* a loaded link of a node without a known rate; -1 none */
    int no_trunk; /* a loaded trunk without one; -1 none */
};

static struct most find_most(const struct cost_load *l, int from)
{
    struct most x = { 0, -1, -1, -1 };
    const struct cost_model *m = l->m;

    for (int i = from; i < m->n_links; i++) {
        double rate = m->link[i].bytes_per_s, seconds = l->load[i] / rate;
        if (l->groups[i] < 1)
            continue;
        if (!(rate > 0) && m->link[i].tier < COST_LEAF)
            x.unknown = x.unknown < 0 ? i : x.unknown;
        else if (!(rate > 0))
            x.no_trunk = x.no_trunk < 0 ? i : x.no_trunk;
        else if (seconds > x.seconds * (1 + 1e-9)) {
            x.seconds = seconds;
            x.link = i;
        }
    }
    return x;
}

struct cost_trunks cost_load_trunks(const struct cost_load *l)
{
    return (struct cost_trunks){ find_most(l, l->m->first_trunk).seconds,
                                 l->tier_bytes[COST_LEAF], l->tier_bytes[COST_SPINE] };
}

/* The groups that take longest: theirs are algorithm and latency. */
static const struct cost_seen *slowest_seen(const struct cost_load *l)
{
    const struct cost_seen *s = NULL;

    for (int i = 0; i < l->n_seen; i++)
        if (l->seen[i].groups > 0 &&
            (!s || l->seen[i].choice.latency_s > s->choice.latency_s))
            s = &l->seen[i];
    return s;
}

static void set_tier(struct cost *c, enum cost_tier t)
{
    c->limit = t;
    snprintf(c->tier, sizeof(c->tier), "%s", cost_tier_name(t));
}

/* `link` has no known rate; -1: NICs of GPUs are what is missing. */
static void set_unknown(struct cost *c, const struct cost_load *l, int link)
{
    const struct cost_link *k = &l->m->link[link < 0 ? 0 : link];
    const struct node *n = &l->m->t->nodes[link < 0 ? l->no_nic_node : k->node];

    c->seconds = c->gbytes_per_s = NAN;
    set_tier(c, COST_UNKNOWN);
    if (link < 0)
        snprintf(c->object, sizeof(c->object),
                 "which NIC is near %s gpu %d is not known: supply NCCL_TOPO_FILE",
                 n->name, n->gpus[l->no_nic_gpu].index);
    else if (k->tier == COST_NIC)
        snprintf(c->object, sizeof(c->object), "the rate of %s %s is not known",
                 n->name, n->nics[k->device].name);
    else
        snprintf(c->object, sizeof(c->object), "the %s rate of %s gpu %d is not known",
                 k->tier == COST_NVLINK ? "NVLink" : "PCIe", n->name,
                 n->gpus[k->device].index);
}

static void set_fabric(struct cost *c, const struct cost_load *l, int no_trunk)
{
    c->fabric_known = no_trunk < 0 && l->no_leaf < 0.5 && l->no_trunk < 0.5;
    if (l->no_leaf >= 0.5)
        snprintf(c->note, sizeof(c->note),
                 "fabric unknown: only the links of nodes are counted");
    else if (l->no_trunk >= 0.5)
        snprintf(c->note, sizeof(c->note),
                 "fabric unknown above the leaves: only what lies below is counted");
    else if (no_trunk >= 0)
        snprintf(c->note, sizeof(c->note),
                 "fabric unknown: trunks of %s have no known rate and do not count",
                 l->m->t->switches[l->m->part[l->m->link[no_trunk].device].at].name);
}

struct cost cost_load_cost(const struct cost_load *l)
{
    struct cost c = {
        .tier = "self", .algorithm = "", .protocol = "", .fabric_known = 1
    };
    const struct cost_seen *s = slowest_seen(l);
    struct most x;

    if (!s)
        return c;
    x = find_most(l, 0);
    for (int i = 0; i < N_COST_TIERS; i++)
        c.bytes[i] = l->tier_bytes[i] >= 0.5 ? l->tier_bytes[i] : 0;
    c.algorithm = cost_algorithm_name(s->choice.algorithm);
    c.protocol = cost_protocol_name(s->choice.protocol);
    c.latency_seconds = s->choice.latency_s;
    set_fabric(&c, l, x.no_trunk);
    if (l->no_nic_groups || x.unknown >= 0) {
        set_unknown(&c, l, l->no_nic_groups ? -1 : x.unknown);
        return c;
    }
    c.link_seconds = x.seconds;
    c.seconds = c.latency_seconds + s->choice.idle_s + x.seconds;
    c.gbytes_per_s = cost_ring_bytes(l->collective, l->bytes, s->shape.ranks) /
                     (x.seconds * s->choice.efficiency) / 1e9;
    set_tier(&c, x.link < 0 ? COST_SELF : l->m->link[x.link].tier);
    if (x.link >= 0)
        describe(l->m, x.link, l->groups[x.link], c.object, sizeof(c.object));
    return c;
}

/* --- in one call ---------------------------------------------------------------------- */

struct cost cost_concurrent(enum collective c, int64_t bytes,
                            const struct cost_groups *g, const struct placement *p,
                            const struct topology *t, const struct cost_model *m)
{
    struct cost_model *own = m ? NULL : cost_model_new(t);
    struct cost_load *l = cost_load_new(m ? m : own, c, bytes, p->on_gpus);
    struct cost cost;

    for (int i = 0; i < g->groups; i++)
        cost_load_add(l, p->rank, g->rank + (size_t)i * (size_t)g->size, g->size);
    cost = cost_load_cost(l);
    cost_load_free(l);
    cost_model_free(own);
    return cost;
}

struct cost cost_collective(enum collective c, int64_t bytes, const int *group,
                            int ranks, const struct placement *p,
                            const struct topology *t)
{
    struct cost_groups g = { 1, ranks, group };

    return cost_concurrent(c, bytes, &g, p, t, NULL);
}

struct cost_groups cost_shard_groups(const struct placement *p, int **rank)
{
    *rank = xcalloc((size_t)p->world + 1, sizeof(**rank));
    for (int i = 0; i < p->world; i++)
        (*rank)[i] = i;
    return (struct cost_groups){ p->replicate_degree, p->shard_degree, *rank };
}

struct cost_groups cost_replicate_groups(const struct placement *p, int **rank)
{
    *rank = xcalloc((size_t)p->world + 1, sizeof(**rank));
    for (int i = 0; i < p->shard_degree; i++)
        placement_replicate_group(p, i,
                                  *rank + (size_t)i * (size_t)p->replicate_degree);
    return (struct cost_groups){ p->shard_degree, p->replicate_degree, *rank };
}
