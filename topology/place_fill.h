/* place_fill.h - ranks onto the nodes of an order, and which order is the fastest.
 * Inner to place*.c. */
#ifndef TOPOLOGY_PLACE_FILL_H
#define TOPOLOGY_PLACE_FILL_H

struct node;
struct placement;
struct recipe;
struct topology;

/* GPUs of a node that is not set aside, without MIG (A12). */
int place_usable_gpus(const struct node *n);

/* Node, device, NIC and NUMA node of each rank, from p->order and the ranks'
 * local_rank (0 begins the next node); then their CPUs. */
void place_fill(struct placement *p, const struct topology *t);
void place_fill_cpus(struct placement *p, const struct topology *t);

/* Communication of one step (cost.h), all groups of an axis at once, before any of it
 * hides behind compute: what stays exposed grows with it.  What is not known counts as
 * none, and *known tells whether something was not.  r may be NULL: one all_gather. */
struct cost_model;
double place_seconds(const struct recipe *r, const struct placement *p,
                     const struct topology *t, const struct cost_model *m, int *known);

/* Takes another order instead of p->order where it is predicted to be faster, all of it
 * known, with no more suspects: replicas of a shard side by side and shard groups across
 * (which pays where trunks carry a ring of shards but not all rings of replicas), nodes
 * as they are listed, nodes by host name. */
void place_fastest(const struct recipe *r, struct placement *p,
                   const struct topology *t);

#endif
