/* RMSNorm; QK-norm with RoPE.  Weight gradients are summed per block over a
 * fixed set of tokens, then over blocks in order. */
#include "trainer/cuda_dev.h"
#include "trainer/cuda_vec.cuh"
#include "trainer/ops_cuda.h"

enum { NORM_THREADS = 256, NORM_MAX_D = 16384 };

/* out[n] = column sums of partial[blocks][stride], fixed order. */
static __global__ void column_sum_kernel(float *out, const float *partial, int blocks,
                                         int n, int stride)
{
    __shared__ float part[8][33];
    int col = blockIdx.x * 32 + threadIdx.x;
    float s = 0;

    if (col < n)
        for (int b = threadIdx.y; b < blocks; b += 8)
            s += partial[(int64_t)b * stride + col];
    part[threadIdx.y][threadIdx.x] = s;
    __syncthreads();
    if (threadIdx.y == 0 && col < n) {
        s = 0;
        for (int i = 0; i < 8; i++)
            s += part[i][threadIdx.x];
        out[col] = s;
    }
}

static void column_sum(struct dev *d, float *out, const float *partial, int blocks,
                       int n, int stride)
{
    column_sum_kernel<<<(unsigned)div_up(n, 32), dim3(32, 8), 0, dev_stream(d)>>>(
        out, partial, blocks, n, stride);
}

/* --- RMSNorm ---------------------------------------------------------------------- */

/* One block a row; a thread holds J pieces of 8 columns. */
template <int J>
static __global__ void __launch_bounds__(1024)
    rmsnorm_fwd_kernel(bf16 *out, float *rstd, const bf16 *x, const bf16 *w, float eps,
                       int D)
{
    __shared__ float smem[32];
    const bf16 *row = x + (int64_t)blockIdx.x * D;
    float v[J][VEC], g[VEC], ss = 0, r;

#pragma unroll
    for (int j = 0; j < J; j++) {
        int col = (j * blockDim.x + threadIdx.x) * VEC;

        if (col >= D)
            continue;
        load8(v[j], row + col);
#pragma unroll
        for (int i = 0; i < VEC; i++)
            ss += v[j][i] * v[j][i];
    }
    r = rsqrtf(block_sum(ss, smem) / D + eps);
    if (threadIdx.x == 0)
        rstd[blockIdx.x] = r;
#pragma unroll
    for (int j = 0; j < J; j++) {
        int col = (j * blockDim.x + threadIdx.x) * VEC;

        if (col >= D)
            continue;
        load8(g, w + col);
#pragma unroll
        for (int i = 0; i < VEC; i++)
            v[j][i] *= r * g[i];
        store8(out + (int64_t)blockIdx.x * D + col, v[j]);
    }
}

template <int J>
static __global__ void __launch_bounds__(1024)
    rmsnorm_bwd_kernel(bf16 *dx, float *partial, const bf16 *dout, const bf16 *x,
                       const float *rstd, const bf16 *w, int T, int D)
{
    __shared__ float smem[32];
    float dw[J][VEC] = {}, g[J][VEC] = {};

#pragma unroll
    for (int j = 0; j < J; j++) {
        int col = (j * blockDim.x + threadIdx.x) * VEC;

        if (col < D)
            load8(g[j], w + col);
    }
    for (int t = blockIdx.x; t < T; t += gridDim.x) {
        int64_t at = (int64_t)t * D;
        float dy[J][VEC], v[J][VEC], old[J][VEC], dot = 0, r = rstd[t];

#pragma unroll
        for (int j = 0; j < J; j++) {
            int col = (j * blockDim.x + threadIdx.x) * VEC;

            if (col >= D)
                continue;
            load8(dy[j], dout + at + col);
            load8(v[j], x + at + col);
            load8(old[j], dx + at + col);
#pragma unroll
            for (int i = 0; i < VEC; i++) {
                v[j][i] *= r;
                dw[j][i] += dy[j][i] * v[j][i];
                dy[j][i] *= g[j][i];
                dot += dy[j][i] * v[j][i];
            }
        }
        dot = block_sum(dot, smem) / D;
#pragma unroll
        for (int j = 0; j < J; j++) {
            int col = (j * blockDim.x + threadIdx.x) * VEC;

            if (col >= D)
                continue;
#pragma unroll
            for (int i = 0; i < VEC; i++)
                old[j][i] += r * (dy[j][i] - v[j][i] * dot);
            store8(dx + at + col, old[j]);
        }
    }
#pragma unroll
    for (int j = 0; j < J; j++) {
        int col = (j * blockDim.x + threadIdx.x) * VEC;
        float4 *to =
            reinterpret_cast<float4 *>(partial + (int64_t)blockIdx.x * D + col);

        if (col >= D)
            continue;
        to[0] = *reinterpret_cast<float4 *>(dw[j]);
        to[1] = *reinterpret_cast<float4 *>(dw[j] + 4);
    }
}

/* Threads for rows of D columns: one piece of 8 a thread as far as that goes. */
static int row_threads(int D, int *pieces)
{
    int threads = (int)div_up(div_up(D, VEC), 32) * 32;

    if (threads > 1024)
        threads = 1024;
    *pieces = (int)div_up(D, (int64_t)threads * VEC);
    return threads;
}

/* --- QK-norm and RoPE ---------------------------------------------------------------- */

/* A head is handled by hd / (2 V) neighbouring lanes.  A lane holds V elements of the
 * first half and the V that RoPE pairs with them in the second.  Queries and keys go
 * one after the other: all heads of a block share their norm's weight. */
struct rope {
    const float2 *table; /* [T][hd / 2] */
    const bf16 *qkv, *w;
    float eps;
    int T, hd, heads; /* heads: of q or of k */
    int first, total; /* of the part, and all, in a token of qkv */
};

enum { ROPE_THREADS = 256 };

/* cos, sin of each token's angles.  In double: pos theta^(-2i/hd) loses digits in
 * FP32 at long positions. */
static __global__ void rope_table_kernel(float2 *table, const int32_t *pos,
                                         double theta, int T, int hd)
{
    int half = hd / 2, per = blockDim.x / half, i = threadIdx.x % half;
    double inv = pow(theta, -2.0 * i / hd);

    for (int t = blockIdx.x * per + threadIdx.x / half; t < T; t += gridDim.x * per) {
        double s, c;

        sincos(pos[t] * inv, &s, &c);
        table[(int64_t)t * half + i] = make_float2((float)c, (float)s);
    }
}

template <int V> static __device__ __forceinline__ void load_v(float *v, const bf16 *p)
{
    if constexpr (V == VEC)
        load8(v, p);
    else
        v[0] = __bfloat162float(p[0]);
}

template <int V> static __device__ __forceinline__ void store_v(bf16 *p, const float *v)
{
    if constexpr (V == VEC)
        store8(p, v);
    else
        p[0] = __float2bfloat16(v[0]);
}

/* Sum over the `lanes` neighbouring lanes of a head (a power of two). */
static __device__ __forceinline__ float head_sum(float v, int lanes)
{
    for (int o = lanes >> 1; o; o >>= 1)
        v += __shfl_xor_sync(~0u, v, o);
    return v;
}

/* What a thread works on: one head of one token at a time, the same columns always. */
struct seat {
    int lanes, slots; /* lanes of a head, heads of the block at once */
    int slot, i0;     /* this thread's, and its first column of each half */
};

template <int V>
static __device__ __forceinline__ struct seat seat_of(const struct rope &r)
{
    int lanes = r.hd / (2 * V);

    return { lanes, (int)blockDim.x / lanes, (int)threadIdx.x / lanes,
             (int)threadIdx.x % lanes * V };
}

/* Element 0 of head `n` of all the tokens' heads (of this part) in qkv. */
static __device__ __forceinline__ int64_t in_qkv(const struct rope &r, int64_t n)
{
    return (n / r.heads * r.total + r.first + n % r.heads) * r.hd;
}

template <int V>
static __device__ __forceinline__ float head_rstd(const float *a, const float *b,
                                                  const struct rope &r, int lanes)
{
    float ss = 0;

#pragma unroll
    for (int i = 0; i < V; i++)
        ss += a[i] * a[i] + b[i] * b[i];
    return rsqrtf(head_sum(ss, lanes) / r.hd + r.eps);
}

/* out[T, heads, hd] */
template <int V>
static __global__ void __launch_bounds__(ROPE_THREADS)
    qkrope_fwd_kernel(bf16 *out, const struct rope r)
{
    struct seat me = seat_of<V>(r);
    int64_t n = (int64_t)r.T * r.heads, step = (int64_t)gridDim.x * me.slots;
    int half = r.hd / 2;

    for (int64_t h0 = (int64_t)blockIdx.x * me.slots; h0 < n; h0 += step) {
        int64_t h = h0 + me.slot < n ? h0 + me.slot : n - 1; /* lanes keep together */
        const bf16 *from = r.qkv + in_qkv(r, h) + me.i0;
        const float2 *angle = r.table + h / r.heads * half + me.i0;
        bf16 *to = out + h * r.hd + me.i0;
        float a[V], b[V], wa[V], wb[V], rstd;

        load_v<V>(a, from);
        load_v<V>(b, from + half);
        rstd = head_rstd<V>(a, b, r, me.lanes);
        load_v<V>(wa, r.w + me.i0);
        load_v<V>(wb, r.w + half + me.i0);
#pragma unroll
        for (int i = 0; i < V; i++) {
            float x1 = a[i] * rstd * wa[i], x2 = b[i] * rstd * wb[i];

            a[i] = x1 * angle[i].x - x2 * angle[i].y;
            b[i] = x2 * angle[i].x + x1 * angle[i].y;
        }
        store_v<V>(to, a);
        store_v<V>(to + half, b);
    }
}

/* dout[T, heads, hd]; partial[block][hd]: the weight's gradient over the block's heads. */
template <int V>
static __global__ void __launch_bounds__(ROPE_THREADS, 3)
    qkrope_bwd_kernel(bf16 *dqkv, float *partial, const bf16 *dout, const struct rope r)
{
    extern __shared__ float sums[]; /* [slots][hd] */
    struct seat me = seat_of<V>(r);
    int64_t n = (int64_t)r.T * r.heads, step = (int64_t)gridDim.x * me.slots;
    int half = r.hd / 2;
    float sa[V] = {}, sb[V] = {};

    for (int64_t h0 = (int64_t)blockIdx.x * me.slots; h0 < n; h0 += step) {
        int live = h0 + me.slot < n;
        int64_t h = live ? h0 + me.slot : n - 1, at = in_qkv(r, h) + me.i0;
        const float2 *angle = r.table + h / r.heads * half + me.i0;
        float a[V], b[V], ga[V], gb[V], w[V], dot = 0, rstd;

        load_v<V>(a, r.qkv + at);
        load_v<V>(b, r.qkv + at + half);
        load_v<V>(ga, dout + h * r.hd + me.i0);
        load_v<V>(gb, dout + h * r.hd + half + me.i0);
        rstd = head_rstd<V>(a, b, r, me.lanes);
#pragma unroll
        for (int i = 0; i < V; i++) {
            float2 x = angle[i];
            float g1 = ga[i], g2 = gb[i];

            a[i] *= rstd;
            b[i] *= rstd;
            ga[i] = g1 * x.x + g2 * x.y;
            gb[i] = g2 * x.x - g1 * x.y;
            sa[i] += live ? ga[i] * a[i] : 0.f;
            sb[i] += live ? gb[i] * b[i] : 0.f;
        }
        load_v<V>(w, r.w + me.i0);
#pragma unroll
        for (int i = 0; i < V; i++)
            ga[i] *= w[i];
        load_v<V>(w, r.w + half + me.i0);
#pragma unroll
        for (int i = 0; i < V; i++) {
            gb[i] *= w[i];
            dot += ga[i] * a[i] + gb[i] * b[i];
        }
        dot = head_sum(dot, me.lanes) / r.hd;
#pragma unroll
        for (int i = 0; i < V; i++) {
            ga[i] = rstd * (ga[i] - a[i] * dot);
            gb[i] = rstd * (gb[i] - b[i] * dot);
        }
        if (!live)
            continue;
        store_v<V>(dqkv + at, ga);
        store_v<V>(dqkv + at + half, gb);
    }
#pragma unroll
    for (int i = 0; i < V; i++) {
        sums[me.slot * r.hd + me.i0 + i] = sa[i];
        sums[me.slot * r.hd + half + me.i0 + i] = sb[i];
    }
    __syncthreads();
    for (int c = threadIdx.x; c < r.hd; c += blockDim.x) {
        float s = 0;

        for (int i = 0; i < me.slots; i++)
            s += sums[i * r.hd + c];
        partial[(int64_t)blockIdx.x * r.hd + c] = s;
    }
}

static int rope_ok(struct dev *d, int hd)
{
    int lanes = hd / (hd % 16 ? 2 : 16);

    if (hd >= 2 && hd % 2 == 0 && lanes <= 32 && (lanes & (lanes - 1)) == 0)
        return 1;
    dev_fail(d, ERR_USAGE,
             "a head dimension of %d: CUDA has QK-norm with RoPE for powers of two up "
             "to 512",
             hd);
    return 0;
}

static float2 *rope_table(struct dev *d, struct carve *c, const int32_t *pos,
                          float theta, int T, int hd)
{
    float2 *table = (float2 *)carve_take(c, cuda_rope_table_bytes(T, hd));

    if (table && T > 0)
        rope_table_kernel<<<grid_for((int64_t)T * hd / 2, 256, d->sms),
                            (unsigned)(256 / (hd / 2) * (hd / 2)), 0, dev_stream(d)>>>(
            table, pos, theta, T, hd);
    return table;
}

/* Blocks for all heads, at most `most`. */
static int rope_blocks(const struct rope *r, int most)
{
    int slots = ROPE_THREADS / (r->hd / (r->hd % 16 ? 2 : 16));
    int64_t want = div_up((int64_t)r->T * r->heads, slots);

    return (int)(want < most ? want : most);
}

static void qkrope_forward(struct dev *d, void *out, const struct rope *r)
{
    (r->hd % 16
         ? qkrope_fwd_kernel<1>
         : qkrope_fwd_kernel<
               VEC>)<<<rope_blocks(r, 32 * d->sms), ROPE_THREADS, 0, dev_stream(d)>>>(
        (bf16 *)out, *r);
}

static void qkrope_backward(struct dev *d, void *dqkv, float *dw, float *partial,
                            const void *dout, const struct rope *r)
{
    int blocks = rope_blocks(r, CUDA_NORM_BLOCKS);
    size_t shared =
        (size_t)ROPE_THREADS / (r->hd / (r->hd % 16 ? 2 : 16)) * r->hd * sizeof(float);

    if (blocks > 0)
        (r->hd % 16
             ? qkrope_bwd_kernel<1>
             : qkrope_bwd_kernel<VEC>)<<<blocks, ROPE_THREADS, shared, dev_stream(d)>>>(
            (bf16 *)dqkv, partial, (const bf16 *)dout, *r);
    column_sum(d, dw, partial, blocks, r->hd, r->hd);
}

extern "C" {

void cuda_rmsnorm_fwd(struct dev *d, void *out, float *rstd, const void *x,
                      const void *w, float eps, int T, int D)
{
    int pieces, threads = row_threads(D, &pieces);

    if (T == 0)
        return;
    if (D % VEC || pieces > 2) {
        dev_fail(d, ERR_USAGE,
                 "rmsnorm: %d columns; CUDA takes multiples of %d up to %d", D,
                 (int)VEC, (int)NORM_MAX_D);
        return;
    }
    (pieces == 1 ? rmsnorm_fwd_kernel<1>
                 : rmsnorm_fwd_kernel<2>)<<<T, threads, 0, dev_stream(d)>>>(
        (bf16 *)out, rstd, (const bf16 *)x, (const bf16 *)w, eps, D);
    dev_launched(d, "rmsnorm_fwd");
}

void cuda_rmsnorm_bwd(struct dev *d, void *dx, float *dw, const void *dout,
                      const void *x, const float *rstd, const void *w, int T, int D)
{
    struct carve c = { d, "rmsnorm_bwd", 0 };
    int pieces, threads = row_threads(D, &pieces);
    int blocks = T < CUDA_NORM_BLOCKS ? T : CUDA_NORM_BLOCKS;
    float *partial =
        (float *)carve_take(&c, (size_t)CUDA_NORM_BLOCKS * D * sizeof(float));

    if (!partial)
        return;
    if (D % VEC || pieces > 2) {
        dev_fail(d, ERR_USAGE,
                 "rmsnorm: %d columns; CUDA takes multiples of %d up to %d", D,
                 (int)VEC, (int)NORM_MAX_D);
        return;
    }
    if (T > 0)
        (pieces == 1 ? rmsnorm_bwd_kernel<1>
                     : rmsnorm_bwd_kernel<2>)<<<blocks, threads, 0, dev_stream(d)>>>(
            (bf16 *)dx, partial, (const bf16 *)dout, (const bf16 *)x, rstd,
            (const bf16 *)w, T, D);
    column_sum(d, dw, partial, blocks, D, D);
    dev_launched(d, "rmsnorm_bwd");
}

void cuda_qkrope_fwd(struct dev *d, void *q, void *k, const void *qkv,
                     const int32_t *pos, const void *wq, const void *wk, float eps,
                     float theta, int T, int H, int KV, int hd)
{
    struct carve c = { d, "qkrope_fwd", 0 };
    struct rope r = { NULL, (const bf16 *)qkv, (const bf16 *)wq, eps, T, hd, H,
                      0,    H + 2 * KV };

    if (T == 0 || !rope_ok(d, hd))
        return;
    r.table = rope_table(d, &c, pos, theta, T, hd);
    if (!r.table)
        return;
    qkrope_forward(d, q, &r);
    r.w = (const bf16 *)wk;
    r.heads = KV;
    r.first = H;
    qkrope_forward(d, k, &r);
    dev_launched(d, "qkrope_fwd");
}

void cuda_qkrope_bwd(struct dev *d, void *dqkv, float *dwq, float *dwk, const void *dq,
                     const void *dk, const void *qkv, const int32_t *pos,
                     const void *wq, const void *wk, float eps, float theta, int T,
                     int H, int KV, int hd)
{
    struct carve c = { d, "qkrope_bwd", 0 };
    struct rope r = { NULL, (const bf16 *)qkv, (const bf16 *)wq, eps, T, hd, H,
                      0,    H + 2 * KV };
    float *partial;

    if (!rope_ok(d, hd))
        return;
    r.table = rope_table(d, &c, pos, theta, T, hd);
    partial = (float *)carve_take(&c, (size_t)CUDA_NORM_BLOCKS * hd * sizeof(float));
    if (!dev_ok(d))
        return;
    qkrope_backward(d, dqkv, dwq, partial, dq, &r);
    r.w = (const bf16 *)wk;
    r.heads = KV;
    r.first = H;
    qkrope_backward(d, dqkv, dwk, partial, dk, &r);
    dev_launched(d, "qkrope_bwd");
}

} /* extern "C" */
