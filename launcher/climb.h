/* climb.h - from one recipe to the largest rung, on evidence.
 *
 * Strategy exhaustive measures every candidate that may run at the first rung;
 * predicted those whose prediction is near the best one; hierarchical settles one
 * axis of the sweep after the other.  Those
 * within the noise (below) of the best are measured again (at most ATTEMPTS_MAX times,
 * the median counts).  The best tokens/s/GPU under the memory ceiling is then
 * verified at each next rung.  Perfect scaling is the first rung's tokens/s/GPU.
 *
 * Everything is in the store before and after each trial, so a climb that was
 * interrupted goes on where it stopped: a trial that had no end is measured again,
 * the others stand. */
#ifndef LAUNCHER_CLIMB_H
#define LAUNCHER_CLIMB_H

#include "launcher/candidate.h"

struct err;
struct js;
struct store;
struct topology;

/* Leaders closer than this share of the best are one measurement apart; a machine
 * whose step times spread wider has a wider one, to a limit. */
#define CLIMB_NOISE     0.03
#define CLIMB_NOISE_MAX 0.25
/* Strategy predicted measures what is predicted within this share of the best. */
#define CLIMB_PREDICTED_MARGIN 0.25
enum { CLIMB_LEADERS_MAX = 3 };

/* One trial's outcome. */
struct trial {
    char run[96];                                /* "" when none was started */
    int status;                                  /* of the run; 0 well */
    int stopped;                                 /* somebody asked for the end */
    char *reason;                                /* owned; why it failed, else NULL */
    double tokens_per_s_per_gpu, memory_percent; /* NaN unknown */
    struct js *result; /* owned; the `launch` object, or NULL */
};

struct climb {
    const char *id;
    const struct recipe *recipe; /* scale.* says what to do */
    const struct topology *topology;
    struct store *store;
    /* Run `at` on `gpus` ranks.  -1: nothing of the kind can be run here. */
    int (*measure)(void *arg, const struct recipe *at, int gpus, struct trial *out,
                   struct err *err);
    void (*say)(void *arg, const char *line); /* progress; NULL: none */
    void *arg;
};

enum climb_end {
    CLIMB_DONE,
    CLIMB_STOPPED, /* resumable */
    CLIMB_FAILED,  /* no candidate is left, or a rung failed: see `why` */
};

/* The climb is in the store already (store_climb_start or _resume).  0 when it
 * came to one of the ends (*why is the caller's, NULL when done), -1 when it could
 * not go on; the store's state is set either way. */
int climb_execute(const struct climb *c, enum climb_end *end, char **why,
                  struct err *err);

/* The recipe of a trial: steps as scale.trial_* say, nothing saved or validated.
 * recipe_release(). */
int climb_trial_recipe(const struct candidate *c, int gpus, struct recipe *out,
                       struct err *err);

/* The `climb` object of design.md from what the store holds; js_free().  NULL on
 * failure.  settle: as far as it came. */
struct js *climb_json(struct store *s, const char *id, struct err *err);
/* That object for people: the sweep table, the ladder; to fp. */
void climb_print(const struct js *climb, FILE *fp);

#endif
