/* judge.h - from measures to verdicts.  Pure. */
#ifndef CHECKS_JUDGE_H
#define CHECKS_JUDGE_H

#include "checks/measure.h"
#include "checks/verdict.h"
#include "recipes/recipe.h"

struct placement;
struct topology;

struct judge {
    const struct placement *placement; /* NULL: groups cannot be looked up */
    const struct topology *topology;
    int in_switch; /* NVLS: sums inside the switch */
};

/* One verdict for every measure but those that others are computed from. */
void judge_all(const struct judge *j, const struct measures *m, struct verdicts *out);

/* A required check of this level that nothing was measured for: could not be
 * measured, `why`.  scope: of the catalogue ("host", "group"). */
void judge_missing(const struct measures *m, const char *scope, enum level level,
                   const char *why, struct verdicts *out);

#endif
