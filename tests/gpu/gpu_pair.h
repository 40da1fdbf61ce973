/* gpu_pair.h - the same numbers on both devices, and how far apart results are.
 *
 * A buf holds what the CPU computes with (FP32, or int32) and a copy on the GPU in
 * its element type.  Values are drawn so that BF16 holds them exactly: both devices
 * start from the same numbers.  Outputs are poisoned before an operation runs, so an
 * element that nobody writes shows as NaN. */
#ifndef TESTS_GPU_PAIR_H
#define TESTS_GPU_PAIR_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "trainer/ops.h"

enum buf_type { BUF_ELEM, BUF_F32, BUF_I32, BUF_F64 };

struct buf {
    enum buf_type type;
    int64_t n;
    void *cpu, *gpu;
};

struct pair {
    const struct ops *c, *g;
    struct dev *cd, *gd;
    char *arena;
    size_t arena_bytes, used;
    int checks, failures;
    uint64_t seed;
};

static inline float pair_random(struct pair *p) /* roughly normal, BF16-exact */
{
    float sum = 0;
    uint32_t bits;

    for (int i = 0; i < 4; i++) {
        p->seed = p->seed * 6364136223846793005u + 1442695040888963407u;
        sum += (float)(p->seed >> 40) / (float)(1 << 24) - 0.5f;
    }
    sum *= 1.7320508f;
    memcpy(&bits, &sum, 4);
    bits = (bits + 0x8000u) & 0xffff0000u;
    memcpy(&sum, &bits, 4);
    return sum;
}

static inline size_t buf_gpu_bytes(const struct buf *b)
{
    static const size_t size[] = { 2, 4, 4, 8 };

    return (size_t)b->n * size[b->type];
}

static inline size_t buf_cpu_bytes(const struct buf *b)
{
    return (size_t)b->n * (b->type == BUF_F64 ? 8 : 4);
}

/* CPU memory is freed by buf_free; GPU memory with the arena's reset. */
static inline struct buf buf_new(struct pair *p, enum buf_type type, int64_t n)
{
    struct buf b = { type, n, NULL, NULL };

    b.cpu = xcalloc((size_t)n + 16, 8);
    memset(b.cpu, 0xff, buf_cpu_bytes(&b));
    p->used = (p->used + 255) / 256 * 256;
    b.gpu = p->arena + p->used;
    p->used += buf_gpu_bytes(&b);
    if (p->used > p->arena_bytes) {
        fprintf(stderr, "arena of %zu bytes is too small\n", p->arena_bytes);
        exit(4);
    }
    if (b.n) { /* NaN, or -1 */
        char *ff = xcalloc(1, buf_gpu_bytes(&b));

        memset(ff, 0xff, buf_gpu_bytes(&b));
        p->g->upload(p->gd, b.gpu, ff, buf_gpu_bytes(&b));
        p->g->sync(p->gd, NULL);
        free(ff);
    }
    return b;
}

static inline void buf_free(struct buf *b)
{
    free(b->cpu);
    b->cpu = NULL;
}

/* The CPU's contents to the GPU. */
static inline void buf_send(struct pair *p, struct buf *b)
{
    uint16_t *half;

    if (b->n == 0)
        return;
    if (b->type != BUF_ELEM) {
        p->g->upload(p->gd, b->gpu, b->cpu, buf_gpu_bytes(b));
    } else {
        half = xcalloc((size_t)b->n, 2);
        for (int64_t i = 0; i < b->n; i++)
            memcpy(half + i, (char *)b->cpu + 4 * i + 2, 2);
        p->g->upload(p->gd, b->gpu, half, buf_gpu_bytes(b));
        p->g->sync(p->gd, NULL);
        free(half);
    }
    p->g->sync(p->gd, NULL);
}

static inline struct buf buf_random(struct pair *p, enum buf_type type, int64_t n,
                                    float by)
{
    struct buf b = buf_new(p, type, n);

    for (int64_t i = 0; i < n; i++)
        ((float *)b.cpu)[i] = pair_random(p) * by; /* by: a power of two */
    buf_send(p, &b);
    return b;
}

static inline struct buf buf_ints(struct pair *p, int64_t n, int below)
{
    struct buf b = buf_new(p, BUF_I32, n);

    for (int64_t i = 0; i < n; i++) {
        p->seed = p->seed * 6364136223846793005u + 1442695040888963407u;
        ((int32_t *)b.cpu)[i] = (int32_t)((p->seed >> 33) % (uint64_t)below);
    }
    buf_send(p, &b);
    return b;
}

static inline double buf_at(const struct buf *b, const void *from, int64_t i, int gpu)
{
    float f;
    uint32_t bits;

    if (b->type == BUF_F64)
        return ((const double *)from)[i];
    if (b->type == BUF_I32)
        return ((const int32_t *)from)[i];
    if (b->type == BUF_F32 || !gpu)
        return (double)((const float *)from)[i];
    bits = (uint32_t)((const uint16_t *)from)[i] << 16;
    memcpy(&f, &bits, 4);
    return (double)f;
}

/* |gpu - cpu| / |cpu| over the part [from, from + n) of every row of `row`.  An
 * element counts as at least FLOOR: what ought to be zero has no relative error. */
#define FLOOR 1e-4

static inline double buf_error_part(struct pair *p, const struct buf *b, int64_t row,
                                    int64_t from, int64_t n)
{
    char *got = xcalloc(1, buf_gpu_bytes(b) + 1);
    double diff = 0, norm = 0;

    p->g->download(p->gd, got, b->gpu, buf_gpu_bytes(b));
    for (int64_t i = 0; i < b->n; i++) {
        double x, y;

        if (i % row < from || i % row >= from + n)
            continue;
        x = buf_at(b, got, i, 1);
        y = buf_at(b, b->cpu, i, 0);
        diff += (x - y) * (x - y);
        norm += y * y + FLOOR * FLOOR;
    }
    free(got);
    return norm > 0 ? sqrt(diff / norm) : diff > 0 ? INFINITY : sqrt(diff);
}

/* One line of the table; NaN never passes. */
static inline void pair_report(struct pair *p, const char *op, const char *what,
                               double error, double most)
{
    int ok = error <= most;

    p->checks++;
    p->failures += !ok;
    printf("%s - %-18s %-28s error %.2e, at most %.0e\n", ok ? "ok" : "not ok", op,
           what, error, most);
    fflush(stdout);
}

static inline void pair_check(struct pair *p, const char *op, const char *what,
                              struct buf *b, double most)
{
    pair_report(p, op, what, buf_error_part(p, b, b->n ? b->n : 1, 0, b->n), most);
}

/* Both devices finished without an error. */
static inline void pair_status(struct pair *p, const char *op)
{
    struct err e = ERR_INIT;

    if (p->g->sync(p->gd, &e) < 0) {
        printf("not ok - %s: %s\n", op, err_text(&e));
        fflush(stdout);
        err_release(&e);
        exit(1); /* the error sticks: nothing after it says anything */
    }
}

#endif
