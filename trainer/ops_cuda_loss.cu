/* Cross-entropy in place, sums in a fixed order, AdamW. */
#include <math.h>

#include "trainer/cuda_dev.h"
#include "trainer/cuda_vec.cuh"
#include "trainer/ops_cuda.h"

enum { SUM_THREADS = 256, CE_THREADS = 1024 };

/* --- cross-entropy ------------------------------------------------------------------ */

/* Running maximum and sum of exp(x - maximum), two of them merged. */
struct softmax_sum {
    float max, sum;
};

static __device__ __forceinline__ struct softmax_sum merge(struct softmax_sum a,
                                                           struct softmax_sum b)
{
    float m = fmaxf(a.max, b.max);

    if (m == -INFINITY)
        return a;
    return { m, a.sum * __expf(a.max - m) + b.sum * __expf(b.max - m) };
}

static __device__ struct softmax_sum block_merge(struct softmax_sum s)
{
    __shared__ struct softmax_sum part[32];

#pragma unroll
    for (int o = 16; o; o >>= 1)
        s = merge(s,
                  { __shfl_xor_sync(~0u, s.max, o), __shfl_xor_sync(~0u, s.sum, o) });
    if ((threadIdx.x & 31) == 0)
        part[threadIdx.x >> 5] = s;
    __syncthreads();
    s = part[threadIdx.x & 31];
#pragma unroll
    for (int o = 16; o; o >>= 1)
        s = merge(s,
                  { __shfl_xor_sync(~0u, s.max, o), __shfl_xor_sync(~0u, s.sum, o) });
    return s;
}

template <int V> static __device__ __forceinline__ void read(float *v, const bf16 *p)
{
    if constexpr (V == VEC)
        load8(v, p);
    else
        v[0] = __bfloat162float(p[0]);
}

template <int V> static __device__ __forceinline__ void write(bf16 *p, const float *v)
{
    if constexpr (V == VEC)
        store8(p, v);
    else
        p[0] = __float2bfloat16(v[0]);
}

/* One block a row; V elements an access (rows are aligned only when V % 8 == 0). */
template <int V>
static __global__ void __launch_bounds__(CE_THREADS)
    cross_entropy_kernel(float *loss, bf16 *logits, const int32_t *targets, float scale,
                         int vocab)
{
    bf16 *row = logits + (int64_t)blockIdx.x * vocab;
    int target = targets[blockIdx.x];
    struct softmax_sum s = { -INFINITY, 0 };
    float v[V], hit = 0, inv;

    if (target >= 0) {
        for (int i = threadIdx.x * V; i < vocab; i += CE_THREADS * V) {
            float m = -INFINITY, sum = 0;

            read<V>(v, row + i);
#pragma unroll
            for (int j = 0; j < V; j++)
                m = fmaxf(m, v[j]);
            m = fmaxf(m, s.max);
#pragma unroll
            for (int j = 0; j < V; j++)
                sum += __expf(v[j] - m);
            s = { m, s.sum * __expf(s.max - m) + sum };
        }
        hit = __bfloat162float(row[target]);
        s = block_merge(s);
    }
    inv = target >= 0 ? scale / s.sum : 0.f;
    if (threadIdx.x == 0)
        loss[blockIdx.x] = target >= 0 ? logf(s.sum) + s.max - hit : 0.f;
    __syncthreads(); /* the target's logit is read before it is overwritten */
    for (int i = threadIdx.x * V; i < vocab; i += CE_THREADS * V) {
        read<V>(v, row + i);
#pragma unroll
        for (int j = 0; j < V; j++) {
            v[j] = target >= 0 ? __expf(v[j] - s.max) * inv : 0.f;
            if (i + j == target)
                v[j] -= scale;
        }
        write<V>(row + i, v);
    }
}

/* --- sums --------------------------------------------------------------------------- */

static __device__ double block_sum64(double v)
{
    __shared__ double part[32];

#pragma unroll
    for (int o = 16; o; o >>= 1)
        v += __shfl_xor_sync(~0u, v, o);
    if ((threadIdx.x & 31) == 0)
        part[threadIdx.x >> 5] = v;
    __syncthreads();
    v = (threadIdx.x & 31) < blockDim.x >> 5 ? part[threadIdx.x & 31] : 0.0;
#pragma unroll
    for (int o = 16; o; o >>= 1)
        v += __shfl_xor_sync(~0u, v, o);
    return v;
}

template <int SQUARE>
static __global__ void partial_sum_kernel(double *partial, const float *x, int64_t n)
{
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    double s = 0;

    for (int64_t i = at; i < n / 4; i += step) {
        float4 f = reinterpret_cast<const float4 *>(x)[i];
        double a = f.x, b = f.y, c = f.z, d = f.w;

        s += SQUARE ? (a * a + b * b) + (c * c + d * d) : (a + b) + (c + d);
    }
    for (int64_t i = n / 4 * 4 + at; i < n; i += step)
        s += SQUARE ? (double)x[i] * x[i] : (double)x[i];
    s = block_sum64(s);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = s;
}

template <class OUT>
static __global__ void final_sum_kernel(OUT *out, const double *partial, int n)
{
    double s = 0;

    for (int i = threadIdx.x; i < n; i += blockDim.x)
        s += partial[i];
    s = block_sum64(s);
    if (threadIdx.x == 0)
        *out = (OUT)s;
}

/* --- AdamW -------------------------------------------------------------------------- */

struct adamw_constants {
    float lr, beta1, beta2, eps, decay; /* decay: 1 - lr weight_decay */
    float correct1, correct2;           /* 1 / (1 - beta^step); the second's root */
    float grad_scale;
};

static __device__ __forceinline__ void adamw_one(float *w, float *m, float *v, float g,
                                                 const struct adamw_constants &a)
{
    g *= a.grad_scale;
    *m = a.beta1 * *m + (1.f - a.beta1) * g;
    *v = a.beta2 * *v + (1.f - a.beta2) * g * g;
    *w = *w * a.decay - a.lr * (*m * a.correct1) / (sqrtf(*v) * a.correct2 + a.eps);
}

static __global__ void adamw_kernel(float *w, float *m, float *v, bf16 *out,
                                    const float *grad, struct adamw_constants a,
                                    int64_t n)
{
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;

    for (int64_t i = at; i < n / 4; i += step) {
        float4 wv = reinterpret_cast<float4 *>(w)[i];
        float4 mv = reinterpret_cast<float4 *>(m)[i];
        float4 vv = reinterpret_cast<float4 *>(v)[i];
        float4 gv = reinterpret_cast<const float4 *>(grad)[i];

        adamw_one(&wv.x, &mv.x, &vv.x, gv.x, a);
        adamw_one(&wv.y, &mv.y, &vv.y, gv.y, a);
        adamw_one(&wv.z, &mv.z, &vv.z, gv.z, a);
        adamw_one(&wv.w, &mv.w, &vv.w, gv.w, a);
        reinterpret_cast<float4 *>(w)[i] = wv;
        reinterpret_cast<float4 *>(m)[i] = mv;
        reinterpret_cast<float4 *>(v)[i] = vv;
        if (out)
            reinterpret_cast<uint2 *>(out)[i] =
                make_uint2(pack2(wv.x, wv.y), pack2(wv.z, wv.w));
    }
    for (int64_t i = n / 4 * 4 + at; i < n; i += step) {
        adamw_one(w + i, m + i, v + i, grad[i], a);
        if (out)
            out[i] = __float2bfloat16(w[i]);
    }
}

extern "C" {

void cuda_cross_entropy(struct dev *d, float *loss, void *logits,
                        const int32_t *targets, float scale, int T, int V)
{
    if (T == 0)
        return;
    (V % VEC ? cross_entropy_kernel<1>
             : cross_entropy_kernel<VEC>)<<<T, CE_THREADS, 0, dev_stream(d)>>>(
        loss, (bf16 *)logits, targets, scale, V);
    dev_launched(d, "cross_entropy");
}

void cuda_sum_f32(struct dev *d, float *out, const float *x, int64_t n)
{
    struct carve c = { d, "sum_f32", 0 };
    double *partial = (double *)carve_take(&c, CUDA_SUM_BLOCKS * sizeof(double));

    if (!partial)
        return;
    partial_sum_kernel<0>
        <<<CUDA_SUM_BLOCKS, SUM_THREADS, 0, dev_stream(d)>>>(partial, x, n);
    final_sum_kernel<<<1, SUM_THREADS, 0, dev_stream(d)>>>(out, partial,
                                                           CUDA_SUM_BLOCKS);
    dev_launched(d, "sum_f32");
}

void cuda_sumsq_f32(struct dev *d, double *out, const float *x, int64_t n)
{
    struct carve c = { d, "sumsq_f32", 0 };
    double *partial = (double *)carve_take(&c, CUDA_SUM_BLOCKS * sizeof(double));

    if (!partial)
        return;
    partial_sum_kernel<1>
        <<<CUDA_SUM_BLOCKS, SUM_THREADS, 0, dev_stream(d)>>>(partial, x, n);
    final_sum_kernel<<<1, SUM_THREADS, 0, dev_stream(d)>>>(out, partial,
                                                           CUDA_SUM_BLOCKS);
    dev_launched(d, "sumsq_f32");
}

void cuda_adamw(struct dev *d, float *w, float *m, float *v, void *out,
                const float *grad, float grad_scale, const struct adamw *a, int64_t n)
{
    struct adamw_constants k = {
        a->lr,
        a->beta1,
        a->beta2,
        a->eps,
        (float)(1.0 - (double)a->lr * a->weight_decay),
        (float)(1.0 / (1.0 - pow((double)a->beta1, (double)a->step))),
        (float)(1.0 / sqrt(1.0 - pow((double)a->beta2, (double)a->step))),
        grad_scale,
    };

    if (n == 0)
        return;
    adamw_kernel<<<grid_for(div_up(n, 4), 256, d->sms), 256, 0, dev_stream(d)>>>(
        w, m, v, (bf16 *)out, grad, k, n);
    dev_launched(d, "adamw");
}

} /* extern "C" */
