/* cost_measured.h - collectives that somebody measured, and what cost.h predicts for
 * them: one table for the unit test and for tests/bench/cost_table.c.  Of the
 * figures in topology/cost*.c one, COST_COPY_FACTOR, was chosen with these rows in
 * sight. */
#ifndef UNIT_COST_MEASURED_H
#define UNIT_COST_MEASURED_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "topology/cost.h"
#include "topology/place.h"
#include "topology/source.h"
#include "topology/topology.h"

struct measured_machine {
    const char *name;
    int nodes, gpus, sm, nvlinks;
    double pcie_gbytes; /* as NCCL counts it */
    double nic_gbits;   /* of each GPU's own NIC */
    int domain;         /* nodes of one NVLink domain; 0 none */
};

enum { H200_2, H200_8, B200_8, B200_4X8, H200_248X8, GB200_18X4, GB200_36X4 };
static const struct measured_machine measured_machines[] = {
    [H200_2] = { "2 H200", 1, 2, 90, 18, 48, 400, 0 },
    [H200_8] = { "8 H200", 1, 8, 90, 18, 48, 400, 0 },
    [B200_8] = { "8 B200", 1, 8, 100, 18, 48, 400, 0 },
    [B200_4X8] = { "4 x 8 B200", 4, 8, 100, 18, 48, 400, 0 },
    [H200_248X8] = { "248 x 8 H200", 248, 8, 90, 18, 48, 400, 0 },
    [GB200_18X4] = { "18 x 4 GB200", 18, 4, 100, 18, 48, 400, 18 },
    [GB200_36X4] = { "36 x 4 GB200", 36, 4, 100, 18, 48, 400, 18 },
};

struct measured_row {
    int machine;
    enum collective collective;
    int mib;
    double low, high; /* bus bandwidth, GB/s */
    int in_switch;    /* NVLS summed in the switch, which is never assumed */
    const char *source;
};

#define OUR_OWN "nccl-tests, NCCL 2.28"
static const struct measured_row measured_rows[] = {
    { H200_2, COLLECTIVE_ALL_REDUCE, 64, 261, 261, 0, OUR_OWN },
    { H200_2, COLLECTIVE_ALL_REDUCE, 256, 299, 299, 0, OUR_OWN },
    { H200_2, COLLECTIVE_ALL_REDUCE, 1024, 326, 326, 0, OUR_OWN },
    { H200_2, COLLECTIVE_ALL_GATHER, 64, 213, 218, 0, OUR_OWN },
    { H200_2, COLLECTIVE_ALL_GATHER, 256, 244, 257, 0, OUR_OWN },
    { H200_2, COLLECTIVE_ALL_GATHER, 1024, 270, 291, 0, OUR_OWN },
    { H200_2, COLLECTIVE_REDUCE_SCATTER, 64, 208, 208, 0, OUR_OWN },
    { H200_2, COLLECTIVE_REDUCE_SCATTER, 256, 238, 238, 0, OUR_OWN },
    { H200_2, COLLECTIVE_REDUCE_SCATTER, 1024, 275, 275, 0, OUR_OWN },
    { H200_2, COLLECTIVE_SENDRECV, 64, 271, 271, 0, OUR_OWN },
    { H200_2, COLLECTIVE_SENDRECV, 256, 305, 305, 0, OUR_OWN },
    { H200_2, COLLECTIVE_SENDRECV, 1024, 360, 360, 0, OUR_OWN },
    { H200_8, COLLECTIVE_ALL_REDUCE, 16384, 366, 368, 0, "ml-engineering, NVLS off" },
    { B200_8, COLLECTIVE_ALL_REDUCE, 16384, 682, 682, 0, "ml-engineering, NVLS off" },
    { B200_4X8, COLLECTIVE_ALL_REDUCE, 64, 157, 157, 0, "ml-engineering" },
    { B200_4X8, COLLECTIVE_ALL_REDUCE, 64, 198, 198, 0, "ml-engineering, later" },
    { B200_4X8, COLLECTIVE_ALL_REDUCE, 256, 283, 283, 0, "ml-engineering, later" },
    { B200_4X8, COLLECTIVE_ALL_REDUCE, 1024, 366, 366, 0, "ml-engineering, later" },
    { B200_4X8, COLLECTIVE_ALL_REDUCE, 4096, 377, 377, 0, "ml-engineering" },
    { B200_4X8, COLLECTIVE_ALL_REDUCE, 16384, 382, 382, 0, "ml-engineering" },
    { H200_248X8, COLLECTIVE_ALL_REDUCE, 512, 350, 350, 0, "nccl-tests#283" },
    { H200_8, COLLECTIVE_ALL_REDUCE, 16384, 473, 482, 1, "ml-engineering" },
    { B200_8, COLLECTIVE_ALL_REDUCE, 16384, 838, 846, 1, "ml-engineering" },
    { GB200_18X4, COLLECTIVE_ALL_REDUCE, 16384, 835, 835, 1, "CoreWeave" },
    { GB200_36X4, COLLECTIVE_ALL_REDUCE, 16384, 810, 810, 1, "CoreWeave" },
};

static inline double measured_middle(const struct measured_row *r)
{
    return (r->low + r->high) / 2;
}

static inline struct topology *measured_topology(const struct measured_machine *m)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;
    char *text = xasprintf(
        "nodes: {count: %d, prefix: n}\n"
        "cpu: {sockets: 2, cores: 16, threads: 16, numa_nodes: 2}\n"
        "gpus: {per_node: %d, name: a GPU, memory: 141GiB, sm: %d, nvlinks: %d, "
        "nvlink_gbytes_per_s: 1, pcie_gbytes_per_s: %g}\n"
        "nics: {per_node: %d, gbits_per_s: %g}\n"
        "fabric: {leaves: rail, nodes_per_leaf: 32, spines: 8, cables: 4}\n",
        m->nodes, m->gpus, m->sm, m->nvlinks, m->pcie_gbytes, m->gpus, m->nic_gbits);

    if (topology_from_spec_text(text, strlen(text), m->name, &t, &err) == 0)
        for (int i = 0; i < t->n_nodes && m->domain; i++)
            snprintf(t->nodes[i].nvlink_domain, sizeof(t->nodes[i].nvlink_domain),
                     "c.%d", i / m->domain);
    err_release(&err);
    free(text);
    return t;
}

/* One group of all ranks; *cost is set.  Bus bandwidth, GB/s; NaN when the machine
 * cannot be made. */
static inline double measured_predict(const struct measured_row *r, struct cost *cost)
{
    struct topology *t = measured_topology(&measured_machines[r->machine]);
    struct placement *p = NULL;
    struct err err = ERR_INIT;
    int64_t bytes = (int64_t)r->mib << 20;
    double bus = NAN;
    int world = t ? t->n_nodes * t->nodes[0].n_gpus : 0, *rank = NULL;

    *cost = (struct cost){ .algorithm = "", .protocol = "" };
    if (t && placement_make(NULL, t, world, &p, &err) == 0) {
        struct cost_groups g = cost_shard_groups(p, &rank);
        *cost = cost_concurrent(r->collective, bytes, &g, p, t, NULL);
        bus = collective_bus_factor(r->collective, world) * (double)bytes /
              cost->seconds / 1e9;
    }
    err_release(&err);
    free(rank);
    placement_free(p);
    topology_free(t);
    return bus;
}

#endif
