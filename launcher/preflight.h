/* preflight.h - run muster-probe on the ranks of a placement and judge what it
 * measured. */
#ifndef LAUNCHER_PREFLIGHT_H
#define LAUNCHER_PREFLIGHT_H

#include "recipes/recipe.h"

struct err;
struct machines;
struct placement;
struct strlist;
struct verdicts;

struct preflight {
    const char *recipe_path;    /* as the user named it */
    const struct strlist *sets; /* KEY=VALUE over it; may be NULL */
    const struct recipe *recipe;
    const struct machines *machines; /* settled for the placement */
    const struct placement *placement;
    enum level level;
    int show; /* echo the lines that ranks print, to stderr */
};

/* Every wait of the probe and of its launcher has a deadline.  0 with verdicts
 * whenever the probe could be started, even when it failed: then there is a verdict
 * "probe", and every check it did not come to is unmeasured.  -1 when the probe
 * could not be tried, or refuses the recipe. */
int preflight_run(const struct preflight *given, struct verdicts *out, struct err *err);

#endif
