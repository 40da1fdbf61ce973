/* compare.h - may two runs' speeds stand side by side, and under which name?
 * (case G03)
 *
 * The same global batch on more ranks is strong scaling; a batch that grows with
 * the ranks is weak.  Runs that differ in what decides the work of a step or the
 * way it was measured (model, sequence length, precision, device, steps, warm-up,
 * muster's version) are not compared.  What a sweep tries (degrees, checkpointing,
 * local batch) may differ. */
#ifndef LAUNCHER_COMPARE_H
#define LAUNCHER_COMPARE_H

#include "base/str.h"

struct err;
struct js;

enum comparison {
    COMPARE_SAME,   /* same ranks, same batch: settings against settings */
    COMPARE_STRONG, /* more ranks, the same global batch */
    COMPARE_WEAK,   /* the global batch grows with the ranks */
    COMPARE_MIXED,  /* ranks and batch both differ, not in step */
    COMPARE_NO,     /* *why tells */
};

const char *comparison_name(enum comparison c);

/* a, b: as store_run() gives them.  Every difference that forbids it is added to
 * *why, "training.steps 20 and 100".  Fails only for a recipe it cannot read. */
int compare_runs(const struct js *a, const struct js *b, enum comparison *out,
                 struct strlist *why, struct err *err);

#endif
