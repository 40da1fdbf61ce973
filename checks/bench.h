/* bench.h - the trainer's own collectives, held to known values and timed. */
#ifndef CHECKS_BENCH_H
#define CHECKS_BENCH_H

#include <stdint.h>

struct coll;
struct coll_ops;
struct dev;
struct err;
struct measure;
struct ops;

/* One group as this rank sees it, and two device buffers of `room` bytes each. */
struct bench {
    const struct ops *ops;
    struct dev *dev;
    const struct coll_ops *coll;
    struct coll *group;
    void *a, *b;
    int64_t room;
};

enum bench_op { BENCH_ALL_GATHER, BENCH_REDUCE_SCATTER, BENCH_ALL_REDUCE };
enum { N_BENCH_OPS = 3 };
const char *bench_op_name(enum bench_op op);

/* Bytes each buffer must hold for bench_result() in a group of `ranks`. */
int64_t bench_result_bytes(int ranks);
/* Values are whole numbers from -32 to 31 that depend on rank and place, so any FP32
 * sum of up to 2^18 ranks is exact in any order.  *wrong: how many of this rank's
 * results differ; the first is told in *m. */
int bench_result(const struct bench *b, enum bench_op op, int64_t *wrong,
                 struct measure *m, struct err *err);

/* Time S = `bytes` (a multiple of 4 x ranks): the first iterations included, at
 * least 5 and until `budget_ms` is spent, the same number on every rank of the
 * group.  Fills bytes and times_ms (of the slowest rank). */
int bench_speed(const struct bench *b, enum bench_op op, int64_t bytes, int budget_ms,
                struct measure *m, struct err *err);

/* What this rank copies, GB/s: the median of slices of 1 MiB of a buffer of `bytes`,
 * over budget_ms; all ranks of a node call it at once. */
double bench_copy(int64_t bytes, int budget_ms);

#endif
