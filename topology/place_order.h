/* place_order.h - which nodes a run takes, and in which order.  Inner to place*.c.
 *
 * Shard groups talk most, so each stays inside the smallest tier that holds it (NVLink
 * domain, leaf, pod); a run that fits in one unit of a tier stays in the smallest that
 * holds it, and replicas follow each other unit by unit (place_pack.h). */
#ifndef TOPOLOGY_PLACE_ORDER_H
#define TOPOLOGY_PLACE_ORDER_H

#include "topology/place_tiers.h"

struct topology;

/* suspect[t->n_nodes]: 1 where a finding speaks against the node: one that fails, or a
 * warning that at most a quarter of the nodes have.  Returns how many. */
int place_suspects(const struct topology *t, char *suspect);

/* Take `need` of the nodes fit[n] (topology.nodes[], as listed), in groups of `group`
 * neighbours (a whole number of them makes `need`); order[need] is filled.
 * Suspects are taken only when the others are too few, then those that complete a group
 * where it is, behind the others of their unit.  Nodes that no link joins are not mixed
 * where one part has enough.  Where nothing is known these are the first ones.
 * Needs need <= n. */
void place_order(const struct topology *t, const struct place_tiers *tiers,
                 const int *fit, int n, int need, int group, int *order);

/* The first `need` of fit[n] by host name, as strings (torchrun's order). */
void place_by_name(const struct topology *t, const int *fit, int n, int need,
                   int *order);

#endif
