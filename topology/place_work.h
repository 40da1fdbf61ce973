/* place_work.h - a packing while it is made: nodes sorted into bins, and crossing groups
 * pieced together out of what bins have left.  Inner to place_pack.c. */
#ifndef TOPOLOGY_PLACE_WORK_H
#define TOPOLOGY_PLACE_WORK_H

#include "topology/place_pack.h"

/* Nodes of a bin that a group takes. */
struct work_part {
    int bin, count;
};

/* A bin is a unit of tier 0 (everything, when there is no tier). */
struct pack_work {
    struct pack *p;
    int *sorted; /* nodes, by units from the top down, then as they are listed */
    int bins, base;
    int *start, *cap, *whole, *rest; /* [bins]; start [bins + 1] */
    long *room;                      /* [bins + 1] sums of whole groups in base units */
    struct work_part *part;          /* of groups that cross tier 0 */
    int *first, parts, crossing;     /* first[crossing]: of part[] */
    int *head, *next;                /* [group] bins by what they have left; [bins] */
};

struct work_keyed {
    int unit, at;
};

int work_compare_keyed(const void *a, const void *b); /* by unit, then place */

/* Bins of w->p, nothing taken. */
void work_init(struct pack_work *w);
void work_release(struct pack_work *w);

/* The unit of a bin; tier tiers->n holds everything. */
int work_unit(const struct pack_work *w, int tier, int bin);
/* Where the bins from `lo` on that are in its unit of this tier end (at most hi). */
int work_unit_end(const struct pack_work *w, int tier, int lo, int hi);

/* `count` groups out of what bins lo .. hi-1 have left, each less than a group: the
 * largest piece, completed by the one that fits best. */
void work_form(struct pack_work *w, int lo, int hi, long count);

#endif
