/* cuda_vec.cuh - 16-byte accesses and reductions for the CUDA kernels. */
#ifndef TRAINER_CUDA_VEC_CUH
#define TRAINER_CUDA_VEC_CUH

#include <cuda_bf16.h>
#include <stdint.h>

using bf16 = __nv_bfloat16;

enum { VEC = 8 }; /* BF16 elements in 16 bytes */

static __device__ __forceinline__ void unpack8(float *v, const uint4 u)
{
    const __nv_bfloat162 *h = reinterpret_cast<const __nv_bfloat162 *>(&u);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 f = __bfloat1622float2(h[i]);
        v[2 * i] = f.x;
        v[2 * i + 1] = f.y;
    }
}

static __device__ __forceinline__ uint32_t pack2(float lo, float hi)
{
    __nv_bfloat162 h = __floats2bfloat162_rn(lo, hi);
    return *reinterpret_cast<uint32_t *>(&h);
}

static __device__ __forceinline__ uint4 pack8(const float *v)
{
    return make_uint4(pack2(v[0], v[1]), pack2(v[2], v[3]), pack2(v[4], v[5]),
                      pack2(v[6], v[7]));
}

static __device__ __forceinline__ void load8(float *v, const bf16 *p)
{
    unpack8(v, *reinterpret_cast<const uint4 *>(p));
}

static __device__ __forceinline__ void store8(bf16 *p, const float *v)
{
    *reinterpret_cast<uint4 *>(p) = pack8(v);
}

/* Eight FP32. */
static __device__ __forceinline__ void load8f(float *v, const float *p)
{
    *reinterpret_cast<float4 *>(v) = reinterpret_cast<const float4 *>(p)[0];
    *reinterpret_cast<float4 *>(v + 4) = reinterpret_cast<const float4 *>(p)[1];
}

static __device__ __forceinline__ void store8f(float *p, const float *v)
{
    reinterpret_cast<float4 *>(p)[0] = *reinterpret_cast<const float4 *>(v);
    reinterpret_cast<float4 *>(p)[1] = *reinterpret_cast<const float4 *>(v + 4);
}

static __device__ __forceinline__ float warp_sum(float v)
{
#pragma unroll
    for (int o = 16; o; o >>= 1)
        v += __shfl_xor_sync(~0u, v, o);
    return v;
}

static __device__ __forceinline__ float warp_max(float v)
{
#pragma unroll
    for (int o = 16; o; o >>= 1)
        v = fmaxf(v, __shfl_xor_sync(~0u, v, o));
    return v;
}

/* Sum over the block, the same for all threads; smem[32].  blockDim.x is a
 * multiple of 32.  The trailing barrier lets smem be used again at once. */
static __device__ __forceinline__ float block_sum(float v, float *smem)
{
    int warps = blockDim.x >> 5;

    v = warp_sum(v);
    if (warps == 1)
        return v;
    if ((threadIdx.x & 31) == 0)
        smem[threadIdx.x >> 5] = v;
    __syncthreads();
    v = warp_sum((int)(threadIdx.x & 31) < warps ? smem[threadIdx.x & 31] : 0.f);
    __syncthreads();
    return v;
}

static __device__ __forceinline__ float sigmoidf(float x)
{
    return __fdividef(1.f, 1.f + __expf(-x));
}

static inline int64_t div_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Grid for a grid-stride loop over n items: at most 8 blocks a multiprocessor. */
static inline unsigned grid_for(int64_t n, int block, int sms)
{
    int64_t want = div_up(n, block), most = 8 * (int64_t)sms;

    return (unsigned)(want < 1 ? 1 : want < most ? want : most);
}

#endif
