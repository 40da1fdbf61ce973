#include "trainer/order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { ROUNDS = 6, SHARE_BITS = 40 };

/* The finaliser of splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t key_of(uint64_t seed, uint64_t a, uint64_t b)
{
    const uint64_t step = 0x9e3779b97f4a7c15u; /* so that 0, 0, 0 is not weak */

    return mix(mix(mix(seed + step) + a + step) + b + step);
}

static uint64_t feistel(uint64_t key, int half, uint64_t x)
{
    uint64_t mask = ((uint64_t)1 << half) - 1, left = x >> half, right = x & mask;

    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t next = left ^ (mix(key + mix(right + (round << 32 | round))) & mask);
        left = right;
        right = next;
    }
    return left << half | right;
}

uint64_t order_permute(uint64_t key, uint64_t n, uint64_t i)
{
    int half = 1;

    if (n <= 1)
        return 0;
    while ((n - 1) >> half >> half)
        half++;
    do
        i = feistel(key, half, i);
    while (i >= n);
    return i;
}

void order_init(struct order *o, uint64_t seed, int n, const int64_t *samples,
                const double *weights)
{
    double sum = 0;

    o->seed = seed;
    o->n = n;
    o->samples = xcalloc((size_t)n, sizeof(*o->samples));
    o->weight = xcalloc((size_t)n, sizeof(*o->weight));
    memcpy(o->samples, samples, (size_t)n * sizeof(*samples));
    memcpy(o->weight, samples, (size_t)n * sizeof(*samples));
    for (int i = 0; weights && i < n; i++)
        sum += weights[i];
    for (int i = 0; weights && i < n; i++) {
        o->weight[i] = (int64_t)llround(ldexp(weights[i] / sum, SHARE_BITS));
        if (weights[i] > 0 && o->weight[i] == 0)
            o->weight[i] = 1;
    }
}

void order_release(struct order *o)
{
    free(o->samples);
    free(o->weight);
    *o = (struct order){ 0 };
}

/* floor(k w / W); k below 2^63 and w at most 2^61, so 128 bits hold it. */
static int64_t share(int64_t k, int64_t w, int64_t total)
{
    return (int64_t)((unsigned __int128)(uint64_t)k * (uint64_t)w / (uint64_t)total);
}

/* *k: in, a position of the mixture; out, how often `source` was used before. */
static int pick_source(const struct order *o, int64_t *k)
{
    int64_t total = 0;
    int last = 0;

    for (int i = 0; i < o->n; i++) {
        total += o->weight[i];
        if (o->weight[i] > 0)
            last = i;
    }
    for (int i = 0; i < last; i++) {
        int64_t before = share(*k, o->weight[i], total);
        if (share(*k + 1, o->weight[i], total) > before) {
            *k = before;
            return i;
        }
        *k -= before;
        total -= o->weight[i];
    }
    return last;
}

void order_at(const struct order *o, int64_t k, int *source, int64_t *sample)
{
    int64_t block = k / ORDER_BLOCK, n, epoch;

    if (o->n > 1)
        k = block * ORDER_BLOCK +
            (int64_t)order_permute(key_of(o->seed, UINT64_MAX, (uint64_t)block),
                                   ORDER_BLOCK, (uint64_t)(k % ORDER_BLOCK));
    *source = pick_source(o, &k);
    n = o->samples[*source];
    epoch = k / n;
    *sample =
        (int64_t)order_permute(key_of(o->seed, (uint64_t)*source, (uint64_t)epoch),
                               (uint64_t)n, (uint64_t)(k % n));
}
