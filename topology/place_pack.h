/* place_pack.h - groups of equally many nodes into the units of a laminar family of
 * tiers (place_tiers.h).  Inner to place*.c; knows nothing of machines.
 *
 * Theorem (floor sums over a laminar family).  G groups of g nodes are to be taken of
 * units with c_u nodes.  Inside a unit u there is room for floor(c_u / g) whole groups,
 * so at least
 *     B_k = max(0, G - sum over units u of tier k of floor(c_u / g))
 * groups cross tier k, however nodes are dealt out.  Filling from below reaches all B_k
 * at once: a unit that its children's whole groups leave R = c_u - g x (their sum) nodes
 * takes floor(R / g) more, and floor((c_u - g x) / g) + x = floor(c_u / g) for every
 * x <= c_u / g.  So crossing groups need no search, and the gap to the bound is 0.
 *
 * Which units the crossing groups are pieced together from is bin packing (3-partition
 * is a case of it), and so is, below the top, which units a run that needs only some of
 * them takes.  Both are exact for few units (branch and bound over the compositions of
 * groups, PACK_STEPS at most) and greedy above: largest piece first, completed by the
 * piece that fits best.
 *
 * Compared, in this order, each from the highest tier down:
 *   crossing[k]  groups that lie in more than one unit of tier k
 *   extra[k]     units of tier k that groups lie in, less one a group: the times a ring
 *                over a group leaves a unit and does not come back to where it was
 *   used[k]      units of tier k that the run lies in: what rings over replicas cross
 */
#ifndef TOPOLOGY_PLACE_PACK_H
#define TOPOLOGY_PLACE_PACK_H

#include "topology/place_tiers.h"

enum { PACK_STEPS = 200000, PACK_EXACT_UNITS = 14 };

struct pack_score {
    long crossing[PLACE_TIERS_MAX], extra[PLACE_TIERS_MAX], used[PLACE_TIERS_MAX];
};

struct pack {
    const struct place_tiers *tiers;
    const int *node; /* [n] that may be taken; those to take last come last */
    int n, group, groups;
    /* answers */
    struct pack_score score;
    long bound[PLACE_TIERS_MAX]; /* B_k */
    int exact;                   /* 1: the score is proven to be the least */
};

/* Fills order[group x groups], group after group, units in the order of their first
 * nodes.  Needs group x groups <= n.  O(n log n) beside the search. */
void place_pack(struct pack *p, int *order);

/* The score of an order, whoever made it, by definition. */
void pack_score_of(const struct place_tiers *t, const int *order, int group, int groups,
                   struct pack_score *out);
/* < 0: a is better. */
int pack_score_compare(const struct pack_score *a, const struct pack_score *b,
                       int tiers);

/* For place_pack_exact.c: what is left when whole groups are taken. */
struct pack_bins {
    int n, tiers, group;
    int cap[PACK_EXACT_UNITS];
    int unit[PLACE_TIERS_MAX][PACK_EXACT_UNITS];
    char used[PACK_EXACT_UNITS]; /* already, by whole groups */
};
/* *best is the score to beat, with the least crossing[]; where it is beaten, it and
 * count[groups][bin] change.  1: *best is proven to be the least. */
int pack_search(const struct pack_bins *b, int groups, struct pack_score *best,
                int (*count)[PACK_EXACT_UNITS]);

#endif
