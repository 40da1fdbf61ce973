/* Causal grouped-query attention with mma.sync, forward and backward, document masks
 * included.  Scores are never stored; backward computes them twice, once for dk and
 * dv (a block a tile of keys) and once for dq (a block a tile of queries), so every
 * sum has a fixed order. */
#include <math.h>

#include "trainer/attention_cuda.h"
#include "trainer/cuda_dev.h"
#include "trainer/mma.cuh"

namespace
{

enum { TILE = 64, THREADS = 128, PAD = 8 };

struct arg {
    struct attn_shape s;
    const bf16 *q, *k, *v, *dout;
    bf16 *out, *dq, *dk, *dv;
    float *lse, *delta;
    const int32_t *doc;
    float scale;
};

/* 64 tokens of one head from memory into [64][HD + PAD]; zeros outside. */
template <int HD>
__device__ void load_rows(bf16 *to, const bf16 *from, int64_t stride, int rows, int hd)
{
    for (int i = threadIdx.x; i < TILE * HD / VEC; i += THREADS) {
        int r = i / (HD / VEC), c = i % (HD / VEC) * VEC;
        uint4 v = make_uint4(0, 0, 0, 0);

        if (r < rows && c < hd)
            v = *reinterpret_cast<const uint4 *>(from + r * stride + c);
        *reinterpret_cast<uint4 *>(to + r * (HD + PAD) + c) = v;
    }
}

/* acc[16 x 64] = a[16 rows at m] b^T, over HD */
template <int HD>
__device__ __forceinline__ void scores(float (&acc)[8][4], const bf16 *a, int m,
                                       const bf16 *b)
{
    uint32_t fa[4], fb[4];

#pragma unroll
    for (int n = 0; n < 8; n++)
        acc[n][0] = acc[n][1] = acc[n][2] = acc[n][3] = 0;
#pragma unroll
    for (int k = 0; k < HD; k += 16) {
        frag_a<0>(fa, a, HD + PAD, m, k);
#pragma unroll
        for (int n = 0; n < 8; n += 2) {
            frag_b<0>(fb, b, HD + PAD, n * 8, k);
            mma(acc[n], fa, fb);
            mma(acc[n + 1], fa, fb + 2);
        }
    }
}

/* acc[16 x HD] += p[16 x 64] b[64 x HD], p from registers */
template <int HD>
__device__ __forceinline__ void weighted(float (&acc)[HD / 8][4],
                                         const float (&p)[8][4], const bf16 *b)
{
    uint32_t fb[4];

#pragma unroll
    for (int k = 0; k < 4; k++) {
        uint32_t fa[4] = { pack2(p[2 * k][0], p[2 * k][1]),
                           pack2(p[2 * k][2], p[2 * k][3]),
                           pack2(p[2 * k + 1][0], p[2 * k + 1][1]),
                           pack2(p[2 * k + 1][2], p[2 * k + 1][3]) };

#pragma unroll
        for (int n = 0; n < HD / 8; n += 2) {
            frag_b<1>(fb, b, HD + PAD, n * 8, k * 16);
            mma(acc[n], fa, fb);
            mma(acc[n + 1], fa, fb + 2);
        }
    }
}

/* Row and column in the tile of element e of n-tile n. */
__device__ __forceinline__ int row_of(int e)
{
    return (threadIdx.x >> 5) * 16 + ((threadIdx.x & 31) >> 2) + (e >> 1) * 8;
}

__device__ __forceinline__ int col_of(int n, int e)
{
    return n * 8 + 2 * (threadIdx.x & 3) + (e & 1);
}

__device__ __forceinline__ float quad_sum(float v)
{
    v += __shfl_xor_sync(~0u, v, 1);
    return v + __shfl_xor_sync(~0u, v, 2);
}

__device__ __forceinline__ float quad_max(float v)
{
    v = fmaxf(v, __shfl_xor_sync(~0u, v, 1));
    return fmaxf(v, __shfl_xor_sync(~0u, v, 2));
}

__device__ __forceinline__ int first_key(const struct arg &a, int b, int query)
{
    return a.doc && query < a.s.S ? a.doc[(int64_t)b * a.s.S + query] : 0;
}

/* acc[16 x HD] by row to memory as BF16. */
template <int HD>
__device__ void store_rows(bf16 *to, int64_t stride, const float (&acc)[HD / 8][4],
                           int rows, int hd)
{
#pragma unroll
    for (int n = 0; n < HD / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e += 2)
            if (row_of(e) < rows && col_of(n, e) < hd)
                *reinterpret_cast<uint32_t *>(to + row_of(e) * stride + col_of(n, e)) =
                    pack2(acc[n][e], acc[n][e + 1]);
}

/* --- forward ---------------------------------------------------------------------- */

/* Running softmax of the warp's 16 rows: two rows a thread. */
struct running {
    float max[2], sum[2];
};

template <int HD>
__device__ void softmax_step(float (&p)[8][4], float (&o)[HD / 8][4], struct running *r)
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float m = r->max[i], was = m, s = 0, by;

#pragma unroll
        for (int n = 0; n < 8; n++)
            m = fmaxf(m, fmaxf(p[n][2 * i], p[n][2 * i + 1]));
        m = quad_max(m);
        if (m == -INFINITY) /* nothing visible yet */
            m = 0;
        by = __expf(was - m);
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int e = 2 * i; e < 2 * i + 2; e++) {
                p[n][e] = __expf(p[n][e] - m);
                s += p[n][e];
            }
#pragma unroll
        for (int n = 0; n < HD / 8; n++) {
            o[n][2 * i] *= by;
            o[n][2 * i + 1] *= by;
        }
        r->sum[i] = r->sum[i] * by + quad_sum(s);
        r->max[i] = m;
    }
}

template <int HD>
__global__ void __launch_bounds__(THREADS) forward_kernel(struct arg a)
{
    extern __shared__ __align__(16) bf16 smem[];
    bf16 *q = smem, *k = q + TILE * (HD + PAD), *v = k + TILE * (HD + PAD);
    int q0 = blockIdx.x * TILE, h = blockIdx.y, b = blockIdx.z;
    int kv = h / (a.s.H / a.s.KV);
    int64_t base = (int64_t)b * a.s.S;
    struct running r = { { -INFINITY, -INFINITY }, { 0, 0 } };
    float o[HD / 8][4] = {}, p[8][4];
    int start[2], rows = a.s.S - q0;

    start[0] = first_key(a, b, q0 + row_of(0));
    start[1] = first_key(a, b, q0 + row_of(2));
    load_rows<HD>(q, a.q + (base + q0) * a.s.q_stride + h * a.s.hd, a.s.q_stride, rows,
                  a.s.hd);
    for (int k0 = 0; k0 < q0 + TILE && k0 < a.s.S; k0 += TILE) {
        if (!__syncthreads_or(start[0] < k0 + TILE || start[1] < k0 + TILE))
            continue;
        load_rows<HD>(k, a.k + (base + k0) * a.s.k_stride + kv * a.s.hd, a.s.k_stride,
                      a.s.S - k0, a.s.hd);
        load_rows<HD>(v, a.v + (base + k0) * a.s.v_stride + kv * a.s.hd, a.s.v_stride,
                      a.s.S - k0, a.s.hd);
        __syncthreads();
        scores<HD>(p, q, (threadIdx.x >> 5) * 16, k);
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int i = q0 + row_of(e), j = k0 + col_of(n, e);

                p[n][e] = j <= i && j >= start[e >> 1] ? p[n][e] * a.scale : -INFINITY;
            }
        softmax_step<HD>(p, o, &r);
        weighted<HD>(o, p, v);
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int t = q0 + row_of(2 * i);

#pragma unroll
        for (int n = 0; n < HD / 8; n++) {
            o[n][2 * i] /= r.sum[i];
            o[n][2 * i + 1] /= r.sum[i];
        }
        if ((threadIdx.x & 3) == 0 && t < a.s.S)
            a.lse[((int64_t)b * a.s.H + h) * a.s.S + t] = r.max[i] + logf(r.sum[i]);
    }
    store_rows<HD>(a.out + ((base + q0) * a.s.H + h) * a.s.hd, (int64_t)a.s.H * a.s.hd,
                   o, rows, a.s.hd);
}

/* --- backward --------------------------------------------------------------------- */

/* delta[b,h,t] = <dout, out> of the token's head; a warp each. */
__global__ void delta_kernel(struct arg a)
{
    int64_t i = (int64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    int64_t tokens = (int64_t)a.s.B * a.s.S;
    float s = 0;

    if (i >= tokens * a.s.H)
        return;
    for (int c = threadIdx.x & 31; c < a.s.hd; c += 32)
        s += __bfloat162float(a.dout[i * a.s.hd + c]) *
             __bfloat162float(a.out[i * a.s.hd + c]);
    s = warp_sum(s);
    if ((threadIdx.x & 31) == 0) {
        int64_t t = i / a.s.H, h = i % a.s.H;

        a.delta[(t / a.s.S * a.s.H + h) * a.s.S + t % a.s.S] = s;
    }
}

/* p: score in, softmax out; dp: its gradient in, that of the score out. */
__device__ __forceinline__ void grad_one(float *p, float *dp, int seen, float lse,
                                         float delta, float scale)
{
    *p = seen ? __expf(*p * scale - lse) : 0.f;
    *dp = seen ? *p * (*dp - delta) * scale : 0.f;
}

/* dk, dv of 64 keys: rows are keys, columns queries. */
template <int HD> __global__ void __launch_bounds__(THREADS) keys_kernel(struct arg a)
{
    extern __shared__ __align__(16) bf16 smem[];
    bf16 *k = smem, *v = k + TILE * (HD + PAD), *q = v + TILE * (HD + PAD);
    bf16 *dout = q + TILE * (HD + PAD);
    __shared__ float lse[TILE], delta[TILE];
    __shared__ int start[TILE];
    int k0 = blockIdx.x * TILE, kv = blockIdx.y, b = blockIdx.z;
    int group = a.s.H / a.s.KV, tiles = (a.s.S - k0 + TILE - 1) / TILE;
    int64_t base = (int64_t)b * a.s.S, wide = (int64_t)a.s.H * a.s.hd;
    float dk[HD / 8][4] = {}, dv[HD / 8][4] = {}, p[8][4], dp[8][4];

    load_rows<HD>(k, a.k + (base + k0) * a.s.k_stride + kv * a.s.hd, a.s.k_stride,
                  a.s.S - k0, a.s.hd);
    load_rows<HD>(v, a.v + (base + k0) * a.s.v_stride + kv * a.s.hd, a.s.v_stride,
                  a.s.S - k0, a.s.hd);
    for (int i = 0; i < group * tiles; i++) {
        int h = kv * group + i % group, q0 = k0 + i / group * TILE;
        int64_t at = ((int64_t)b * a.s.H + h) * a.s.S + q0;

        __syncthreads();
        load_rows<HD>(q, a.q + (base + q0) * a.s.q_stride + h * a.s.hd, a.s.q_stride,
                      a.s.S - q0, a.s.hd);
        load_rows<HD>(dout, a.dout + (base + q0) * wide + h * a.s.hd, wide, a.s.S - q0,
                      a.s.hd);
        if (threadIdx.x < TILE) {
            int in = q0 + (int)threadIdx.x < a.s.S;

            lse[threadIdx.x] = in ? a.lse[at + threadIdx.x] : 0.f;
            delta[threadIdx.x] = in ? a.delta[at + threadIdx.x] : 0.f;
            start[threadIdx.x] = in ? first_key(a, b, q0 + threadIdx.x) : 1 << 30;
        }
        __syncthreads();
        scores<HD>(p, k, (threadIdx.x >> 5) * 16, q);
        scores<HD>(dp, v, (threadIdx.x >> 5) * 16, dout);
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int c = col_of(n, e), j = k0 + row_of(e);

                grad_one(&p[n][e], &dp[n][e], j <= q0 + c && j >= start[c], lse[c],
                         delta[c], a.scale);
            }
        weighted<HD>(dv, p, dout);
        weighted<HD>(dk, dp, q);
    }
    store_rows<HD>(a.dk + (base + k0) * a.s.k_stride + kv * a.s.hd, a.s.k_stride, dk,
                   a.s.S - k0, a.s.hd);
    store_rows<HD>(a.dv + (base + k0) * a.s.v_stride + kv * a.s.hd, a.s.v_stride, dv,
                   a.s.S - k0, a.s.hd);
}

/* dq of 64 queries: rows are queries, columns keys. */
template <int HD>
__global__ void __launch_bounds__(THREADS) queries_kernel(struct arg a)
{
    extern __shared__ __align__(16) bf16 smem[];
    bf16 *k = smem, *v = k + TILE * (HD + PAD), *q = v + TILE * (HD + PAD);
    bf16 *dout = q + TILE * (HD + PAD);
    int q0 = blockIdx.x * TILE, h = blockIdx.y, b = blockIdx.z;
    int kv = h / (a.s.H / a.s.KV), start[2];
    int64_t base = (int64_t)b * a.s.S, wide = (int64_t)a.s.H * a.s.hd;
    float dq[HD / 8][4] = {}, p[8][4], dp[8][4], lse[2], delta[2];

#pragma unroll
    for (int i = 0; i < 2; i++) {
        int t = q0 + row_of(2 * i);
        int64_t at = ((int64_t)b * a.s.H + h) * a.s.S + t;

        lse[i] = t < a.s.S ? a.lse[at] : 0.f;
        delta[i] = t < a.s.S ? a.delta[at] : 0.f;
        start[i] = first_key(a, b, t);
    }
    load_rows<HD>(q, a.q + (base + q0) * a.s.q_stride + h * a.s.hd, a.s.q_stride,
                  a.s.S - q0, a.s.hd);
    load_rows<HD>(dout, a.dout + (base + q0) * wide + h * a.s.hd, wide, a.s.S - q0,
                  a.s.hd);
    for (int k0 = 0; k0 < q0 + TILE && k0 < a.s.S; k0 += TILE) {
        if (!__syncthreads_or(start[0] < k0 + TILE || start[1] < k0 + TILE))
            continue;
        load_rows<HD>(k, a.k + (base + k0) * a.s.k_stride + kv * a.s.hd, a.s.k_stride,
                      a.s.S - k0, a.s.hd);
        load_rows<HD>(v, a.v + (base + k0) * a.s.v_stride + kv * a.s.hd, a.s.v_stride,
                      a.s.S - k0, a.s.hd);
        __syncthreads();
        scores<HD>(p, q, (threadIdx.x >> 5) * 16, k);
        scores<HD>(dp, dout, (threadIdx.x >> 5) * 16, v);
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int i = q0 + row_of(e), j = k0 + col_of(n, e);

                grad_one(&p[n][e], &dp[n][e], i < a.s.S && j <= i && j >= start[e >> 1],
                         lse[e >> 1], delta[e >> 1], a.scale);
            }
        weighted<HD>(dq, dp, k);
    }
    store_rows<HD>(a.dq + (base + q0) * a.s.q_stride + h * a.s.hd, a.s.q_stride, dq,
                   a.s.S - q0, a.s.hd);
}

/* --- host ------------------------------------------------------------------------- */

struct arg arg_of(const struct attention_call *c)
{
    struct arg a = {};

    a.s = c->s;
    a.q = (const bf16 *)c->q;
    a.k = (const bf16 *)c->k;
    a.v = (const bf16 *)c->v;
    a.dout = (const bf16 *)c->dout;
    a.out = (bf16 *)c->out;
    a.dq = (bf16 *)c->dq;
    a.dk = (bf16 *)c->dk;
    a.dv = (bf16 *)c->dv;
    a.lse = c->lse;
    a.doc = c->doc_start;
    a.scale = 1.f / sqrtf((float)c->s.hd);
    return a;
}

template <class KERNEL> void allow_shared(struct dev *d, KERNEL kernel, int bytes)
{
    dev_check(d,
              cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   bytes),
              "attention");
}

template <int HD> void forward(struct dev *d, const struct arg &a)
{
    int bytes = 3 * TILE * (HD + PAD) * (int)sizeof(bf16);
    dim3 grid((unsigned)div_up(a.s.S, TILE), a.s.H, a.s.B);

    allow_shared(d, forward_kernel<HD>, bytes);
    forward_kernel<HD><<<grid, THREADS, bytes, dev_stream(d)>>>(a);
}

template <int HD> void backward(struct dev *d, const struct arg &a)
{
    int bytes = 4 * TILE * (HD + PAD) * (int)sizeof(bf16);
    unsigned tiles = (unsigned)div_up(a.s.S, TILE);

    allow_shared(d, keys_kernel<HD>, bytes);
    allow_shared(d, queries_kernel<HD>, bytes);
    keys_kernel<HD><<<dim3(tiles, a.s.KV, a.s.B), THREADS, bytes, dev_stream(d)>>>(a);
    queries_kernel<HD><<<dim3(tiles, a.s.H, a.s.B), THREADS, bytes, dev_stream(d)>>>(a);
}

} /* namespace */

extern "C" {

int attention_mma_fits(const struct attn_shape *s)
{
    return s->hd % VEC == 0 && s->hd <= 128 && s->q_stride % VEC == 0 &&
           s->k_stride % VEC == 0 && s->v_stride % VEC == 0;
}

void attention_mma_fwd(struct dev *d, const struct attention_call *c)
{
    struct arg a = arg_of(c);

    if (a.s.hd <= 32)
        forward<32>(d, a);
    else if (a.s.hd <= 64)
        forward<64>(d, a);
    else
        forward<128>(d, a);
    dev_launched(d, "attention_fwd");
}

void attention_mma_bwd(struct dev *d, const struct attention_call *c)
{
    struct arg a = arg_of(c);
    struct carve scratch = { d, "attention_bwd", 0 };
    int64_t rows = (int64_t)a.s.B * a.s.S * a.s.H;

    a.delta = (float *)carve_take(&scratch, (size_t)rows * sizeof(float));
    if (!a.delta)
        return;
    delta_kernel<<<(unsigned)div_up(rows, 8), 256, 0, dev_stream(d)>>>(a);
    if (a.s.hd <= 32)
        backward<32>(d, a);
    else if (a.s.hd <= 64)
        backward<64>(d, a);
    else
        backward<128>(d, a);
    dev_launched(d, "attention_bwd");
}

} /* extern "C" */
