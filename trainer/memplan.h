/* memplan.h - every byte the trainer will use, before it starts.
 *
 * The same code sizes the arena in muster-train and predicts memory in `plan`
 * and `climb`.  One arena, carved in the order of the items below; the trainer
 * allocates nothing else of the device's memory after it is opened. */
#ifndef TRAINER_MEMPLAN_H
#define TRAINER_MEMPLAN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct js;
struct ops;
struct recipe;

/* The items, in the order of the arena. */
enum mem_kind {
    MEM_MASTER,    /* FP32 weights, this rank's shard */
    MEM_MOMENT1,   /* FP32, shard */
    MEM_MOMENT2,   /* FP32, shard */
    MEM_GRADS,     /* reduced FP32 gradients, shard */
    MEM_WEIGHTS,   /* weights in the compute type, shard; none if that is FP32 */
    MEM_GATHERED,  /* whole units in the compute type; none with one shard */
    MEM_FULLGRADS, /* whole units' FP32 gradients on their way to the reduction */
    MEM_SAVED,     /* activations kept for backward, all layers */
    MEM_RECOMPUTE, /* those that one layer's backward recomputes */
    MEM_STREAM,    /* the head's input and the gradient that flows back */
    MEM_WORK,      /* inside one layer; logits of one chunk */
    MEM_SCRATCH,   /* inside one operation */
    MEM_BATCH,     /* tokens, targets, positions, document starts */
    MEM_METRICS,   /* loss, records of all ranks, expert counts, router bias */
    MEM_ROUTING,   /* rows of each expert that debug.moe_routing gives */
    N_MEM_KINDS
};

struct mem_item {
    const char *name; /* "optimizer states", "gathered weights", ... */
    int64_t bytes;    /* may be 0; a multiple of 256 */
};

enum { MEMPLAN_MAX_ITEMS = 24, MEM_ALIGN = 256, MEM_MAX_WORLD = 4096 };

struct memplan {
    int n;                                   /* N_MEM_KINDS */
    struct mem_item item[MEMPLAN_MAX_ITEMS]; /* by enum mem_kind */
    int64_t arena_bytes;   /* the sum, each item aligned to 256 bytes */
    int64_t outside_bytes; /* context, libraries, communicators: a prediction */
    int64_t device_bytes;  /* total memory of the device; -1 unknown */
    int64_t activation_bytes_per_token_layer;
    double percent; /* (arena + outside) of device_bytes; NaN when that is unknown */
};

/* For a world whose shard degree is `shard`.  Pure.  Write the degrees that
 * recipe_layout() gives into the recipe first: with a replicate degree of -1 and a
 * global batch size it has to assume that gradients accumulate.
 * `ops`: a real table, or ops_sizes() for a device that is not built in. */
void memplan_make(const struct recipe *r, const struct ops *ops, int shard,
                  int64_t device_bytes, struct memplan *out);
struct js *memplan_json(const struct memplan *m);

/* Micro-batches a step may be more than one. */
int memplan_accumulates(const struct recipe *r, int shard);
/* Tokens whose logits exist at once. */
int memplan_loss_chunk(const struct recipe *r);

static inline int64_t mem_align(int64_t bytes)
{
    return (bytes + MEM_ALIGN - 1) / MEM_ALIGN * MEM_ALIGN;
}

#ifdef __cplusplus
}
#endif
#endif
