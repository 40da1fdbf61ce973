/* target.h - the bandwidth to expect, computed from what is known about this very
 * system; never a table of products. */
#ifndef CHECKS_TARGET_H
#define CHECKS_TARGET_H

#include <stdint.h>

struct cost_groups;
struct measure;
struct placement;
struct topology;

struct target {
    double expected; /* bus bandwidth, GB/s; NaN: there is no way to know */
    double floor;    /* share of it that passes */
    double ceiling;  /* above it the measurement is wrong; NaN none */
    char from[400];  /* the reasoning, for the verdict */
};

/* CPU ranks of one machine.  copy_gbytes: what a rank copies a second while all
 * copy.  A message is copied into a shared segment and out of it; a sum reads one
 * buffer a rank and writes one, in units of a copy (read + write):
 *   all_gather      (n-1)/n W copies twice
 *   reduce_scatter  the same, and (n+1)/(2n) for the sum
 *   all_reduce      reduce_scatter, then all_gather
 * each times S / copy_gbytes.  The floor leaves room for ranks that share cores. */
struct target target_memory(const char *op, int ranks, double copy_gbytes);

/* The groups of one axis, which are measured at the same time, by the cost model on a
 * placement and its topology (cost.h); unknown where that is.
 * in_switch: reductions happen in the switch (NVLS), so a GPU sends S(n+1)/n and
 * the bus bandwidth of all_reduce may reach link x 2(n-1)/(n+1) (case D02). */
struct target target_model(const char *op, const struct cost_groups *g, int64_t bytes,
                           int in_switch, const struct placement *p,
                           const struct topology *t);

/* The highest bus bandwidth that a link of link_gbytes one way allows. */
double target_ceiling(const char *op, int ranks, double link_gbytes, int in_switch);

#endif
