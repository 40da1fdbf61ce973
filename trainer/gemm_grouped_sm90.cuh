/* gemm_grouped_sm90.cuh - what the parts of the Hopper kernel share. */
#ifndef TRAINER_GEMM_GROUPED_SM90_CUH
#define TRAINER_GEMM_GROUPED_SM90_CUH

#include "trainer/cuda_vec.cuh"
#include "trainer/gemm_grouped.h"
#include "trainer/sm90.cuh"

enum {
    BM = 128,
    BN = 256,
    BK = 64,
    STAGES = 4,
    THREADS = 384,
    CONSUMER_WARPS = 8,
    MAX_E = 256,
    ROW_BYTES = 128,         /* a swizzled row */
    HALF_A = 64 * ROW_BYTES, /* one warpgroup's part of A */
    CHUNK = 64 * ROW_BYTES,  /* [64 k][64 columns] */
    A_BYTES = BM * BK * 2,
    B_BYTES = BN * BK * 2,
    STAGE_BYTES = A_BYTES + B_BYTES,
    STAGING = 16 * ROW_BYTES, /* a warp's 16 rows of 64 columns */
    SLOTS = 2,                /* tiles announced ahead */
};

struct tile {
    int expert;
    int row;  /* first row (M-grouped), first row of the expert (K-grouped) */
    int rows; /* valid rows: of the tile, or of the expert */
    int m, n; /* m: first column of A (K-grouped); n: first column of the result */
};

struct shared {
    alignas(1024) unsigned char stage[STAGES][STAGE_BYTES];
    unsigned char staging[CONSUMER_WARPS][2][STAGING];
    uint64_t full[STAGES], empty[STAGES], slot_full[SLOTS], slot_empty[SLOTS];
    struct tile slot[SLOTS];
    int first[MAX_E + 1];       /* M-grouped: row tiles before expert e */
    unsigned char order[MAX_E]; /* K-grouped: experts, most rows first */
};

struct arg {
    const int32_t *offset;
    int32_t *counter;
    int E, M, N, K; /* M: K-grouped only; N: columns of the result */
    int tile_n;     /* result columns a tile covers: 128 for UP, else 256 */
    int b_rows;     /* rows of b an expert owns */
    bf16 *out, *act;
    bf16 *h;
    const float *weight;
    float *dot, *dw;
};

struct ring {
    int stage, phase;
};

static __device__ __forceinline__ void ring_next(struct ring *r)
{
    if (++r->stage == STAGES) {
        r->stage = 0;
        r->phase ^= 1;
    }
}

/* What a thread of a consumer warpgroup knows of itself. */
struct who {
    int group; /* 0 or 1: rows 64 group of the tile */
    int warp;  /* 0..7 */
    int lane;
    int first; /* first of the warp's 16 rows in the tile */
};

#endif
