/* weights.h - the initial weights, the same for every layout.
 *
 * Element i of tensor t of unit u is a pure function of (seed, u, t, i): a
 * counter-based generator (splitmix64's finaliser over a key and the counter,
 * Steele, Lea & Flood 2014), Box-Muller in pairs (i even, i odd).  So a rank fills
 * only what it owns and any number of ranks gets the same model. */
#ifndef TRAINER_WEIGHTS_H
#define TRAINER_WEIGHTS_H

#include <stdint.h>

struct units;

/* out[n] = elements [from, from + n) of a whole unit; pads are 0.  A tensor whose
 * init_std is 0 is all ones. */
void weights_fill(const struct units *u, int unit, uint64_t seed, int64_t from,
                  int64_t n, float *out);

#endif
