/* place.h - which rank runs where, and which ranks form a group.
 * A pure function of its inputs: the same answer every time.
 *
 * Mesh order is torchtitan's [dp_replicate, dp_shard], row-major, last axis
 * contiguous: rank = replicate x shard_degree + shard.  World 16, shard 8:
 * shard groups {0-7} {8-15}; replicate groups {i, i+8} (case F13). */
#ifndef TOPOLOGY_PLACE_H
#define TOPOLOGY_PLACE_H

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct err;
struct js;
struct recipe;
struct strlist;
struct topology;

struct place {
    int node; /* topology.nodes[] */
    int gpu;  /* node.gpus[] index; on a CPU node the slot 0.. */
    int nic;  /* node.nics[]; -1 none */
    int numa; /* -1 unknown */
    int local_rank;
    int shard, replicate; /* coordinates in the mesh */
    char cpus[256];       /* kernel list to bind to; "" : no binding */
};

struct placement {
    int world, shard_degree, replicate_degree;
    int accumulation;   /* micro-batches a step */
    int on_gpus;        /* else `gpu` counts CPU slots */
    int n_nodes;        /* nodes used: 0 .. n_nodes-1 of order[] */
    int *order;         /* [n_nodes] topology.nodes[] in rank order */
    int n_fit;          /* nodes that could have been used, as they are listed */
    int *fit;           /* [n_fit]; none where hosts came with slots */
    struct place *rank; /* [world] */
};

/* Lay `world` ranks out, gpus_per_node a node, so that a shard group spans as
 * few nodes as it can: ranks fill node after node, and a world that needs several
 * nodes fills each (E10).  A shard group stays inside the smallest tier that holds it
 * (NVLink domain, leaf, pod: place_tiers.h), no more groups cross one than must
 * (place_pack.h, with the proof), and a world that fits inside one stays there.  Nodes
 * that findings speak against are taken last (place_order.h).
 *
 * On GPUs (cluster.device cuda; auto and sim, where there are any): one rank a GPU that
 * has no MIG (A12); nodes with too few are passed over.  A rank's CPUs are its share
 * of the CPUs of its GPU's NUMA node.
 * On CPUs (device cpu, or no GPU anywhere): gpus_per_node ranks a node (-1: one a
 * slot of each node where they have slots, else one a CPU of the smallest node), more
 * when the nodes would not do; ranks are spread over the NUMA nodes and share their
 * CPUs evenly, unbound when there are more ranks than CPUs.
 *
 * r may be NULL (a program that is no trainer): the world is one shard group.
 * Refuses nodes that no link joins (B09), too few nodes or GPUs, degrees that do not multiply to the world; says how
 * many there are.  *out is the caller's; placement_free(). */
int placement_make(const struct recipe *r, const struct topology *t, int world,
                   struct placement **out, struct err *err);
void placement_free(struct placement *p);

/* Ranks of the shard (or replicate) group of `rank`: fills group[], returns n. */
int placement_shard_group(const struct placement *p, int rank, int *group);
int placement_replicate_group(const struct placement *p, int rank, int *group);

/* Groups given from outside (a saved plan): each rank exactly once in each
 * kind, no gap, duplicate or swapped order. */
int placement_check(const struct placement *p, struct err *err);

/* What is legal but costs speed, one sentence an item: shard groups that cross nodes
 * though they would fit one, replicas that leave NVLink unused, unbound ranks. */
void placement_warnings(const struct placement *p, const struct topology *t,
                        struct strlist *out);

void placement_print(const struct placement *p, const struct topology *t, FILE *fp);
struct js *placement_json(const struct placement *p, const struct topology *t);

#ifdef __cplusplus
}
#endif
#endif
