/* mma.cuh - mma.sync m16n8k16 in BF16 and its operands from shared memory; sm_80 and
 * newer.  A tile in shared memory is [rows][ld], rows 16-byte aligned. */
#ifndef TRAINER_MMA_CUH
#define TRAINER_MMA_CUH

#include "trainer/cuda_vec.cuh"

static __device__ __forceinline__ void ldsm(uint32_t *r, const bf16 *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(p))
                 : "memory");
}

static __device__ __forceinline__ void ldsm_trans(uint32_t *r, const bf16 *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, "
                 "[%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(p))
                 : "memory");
}

/* A[16 x 16] at (m, k) of a tile stored [m][k], or, MN, [k][m]. */
template <int MN>
static __device__ __forceinline__ void frag_a(uint32_t *r, const bf16 *tile, int ld,
                                              int m, int k)
{
    int lane = threadIdx.x & 31, low = lane & 7, i = lane >> 3;

    if (MN)
        ldsm_trans(r, tile + (k + (i >> 1) * 8 + low) * ld + m + (i & 1) * 8);
    else
        ldsm(r, tile + (m + (i & 1) * 8 + low) * ld + k + (i >> 1) * 8);
}

/* B[16 x 16] at (k, n), two tiles of 8 columns, of a tile stored [n][k], or, MN,
 * [k][n]. */
template <int MN>
static __device__ __forceinline__ void frag_b(uint32_t *r, const bf16 *tile, int ld,
                                              int n, int k)
{
    int lane = threadIdx.x & 31, low = lane & 7, i = lane >> 3;

    if (MN)
        ldsm_trans(r, tile + (k + (i & 1) * 8 + low) * ld + n + (i >> 1) * 8);
    else
        ldsm(r, tile + (n + (i >> 1) * 8 + low) * ld + k + (i & 1) * 8);
}

/* c[16 x 8] += a[16 x 16] b[16 x 8] */
static __device__ __forceinline__ void mma(float *c, const uint32_t *a,
                                           const uint32_t *b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#endif
