/* The router: FP32 logits and their gradients, top-k, and the stable sort of
 * (token, choice) pairs by expert.  Counts and offsets never leave the device. */
#include <float.h>

#include "trainer/cuda_dev.h"
#include "trainer/cuda_vec.cuh"
#include "trainer/ops_cuda.h"

enum {
    ROUTE_WARPS = 8,     /* tokens a block, one a warp */
    MAX_PER_LANE = 16,   /* experts a lane: E <= 512 */
    SORT_CHOICES = 1024, /* choices a block of the sort */
    SORT_SEGMENTS = 8,   /* of the scan over blocks */
};

/* --- softmax and top-k ---------------------------------------------------------------- */

/* p[N] = softmax of a token's logits; a lane holds experts lane, lane + 32, ... */
template <int N>
static __device__ __forceinline__ void token_softmax(float *p, const float *logits,
                                                     int E)
{
    int lane = threadIdx.x & 31;
    float m = -INFINITY, s = 0;

#pragma unroll
    for (int i = 0; i < N; i++) {
        p[i] = i * 32 + lane < E ? logits[i * 32 + lane] : -INFINITY;
        m = fmaxf(m, p[i]);
    }
    m = warp_max(m);
#pragma unroll
    for (int i = 0; i < N; i++) {
        p[i] = i * 32 + lane < E ? expf(p[i] - m) : 0.f;
        s += p[i];
    }
    s = 1.f / warp_sum(s);
#pragma unroll
    for (int i = 0; i < N; i++)
        p[i] *= s;
}

/* The best of the warp's candidates; ties go to the lower index. */
static __device__ __forceinline__ int warp_best(float v, int index)
{
#pragma unroll
    for (int o = 16; o; o >>= 1) {
        float v2 = __shfl_xor_sync(~0u, v, o);
        int i2 = __shfl_xor_sync(~0u, index, o);

        if (v2 > v || (v2 == v && i2 < index)) {
            v = v2;
            index = i2;
        }
    }
    return index;
}

template <int N> static __device__ __forceinline__ float pick(const float *p, int e)
{
    float v = 0;

#pragma unroll
    for (int i = 0; i < N; i++)
        v = e / 32 == i ? p[i] : v;
    return __shfl_sync(~0u, v, e & 31);
}

template <int N>
static __global__ void topk_kernel(struct route r, const float *logits,
                                   const float *bias, int forced, int renormalise,
                                   float scale, int T, int E, int K)
{
    int lane = threadIdx.x & 31, t = blockIdx.x * ROUTE_WARPS + (threadIdx.x >> 5);
    float p[N], select[N], mine = 0, sum = 0;

    if (t >= T)
        return;
    token_softmax<N>(p, logits + (int64_t)t * E, E);
#pragma unroll
    for (int i = 0; i < N; i++) {
        int e = i * 32 + lane;

        select[i] = e >= E ? -INFINITY : bias ? p[i] + bias[e] : p[i];
        if (isnan(select[i])) /* last, so that the list stays legal */
            select[i] = -FLT_MAX;
    }
    for (int k = 0; k < K; k++) {
        float best = -INFINITY, w;
        int e = 1 << 30;

#pragma unroll
        for (int i = 0; i < N; i++)
            if (select[i] > best) {
                best = select[i];
                e = i * 32 + lane;
            }
        e = forced ? r.expert[(int64_t)t * K + k] : warp_best(best, e);
#pragma unroll
        for (int i = 0; i < N; i++)
            if (i * 32 + lane == e)
                select[i] = -INFINITY;
        w = pick<N>(p, e);
        sum += w;
        if (lane == k % 32)
            mine = w;
        if (lane == 0 && !forced)
            r.expert[(int64_t)t * K + k] = e;
    }
    if (lane < K)
        r.weight[(int64_t)t * K + lane] = (renormalise ? mine / sum : mine) * scale;
}

/* dlogits = p (dp - sum dp p); dp is zero but for the chosen. */
template <int N>
static __global__ void
route_bwd_kernel(float *dlogits, const float *dweight, const float *logits,
                 struct route r, int renormalise, float scale, int T, int E, int K)
{
    int lane = threadIdx.x & 31, t = blockIdx.x * ROUTE_WARPS + (threadIdx.x >> 5);
    float p[N], dp[N], sum = 0, dot = 0;

    if (t >= T)
        return;
    token_softmax<N>(p, logits + (int64_t)t * E, E);
    for (int k = 0; k < K; k++) {
        float w = pick<N>(p, r.expert[(int64_t)t * K + k]);

        sum += w;
        dot += w * dweight[(int64_t)t * K + k];
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        dp[i] = 0;
    for (int k = 0; k < K; k++) {
        int e = r.expert[(int64_t)t * K + k];
        float g = dweight[(int64_t)t * K + k];

        /* weight = scale p / sum: d/dp = scale (g - <g, p> / sum) / sum */
        g = renormalise ? scale * (g - dot / sum) / sum : scale * g;
#pragma unroll
        for (int i = 0; i < N; i++)
            if (i * 32 + lane == e)
                dp[i] += g;
    }
    dot = 0;
#pragma unroll
    for (int i = 0; i < N; i++)
        dot += dp[i] * p[i];
    dot = warp_sum(dot);
#pragma unroll
    for (int i = 0; i < N; i++)
        if (i * 32 + lane < E)
            dlogits[(int64_t)t * E + i * 32 + lane] = p[i] * (dp[i] - dot);
}

/* --- sort by expert ---------------------------------------------------------------------- */

/* base[block][E] = choices of expert e in this block of SORT_CHOICES. */
static __global__ void histogram_kernel(int32_t *base, const int32_t *expert, int R,
                                        int E)
{
    extern __shared__ int32_t hist[];
    int i = blockIdx.x * SORT_CHOICES + threadIdx.x;

    for (int e = threadIdx.x; e < E; e += blockDim.x)
        hist[e] = 0;
    __syncthreads();
    if (i < R)
        atomicAdd(hist + expert[i], 1); /* integers: the order does not matter */
    __syncthreads();
    for (int e = threadIdx.x; e < E; e += blockDim.x)
        base[(int64_t)blockIdx.x * E + e] = hist[e];
}

/* One block.  base[block][e] becomes the first row of the block's choices of e;
 * count and offset are filled. */
static __global__ void scan_kernel(int32_t *base, struct route r, int blocks, int E)
{
    extern __shared__ int32_t part[]; /* [SORT_SEGMENTS + 1][E] */
    int per = (blocks + SORT_SEGMENTS - 1) / SORT_SEGMENTS;

    for (int i = threadIdx.x; i < SORT_SEGMENTS * E; i += blockDim.x) {
        int e = i % E, first = i / E * per, last = min(first + per, blocks);
        int32_t s = 0;

        for (int b = first; b < last; b++)
            s += base[(int64_t)b * E + e];
        part[i] = s;
    }
    __syncthreads();
    for (int e = threadIdx.x; e < E; e += blockDim.x) {
        int32_t s = 0;

        for (int i = 0; i < SORT_SEGMENTS; i++) {
            int32_t n = part[i * E + e];

            part[i * E + e] = s;
            s += n;
        }
        part[SORT_SEGMENTS * E + e] = s;
        r.count[e] = s;
    }
    __syncthreads();
    if (threadIdx.x < 32) { /* exclusive scan over experts, one warp */
        int32_t *total = part + SORT_SEGMENTS * E, carry = 0;
        int lane = threadIdx.x;

        for (int e0 = 0; e0 < E; e0 += 32) {
            int32_t n = e0 + lane < E ? total[e0 + lane] : 0, s = n;

            for (int o = 1; o < 32; o <<= 1) {
                int32_t up = __shfl_up_sync(~0u, s, o);

                s += lane >= o ? up : 0;
            }
            if (e0 + lane < E)
                total[e0 + lane] = r.offset[e0 + lane] = carry + s - n;
            carry += __shfl_sync(~0u, s, 31);
        }
        if (lane == 0)
            r.offset[E] = carry;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < SORT_SEGMENTS * E; i += blockDim.x) {
        int e = i % E, first = i / E * per, last = min(first + per, blocks);
        int32_t s = part[i] + part[SORT_SEGMENTS * E + e];

        for (int b = first; b < last; b++) {
            int32_t n = base[(int64_t)b * E + e];

            base[(int64_t)b * E + e] = s;
            s += n;
        }
    }
}

/* Rank of each choice among those of its expert: warps in order, lanes in order. */
static __global__ void __launch_bounds__(SORT_CHOICES)
    place_kernel(struct route r, const int32_t *base, int R, int E, int K)
{
    extern __shared__ uint16_t seen[]; /* [32 warps][E] */
    int i = blockIdx.x * SORT_CHOICES + threadIdx.x, lane = threadIdx.x & 31;
    int warp = threadIdx.x >> 5, e = i < R ? r.expert[i] : -1, rank;
    unsigned same;

    for (int j = threadIdx.x; j < 32 * E; j += blockDim.x)
        seen[j] = 0;
    __syncthreads();
    same = __match_any_sync(~0u, e);
    rank = __popc(same & ((1u << lane) - 1));
    if (e >= 0 && rank == 0)
        seen[warp * E + e] = (uint16_t)__popc(same);
    __syncthreads();
    for (int j = threadIdx.x; j < E; j += blockDim.x) {
        int s = 0;

        for (int w = 0; w < 32; w++) {
            int n = seen[w * E + j];

            seen[w * E + j] = (uint16_t)s;
            s += n;
        }
    }
    __syncthreads();
    if (e < 0)
        return;
    rank += base[(int64_t)blockIdx.x * E + e] + seen[warp * E + e];
    r.row[i] = rank;
    r.token[rank] = i / K;
}

/* --- experts by given rows ------------------------------------------------------------- */

static __global__ void spread_kernel(int32_t *expert, const int32_t *offset, int64_t mul,
                                     int64_t add, int T, int E, int K)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, low = 0, high = E - 1, row;

    if (i >= T * K)
        return;
    row = i % K * T + (int)((mul * (i / K) + add) % T);
    while (low < high) { /* the last expert that starts at or before the row */
        int mid = (low + high + 1) / 2;

        if (offset[mid] <= row)
            low = mid;
        else
            high = mid - 1;
    }
    expert[i] = low;
}

/* --- gradients of the router's product ------------------------------------------------------ */

/* FP32 as the sum of two BF16, side by side: hl[T][2E]. */
static __global__ void split_kernel(bf16 *hl, const float *x, int64_t n, int E)
{
    int64_t step = (int64_t)gridDim.x * blockDim.x;

    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        bf16 hi = __float2bfloat16(x[i]);
        int64_t at = i / E * 2 * E + i % E;

        hl[at] = hi;
        hl[at + E] = __float2bfloat16(x[i] - __bfloat162float(hi));
    }
}

static int route_ok(struct dev *d, int E, int K)
{
    if (E <= 32 * MAX_PER_LANE && K <= 32 && K <= E)
        return 1;
    dev_fail(d, ERR_USAGE, "%d of %d experts: CUDA routes at most 32 of %d", K, E,
             32 * (int)MAX_PER_LANE);
    return 0;
}

/* KERNEL<experts a lane>, the smallest that holds E. */
#define BY_EXPERTS(KERNEL, E) \
    ((E) <= 32    ? KERNEL<1> \
     : (E) <= 64  ? KERNEL<2> \
     : (E) <= 128 ? KERNEL<4> \
     : (E) <= 256 ? KERNEL<8> \
                  : KERNEL<MAX_PER_LANE>)

extern "C" {

void cuda_router_fwd(struct dev *d, float *logits, const void *x, const void *w, int T,
                     int E, int D)
{
    struct carve c = { d, "router_fwd", 0 };
    struct linear_call call = {};

    call.form = LINEAR_FWD;
    call.T = T;
    call.N = E;
    call.K = D;
    call.out_f32 = 1;
    call.out = logits;
    call.a = x;
    call.b = w;
    call.workspace = carve_take(&c, LINEAR_WORKSPACE);
    linear_run(d, &call);
}

/* dlogits is FP32, the tensor cores take BF16: dlogits = hi + lo keeps 16 bits of
 * it, dx += [hi lo] [w; w], dw = hi^T x + lo^T x. */
void cuda_router_bwd(struct dev *d, void *dx, float *dw, const float *dlogits,
                     const void *x, const void *w, int T, int E, int D)
{
    struct carve c = { d, "router_bwd", 0 };
    void *workspace = carve_take(&c, LINEAR_WORKSPACE);
    bf16 *hl = (bf16 *)carve_take(&c, (size_t)T * 2 * E * sizeof(bf16));
    bf16 *ww = (bf16 *)carve_take(&c, (size_t)2 * E * D * sizeof(bf16));
    int64_t n = (int64_t)T * E;
    size_t w_bytes = (size_t)E * D * sizeof(bf16);
    struct linear_call call = {};

    if (!dev_ok(d))
        return;
    call.workspace = workspace;
    if (T > 0) {
        split_kernel<<<grid_for(n, 256, d->sms), 256, 0, dev_stream(d)>>>(hl, dlogits,
                                                                          n, E);
        cudaMemcpyAsync(ww, w, w_bytes, cudaMemcpyDeviceToDevice, dev_stream(d));
        cudaMemcpyAsync(ww + (size_t)E * D, w, w_bytes, cudaMemcpyDeviceToDevice,
                        dev_stream(d));
        dev_launched(d, "router_bwd");
    }
    call.form = LINEAR_DGRAD;
    call.T = T;
    call.N = 2 * E;
    call.K = D;
    call.accumulate = 1;
    call.out = dx;
    call.a = hl;
    call.b = ww;
    linear_run(d, &call);
    call.form = LINEAR_WGRAD;
    call.N = E;
    call.dout_stride = 2 * E;
    call.accumulate = 0;
    call.out = dw;
    call.b = x;
    linear_run(d, &call);
    call.a = hl + E;
    call.accumulate = 1;
    linear_run(d, &call);
}

void cuda_route(struct dev *d, struct route *r, const float *logits, const float *bias,
                int forced, int renormalise, float scale, int T, int E, int K)
{
    struct carve c = { d, "route", 0 };
    int R = T * K, blocks = (int)div_up(R, SORT_CHOICES);
    int32_t *base = (int32_t *)carve_take(&c, (size_t)blocks * E * sizeof(int32_t));

    if (!route_ok(d, E, K) || !dev_ok(d))
        return;
    if (T > 0) {
        BY_EXPERTS(topk_kernel, E)<<<(unsigned)div_up(T, ROUTE_WARPS), ROUTE_WARPS * 32,
                                     0, dev_stream(d)>>>(*r, logits, bias, forced,
                                                         renormalise, scale, T, E, K);
        histogram_kernel<<<blocks, SORT_CHOICES, E * sizeof(int32_t), dev_stream(d)>>>(
            base, r->expert, R, E);
    }
    scan_kernel<<<1, 1024, (SORT_SEGMENTS + 1) * E * sizeof(int32_t), dev_stream(d)>>>(
        base, *r, blocks, E);
    if (T > 0)
        place_kernel<<<blocks, SORT_CHOICES, 32 * E * sizeof(uint16_t),
                       dev_stream(d)>>>(*r, base, R, E, K);
    dev_launched(d, "route");
}

void cuda_spread(struct dev *d, int32_t *expert, const int32_t *offset, int64_t mul,
                 int64_t add, int T, int E, int K)
{
    if (T == 0 || !dev_ok(d))
        return;
    spread_kernel<<<(unsigned)div_up((int64_t)T * K, 256), 256, 0, dev_stream(d)>>>(
        expert, offset, mul, add, T, E, K);
    dev_launched(d, "spread");
}

void cuda_route_bwd(struct dev *d, float *dlogits, const float *dweight,
                    const float *logits, const struct route *r, int renormalise,
                    float scale, int T, int E, int K)
{
    if (T == 0 || !route_ok(d, E, K))
        return;
    BY_EXPERTS(
        route_bwd_kernel,
        E)<<<(unsigned)div_up(T, ROUTE_WARPS), ROUTE_WARPS * 32, 0, dev_stream(d)>>>(
        dlogits, dweight, logits, *r, renormalise, scale, T, E, K);
    dev_launched(d, "route_bwd");
}

} /* extern "C" */
