/* work.h - what a device does when a rank trains, timed and compared: the recipe's own
 * dense products and experts, copies in its memory, transfers to and from the host.
 * Over the trainer's operations, so CPU ranks do the same at small shapes. */
#ifndef CHECKS_WORK_H
#define CHECKS_WORK_H

#include <stddef.h>
#include <stdint.h>

#include "trainer/ops.h"

struct err;
struct recipe;

/* A fault to inject, for tests (recipe: debug.check_fault). */
enum work_fault {
    WORK_SOUND,
    WORK_WRONG, /* one value of every product is wrong, always in the same way */
    WORK_FLAKY, /* every second product has a wrong value */
    WORK_SLOW,  /* every operation takes eight times as long */
    WORK_STUCK  /* the first product never ends */
};
/* "KIND RANK" (wrong, flaky, slow, stuck): the fault of `rank`; ERR_USAGE when it is not that. */
int work_fault_of(const char *text, int rank, enum work_fault *out, struct err *err);

struct device_work {
    const struct ops *ops;
    struct dev *dev;
    enum work_fault fault;
    int own;            /* 1: the recipe's shapes; 0: too small to time, 8192 cubed */
    int T, D, N;        /* dense: [T,D] x [N,D]^T */
    int E, K, F;        /* experts; E 0: none */
    int64_t copy_bytes; /* of each buffer of a copy */
    void *memory, *scratch; /* owned, one allocation each */
    void *x, *w, *out, *y, *h, *w13, *w2, *from, *to;
    float *logits;
    struct route route;
    void *pinned; /* owned, PIN_BYTES; NULL: the device has no memory of its own */
    int up;       /* direction of the transfer */
};

/* Buffers, and inputs that are the same on every rank.  ERR_SYSTEM: no memory. */
int work_open(struct device_work *w, const struct recipe *r, const struct ops *ops,
              struct dev *dev, struct err *err);
void work_close(struct device_work *w);

/* --- speed ------------------------------------------------------------------------ */

typedef void (*work_step)(struct device_work *w);
void work_dense(struct device_work *w);
void work_experts(struct device_work *w);
void work_copy(struct device_work *w);
void work_transfer(struct device_work *w);

double work_dense_flops(const struct device_work *w);
double work_experts_flops(const struct device_work *w);
int64_t work_transfer_bytes(void);

/* Run `step` for about budget_ms, and then: seconds of one.  A GPU: the median of slices
 * of about 20 ms.  A CPU: the fastest of slices of about 1 ms, one that no other program
 * interrupted.  midway (may be NULL) is called a few times while the device is at work;
 * such slices do not count. */
int work_time(struct device_work *w, work_step step, int budget_ms,
              void (*midway)(void *), void *arg, double *seconds, struct err *err);

/* --- results ------------------------------------------------------------------------ */

/* Products and experts `repeats` times from the same inputs: the hash of what came out
 * first, and how often something else came out. */
int work_bits(struct device_work *w, int repeats, uint64_t *hash, int *differ,
              struct err *err);

#endif
