/* catalogue.h - every check there is: what it looks at, why, what it needs, and
 * where its target comes from.  `muster check --list` prints this table. */
#ifndef CHECKS_CATALOGUE_H
#define CHECKS_CATALOGUE_H

#include <stdio.h>

#include "recipes/recipe.h"

struct js;

/* How a measure of this name becomes a verdict (judge.c). */
enum judgement {
    JUDGE_AT_LEAST, /* value >= need */
    JUDGE_AT_MOST,  /* value <= need */
    JUDGE_NONE,     /* value counts faults: must be 0 */
    JUDGE_ADVICE,   /* value counts faults: more than 0 is a warning */
    JUDGE_SAME,     /* text is the value (a version): equal on all of its kind */
    JUDGE_USUAL,    /* value is not below what more than half of its kind have */
    JUDGE_RATE,     /* value events in `seconds`, against `need` an hour */
    JUDGE_PEERS,    /* a rate: not under the others of its kind, nor its own card */
    JUDGE_BITS,     /* text is a hash: equal on all of its kind */
    JUDGE_GPU,      /* what a driver says about a GPU: by name */
    JUDGE_TOLD,     /* no target: passes, and text is worth reading */
    JUDGE_BUSBW,    /* of a collective, against the computed target */
    JUDGE_LINK,     /* a link's rate, against its port */
    JUDGE_REFERENCE /* no verdict: others are computed from it */
};

struct check {
    const char *name;
    const char *scope; /* "host", "rank", "gpu", "group", "nic" */
    enum level level;  /* run from this level on */
    int required;
    enum judgement judge;
    const char *unit;
    const char *why;    /* what breaks without it */
    const char *needs;  /* what the measurement needs */
    const char *target; /* where the expected value comes from */
    const char *cure;   /* what to do when it fails */
};

const struct check *catalogue(int *n);
const struct check *catalogue_find(const char *name); /* NULL: no such check */
void catalogue_print(FILE *fp);
struct js *catalogue_json(void);

#endif
