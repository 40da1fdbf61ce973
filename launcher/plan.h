/* plan.h - a recipe on a topology at a world size: what would run, where, in how much
 * memory and about how fast.  Nothing is started. */
#ifndef LAUNCHER_PLAN_H
#define LAUNCHER_PLAN_H

#include <stdio.h>

#include "base/str.h"
#include "launcher/plan_map.h"
#include "launcher/predict.h"
#include "recipes/recipe.h"
#include "trainer/memplan.h"

struct err;
struct js;
struct placement;
struct topology;

struct plan {
    struct recipe recipe;            /* with the degrees of this world written in */
    const struct topology *topology; /* borrowed */
    struct placement *placement;
    const char *device; /* "cuda", "cpu": whose sizes the memory plan uses */
    struct memplan memory;
    struct prediction predicted;
    struct plan_map *map;    /* of plan_add_map(); NULL */
    struct strlist warnings; /* legal, but worth knowing */
    struct strlist commands; /* exactly what starts it */
};

/* `assumed` may be NULL.  ERR_USAGE for a world that cannot be laid out.
 * plan_release() after success. */
int plan_make(const struct recipe *r, const struct topology *t, int world,
              const struct predict_assumptions *assumed, struct plan *out,
              struct err *err);
void plan_release(struct plan *p);
/* Compare the mapping with the orders that others would take. */
void plan_add_map(struct plan *p, const struct predict_assumptions *assumed);

/* 1: the memory plan is larger than the device. */
int plan_too_large(const struct plan *p);

/* all_ranks 0: of many alike nodes only the first and the last are listed. */
/* The machines are a specification, or the ranks compute nothing. */
int plan_is_simulated(const struct plan *p);
void plan_print(const struct plan *p, int all_ranks, FILE *fp);
struct js *plan_json(const struct plan *p); /* the `plan` schema */

#endif
