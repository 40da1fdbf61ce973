/* verdict.h - what a check says about one object.
 *
 * "Could not be measured" is not "failed", and "undecided" (the measurement
 * contradicts itself) accuses nobody. */
#ifndef CHECKS_VERDICT_H
#define CHECKS_VERDICT_H

#include <stdio.h>

struct js;
struct strlist;

enum verdict_result {
    VERDICT_PASS,
    VERDICT_FAIL,
    VERDICT_UNMEASURED,
    VERDICT_UNDECIDED
};
const char *verdict_result_name(enum verdict_result r); /* "pass", ... */

struct verdict {
    char name[32]; /* of the catalogue */
    char object[96];
    char node[64]; /* excluded when the verdict is fail; "" nobody */
    enum verdict_result result;
    int required;              /* unmeasured blocks a launch */
    int warn;                  /* passed, but the reason deserves reading */
    double expected, measured; /* in unit; NaN none, INFINITY unlimited */
    char unit[16];
    char *reason; /* owned; never NULL once added */
};

struct verdicts {
    struct verdict *item;
    int n;
};

/* Takes over v->reason (NULL: ""). */
void verdicts_add(struct verdicts *l, const struct verdict *v);
void verdicts_release(struct verdicts *l);

/* The exit status: 1 when one failed or is undecided; else 3 when a required one
 * could not be measured; else 0. */
int verdicts_status(const struct verdicts *l);
/* Nodes of failed verdicts, each once, in order of appearance. */
void verdicts_exclude(const struct verdicts *l, struct strlist *nodes);

/* Measured by expected; NaN where either is unknown, unlimited or none. */
double verdict_ratio(const struct verdict *v);

/* A number with its unit as people read it: "19.3 MB", "unlimited", "-". */
char *verdict_number(double v, const char *unit); /* the caller's to free() */

/* The `check` schema: status, verdicts[], exclude[]. */
struct js *verdicts_json(const struct verdicts *l);

#endif
