/* climb_walk.h - one climb on its way: between climb.c, which decides, and
 * climb_trial.c, which runs one trial and writes it down. */
#ifndef LAUNCHER_CLIMB_WALK_H
#define LAUNCHER_CLIMB_WALK_H

#include "launcher/climb.h"

/* What happened to a trial, beyond -1 for an error. */
enum outcome { OUTCOME_GOOD, OUTCOME_BAD, OUTCOME_STOPPED };

struct walk {
    const struct climb *c;
    struct candidate *cand;
    int n;
    int done, admitted; /* trials ended; candidates that may run */
    double predicted;   /* of the rung that is next; NaN: the candidate's own */
    double spread;      /* of step times within a trial, the worst: a share */
    struct js *known;   /* rows of an earlier part of this climb */
    char *why;
};

/* Tell the user. */
void walk_say(const struct walk *w, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Write a trial down.  t NULL: nothing is known of it yet. */
int walk_put(const struct walk *w, const struct candidate *k, int gpus, int attempt,
             const char *state, const struct trial *t, struct err *err);

/* Measure, or take over what an earlier part of the climb measured.  An outcome, or
 * -1.  After OUTCOME_BAD w->why tells the reason. */
int walk_try(struct walk *w, struct candidate *k, int gpus, int attempt,
             struct err *err);

#endif
