/* watch_place.h - where ranks say they run, held against the plan.  Inner to watch.
 *
 * The identity of a machine is its boot id, not its name. */
#ifndef LAUNCHER_WATCH_PLACE_H
#define LAUNCHER_WATCH_PLACE_H

struct js;
struct places;
struct str;
struct watch_plan;

struct places *places_new(int world, const struct watch_plan *plan); /* copied */
void places_free(struct places *p);
void places_report(struct places *p, int rank, const struct js *event);
/* A "task" event (task_state.h): the CPUs that were chosen for the rank on its node,
 * where the plan left that to it. */
void places_bound(struct places *p, int rank, const struct js *event);

/* 1 and one sentence when some report cannot be right; *culprit: the rank. */
int places_wrong(struct places *p, struct str *why, int *culprit);

#endif
