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

struct mem_item {
    const char *name; /* "optimizer states", "gathered weights", ... */
    int64_t bytes;
};

enum { MEMPLAN_MAX_ITEMS = 24 };

struct memplan {
    int n;
    struct mem_item item[MEMPLAN_MAX_ITEMS];
    int64_t arena_bytes;   /* the sum, each item aligned to 256 bytes */
    int64_t outside_bytes; /* context, libraries, communicators: a prediction */
    int64_t device_bytes;  /* total memory of the device; -1 unknown */
    int64_t activation_bytes_per_token_layer;
    double percent; /* (arena + outside) of device_bytes */
};

/* For a world whose shard degree is `shard`.  Pure. */
void memplan_make(const struct recipe *r, const struct ops *ops, int shard,
                  int64_t device_bytes, struct memplan *out);
struct js *memplan_json(const struct memplan *m);

#ifdef __cplusplus
}
#endif
#endif
