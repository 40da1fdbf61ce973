/* order.h - which sample comes when: pure arithmetic, no files, no state.
 *
 * The stream of samples is numbered k = 0, 1, ...  order_at() answers directly
 * for any k, so a run can continue anywhere, at any world size.
 *
 * Mixing: sources 0..n-1 with integer weights w.  Source 0 takes position k when
 * floor(k w0/W) steps there, W = sum of w, and the rest share the positions left
 * in the same way; so after any k every source is within one sample, per source
 * before it, of its exact share, and exact at multiples of W.  That pattern is
 * regular (equal weights would alternate, and one rank might always meet the
 * same source), so positions are permuted inside blocks of ORDER_BLOCK.
 *
 * Inside a source, its j-th use is sample permute(key(seed, source, epoch), N,
 * j mod N) of epoch j / N: each epoch is a fresh permutation of all N samples.
 *
 * permute() is a Feistel network on the smallest even number of bits that holds
 * N, walked until it lands below N (Black and Rogaway, "Ciphers with arbitrary
 * finite domains", 2002): at most 4 steps on average, no table. */
#ifndef TRAINER_ORDER_H
#define TRAINER_ORDER_H

#include <stdint.h>

enum { ORDER_BLOCK = 1024 };

struct order {
    uint64_t seed;
    int n;
    int64_t *samples; /* [n] samples of each source, >= 1; owned */
    int64_t *weight;  /* [n], >= 0, the sum in [1, 2^61]; owned */
};

/* weights (or NULL: in proportion to samples): finite, >= 0, not all 0; a share
 * is kept to 2^-40.  samples >= 1, their sum below 2^61. */
void order_init(struct order *o, uint64_t seed, int n, const int64_t *samples,
                const double *weights);
void order_release(struct order *o);

/* Position k >= 0 of the stream: which source, and which sample of it. */
void order_at(const struct order *o, int64_t k, int *source, int64_t *sample);

/* A permutation of 0..n-1 picked by key; i < n; n <= 2^62. */
uint64_t order_permute(uint64_t key, uint64_t n, uint64_t i);

#endif
