/* cost_spec.h - for the tests of the cost: nodes of eight H200 and what hangs on them. */
#ifndef UNIT_COST_SPEC_H
#define UNIT_COST_SPEC_H

#include "topology/trees.h"

#include "topology/cost.h"
#include "topology/place.h"

static inline struct topology *spec(const char *fmt, ...)
{
    static const char machine[] =
        "cpu: {sockets: 2, cores: 16, threads: 16, numa_nodes: 2}\n"
        "gpus: {per_node: 8, name: NVIDIA H200, memory: 141GiB, sm: 90, nvlinks: 18, "
        "nvlink_gbytes_per_s: 450, pcie_gbytes_per_s: 48}\n";
    struct err err = ERR_INIT;
    struct topology *t = NULL;
    va_list ap;
    char *rest, *text;

    va_start(ap, fmt);
    rest = xvasprintf(fmt, ap);
    va_end(ap);
    text = xasprintf("%s%s", machine, rest);
    if (topology_from_spec_text(text, strlen(text), "cluster", &t, &err) < 0)
        fail_msg("%s\n%s", err_text(&err), text);
    free(rest);
    free(text);
    return t;
}

static inline int near(double a, double b)
{
    return a - b < 1e-9 * (b > 0 ? b : 1) && b - a < 1e-9 * (b > 0 ? b : 1);
}

/* One shard group a node, replicas across: what `plan` makes of shard 8. */
static inline struct placement *place(const struct topology *t, int world)
{
    struct err err = ERR_INIT;
    struct placement *p = NULL;

    assert_ok(placement_make(NULL, t, world, &p, &err), &err);
    p->shard_degree = 8;
    p->replicate_degree = world / 8;
    return p;
}

static inline struct cost replicas(const struct topology *t, const struct placement *p,
                                   enum collective c, int64_t bytes)
{
    int *rank;
    struct cost_groups g = cost_replicate_groups(p, &rank);
    struct cost cost = cost_concurrent(c, bytes, &g, p, t, NULL);

    free(rank);
    return cost;
}

#define GB 1000000000LL

#endif
