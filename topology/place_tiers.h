/* place_tiers.h - where nodes lie: NVLink domain, leaf, the parts of the fabric above.
 * Inner to place*.c.
 *
 * A tier divides the nodes into units, and each unit lies in one unit of the next tier
 * (the family is laminar).  Tier 0 is the lowest.  Only tiers that say something are
 * kept: more than one unit, and not the same ones as the tier below.
 *   domain  nodes of one "ClusterUUID.CliqueId"; a node without one stands alone
 *   leaf    place_leaf(); the nodes of a domain count as below the leaf of its first
 *           node, since they reach each other without leaves
 *   part    leaves that switches up to some level join: a pod, a spine group
 * A node of unknown leaf is a unit of its own. */
#ifndef TOPOLOGY_PLACE_TIERS_H
#define TOPOLOGY_PLACE_TIERS_H

struct topology;

enum { PLACE_TIERS_MAX = 12 };
enum place_tier { TIER_DOMAIN, TIER_LEAF, TIER_PART };

struct place_tiers {
    int n_nodes, n;
    enum place_tier kind[PLACE_TIERS_MAX];
    int units[PLACE_TIERS_MAX]; /* numbered from 0 as their first nodes are listed */
    int *unit[PLACE_TIERS_MAX]; /* [n_nodes] */
    int *component; /* [n_nodes] what no link joins to another one: no job spans two
                       (case B09); -1 unknown, which is held against nobody */
    int components;
};

/* The leaf of a node: Slurm's, else the first leaf of its compute NICs (those of one
 * rail group have the same first one); -1 unknown. */
int place_leaf(const struct topology *t, int node);

/* O(nodes log nodes + NICs + links). */
struct place_tiers *place_tiers_new(const struct topology *t);
void place_tiers_free(struct place_tiers *p); /* NULL is fine */

/* "leaf"; of several: "leaves", "NVLink domains", "pods" (the lowest parts), "parts of
 * the fabric". */
const char *place_tier_name(const struct place_tiers *p, int tier, int several);
/* The tier of leaves; -1: all nodes are below one, or no leaf is known. */
int place_tiers_leaf(const struct place_tiers *p);
/* The lowest tier in which two nodes share a unit; p->n: they share nothing less than
 * everything. */
int place_tiers_common(const struct place_tiers *p, int a, int b);

#endif
