/* The groups of a placement: who is in them, whether they are whole, what they cost. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "topology/fabric.h"
#include "topology/place.h"
#include "topology/place_order.h"
#include "topology/topology.h"

int placement_shard_group(const struct placement *p, int rank, int *group)
{
    int first = rank / p->shard_degree * p->shard_degree;

    for (int i = 0; i < p->shard_degree; i++)
        group[i] = first + i;
    return p->shard_degree;
}

int placement_replicate_group(const struct placement *p, int rank, int *group)
{
    for (int i = 0; i < p->replicate_degree; i++)
        group[i] = i * p->shard_degree + rank % p->shard_degree;
    return p->replicate_degree;
}

/* The rank's coordinates against the mesh [replicate, shard], row-major. */
static void check_coordinates(const struct placement *p, int rank, struct err *err)
{
    const struct place *at = &p->rank[rank];
    int want_shard = rank % p->shard_degree, want_replicate = rank / p->shard_degree;
    long holder = (long)at->replicate * p->shard_degree + at->shard;

    if (at->shard == want_shard && at->replicate == want_replicate)
        return;
    if (at->shard < 0 || at->shard >= p->shard_degree || at->replicate < 0 ||
        at->replicate >= p->replicate_degree) {
        err_more(err, ERR_USAGE,
                 "rank %d: shard %d of replica %d is outside the mesh of %d replicas x "
                 "%d shards",
                 rank, at->shard, at->replicate, p->replicate_degree, p->shard_degree);
        return;
    }
    err_more(err, ERR_USAGE,
             "rank %d has shard %d of replica %d, which is rank %ld's: rank %d must "
             "have shard %d of replica %d",
             rank, at->shard, at->replicate, holder, rank, want_shard, want_replicate);
}

struct device {
    int node, gpu, rank;
};

static int compare_device(const void *a, const void *b)
{
    const struct device *x = a, *y = b;

    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    if (x->gpu != y->gpu)
        return x->gpu < y->gpu ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Two ranks on one device (C16). */
static void check_devices(const struct placement *p, struct err *err)
{
    struct device *d = xcalloc((size_t)p->world, sizeof(*d));

    for (int i = 0; i < p->world; i++)
        d[i] = (struct device){ p->rank[i].node, p->rank[i].gpu, i };
    qsort(d, (size_t)p->world, sizeof(*d), compare_device);
    for (int i = 1; i < p->world; i++)
        if (d[i].node == d[i - 1].node && d[i].gpu == d[i - 1].gpu)
            err_more(err, ERR_USAGE, "ranks %d and %d are both on device %d of node %d",
                     d[i - 1].rank, d[i].rank, d[i].gpu, d[i].node);
    free(d);
}

int placement_check(const struct placement *p, struct err *err)
{
    struct err found = ERR_INIT;

    if (p->world < 1 || p->shard_degree < 1 || p->replicate_degree < 1 ||
        (long)p->shard_degree * p->replicate_degree != p->world)
        return err_set(err, ERR_USAGE,
                       "shard %d x replicate %d must equal the world of %d ranks",
                       p->shard_degree, p->replicate_degree, p->world);
    for (int i = 0; i < p->world; i++)
        check_coordinates(p, i, &found);
    check_devices(p, &found);
    if (found.code == ERR_NONE)
        return 0;
    err_set(err, found.code, "%s", err_text(&found));
    err_release(&found);
    return -1;
}

/* --- warnings ------------------------------------------------------------------ */

static int nodes_of_group(const struct placement *p, int first)
{
    int nodes = 1;

    for (int i = first + 1; i < first + p->shard_degree; i++)
        nodes += p->rank[i].node != p->rank[i - 1].node;
    return nodes;
}

static void add_line(struct strlist *out, char *line)
{
    strlist_add(out, line);
    free(line);
}

/* Groups that lie on more nodes than their size needs. */
static void warn_torn_groups(const struct placement *p, int per_node,
                             struct strlist *out)
{
    int least = (p->shard_degree + per_node - 1) / per_node, torn = 0;

    for (int i = 0; i < p->world; i += p->shard_degree)
        torn += nodes_of_group(p, i) > least;
    if (torn)
        add_line(out, xasprintf("%d of %d shard groups of %d lie on more nodes than "
                                "they need, %d a node: take a shard degree that "
                                "divides %d, or a multiple of it",
                                torn, p->replicate_degree, p->shard_degree, per_node,
                                per_node));
}

/* Groups below more than one leaf, where leaves are known. */
static void warn_leaves(const struct placement *p, const struct topology *t,
                        struct strlist *out)
{
    int torn = 0;

    for (int first = 0; first < p->world; first += p->shard_degree) {
        int leaf = place_leaf(t, p->rank[first].node), other = 0;
        for (int i = first + 1; leaf >= 0 && i < first + p->shard_degree; i++) {
            int here = place_leaf(t, p->rank[i].node);
            other |= here >= 0 && here != leaf;
        }
        torn += other;
    }
    if (torn)
        add_line(out, xasprintf("%d of %d shard groups of %d cross leaf switches: no "
                                "leaf has the nodes for them; a smaller shard degree "
                                "would stay below one",
                                torn, p->replicate_degree, p->shard_degree));
}

/* Shard groups that leave an NVLink domain, where there are domains of several nodes. */
static void warn_domains(const struct placement *p, const struct topology *t,
                         struct strlist *out)
{
    struct place_tiers *tiers = place_tiers_new(t);
    int *node = xcalloc((size_t)p->shard_degree, sizeof(*node)), torn = 0;
    struct err why = ERR_INIT, more = ERR_INIT;

    for (int first = 0; first < p->world; first += p->shard_degree) {
        if (!tiers->n || tiers->kind[0] != TIER_DOMAIN)
            break;
        for (int i = 0; i < p->shard_degree; i++)
            node[i] = p->rank[first + i].node;
        torn += fabric_check_nvlink(t, node, p->shard_degree, torn ? &more : &why) < 0;
        err_release(&more);
    }
    if (torn)
        add_line(out,
                 xasprintf("%d of %d shard groups of %d leave their NVLink domain: "
                           "%s",
                           torn, p->replicate_degree, p->shard_degree, err_text(&why)));
    err_release(&why);
    free(node);
    place_tiers_free(tiers);
}

static int has_nvlink(const struct topology *t, const struct placement *p)
{
    const struct node *n = &t->nodes[p->rank[0].node];

    return p->on_gpus && n->gpus[p->rank[0].gpu].n_nvlinks > 0;
}

void placement_warnings(const struct placement *p, const struct topology *t,
                        struct strlist *out)
{
    int per_node = 1, unbound = 0;

    for (int i = 0; i < p->world; i++) {
        if (p->rank[i].local_rank >= per_node)
            per_node = p->rank[i].local_rank + 1;
        unbound += !p->rank[i].cpus[0];
    }
    warn_torn_groups(p, per_node, out);
    warn_leaves(p, t, out);
    warn_domains(p, t, out);
    if (has_nvlink(t, p) && p->n_nodes > 1 && p->shard_degree < per_node)
        add_line(out, xasprintf("shard groups of %d leave the NVLink of %d GPUs of a "
                                "node unused, and %d replicas are summed across nodes",
                                p->shard_degree, per_node - p->shard_degree,
                                p->replicate_degree));
    if (unbound && !t->unseen)
        add_line(out, xasprintf("%d of %d ranks are not bound to CPUs: %s", unbound,
                                p->world,
                                p->on_gpus ? "the NUMA node of their GPU is unknown or "
                                             "has too few"
                                           : "there are more ranks than CPUs"));
}
