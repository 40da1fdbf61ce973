/* units.h - the units of one model and where each lies.  Pure.
 *
 * Unit 0 is the embedding, 1 .. layers the decoder layers, layers + 1 the head.
 * Every rank of a shard group holds an equal part of each unit.  Three maps:
 *
 *   shard   this rank's parts of all units, one after the other: master
 *           weights, moments, reduced gradients
 *   flat    all units whole, one after the other: weights that stay gathered
 *   ring    two slots that units take in turn (unit u: slot u mod 2), each as
 *           large as its largest unit: gathered weights that come and go, and
 *           full gradients on their way to the reduction.  Forward and backward
 *           walk the units in order, so the neighbour is always in the other
 *           slot.  A tied embedding is also the output matrix, so it has a third
 *           place of its own. */
#ifndef TRAINER_UNITS_H
#define TRAINER_UNITS_H

#include <stdint.h>

#include "trainer/layers.h"

struct units {
    int n;     /* model.layers + 2 */
    int shard; /* parts a unit is cut into */
    int tied;
    struct unit_layout embed, layer, head;
    int64_t slot[3]; /* elements of the two ring slots; of a tied embedding's place */
    int64_t flat_count;  /* elements of all units whole */
    int64_t shard_count; /* elements of this rank's parts of all units */
    int64_t ring_count;  /* elements of the ring */
};

void units_make(const struct model *m, int shard, struct units *out);
const struct unit_layout *units_at(const struct units *u, int unit);
int units_slot(const struct units *u, int unit); /* 0, 1; 2 a tied embedding */

/* Elements of the part one rank holds of a unit. */
int64_t units_part(const struct units *u, int unit);
/* Where a unit starts in each map, in elements. */
int64_t units_shard_offset(const struct units *u, int unit);
int64_t units_flat_offset(const struct units *u, int unit);
int64_t units_ring_offset(const struct units *u, int unit);

#endif
