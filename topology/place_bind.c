#include "topology/place_bind.h"

#include "topology/cpulist.h"
#include "topology/place.h"
#include "topology/topology.h"

static int node_smt(const struct node *n)
{
    return n->cores > 0 && n->threads > n->cores ? n->threads / n->cores : 1;
}

/* The text of part i of `parts` of a NUMA node's CPUs; "" when they do not go round. */
static void share_cpus(const struct node *n, const struct numa *m, int parts, int i,
                       char out[256])
{
    struct cpulist all, mine;

    out[0] = '\0';
    if (cpulist_parse(m->cpus, &all) < 0 || cpulist_count(&all) < parts)
        return;
    cpulist_split(&all, parts, i, node_smt(n), &mine);
    cpulist_format(&mine, out, 256);
}

/* The NUMA node whose CPUs a GPU rank takes: its own, or the only one. */
static const struct numa *numa_for_gpu(const struct node *n, int numa)
{
    for (int i = 0; i < n->n_numas; i++)
        if (n->numas[i].id == numa)
            return &n->numas[i];
    return numa < 0 && n->n_numas == 1 ? &n->numas[0] : NULL;
}

/* Ranks `first`..`last`-1 of p run on this node's GPUs. */
static void bind_gpu_ranks(struct place *rank, int count, const struct node *n)
{
    for (int i = 0; i < count; i++) {
        const struct numa *m = numa_for_gpu(n, rank[i].numa);
        int parts = 0, mine = 0;
        for (int k = 0; k < count; k++) {
            if (numa_for_gpu(n, rank[k].numa) != m)
                continue;
            mine += k < i;
            parts++;
        }
        if (m)
            share_cpus(n, m, parts, mine, rank[i].cpus);
    }
}

static int n_with_cpus(const struct node *n)
{
    int with = 0;

    for (int i = 0; i < n->n_numas; i++)
        with += n->numas[i].cpus[0] != '\0';
    return with;
}

static const struct numa *nth_with_cpus(const struct node *n, int i)
{
    for (int k = 0; k < n->n_numas; k++)
        if (n->numas[k].cpus[0] && i-- == 0)
            return &n->numas[k];
    return NULL;
}

/* Rank i of `count` goes to NUMA node i * numas / count; one that finds too few CPUs
 * there leaves all of the node's ranks unbound. */
static void bind_cpu_ranks(struct place *rank, int count, const struct node *n)
{
    int numas = n_with_cpus(n), unbound = 0;

    for (int i = 0; numas && i < count; i++) {
        int at = (int)((long)i * numas / count), parts = 0, mine = 0;
        const struct numa *m = nth_with_cpus(n, at);
        for (int k = 0; k < count; k++) {
            if ((int)((long)k * numas / count) != at)
                continue;
            mine += k < i;
            parts++;
        }
        rank[i].numa = m->id;
        share_cpus(n, m, parts, mine, rank[i].cpus);
        unbound |= !rank[i].cpus[0];
    }
    for (int i = 0; unbound && i < count; i++) {
        rank[i].cpus[0] = '\0';
        rank[i].numa = -1;
    }
}

void place_bind(struct place *rank, int count, int on_gpus, const struct node *n)
{
    for (int i = 0; i < count; i++)
        rank[i].cpus[0] = '\0';
    if (on_gpus)
        bind_gpu_ranks(rank, count, n);
    else
        bind_cpu_ranks(rank, count, n);
}
