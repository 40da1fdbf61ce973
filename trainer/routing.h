/* routing.h - rows of each expert, recorded and given.
 *
 * A recording is a safetensors file with one tensor, counts [steps, layers, experts]
 * (U16 where that is enough, else I32): the rows each expert got from the tokens of
 * the whole step.  Its metadata: top_k, tokens (of a step), and what was trained.
 *
 * debug.moe_routing gives the rows instead of the router, to measure speed:
 *   balanced   all experts alike
 *   skewed     the busiest of each layer has 10 times the mean, the others share the rest
 *   replay     a recording's rows: step i of n uses its step i x steps / n, layer l its
 *              layer l modulo layers, scaled to the tokens of this rank's micro-batch
 * Every expert gets exactly its rows, the same in every run (ops->spread says which
 * tokens); the router still gives the weights. */
#ifndef TRAINER_ROUTING_H
#define TRAINER_ROUTING_H

#include <stdint.h>

#include "recipes/recipe.h"
#include "trainer/layers.h"

struct dev;
struct err;
struct ops;

/* --- recordings ------------------------------------------------------------------ */
struct routing_counts {
    int steps, layers, experts, top_k;
    int64_t tokens; /* of a step */
    int32_t *rows;  /* [steps, layers, experts], owned */
};

int routing_load(const char *path, struct routing_counts *out, struct err *err);
int routing_save(const char *path, const struct routing_counts *c,
                 const struct recipe *r, struct err *err);
/* Append a step's rows [layers, experts]. */
void routing_add(struct routing_counts *c, const int32_t *rows);
void routing_counts_release(struct routing_counts *c);

/* A recording that grows with a run.  All zero: none, and the calls do nothing. */
struct routing_recorder {
    struct routing_counts counts;
    char *path; /* owned */
};

void routing_record_open(struct routing_recorder *r, char *path /* taken over */,
                         const struct model *m);
/* After each step: its rows [layers, experts] of the whole global batch. */
void routing_record_step(struct routing_recorder *r, const struct recipe *recipe,
                         const int32_t *rows);
/* Write the file, unless there was no step. */
int routing_record_close(struct routing_recorder *r, const struct recipe *recipe,
                         struct err *err);

/* out[n] = in[n] scaled to the sum `total`, none above `most`; largest remainders are
 * rounded up, among equals the first.  The rows of `in` may not need more than that. */
void routing_scale(const int32_t *in, int n, int64_t total, int64_t most, int32_t *out);

/* --- given rows ------------------------------------------------------------------ */
struct routing {
    const struct ops *ops;
    struct dev *dev;
    enum routing_kind kind;
    int layers, experts;     /* of the model */
    int steps, given_layers; /* of the table */
    int64_t tokens;          /* of a micro-batch */
    int64_t step;            /* 0 for the first */
    int32_t *offset;         /* host [steps, given_layers, experts + 1], owned */
    int32_t *device;         /* [given_layers, experts + 1] of this step; borrowed */
};

int64_t routing_bytes(const struct recipe *r); /* of device memory; 0: natural */
/* device: routing_bytes(), for as long as *t lives. */
int routing_open(struct routing *t, const struct recipe *r, const struct ops *ops,
                 struct dev *dev, void *device, struct err *err);
void routing_release(struct routing *t);
/* The rows of a step (0 for the first) of `steps`, on their way to the device. */
void routing_step(struct routing *t, int64_t step, int64_t steps);
/* What layer_ctx wants; t may be NULL. */
struct spread routing_layer(const struct routing *t, int layer);
/* One line for the log; the caller's to free().  NULL: natural. */
char *routing_describe(const struct routing *t, const struct recipe *r);

#endif
