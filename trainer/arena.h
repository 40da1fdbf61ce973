/* arena.h - the one allocation of device memory, carved once in memplan's order. */
#ifndef TRAINER_ARENA_H
#define TRAINER_ARENA_H

#include <stdint.h>

struct dev;
struct err;
struct memplan;
struct ops;

struct arena {
    const struct ops *ops;
    struct dev *dev;
    void *base;
    int64_t bytes, used; /* `used` only grows: it is the high-water mark */
};

/* Allocates arena_bytes of the plan, zeroed; arena_release() frees them. */
int arena_init(struct arena *a, const struct ops *ops, struct dev *dev,
               const struct memplan *plan, struct err *err);
void arena_release(struct arena *a);

/* The next `bytes` (rounded up to 256).  Past the end: ERR_FAILED, the plan and
 * the trainer disagree; `what` names the piece. */
int arena_take(struct arena *a, int64_t bytes, const char *what, void **out,
               struct err *err);

#endif
