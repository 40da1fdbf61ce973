/* Time of every CUDA operation at one 30B-A3B layer's shapes (16,384 tokens).
 *
 *   gpu_ops [GPU [GROUP]]    one line an operation: ms, TFLOP/s or GB/s
 * Random data; median of the rounds, each round several calls between two waits. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "trainer/ops.h"

enum { T = 16384, S = 4096, D = 2048, H = 32, KV = 4, HD = 128, E = 128, K = 8 };
enum { F = 768, V = 151936, CHUNK = 4096, R = T * K, QKV = (H + 2 * KV) * HD };
enum { ROUNDS = 7, WARM = 2 };

struct bench {
    const struct ops *o;
    struct dev *d;
    char *base;
    size_t used, bytes;
    uint16_t *noise; /* BF16 */
    float *noise32;
};

enum { NOISE = 1 << 24 };

static void fail(struct bench *b, const char *what)
{
    struct err e = ERR_INIT;

    if (b->o->sync(b->d, &e) == 0)
        return;
    fprintf(stderr, "gpu_ops: %s: %s\n", what, err_text(&e));
    exit(1);
}

static void *take(struct bench *b, size_t bytes)
{
    void *p = b->base + b->used;

    b->used += (bytes + 255) / 256 * 256;
    if (b->used > b->bytes) {
        fprintf(stderr, "gpu_ops: the arena is too small\n");
        exit(1);
    }
    return p;
}

static void make_noise(struct bench *b)
{
    uint64_t seed = 1;

    b->noise = xcalloc(NOISE, 2);
    b->noise32 = xcalloc(NOISE, 4);
    for (int i = 0; i < NOISE; i++) {
        float x = 0;
        uint32_t bits;

        for (int j = 0; j < 4; j++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            x += (float)(seed >> 40) / (float)(1 << 24) - 0.5f;
        }
        x *= 1.7320508f;
        memcpy(&bits, &x, 4);
        b->noise[i] = (uint16_t)((bits + 0x8000u) >> 16);
        b->noise32[i] = x;
    }
}

/* n random elements of `each` bytes: 2 BF16, 4 FP32. */
static void *noise(struct bench *b, int64_t n, size_t each)
{
    char *p = take(b, (size_t)n * each);

    for (int64_t at = 0; at < n; at += NOISE) {
        int64_t m = n - at < NOISE ? n - at : NOISE;

        b->o->upload(b->d, p + (size_t)at * each,
                     each == 2 ? (void *)b->noise : (void *)b->noise32,
                     (size_t)m * each);
    }
    fail(b, "upload");
    return p;
}

struct timer {
    struct bench *b;
    const char *name;
    int calls, round, call;
    double start, ms[ROUNDS];
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* for (timer_start(...); timer_next(&t);) the call; */
static struct timer timer_new(struct bench *b, const char *name, int calls)
{
    return (struct timer){ .b = b, .name = name, .calls = calls, .round = -1 };
}

static int timer_next(struct timer *t)
{
    int calls = t->round < 0 ? WARM : t->calls;

    if (t->round < 0 && t->call == 0)
        t->start = clock_s();
    if (t->call++ < calls)
        return 1;
    fail(t->b, t->name);
    if (t->round >= 0)
        t->ms[t->round] = (clock_s() - t->start) * 1e3 / calls;
    t->round++;
    t->call = 1;
    t->start = clock_s();
    return t->round < ROUNDS;
}

static double timer_report(struct timer *t, double gflop, double mb)
{
    double ms;

    qsort(t->ms, ROUNDS, sizeof(double), by_value);
    ms = t->ms[ROUNDS / 2];
    printf("%-34s %8.3f ms", t->name, ms);
    if (gflop > 0)
        printf(" %7.1f TFLOP/s", gflop / ms);
    if (mb > 0)
        printf(" %7.0f GB/s", mb / ms);
    printf("\n");
    fflush(stdout);
    return ms;
}

#define TIME(name_, calls_, gflop_, mb_, ...)              \
    do {                                                   \
        struct timer timer_ = timer_new(b, name_, calls_); \
        while (timer_next(&timer_))                        \
            __VA_ARGS__;                                   \
        timer_report(&timer_, gflop_, mb_);                \
    } while (0)

/* GFLOP and MB of a product, of n elements. */
static double gemm(double m, double n, double k)
{
    return 2 * m * n * k * 1e-9;
}

static double mb(double n, double each)
{
    return n * each * 1e-6;
}

static void bench_dense(struct bench *b)
{
    const struct ops *o = b->o;
    void *x = noise(b, (int64_t)T * D, 2), *wq = noise(b, (int64_t)QKV * D, 2);
    void *y = noise(b, (int64_t)T * QKV, 2), *wo = noise(b, (int64_t)D * H * HD, 2);
    void *dx = noise(b, (int64_t)T * D, 2);
    float *dw = noise(b, (int64_t)QKV * D, 4);
    double q = gemm(T, QKV, D), p = gemm(T, D, H * HD);

    TIME("qkv forward", 10, q, 0, o->linear_fwd(b->d, y, x, wq, NULL, T, QKV, D));
    TIME("qkv dgrad", 10, q, 0, o->linear_dgrad(b->d, dx, y, wq, 0, T, QKV, D));
    TIME("qkv wgrad", 10, q, 0, o->linear_wgrad(b->d, dw, y, x, 0, T, QKV, D));
    TIME("output forward, residual added", 10, p, 0,
         o->linear_fwd(b->d, dx, y, wo, x, T, D, H * HD));
    TIME("output dgrad", 10, p, 0, o->linear_dgrad(b->d, y, x, wo, 0, T, D, H * HD));
    TIME("output wgrad", 10, p, 0, o->linear_wgrad(b->d, dw, x, y, 0, T, D, H * HD));
    b->used = 0;
}

static void bench_head(struct bench *b)
{
    const struct ops *o = b->o;
    void *x = noise(b, (int64_t)CHUNK * D, 2), *w = noise(b, (int64_t)V * D, 2);
    void *y = noise(b, (int64_t)CHUNK * V, 2), *dx = noise(b, (int64_t)CHUNK * D, 2);
    float *dw = noise(b, (int64_t)V * D, 4), *loss = noise(b, CHUNK, 4);
    int32_t *target = take(b, CHUNK * 4), *host = xcalloc(CHUNK, 4);
    double p = gemm(CHUNK, V, D);

    for (int i = 0; i < CHUNK; i++)
        host[i] = (int32_t)((int64_t)i * 7919 % V);
    o->upload(b->d, target, host, CHUNK * 4);
    TIME("head forward, 4096 tokens", 3, p, 0,
         o->linear_fwd(b->d, y, x, w, NULL, CHUNK, V, D));
    TIME("head dgrad", 3, p, 0, o->linear_dgrad(b->d, dx, y, w, 0, CHUNK, V, D));
    TIME("head wgrad, adding", 3, p, 0,
         o->linear_wgrad(b->d, dw, y, x, 1, CHUNK, V, D));
    TIME("cross-entropy, 4096 tokens", 3, 0, mb((double)CHUNK * V, 4),
         o->cross_entropy(b->d, loss, y, target, 1e-4f, CHUNK, V));
    free(host);
    b->used = 0;
}

static void bench_elementwise(struct bench *b)
{
    const struct ops *o = b->o;
    int64_t n = (int64_t)T * D, shard = 311560320; /* a layer at FSDP 2 */
    void *x = noise(b, n, 2), *y = noise(b, n, 2), *w = noise(b, D, 2);
    float *rstd = noise(b, T, 4), *dw = noise(b, D, 4);
    int32_t *ids = take(b, T * 4), *host = xcalloc(T, 4);
    float *m[5];
    struct adamw a = { 1e-3f, 0.9f, 0.95f, 1e-8f, 0.1f, 10 };

    for (int i = 0; i < T; i++) /* a third is one frequent token */
        host[i] = i % 3 == 0 ? 5 : (int32_t)((int64_t)i * 7919 % V);
    o->upload(b->d, ids, host, T * 4);
    TIME("add", 10, 0, mb((double)n, 6), o->add(b->d, y, x, y, n));
    TIME("rmsnorm forward", 10, 0, mb((double)n, 4),
         o->rmsnorm_fwd(b->d, y, rstd, x, w, 1e-6f, T, D));
    TIME("rmsnorm backward", 10, 0, mb((double)n, 8),
         o->rmsnorm_bwd(b->d, y, dw, x, x, rstd, w, T, D));
    for (int i = 0; i < 5; i++)
        m[i] = noise(b, shard, 4);
    TIME("embedding forward", 10, 0, mb((double)n, 4),
         o->embed_fwd(b->d, y, ids, m[0], T, D, V));
    TIME("embedding backward", 5, 0, 0, o->embed_bwd(b->d, m[0], ids, x, T, D, V));
    TIME("adamw, one layer's shard at FSDP 2", 3, 0, mb((double)shard, 30),
         o->adamw(b->d, m[0], m[1], m[2], m[3], m[4], 1, &a, shard));
    TIME("sum of squares of that shard", 3, 0, mb((double)shard, 4),
         o->sumsq_f32(b->d, (double *)rstd, m[0], shard));
    free(host);
    b->used = 0;
}

static void bench_attention(struct bench *b)
{
    const struct ops *o = b->o;
    struct attn_shape s = { T / S, S, H, KV, HD, H * HD, KV * HD, QKV };
    uint16_t *qkv = noise(b, (int64_t)T * QKV, 2),
             *dqkv = noise(b, (int64_t)T * QKV, 2);
    void *q = noise(b, (int64_t)T * H * HD, 2), *k = noise(b, (int64_t)T * KV * HD, 2);
    void *out = noise(b, (int64_t)T * H * HD, 2),
         *dout = noise(b, (int64_t)T * H * HD, 2);
    void *dq = noise(b, (int64_t)T * H * HD, 2),
         *dk = noise(b, (int64_t)T * KV * HD, 2);
    float *lse = noise(b, (int64_t)T * H, 4), *dw = noise(b, 2 * HD, 4);
    void *w = noise(b, HD, 2);
    int32_t *pos = take(b, T * 4), *host = xcalloc(T, 4);
    double fwd = 4.0 * H * T * S * HD / 2 * 1e-9,
           moved = mb((double)T * (H + KV) * HD, 1);

    for (int i = 0; i < T; i++)
        host[i] = i % S;
    o->upload(b->d, pos, host, T * 4);
    TIME("qk-norm and RoPE forward", 10, 0, 4 * moved,
         o->qkrope_fwd(b->d, q, k, qkv, pos, w, w, 1e-6f, 1e6f, T, H, KV, HD));
    TIME("attention forward", 5, fwd, 0,
         o->attention_fwd(b->d, out, lse, q, k, qkv + (H + KV) * HD, NULL, s));
    TIME("attention backward", 5, 2.5 * fwd, 0,
         o->attention_bwd(b->d, dq, dk, dqkv + (H + KV) * HD, dout, q, k,
                          qkv + (H + KV) * HD, out, lse, NULL, s));
    TIME("qk-norm and RoPE backward", 10, 0, 6 * moved,
         o->qkrope_bwd(b->d, dqkv, dw, dw + HD, dq, dk, qkv, pos, w, w, 1e-6f, 1e6f, T,
                       H, KV, HD));
    free(host);
    b->used = 0;
}

struct expert_buffers {
    void *x, *y, *h, *w13, *w2;
    float *logits, *dweight, *dw13, *dw2, *bias;
    struct route r;
};

/* Logits whose experts differ: the fullest gets about `spread` times the mean. */
static void route_experts(struct bench *b, struct expert_buffers *e, double spread)
{
    const struct ops *o = b->o;
    float *l = xcalloc((size_t)T * E, sizeof(float));
    int32_t count[E], most = 0;

    for (int t = 0; t < T; t++)
        for (int i = 0; i < E; i++)
            l[t * E + i] = b->noise32[(t * 131 + i * 524287) & (NOISE - 1)] +
                           (float)spread * b->noise32[1000 + i * 77];
    for (int t = 0; spread == 0 && t < T; t++) /* balanced: in turn */
        for (int k = 0; k < K; k++)
            l[t * E + (t * K + k) % E] += 20;
    o->upload(b->d, e->logits, l, (size_t)T * E * 4);
    o->route(b->d, &e->r, e->logits, NULL, 0, 1, 1, T, E, K);
    o->download(b->d, count, e->r.count, sizeof(count));
    for (int i = 0; i < E; i++)
        most = count[i] > most ? count[i] : most;
    printf("# routing: max:mean %.2f\n", (double)most * E / R);
    free(l);
}

static void bench_experts(struct bench *b)
{
    const struct ops *o = b->o;
    struct expert_buffers e = { noise(b, (int64_t)T * D, 2),
                                noise(b, (int64_t)T * D, 2),
                                noise(b, (int64_t)R * 2 * F, 2),
                                noise(b, (int64_t)E * 2 * F * D, 2),
                                noise(b, (int64_t)E * F * D, 2),
                                noise(b, (int64_t)T * E, 4),
                                noise(b, R, 4),
                                take(b, (size_t)E * 2 * F * D * 4),
                                take(b, (size_t)E * F * D * 4),
                                noise(b, E, 4),
                                { take(b, R * 4), take(b, R * 4), take(b, E * 4),
                                  take(b, E * 4 + 4), take(b, R * 4),
                                  take(b, R * 4) } };
    void *wr = noise(b, (int64_t)E * D, 2);
    float *dwr = noise(b, (int64_t)E * D, 4), *dl = noise(b, (int64_t)T * E, 4);
    double one = gemm(R, D, F);
    static const double spreads[] = { 0, 0.7, 2 };

    TIME("router forward", 10, gemm(T, E, D), mb((double)T * D, 2),
         o->router_fwd(b->d, e.logits, e.x, wr, T, E, D));
    TIME("router backward", 10, 2 * gemm(T, E, D), mb((double)T * D, 6),
         o->router_bwd(b->d, e.y, dwr, dl, e.x, wr, T, E, D));
    for (size_t i = 0; i < ARRAY_LEN(spreads); i++) {
        route_experts(b, &e, spreads[i]);
        TIME("route", 10, 0, 0, o->route(b->d, &e.r, e.logits, NULL, 0, 1, 1, T, E, K));
        TIME(
            "experts forward", 5, 3 * one, 0,
            o->experts_fwd(b->d, e.y, e.h, e.x, e.x, e.w13, e.w2, &e.r, T, D, E, K, F));
        TIME("experts forward, h alone", 5, 2 * one, 0,
             o->experts_fwd(b->d, NULL, e.h, e.x, NULL, e.w13, e.w2, &e.r, T, D, E, K,
                            F));
        TIME("experts backward", 5, 6 * one, 0,
             o->experts_bwd(b->d, e.y, e.dweight, e.dw13, e.dw2, e.x, e.x, e.h, e.w13,
                            e.w2, &e.r, T, D, E, K, F));
        TIME("route backward", 10, 0, 0,
             o->route_bwd(b->d, dl, e.dweight, e.logits, &e.r, 1, 1, T, E, K));
    }
    b->used = 0;
}

static const struct {
    const char *name;
    void (*run)(struct bench *b);
} groups[] = {
    { "experts", bench_experts },
    { "attention", bench_attention },
    { "dense", bench_dense },
    { "head", bench_head },
    { "elementwise", bench_elementwise },
};

int main(int argc, char **argv)
{
    struct bench all = { .bytes = (size_t)12 << 30 }, *b = &all;
    struct err err = ERR_INIT;
    size_t scratch;
    void *p, *s;

    if (ops_find("cuda", &b->o, &err) < 0 ||
        b->o->open(&b->d, argc > 1 ? atoi(argv[1]) : 0, 0, &err) < 0)
        goto out;
    scratch = b->o->scratch_bytes(T, S, D, H, KV, HD, E, K, F, CHUNK, V);
    if (b->o->alloc(b->d, b->bytes, &p, &err) < 0 ||
        b->o->alloc(b->d, scratch, &s, &err) < 0)
        goto out;
    b->base = p;
    b->o->set_scratch(b->d, s, scratch);
    make_noise(b);
    printf("# %s; scratch %.0f MiB\n", b->o->describe(b->d),
           (double)scratch / (1 << 20));
    for (size_t i = 0; i < ARRAY_LEN(groups); i++)
        if (argc < 3 || strcmp(argv[2], groups[i].name) == 0)
            groups[i].run(b);
    b->o->close(b->d);
out:
    if (err.code != ERR_NONE)
        fprintf(stderr, "gpu_ops: %s\n", err_text(&err));
    return err.code;
}
