#include "launcher/task_bind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topology/place.h"
#include "topology/place_bind.h"
#include "topology/topology.h"

/* The k-th number of "0,1,2"; k itself where there is no list; -1: it is shorter. */
static int nth_device(const char *list, int k)
{
    char *end;
    long v;

    if (!list)
        return k;
    while (*list && k-- > 0) {
        list += strcspn(list, ",");
        list += *list == ',';
    }
    v = strtol(list, &end, 10);
    return end == list ? -1 : (int)v;
}

static int numa_of(const struct node *n, int device)
{
    for (int i = 0; i < n->n_gpus; i++)
        if (n->gpus[i].index == device)
            return n->gpus[i].numa;
    return -1;
}

static const char *why_unbound(const struct task_bind_ask *ask, const struct node *n,
                               const struct place *mine)
{
    if (!n->n_numas)
        return "this node shows no NUMA nodes";
    if (ask->mode == TASK_BIND_GPU && mine->numa < 0)
        return "the NUMA node of its GPU is unknown";
    return ask->mode == TASK_BIND_GPU
               ? "too few CPUs of its GPU's NUMA node may be used here"
               : "there are more ranks than CPUs that may be used here";
}

void task_bind_choose(const char *root, const struct task_bind_ask *ask,
                      struct task_bound *out)
{
    struct place *rank;
    struct node n;

    memset(out, 0, sizeof(*out));
    out->by = "nobody";
    if (ask->mode == TASK_BIND_NONE || ask->local_rank < 0 ||
        ask->local_rank >= ask->local_world)
        return;
    if (ask->slurm && *ask->slurm && strcmp(ask->slurm, "none") != 0) {
        out->by = "slurm";
        snprintf(out->why, sizeof(out->why), "srun was given --cpu-bind=%.100s",
                 ask->slurm);
        return;
    }
    place_affinity(root, &n);
    rank = xcalloc((size_t)ask->local_world, sizeof(*rank));
    for (int i = 0; i < ask->local_world; i++)
        rank[i].numa = numa_of(&n, nth_device(ask->devices, i));
    place_bind(rank, ask->local_world, ask->mode == TASK_BIND_GPU && n.n_gpus, &n);
    snprintf(out->cpus, sizeof(out->cpus), "%s", rank[ask->local_rank].cpus);
    if (*out->cpus)
        out->by = "muster";
    else
        snprintf(out->why, sizeof(out->why), "%s",
                 why_unbound(ask, &n, &rank[ask->local_rank]));
    place_affinity_release(&n);
    free(rank);
}
