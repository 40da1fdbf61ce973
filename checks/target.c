#include "checks/target.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "checks/measure.h"
#include "topology/cost.h"

/* Shares of the expectation that pass.  Ring algorithms reach 76-81 % of NVLink
 * and 90 % of InfiniBand where it was published; CPU ranks share cores, so that
 * only a wrong path (TCP, swapping) stands out. */
enum { FLOOR_GPU_PERCENT = 70, FLOOR_CPU_PERCENT = 10, COPIES = 2 };
/* Clocks and sizes are measured, too. */
static const double tolerance = 1.03;

struct target target_memory(const char *op, int ranks, double copy_gbytes)
{
    struct target t = { NAN, FLOOR_CPU_PERCENT / 100.0, NAN, "" };
    double n = ranks, share = (n - 1) / n, sum = (n + 1) / (2 * n), copies;

    if (str_eq(op, "all_gather"))
        copies = COPIES * share;
    else if (str_eq(op, "reduce_scatter"))
        copies = COPIES * share + sum;
    else if (str_eq(op, "all_reduce"))
        copies = 2 * COPIES * share + sum;
    else
        return t;
    if (ranks < 2 || !(copy_gbytes > 0))
        return t;
    /* busbw of S bytes = factor S / time, time = copies S / rate */
    t.expected = measure_busbw(op, ranks, 1000000000, 1.0) * copy_gbytes / copies;
    snprintf(t.from, sizeof(t.from),
             "computed from %.1f GB/s memory copies of each rank", copy_gbytes);
    return t;
}

double target_ceiling(const char *op, int ranks, double link_gbytes, int in_switch)
{
    if (in_switch && str_eq(op, "all_reduce"))
        return link_gbytes * 2 * (ranks - 1) / (ranks + 1);
    return link_gbytes;
}

static int collective_of(const char *op, enum collective *c)
{
    for (int i = 0; i < N_COLLECTIVES; i++)
        if (str_eq(op, collective_name((enum collective)i))) {
            *c = (enum collective)i;
            return 0;
        }
    return -1;
}

/* What a group may reach: over two nodes NCCL's tree sends half of what a ring does
 * (nccl-tests#196). */
static double ceiling_of(const char *op, int ranks, const struct cost *cost,
                         int in_switch)
{
    double link = target_ceiling(op, ranks, cost->gbytes_per_s, in_switch);
    int crosses = cost->bytes[COST_NIC] > 0;

    return link * tolerance * (crosses && str_eq(op, "all_reduce") ? 2 : 1);
}

struct target target_model(const char *op, const struct cost_groups *g, int64_t bytes,
                           int in_switch, const struct placement *p,
                           const struct topology *t)
{
    struct target out = { NAN, FLOOR_GPU_PERCENT / 100.0, NAN, "" };
    enum collective c;
    struct cost cost;

    if (g->size < 2 || collective_of(op, &c) != 0)
        return out;
    cost = cost_concurrent(c, bytes, g, p, t, NULL);
    if (!(cost.seconds > 0))
        return out;
    out.expected = measure_busbw(op, g->size, bytes, cost.seconds);
    out.ceiling = ceiling_of(op, g->size, &cost, in_switch);
    snprintf(out.from, sizeof(out.from), "computed from %s%s%s", cost.object,
             cost.note[0] ? "; " : "", cost.note);
    return out;
}
