/* candidate.h - one combination of the values in scale.sweep.
 *
 * A candidate is a whole recipe.  It is refused before anything is started when,
 * at any rung, its degrees or batch do not divide, the machines do not have the
 * ranks, or memplan puts it above scale.memory_ceiling; the reason says at which
 * rung and why. */
#ifndef LAUNCHER_CANDIDATE_H
#define LAUNCHER_CANDIDATE_H

#include <stdint.h>
#include <stdio.h>

#include "recipes/recipe.h"

struct err;
struct js;
struct topology;

enum { CANDIDATES_MAX = 4096, ATTEMPTS_MAX = 3 };

struct candidate {
    int index;             /* in the order of the sweep, last axis fastest */
    struct strlist values; /* one an axis */
    struct recipe recipe;  /* as given, with the values set */
    char *refused;         /* why; NULL: it may run */
    double memory_percent; /* predicted, of the worst rung; NaN unknown */
    double predicted;      /* tokens/s/GPU at the first rung, from first principles */
    /* filled by the climb, at the first rung */
    int n_rates;
    double rates[ATTEMPTS_MAX]; /* tokens/s/GPU */
    int lost;                   /* failed, or measured above the ceiling */
};

/* All combinations, judged against the rungs of the recipe.  No sweep: the recipe
 * itself.  An error only for what makes the whole question void.  The caller's. */
int candidates_make(const struct recipe *r, const struct topology *t,
                    struct candidate **out, int *n, struct err *err);
void candidates_free(struct candidate *c, int n);

/* The recipe of a candidate at `gpus` ranks, the batch rule of the recipe applied
 * (per_gpu: global_batch_size grows with the ranks from the first rung on). */
int candidate_at(const struct candidate *c, int gpus, struct recipe *out,
                 struct err *err);
/* Predicted tokens/s/GPU at `gpus` ranks, when the first rung ran at `measured`: the
 * executed FLOPs get the efficiency that explains it, the rest is predict.h's.
 * NaN when nothing can be said. */
double candidate_predict(const struct candidate *c, const struct topology *t, int gpus,
                         double measured);

/* Sequences a step at `gpus` ranks. */
int64_t candidate_global_batch(const struct recipe *at, int gpus);

/* {"training.local_batch_size": 2, ...} */
struct js *candidate_settings(const struct candidate *c);
/* "data_parallel_shard_degree 2, mode none"; the caller's. */
char *candidate_text(const struct candidate *c);

/* Median of the measured rates; NaN when there is none. */
double candidate_rate(const struct candidate *c);

#endif
