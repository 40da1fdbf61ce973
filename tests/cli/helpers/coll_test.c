/* coll_test.c - a rank that holds the collectives to a serial sum in rank order.
 *
 *   mpirun -n 4 coll_test all [REPEAT]     every collective, groups and sizes
 *   mpirun -n 4 coll_test absent MS        rank 2 never joins an all_reduce
 *   mpirun -n 4 coll_test late MS          rank 2 never comes to the wireup
 *   mpirun -n 4 coll_test order            requests finished in another order
 *   mpirun -n 2 coll_test speed BYTES      seconds of each collective */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "trainer/coll.h"
#include "trainer/ops.h"
#include "trainer/wireup.h"

static void copy(struct dev *d, void *dst, const void *src, size_t bytes)
{
    (void)d;
    memcpy(dst, src, bytes);
}

static const struct ops cpu = { .name = "cpu", .elem_bytes = 4, .copy = copy };
static const struct coll_ops *co;
static int bad;

static void say(const struct coll *c, const char *what, int64_t n)
{
    if (bad++ < 5)
        fprintf(stderr, "rank %d of %d: %s of %lld is wrong\n", co->rank(c),
                co->size(c), what, (long long)n);
}

static void must(int rc, struct err *err)
{
    if (rc == 0)
        return;
    fprintf(stderr, "coll_test: %s\n", err_text(err));
    _Exit(err->code);
}

/* Values whose sum depends on the order: rank r's element i. */
static float value(int r, int64_t i)
{
    unsigned h = (unsigned)(i * 2654435761u) ^ (unsigned)(r * 40503u + 12345u);

    h ^= h >> 15;
    h *= 2246822519u;
    h ^= h >> 13;
    return ((float)(h % 2000001u) - 1000000.0f) * (h & 8 ? 1e-3f : 1e3f);
}

static float serial_sum(int ranks, int64_t i)
{
    float s = value(0, i);

    for (int r = 1; r < ranks; r++)
        s += value(r, i);
    return s;
}

static float *filled(int r, int64_t n)
{
    float *x = xcalloc((size_t)n + 1, sizeof(*x));

    for (int64_t i = 0; i < n; i++)
        x[i] = value(r, i);
    return x;
}

static void finish(struct coll *c, struct coll_req **q)
{
    struct err err = ERR_INIT;

    must(co->finish(c, q, &err), &err);
}

static void try_all_gather(struct coll *c, int64_t n, int in_place)
{
    int p = co->size(c), me = co->rank(c);
    float *src = filled(me, n), *dst = xcalloc((size_t)(n * p) + 1, sizeof(*dst));
    struct err err = ERR_INIT;
    struct coll_req *q;

    if (in_place)
        memcpy(dst + n * me, src, (size_t)n * sizeof(*src));
    must(co->all_gather(c, &q, dst, in_place ? dst + n * me : src, n, COLL_ELEM, &err),
         &err);
    finish(c, &q);
    for (int64_t i = 0; i < n * p; i++)
        if (dst[i] != value((int)(i / n), i % n)) {
            say(c, "all_gather", n);
            break;
        }
    free(src);
    free(dst);
}

static void try_reduce_scatter(struct coll *c, int64_t n)
{
    int p = co->size(c), me = co->rank(c);
    float *src = filled(me, n * p), *dst = xcalloc((size_t)n + 1, sizeof(*dst));
    struct err err = ERR_INIT;
    struct coll_req *q;

    must(co->reduce_scatter(c, &q, dst, src, n, &err), &err);
    finish(c, &q);
    for (int64_t i = 0; i < n; i++) {
        float want = serial_sum(p, n * me + i);

        if (memcmp(&dst[i], &want, sizeof(want)) != 0) {
            say(c, "reduce_scatter", n);
            break;
        }
    }
    free(src);
    free(dst);
}

static void try_all_reduce(struct coll *c, int64_t n)
{
    int p = co->size(c), me = co->rank(c);
    float *buf = filled(me, n);
    double *wide = xcalloc((size_t)n + 1, sizeof(*wide));
    int32_t *whole = xcalloc((size_t)n + 1, sizeof(*whole));
    struct err err = ERR_INIT;
    struct coll_req *q, *q2, *q3;

    for (int64_t i = 0; i < n; i++) {
        wide[i] = (double)i * (me + 1);
        whole[i] = (int32_t)(i % 1000) - me;
    }
    must(co->all_reduce(c, &q, buf, n, COLL_F32, &err), &err);
    must(co->all_reduce(c, &q2, wide, n, COLL_F64, &err), &err);
    must(co->all_reduce(c, &q3, whole, n, COLL_I32, &err), &err);
    finish(c, &q3);
    finish(c, &q);
    finish(c, &q2);
    for (int64_t i = 0; i < n; i++) {
        float want = serial_sum(p, i);

        if (memcmp(&buf[i], &want, sizeof(want)) != 0 ||
            wide[i] != (double)i * p * (p + 1) / 2 ||
            whole[i] != p * (int32_t)(i % 1000) - p * (p - 1) / 2) {
            say(c, "all_reduce", n);
            break;
        }
    }
    free(buf);
    free(wide);
    free(whole);
}

static void try_broadcast(struct coll *c, int64_t n, int root)
{
    float *buf = filled(co->rank(c), n);
    struct err err = ERR_INIT;
    struct coll_req *q;

    must(co->broadcast(c, &q, buf, n, COLL_F32, root, &err), &err);
    finish(c, &q);
    for (int64_t i = 0; i < n; i++)
        if (buf[i] != value(root, i)) {
            say(c, "broadcast", n);
            break;
        }
    free(buf);
}

static void try_group(struct coll *c)
{
    /* 3000001 floats need several chunks of scratch; primes divide by nothing. */
    static const int64_t sizes[] = { 0, 1, 2, 3, 7, 1021, 4099, 65537, 3000001 };
    struct err err = ERR_INIT;

    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        try_all_gather(c, sizes[i], 0);
        try_all_gather(c, sizes[i], 1);
        try_reduce_scatter(c, sizes[i]);
        try_all_reduce(c, sizes[i]);
        try_broadcast(c, sizes[i], (int)(sizes[i] % co->size(c)));
    }
    must(co->barrier(c, &err), &err);
}

static void run_all(struct coll *world)
{
    int rank = co->rank(world), size = co->size(world);
    struct err err = ERR_INIT;
    struct coll *pair, *stride, *turned;

    try_group(world);
    must(co->split(world, rank / 2, rank, STREAM_GATHER, "pairs", &pair, &err), &err);
    must(co->split(world, rank % 2, rank, STREAM_REPLICA, "stride", &stride, &err),
         &err);
    must(co->split(world, 0, -rank, STREAM_REDUCE, "turned", &turned, &err), &err);
    if (co->rank(turned) != size - 1 - rank)
        say(turned, "split by key", size);
    try_group(pair);
    try_group(stride);
    try_group(turned);
    co->close(turned);
    co->close(stride);
    co->close(pair);
}

/* The same sum, many times, with ranks that come at different times. */
static void run_repeat(struct coll *world, int times)
{
    enum { N = 50000 };
    int me = co->rank(world);
    float *src = filled(me, (int64_t)N * co->size(world)), *first = NULL;
    float *dst = xcalloc(N, sizeof(*dst));
    struct err err = ERR_INIT;
    struct coll_req *q;

    for (int t = 0; t < times; t++) {
        clock_nap_us((t * 7 + me * 3) % 5 * 300);
        must(co->reduce_scatter(world, &q, dst, src, N, &err), &err);
        finish(world, &q);
        if (!first) {
            first = xcalloc(N, sizeof(*first));
            memcpy(first, dst, N * sizeof(*dst));
        }
        if (memcmp(first, dst, N * sizeof(*dst)) != 0)
            say(world, "repeated reduce_scatter", t);
    }
    free(first);
    free(dst);
    free(src);
}

/* Even ranks finish first what odd ranks finish last. */
static void run_order(struct coll *world)
{
    enum { N = 400000 };
    float *a = filled(co->rank(world), N), *b = filled(co->rank(world), N);
    struct err err = ERR_INIT;
    struct coll_req *qa, *qb;

    must(co->all_reduce(world, &qa, a, N, COLL_F32, &err), &err);
    must(co->all_reduce(world, &qb, b, N, COLL_F32, &err), &err);
    if (co->rank(world) % 2) {
        finish(world, &qb);
        finish(world, &qa);
    } else {
        finish(world, &qa);
        finish(world, &qb);
    }
    if (memcmp(a, b, N * sizeof(*a)) != 0)
        say(world, "two all_reduces", N);
    free(a);
    free(b);
}

static void run_speed(struct coll *c, int64_t bytes)
{
    int p = co->size(c);
    int64_t n = bytes / 4 / p;
    float *whole = filled(co->rank(c), n * p), *part = filled(co->rank(c), n);
    struct err err = ERR_INIT;
    struct coll_req *q;
    double best[3] = { 1e9, 1e9, 1e9 };

    for (int t = 0; t < 8; t++)
        for (int k = 0; k < 3; k++) {
            double begun;

            must(co->barrier(c, &err), &err);
            begun = clock_s();
            if (k == 0)
                must(co->all_gather(c, &q, whole, part, n, COLL_F32, &err), &err);
            else if (k == 1)
                must(co->reduce_scatter(c, &q, part, whole, n, &err), &err);
            else
                must(co->all_reduce(c, &q, whole, n * p, COLL_F32, &err), &err);
            finish(c, &q);
            begun = clock_s() - begun;
            best[k] = begun < best[k] ? begun : best[k];
        }
    if (co->rank(c) == 0)
        printf("%lld bytes, %d ranks: all_gather %.3f ms, reduce_scatter %.3f ms, "
               "all_reduce %.3f ms\n",
               (long long)bytes, p, best[0] * 1e3, best[1] * 1e3, best[2] * 1e3);
    free(whole);
    free(part);
}

static void run(struct coll *world, const char *mode, const char *arg)
{
    if (str_eq(mode, "all")) {
        run_all(world);
        run_repeat(world, arg ? (int)strtol(arg, NULL, 10) : 20);
    } else if (str_eq(mode, "order")) {
        run_order(world);
    } else if (str_eq(mode, "speed")) {
        run_speed(world, arg ? strtol(arg, NULL, 10) : 1 << 24);
    } else if (str_eq(mode, "absent")) {
        if (co->rank(world) == 2)
            for (;;)
                sleep(60);
        try_all_reduce(world, 100000);
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "all", *arg = argc > 2 ? argv[2] : NULL;
    int waits = str_eq(mode, "absent") || str_eq(mode, "late");
    int timeout_ms = waits && arg ? (int)strtol(arg, NULL, 10) : 60000;
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    struct err err = ERR_INIT;
    struct wireup *w;
    struct coll *world;

    if (str_eq(mode, "late") && rank && strcmp(rank, "2") == 0)
        for (;;)
            sleep(60);
    must(wireup_open(&w, timeout_ms, &err), &err);
    must(coll_find(&cpu, wireup_self(w)->world, &co, &err), &err);
    must(co->open(&world, w, &cpu, NULL, timeout_ms, &err), &err);
    run(world, mode, arg);
    if (wireup_self(w)->rank == 0 && !bad)
        printf("%s: %s of %d is right\n", co->name, mode, co->size(world));
    co->close(world);
    wireup_close(w);
    return bad ? 1 : 0;
}
