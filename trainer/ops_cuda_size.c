/* What each CUDA operation carves from the scratch.  No CUDA: the launcher plans
 * memory with it, and the module takes the same bytes. */
#include "trainer/ops_cuda.h"

enum { SORT_BLOCK = 1024, SORT_TEMP = 8 << 20, DOT_TILE = 64 };

size_t carve_round(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* CUB's radix sort wants keys, values twice, and temporary memory. */
size_t cuda_sort_temp_bytes(int T)
{
    return SORT_TEMP + (size_t)T * 16;
}

/* Sums of the runs that cross pieces of the sorted list, two a piece. */
size_t cuda_embed_part_bytes(int T, int D)
{
    size_t pieces = ((size_t)T + EMBED_PIECE - 1) / EMBED_PIECE;

    return 2 * pieces * (size_t)D * sizeof(float);
}

size_t cuda_embed_scratch(int T, int D)
{
    return 3 * carve_round((size_t)T * sizeof(int32_t)) +
           carve_round(cuda_sort_temp_bytes(T)) +
           carve_round(cuda_embed_part_bytes(T, D));
}

/* Partial weight gradients, one a block. */
size_t cuda_rmsnorm_scratch(int D)
{
    return carve_round(CUDA_NORM_BLOCKS * (size_t)D * sizeof(float));
}

/* cos and sin of every token, and partial gradients of a norm. */
size_t cuda_rope_table_bytes(int T, int hd)
{
    return (size_t)T * (size_t)hd * sizeof(float);
}

size_t cuda_qkrope_scratch(int T, int hd)
{
    return carve_round(cuda_rope_table_bytes(T, hd)) +
           carve_round((size_t)CUDA_NORM_BLOCKS * (size_t)hd * sizeof(float));
}

/* The sort's table of blocks by experts; backward: dlogits as two BF16, the router's
 * weights twice, cuBLASLt's workspace. */
size_t cuda_route_scratch(int T, int E, int K, int D)
{
    size_t blocks = ((size_t)T * (size_t)K + SORT_BLOCK - 1) / SORT_BLOCK;
    size_t bwd = carve_round(LINEAR_WORKSPACE) +
                 carve_round((size_t)T * 2 * (size_t)E * 2) +
                 carve_round((size_t)2 * (size_t)E * (size_t)D * 2);

    return larger(carve_round(blocks * (size_t)E * sizeof(int32_t)), bwd);
}

/* Rows of D, gradient of h, activation, weight and dot products by row. */
size_t cuda_experts_scratch(int T, int D, int K, int F)
{
    size_t R = (size_t)T * (size_t)K, d = (size_t)D, f = (size_t)F;

    return carve_round(R * d * 2) + carve_round(R * 2 * f * 2) +
           carve_round(R * f * 2) + carve_round(R * sizeof(float)) +
           carve_round(R * ((f + DOT_TILE - 1) / DOT_TILE) * sizeof(float));
}

size_t cuda_sum_scratch(void)
{
    return carve_round(CUDA_SUM_BLOCKS * sizeof(double));
}

/* Backward: dO O summed [T,H], dQ in FP32, and the engine's own workspace, which
 * holds dK and dV of every query head in BF16; engines that ask for more are refused. */
size_t cuda_attention_engine_bytes(int T, int H, int hd)
{
    size_t heads = carve_round((size_t)T * (size_t)H * (size_t)hd * sizeof(float));

    return 2 * heads + ((size_t)16 << 20);
}

size_t cuda_attention_scratch(int T, int H, int hd)
{
    size_t sums = carve_round((size_t)T * (size_t)H * sizeof(float));

    return sums + carve_round((size_t)T * (size_t)H * (size_t)hd * sizeof(float)) +
           carve_round(cuda_attention_engine_bytes(T, H, hd));
}

/* NOLINTNEXTLINE(readability-function-size): the parameters are ops.h's */
size_t cuda_scratch_bytes(int T, int S, int D, int H, int KV, int hd, int E, int K,
                          int F, int chunk, int V)
{
    size_t most = carve_round(LINEAR_WORKSPACE);

    (void)S, (void)KV, (void)chunk, (void)V;
    most = larger(most, cuda_embed_scratch(T, D));
    most = larger(most, cuda_rmsnorm_scratch(D));
    most = larger(most, cuda_qkrope_scratch(T, hd));
    most = larger(most, cuda_route_scratch(T, E, K, D));
    most = larger(most, cuda_experts_scratch(T, D, K, F));
    most = larger(most, cuda_sum_scratch());
    return larger(most, cuda_attention_scratch(T, H, hd));
}
