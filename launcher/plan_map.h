/* plan_map.h - the mapping of a plan against the orders that others would take: what
 * each axis of the mesh sends over which tier, in what time, and why. */
#ifndef LAUNCHER_PLAN_MAP_H
#define LAUNCHER_PLAN_MAP_H

#include <stdio.h>

#include "base/str.h"
#include "topology/cost.h"
#include "topology/place_map.h"

struct js;
struct placement;
struct predict_assumptions;
struct prediction;
struct recipe;
struct topology;

enum map_order { MAP_CHOSEN, MAP_LISTED, MAP_BY_NAME, N_MAP_ORDERS };
enum map_axis_of { AXIS_SHARD, AXIS_REPLICATE, N_MAP_AXES };

/* Of one step, the layers' collectives of all groups of an axis (the embedding and the
 * head are left out). */
struct map_traffic {
    double seconds;             /* if none hid behind compute; NaN unknown */
    double exposed_s;           /* predicted to remain, with embedding and head */
    double bytes[N_COST_TIERS]; /* that cross links of each tier */
};

struct plan_map {
    int known[N_MAP_ORDERS]; /* 0: there is no such order (hosts with slots) */
    int same[N_MAP_ORDERS];  /* 1: the chosen order */
    struct place_map order[N_MAP_ORDERS];
    struct map_traffic traffic[N_MAP_ORDERS][N_MAP_AXES];
    struct strlist why;
};

/* x is the prediction for p. */
void plan_map_make(const struct recipe *r, const struct topology *t,
                   const struct placement *p, const struct predict_assumptions *assumed,
                   const struct prediction *x, struct plan_map *out);
void plan_map_release(struct plan_map *m);
void plan_map_print(const struct plan_map *m, FILE *fp);
struct js *plan_map_json(const struct plan_map *m);

#endif
