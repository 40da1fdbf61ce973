/* Grouped products with mma.sync: sm_80 and newer, and every shape that the Hopper
 * kernel does not take.  Tiles of 64 x 64, K in steps of 32, one tile a block; written
 * to be right and to be read, not to be the fastest. */
#include <stdlib.h>
#include <string.h>

#include "trainer/cuda_vec.cuh"
#include "trainer/gemm_grouped.h"
#include "trainer/mma.cuh"

namespace
{

enum { TM = 64, TN = 64, TK = 32, PAD = 8, THREADS = 128 };

struct arg {
    const int32_t *offset;
    int E, M, N, K; /* M: rows of the result of DW2, DW13 */
    const bf16 *a, *b;
    bf16 *out, *act, *h;
    const float *weight;
    float *dot, *dw;
    int F;
};

/* An operand tile in shared memory as it lies in memory: K-major [64][TK + PAD], or
 * MN-major [TK][64 + PAD]. */
enum { TILE = TK * (64 + PAD) > 64 * (TK + PAD) ? TK *(64 + PAD) : 64 * (TK + PAD) };

struct shared {
    alignas(16) bf16 a[TILE], b[TILE], b2[TILE];
    float acc[2][TM][TN + 1];
};

struct place {
    int e, row, rows; /* M-grouped: first row and valid rows of the tile; K-grouped: of
                         the expert.  e = -1: nothing to do */
};

/* blockIdx.y: a row tile in the order of the experts. */
__device__ struct place find_rows(const struct arg &p, int tile)
{
    for (int e = 0; e < p.E; e++) {
        int first = p.offset[e], n = p.offset[e + 1] - first, tiles = (n + TM - 1) / TM;

        if (tile < tiles)
            return { e, first + tile * TM, min(TM, n - tile * TM) };
        tile -= tiles;
    }
    return { -1, 0, 0 };
}

/* rows x TK of a K-major matrix, or TK x 64 of an MN-major one; zeros outside. */
template <int MN>
__device__ void load_tile(bf16 *to, const bf16 *from, int64_t ld, int rows, int cols)
{
    constexpr int ROWS = MN ? TK : 64, COLS = MN ? 64 : TK, LD = COLS + PAD;

    for (int i = threadIdx.x; i < ROWS * COLS / VEC; i += THREADS) {
        int r = i / (COLS / VEC), c = i % (COLS / VEC) * VEC;
        uint4 v = make_uint4(0, 0, 0, 0);

        if (r < rows && c < cols) /* cols is a multiple of 8 */
            v = *reinterpret_cast<const uint4 *>(from + r * ld + c);
        *reinterpret_cast<uint4 *>(to + r * LD + c) = v;
    }
}

/* One K step: each of the 4 warps multiplies 16 rows by 64 columns. */
template <int A_MN, int B_MN>
__device__ void step(float (&acc)[8][4], const bf16 *a, const bf16 *b)
{
    constexpr int A_LD = (A_MN ? 64 : TK) + PAD, B_LD = (B_MN ? 64 : TK) + PAD;
    int m = (threadIdx.x >> 5) * 16;
    uint32_t fa[4], fb[4];

#pragma unroll
    for (int k = 0; k < TK; k += 16) {
        frag_a<A_MN>(fa, a, A_LD, m, k);
#pragma unroll
        for (int n = 0; n < 8; n += 2) {
            frag_b<B_MN>(fb, b, B_LD, n * 8, k);
            mma(acc[n], fa, fb);
            mma(acc[n + 1], fa, fb + 2);
        }
    }
}

__device__ void spill(float (*to)[TN + 1], const float (&acc)[8][4])
{
    int lane = threadIdx.x & 31, row = (threadIdx.x >> 5) * 16 + (lane >> 2);

#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            to[row + (i >> 1) * 8][n * 8 + 2 * (lane & 3) + (i & 1)] = acc[n][i];
}

/* The tile's result from shared memory, element by element. */
__device__ void finish_up(const struct arg &p, const struct shared *s,
                          const struct place &t, int n0)
{
    for (int i = threadIdx.x; i < TM * TN; i += THREADS) {
        int r = i / TN, f = n0 + i % TN;
        int64_t row = t.row + r;
        bf16 h1 = __float2bfloat16(s->acc[0][r][i % TN]);
        bf16 h3 = __float2bfloat16(s->acc[1][r][i % TN]);
        float x = __bfloat162float(h1);

        if (r >= t.rows || f >= p.F)
            continue;
        p.h[row * 2 * p.F + f] = h1;
        p.h[row * 2 * p.F + p.F + f] = h3;
        p.act[row * p.F + f] = __float2bfloat16(x * sigmoidf(x) * __bfloat162float(h3));
    }
}

__device__ void finish_dact(const struct arg &p, struct shared *s,
                            const struct place &t, int n0)
{
    for (int i = threadIdx.x; i < TM * TN; i += THREADS) {
        int r = i / TN, f = n0 + i % TN;
        int64_t row = t.row + r, at = row * 2 * p.F + f;
        float da = s->acc[0][r][i % TN], h1, h3, w, sg, act;

        s->acc[1][r][i % TN] = 0;
        if (r >= t.rows || f >= p.F)
            continue;
        h1 = __bfloat162float(p.h[at]);
        h3 = __bfloat162float(p.h[at + p.F]);
        w = p.weight[row];
        sg = sigmoidf(h1);
        act = h1 * sg * h3;
        s->acc[1][r][i % TN] = da * act;
        da *= w;
        p.out[at] = __float2bfloat16(da * h3 * sg * (1.f + h1 * (1.f - sg)));
        p.out[at + p.F] = __float2bfloat16(da * h1 * sg);
        p.act[row * p.F + f] = __float2bfloat16(w * act);
    }
    __syncthreads();
    if ((int)threadIdx.x < t.rows) {
        float sum = 0;

        for (int i = 0; i < TN; i++)
            sum += s->acc[1][threadIdx.x][i];
        p.dot[(int64_t)(t.row + threadIdx.x) * ((p.F + TN - 1) / TN) + n0 / TN] = sum;
    }
}

__device__ void finish_plain(const struct arg &p, const struct shared *s,
                             const struct place &t, int n0)
{
    for (int i = threadIdx.x; i < TM * TN; i += THREADS)
        if (i / TN < t.rows && n0 + i % TN < p.N)
            p.out[(int64_t)(t.row + i / TN) * p.N + n0 + i % TN] =
                __float2bfloat16(s->acc[0][i / TN][i % TN]);
}

template <int KIND>
__global__ void __launch_bounds__(THREADS) grouped_rows_kernel(const struct arg p)
{
    constexpr int B_MN = KIND == GROUPED_DACT || KIND == GROUPED_DX;
    __shared__ struct shared s;
    struct place t = find_rows(p, blockIdx.y);
    int n0 = blockIdx.x * TN, wide = KIND == GROUPED_UP ? 2 * p.F : p.N;
    float acc[8][4] = {}, acc2[8][4] = {};
    const bf16 *b =
        p.b + (B_MN ? (int64_t)t.e * p.K * p.N + n0 : ((int64_t)t.e * wide + n0) * p.K);

    if (t.e < 0)
        return;
    for (int k = 0; k < p.K; k += TK) {
        __syncthreads();
        load_tile<0>(s.a, p.a + (int64_t)t.row * p.K + k, p.K, t.rows, p.K - k);
        if (B_MN)
            load_tile<1>(s.b, b + (int64_t)k * p.N, p.N, p.K - k, p.N - n0);
        else
            load_tile<0>(s.b, b + k, p.K, p.N - n0, p.K - k);
        if (KIND == GROUPED_UP)
            load_tile<0>(s.b2, b + (int64_t)p.F * p.K + k, p.K, p.N - n0, p.K - k);
        __syncthreads();
        step<0, B_MN>(acc, s.a, s.b);
        if (KIND == GROUPED_UP)
            step<0, 0>(acc2, s.a, s.b2);
    }
    spill(s.acc[0], acc);
    if (KIND == GROUPED_UP)
        spill(s.acc[1], acc2);
    __syncthreads();
    if (KIND == GROUPED_UP)
        finish_up(p, &s, t, n0);
    else if (KIND == GROUPED_DACT)
        finish_dact(p, &s, t, n0);
    else
        finish_plain(p, &s, t, n0);
}

/* dw[e] = a^T b over the expert's rows; blockIdx.z: expert. */
__global__ void __launch_bounds__(THREADS) grouped_weights_kernel(const struct arg p)
{
    __shared__ struct shared s;
    int e = blockIdx.z, n0 = blockIdx.x * TN, m0 = blockIdx.y * TM;
    int first = p.offset[e], rows = p.offset[e + 1] - first;
    float acc[8][4] = {};

    for (int k = 0; k < rows; k += TK) {
        int64_t row = first + k;

        __syncthreads();
        load_tile<1>(s.a, p.a + row * p.M + m0, p.M, rows - k, p.M - m0);
        load_tile<1>(s.b, p.b + row * p.N + n0, p.N, rows - k, p.N - n0);
        __syncthreads();
        step<1, 1>(acc, s.a, s.b);
    }
    spill(s.acc[0], acc);
    __syncthreads();
    for (int i = threadIdx.x; i < TM * TN; i += THREADS)
        if (m0 + i / TN < p.M && n0 + i % TN < p.N)
            p.dw[((int64_t)e * p.M + m0 + i / TN) * p.N + n0 + i % TN] =
                s.acc[0][i / TN][i % TN];
}

template <int KIND> cudaError_t launch_rows(const struct grouped *g, struct arg p)
{
    dim3 grid((unsigned)div_up(p.N, TN), (unsigned)(g->R / TM + g->E));

    if (g->R > 0)
        grouped_rows_kernel<KIND><<<grid, THREADS, 0, g->stream>>>(p);
    return cudaGetLastError();
}

cudaError_t launch_weights(const struct grouped *g, struct arg p)
{
    dim3 grid((unsigned)div_up(p.N, TN), (unsigned)div_up(p.M, TM), (unsigned)g->E);

    grouped_weights_kernel<<<grid, THREADS, 0, g->stream>>>(p);
    return cudaGetLastError();
}

cudaError_t run(enum grouped_kind kind, const struct grouped *g)
{
    static cudaError_t (*const launches[N_GROUPED])(const struct grouped *,
                                                    struct arg) = {
        launch_rows<GROUPED_UP>,
        launch_rows<GROUPED_DOWN>,
        launch_rows<GROUPED_DACT>,
        launch_rows<GROUPED_DX>,
        launch_weights,
        launch_weights,
    };
    int D = g->D, F = g->F;
    const int sizes[N_GROUPED][3] = { /* M, N, K */
                                      { 0, F, D },     { 0, D, F }, { 0, F, D },
                                      { 0, D, 2 * F }, { D, F, 0 }, { 2 * F, D, 0 }
    };
    struct arg p = { g->offset,
                     g->E,
                     sizes[kind][0],
                     sizes[kind][1],
                     sizes[kind][2],
                     (const bf16 *)g->a,
                     (const bf16 *)g->b,
                     (bf16 *)g->out,
                     (bf16 *)g->act,
                     (bf16 *)g->h,
                     g->weight,
                     g->dot,
                     g->dw,
                     F };

    return launches[kind](g, p);
}

int fits(int D, int E, int F)
{
    return D % VEC == 0 && F % VEC == 0 && E < 65536;
}

int dot_tiles(int F)
{
    return (F + TN - 1) / TN;
}

} /* namespace */

extern "C" {

const struct grouped_table grouped_mma = { "mma.sync", fits, dot_tiles, run };

const struct grouped_table *grouped_select(int capability)
{
    const char *want = getenv("MUSTER_GROUPED");

    if (capability != 90 || (want && strcmp(want, "mma") == 0))
        return &grouped_mma;
    return &grouped_sm90;
}

} /* extern "C" */
