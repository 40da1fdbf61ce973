/* place_order.h - which nodes a run takes, and in which order.  Inner to place*.c.
 *
 * Shard groups talk most, so each stays below one leaf switch where it can; replicas go
 * across.  A run that fits below one leaf takes the smallest leaf it fits in. */
#ifndef TOPOLOGY_PLACE_ORDER_H
#define TOPOLOGY_PLACE_ORDER_H

struct topology;

/* The leaf of a node: Slurm's, else the first leaf of its compute NICs (those of one
 * rail group have the same first one); -1 unknown. */
int place_leaf(const struct topology *t, int node);

/* Take `need` of the nodes fit[n] (topology.nodes[], ascending), in groups of `group`
 * neighbours (a whole number of them makes `need`); order[need] is filled.  Where no
 * leaf is known these are the first ones.  Needs need <= n. */
void place_order(const struct topology *t, const int *fit, int n, int need, int group,
                 int *order);

#endif
