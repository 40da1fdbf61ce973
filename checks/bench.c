#include "checks/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "checks/measure.h"
#include "trainer/coll.h"
#include "trainer/ops.h"

enum { RESULT_MOST = 50021, RESULT_LEAST = 1021, RESULT_ALL = 4 << 20 };
enum { TIMES_LEAST = 5, TIMES_MOST = 40 };

const char *bench_op_name(enum bench_op op)
{
    static const char *const names[] = { "all_gather", "reduce_scatter", "all_reduce" };

    return names[op];
}

/* --- known values -------------------------------------------------------------------- */

static int64_t result_count(int ranks)
{
    int64_t n = RESULT_ALL / ranks;

    return n > RESULT_MOST ? RESULT_MOST : n < RESULT_LEAST ? RESULT_LEAST : n;
}

int64_t bench_result_bytes(int ranks)
{
    return result_count(ranks) * ranks * (int64_t)sizeof(float);
}

static float value(int rank, int64_t i)
{
    uint32_t h = (uint32_t)i * 2654435761u ^ ((uint32_t)rank + 1) * 2246822519u;

    h ^= h >> 15;
    h *= 2654435769u;
    return (float)(int)(h >> 26) - 32;
}

static float sum_of(int ranks, int64_t i)
{
    float s = 0;

    for (int r = 0; r < ranks; r++)
        s += value(r, i);
    return s;
}

static int start(const struct bench *b, enum bench_op op, struct coll_req **q,
                 int64_t part, struct err *err)
{
    const struct coll_ops *c = b->coll;

    if (op == BENCH_ALL_GATHER)
        return c->all_gather(b->group, q, b->a, b->b, part, COLL_F32, err);
    if (op == BENCH_REDUCE_SCATTER)
        return c->reduce_scatter(b->group, q, b->b, b->a, part, err);
    return c->all_reduce(b->group, q, b->a, part * c->size(b->group), COLL_F32, err);
}

static int run(const struct bench *b, enum bench_op op, int64_t part, struct err *err)
{
    struct coll_req *q;

    if (start(b, op, &q, part, err) || b->coll->finish(b->group, &q, err))
        return -1;
    return b->ops->sync(b->dev, err);
}

static float expected(enum bench_op op, int rank, int ranks, int64_t n, int64_t i)
{
    if (op == BENCH_ALL_GATHER)
        return value((int)(i / n), i % n);
    return sum_of(ranks, op == BENCH_REDUCE_SCATTER ? (int64_t)rank * n + i : i);
}

int bench_result(const struct bench *b, enum bench_op op, int64_t *wrong,
                 struct measure *m, struct err *err)
{
    int ranks = b->coll->size(b->group), rank = b->coll->rank(b->group);
    int64_t n = result_count(ranks), all = n * ranks;
    int64_t in = op == BENCH_ALL_GATHER ? n : all,
            out = op == BENCH_REDUCE_SCATTER ? n : all;
    float *host = malloc((size_t)all * sizeof(float));

    if (!host)
        return err_set(err, ERR_SYSTEM, "no memory for %lld values", (long long)all);
    for (int64_t i = 0; i < in; i++)
        host[i] = value(rank, i);
    b->ops->upload(b->dev, op == BENCH_ALL_GATHER ? b->b : b->a, host,
                   (size_t)in * sizeof(float));
    if (run(b, op, n, err)) {
        free(host);
        return -1;
    }
    b->ops->download(b->dev, host, op == BENCH_REDUCE_SCATTER ? b->b : b->a,
                     (size_t)out * sizeof(float));
    *wrong = 0;
    for (int64_t i = 0; i < out; i++) {
        float want = expected(op, rank, ranks, n, i);

        if (host[i] == want)
            continue;
        if ((*wrong)++ == 0)
            measure_say(m, "the first wrong value is at %lld: %g instead of %g",
                        (long long)i, (double)host[i], (double)want);
    }
    free(host);
    return 0;
}

/* --- time -------------------------------------------------------------------------------- */

static int timed(const struct bench *b, enum bench_op op, int64_t part, double *ms,
                 struct err *err)
{
    double begun;

    if (b->coll->barrier(b->group, err) || b->ops->sync(b->dev, err))
        return -1;
    begun = clock_s();
    if (run(b, op, part, err))
        return -1;
    *ms = (clock_s() - begun) * 1e3;
    return 0;
}

/* times[n] of this rank become those of the slowest rank.  Uses buffer a. */
static int slowest(const struct bench *b, double *times, int n, struct err *err)
{
    int ranks = b->coll->size(b->group);
    size_t bytes = (size_t)n * sizeof(double);
    double *all = xcalloc((size_t)ranks, bytes);
    struct coll_req *q;
    int rc = -1;

    b->ops->upload(b->dev, b->b, times, bytes);
    if (b->coll->all_gather(b->group, &q, b->a, b->b, n, COLL_F64, err) ||
        b->coll->finish(b->group, &q, err) || b->ops->sync(b->dev, err))
        goto out;
    b->ops->download(b->dev, all, b->a, bytes * (size_t)ranks);
    for (int r = 0; r < ranks; r++)
        for (int i = 0; i < n; i++)
            times[i] = fmax(times[i], all[r * n + i]);
    rc = 0;
out:
    free(all);
    return rc;
}

int bench_speed(const struct bench *b, enum bench_op op, int64_t bytes, int budget_ms,
                struct measure *m, struct err *err)
{
    int ranks = b->coll->size(b->group), n = TIMES_LEAST;
    int64_t part = bytes / (int64_t)sizeof(float) / ranks;
    double *times = xcalloc(TIMES_MOST, sizeof(*times));

    m->bytes = part * ranks * (int64_t)sizeof(float);
    m->times_ms = times;
    for (int i = 0; i < 2; i++)
        if (timed(b, op, part, &times[i], err))
            return -1;
    /* All ranks must stop together: they go by the slowest of the second time. */
    if (slowest(b, times, 2, err))
        return -1;
    if (times[1] * TIMES_LEAST < budget_ms)
        n = (int)fmin(TIMES_MOST, budget_ms / fmax(times[1], 1e-3));
    for (int i = 2; i < n; i++)
        if (timed(b, op, part, &times[i], err))
            return -1;
    if (slowest(b, times, n, err))
        return -1;
    m->n_times = n;
    return 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Slices: most of them run undisturbed even where ranks share a core, and the median
 * is one of those. */
double bench_copy(int64_t bytes, int budget_ms)
{
    enum { SLICE = 1 << 20, SLICES = 4096 };
    char *from = malloc((size_t)bytes), *to = malloc((size_t)bytes);
    double *took = xcalloc(SLICES, sizeof(*took)), begun, rate = NAN;
    int64_t at = 0;
    int n = 0;

    if (!from || !to || bytes < SLICE)
        goto out;
    memset(from, 1, (size_t)bytes);
    memset(to, 2, (size_t)bytes);
    begun = clock_s();
    while (n < SLICES && (n == 0 || (clock_s() - begun) * 1e3 < budget_ms)) {
        double slice = clock_s();

        memcpy(to + at, from + at, SLICE);
        __asm__ volatile("" : : "r"(to) : "memory"); /* somebody reads it */
        took[n++] = clock_s() - slice;
        at = at + 2 * (int64_t)SLICE <= bytes ? at + SLICE : 0;
    }
    qsort(took, (size_t)n, sizeof(*took), by_value);
    rate = SLICE / took[n / 2] / 1e9;
out:
    free(took);
    free(from);
    free(to);
    return rate;
}
