/* balance.h - router bias without an auxiliary loss (Wang et al. 2024), and the
 * load of the experts.
 *
 * After each step, from the rows each expert got over the global batch:
 *     bias += rate (s - mean of s),  s = sign(mean count - count)
 * per layer.  The bias only chooses experts; the weights do not see it.  Counts
 * come from forward alone, so recomputation cannot count a token twice. */
#ifndef TRAINER_BALANCE_H
#define TRAINER_BALANCE_H

#include <stdint.h>

/* counts, bias: [layers, experts], host. */
void balance_update(float *bias, const int32_t *counts, int layers, int experts,
                    double rate);
/* Largest over layers of (rows of the busiest expert) / (mean rows); 0 if no rows. */
double balance_load(const int32_t *counts, int layers, int experts);

#endif
