/* Elementwise operations, SwiGLU, the embedding. */
#include <cub/device/device_radix_sort.cuh>

#include "trainer/cuda_dev.h"
#include "trainer/cuda_vec.cuh"
#include "trainer/ops_cuda.h"

enum { BLOCK = 256 };

static __global__ void add_kernel(bf16 *out, const bf16 *a, const bf16 *b, int64_t n)
{
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    float x[VEC], y[VEC];

    for (int64_t i = at; i < n / VEC; i += step) {
        load8(x, a + i * VEC);
        load8(y, b + i * VEC);
#pragma unroll
        for (int j = 0; j < VEC; j++)
            x[j] += y[j];
        store8(out + i * VEC, x);
    }
    for (int64_t i = n / VEC * VEC + at; i < n; i += step)
        out[i] = __float2bfloat16(__bfloat162float(a[i]) + __bfloat162float(b[i]));
}

/* io = io by + x (x may be NULL) */
static __global__ void axpy_kernel(float *io, const float *x, float by, int64_t n)
{
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;

    for (int64_t i = at; i < n / 4; i += step) {
        float4 v = reinterpret_cast<float4 *>(io)[i];
        float4 u = x ? reinterpret_cast<const float4 *>(x)[i] : float4{ 0, 0, 0, 0 };

        v = float4{ v.x * by + u.x, v.y * by + u.y, v.z * by + u.z, v.w * by + u.w };
        reinterpret_cast<float4 *>(io)[i] = v;
    }
    for (int64_t i = n / 4 * 4 + at; i < n; i += step)
        io[i] = io[i] * by + (x ? x[i] : 0.f);
}

static __global__ void add_i32_kernel(int32_t *io, const int32_t *x, int64_t n)
{
    int64_t step = (int64_t)gridDim.x * blockDim.x;

    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        io[i] += x[i];
}

static __global__ void from_f32_kernel(bf16 *out, const float *x, int64_t n)
{
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;

    for (int64_t i = at; i < n / VEC; i += step) {
        float4 a = reinterpret_cast<const float4 *>(x)[2 * i];
        float4 b = reinterpret_cast<const float4 *>(x)[2 * i + 1];
        float v[VEC] = { a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w };

        store8(out + i * VEC, v);
    }
    for (int64_t i = n / VEC * VEC + at; i < n; i += step)
        out[i] = __float2bfloat16(x[i]);
}

static __global__ void swiglu_fwd_kernel(bf16 *out, const bf16 *h, int64_t n, int F)
{
    int64_t step = (int64_t)gridDim.x * blockDim.x;

    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        int64_t row = i * VEC / F, col = i * VEC % F;
        float g[VEC], u[VEC];

        load8(g, h + row * 2 * F + col);
        load8(u, h + row * 2 * F + F + col);
#pragma unroll
        for (int j = 0; j < VEC; j++)
            g[j] = g[j] * sigmoidf(g[j]) * u[j];
        store8(out + i * VEC, g);
    }
}

static __global__ void swiglu_bwd_kernel(bf16 *dh, const bf16 *dout, const bf16 *h,
                                         int64_t n, int F)
{
    int64_t step = (int64_t)gridDim.x * blockDim.x;

    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        int64_t row = i * VEC / F, col = i * VEC % F, at = row * 2 * F + col;
        float g[VEC], u[VEC], dy[VEC];

        load8(g, h + at);
        load8(u, h + at + F);
        load8(dy, dout + i * VEC);
#pragma unroll
        for (int j = 0; j < VEC; j++) {
            float s = sigmoidf(g[j]), silu = g[j] * s;

            g[j] = dy[j] * u[j] * s * (1.f + g[j] * (1.f - s));
            u[j] = dy[j] * silu;
        }
        store8(dh + at, g);
        store8(dh + at + F, u);
    }
}

/* --- embedding --------------------------------------------------------------------- */

static __global__ void embed_fwd_kernel(bf16 *out, const int32_t *tokens,
                                        const bf16 *table, int64_t n, int D)
{
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    int per_row = D / VEC;

    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        int64_t row = i / per_row, col = i % per_row * VEC;

        *reinterpret_cast<uint4 *>(out + row * D + col) =
            *reinterpret_cast<const uint4 *>(table + (int64_t)tokens[row] * D + col);
    }
}

static __global__ void iota_kernel(int32_t *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        out[i] = i;
}

/* Add VEC columns to FP32 memory. */
static __device__ __forceinline__ void add8(float *to, const float *v)
{
    float4 *p = reinterpret_cast<float4 *>(to), a = p[0], b = p[1];

    p[0] = float4{ a.x + v[0], a.y + v[1], a.z + v[2], a.w + v[3] };
    p[1] = float4{ b.x + v[4], b.y + v[5], b.z + v[6], b.w + v[7] };
}

/* The sorted list in pieces of PIECE places: a frequent token's rows are summed by
 * many blocks.  Runs of equal tokens inside a piece go to the table at once; one that
 * comes from the piece before leaves its sum in part[piece][0], one that goes on into
 * the next in part[piece][1].  A run that does both is in [0]. */
static __global__ void embed_pieces_kernel(float *dtable, float *part,
                                           const int32_t *sorted, const int32_t *place,
                                           const bf16 *dout, int T, int D)
{
    int first = blockIdx.x * EMBED_PIECE, last = min(first + EMBED_PIECE, T);
    int col = (blockIdx.y * blockDim.x + threadIdx.x) * VEC;
    float sum[VEC] = {}, v[VEC];

    if (col >= D)
        return;
    for (int i = first, start = first; i < last; i++) {
        int token = sorted[i];

        load8(v, dout + (int64_t)place[i] * D + col);
#pragma unroll
        for (int j = 0; j < VEC; j++)
            sum[j] += v[j];
        if (i + 1 < last && sorted[i + 1] == token)
            continue;
        if (start == first && first > 0 && sorted[first - 1] == token)
            store8f(part + (int64_t)(2 * blockIdx.x) * D + col, sum);
        else if (i + 1 < T && i + 1 == last && sorted[last] == token)
            store8f(part + (int64_t)(2 * blockIdx.x + 1) * D + col, sum);
        else
            add8(dtable + (int64_t)token * D + col, sum);
        start = i + 1;
#pragma unroll
        for (int j = 0; j < VEC; j++)
            sum[j] = 0;
    }
}

/* A block a piece whose last run goes on: its parts, first to last, to the table. */
static __global__ void embed_join_kernel(float *dtable, const float *part,
                                         const int32_t *sorted, int T, int D)
{
    int next = (blockIdx.x + 1) * EMBED_PIECE, token;
    int col = (blockIdx.y * blockDim.x + threadIdx.x) * VEC;
    float sum[VEC], v[VEC];

    if (col >= D || next >= T)
        return;
    token = sorted[next - 1];
    if (sorted[next] != token) /* ends here */
        return;
    if (blockIdx.x > 0 && sorted[blockIdx.x * EMBED_PIECE - 1] == token)
        return; /* began in a piece before, which joins it */
    load8f(sum, part + (int64_t)(2 * blockIdx.x + 1) * D + col);
    for (; next < T && sorted[next] == token; next += EMBED_PIECE) {
        load8f(v, part + (int64_t)(2 * (next / EMBED_PIECE)) * D + col);
#pragma unroll
        for (int j = 0; j < VEC; j++)
            sum[j] += v[j];
    }
    add8(dtable + (int64_t)token * D + col, sum);
}

extern "C" {

void cuda_add(struct dev *d, void *out, const void *a, const void *b, int64_t n)
{
    if (n == 0)
        return;
    add_kernel<<<grid_for(div_up(n, VEC), BLOCK, d->sms), BLOCK, 0, dev_stream(d)>>>(
        (bf16 *)out, (const bf16 *)a, (const bf16 *)b, n);
    dev_launched(d, "add");
}

void cuda_add_f32(struct dev *d, float *io, const float *x, int64_t n)
{
    if (n == 0)
        return;
    axpy_kernel<<<grid_for(div_up(n, 4), BLOCK, d->sms), BLOCK, 0, dev_stream(d)>>>(
        io, x, 1.f, n);
    dev_launched(d, "add_f32");
}

void cuda_add_i32(struct dev *d, int32_t *io, const int32_t *x, int64_t n)
{
    if (n == 0)
        return;
    add_i32_kernel<<<grid_for(n, BLOCK, d->sms), BLOCK, 0, dev_stream(d)>>>(io, x, n);
    dev_launched(d, "add_i32");
}

void cuda_scale_f32(struct dev *d, float *io, float by, int64_t n)
{
    if (n == 0)
        return;
    axpy_kernel<<<grid_for(div_up(n, 4), BLOCK, d->sms), BLOCK, 0, dev_stream(d)>>>(
        io, NULL, by, n);
    dev_launched(d, "scale_f32");
}

void cuda_from_f32(struct dev *d, void *out, const float *x, int64_t n)
{
    if (n == 0)
        return;
    from_f32_kernel<<<grid_for(div_up(n, VEC), BLOCK, d->sms), BLOCK, 0,
                      dev_stream(d)>>>((bf16 *)out, x, n);
    dev_launched(d, "from_f32");
}

static int width_ok(struct dev *d, const char *op, int width)
{
    if (width % VEC == 0)
        return 1;
    dev_fail(d, ERR_USAGE,
             "%s: a width of %d is not a multiple of %d, which CUDA needs", op, width,
             (int)VEC);
    return 0;
}

void cuda_swiglu_fwd(struct dev *d, void *out, const void *h, int T, int F)
{
    int64_t n = (int64_t)T * F / VEC;

    if (n == 0 || !width_ok(d, "swiglu_fwd", F))
        return;
    swiglu_fwd_kernel<<<grid_for(n, BLOCK, d->sms), BLOCK, 0, dev_stream(d)>>>(
        (bf16 *)out, (const bf16 *)h, n, F);
    dev_launched(d, "swiglu_fwd");
}

void cuda_swiglu_bwd(struct dev *d, void *dh, const void *dout, const void *h, int T,
                     int F)
{
    int64_t n = (int64_t)T * F / VEC;

    if (n == 0 || !width_ok(d, "swiglu_bwd", F))
        return;
    swiglu_bwd_kernel<<<grid_for(n, BLOCK, d->sms), BLOCK, 0, dev_stream(d)>>>(
        (bf16 *)dh, (const bf16 *)dout, (const bf16 *)h, n, F);
    dev_launched(d, "swiglu_bwd");
}

void cuda_embed_fwd(struct dev *d, void *out, const int32_t *tokens, const void *table,
                    int T, int D, int V)
{
    int64_t n = (int64_t)T * D / VEC;

    (void)V;
    if (n == 0 || !width_ok(d, "embed_fwd", D))
        return;
    embed_fwd_kernel<<<grid_for(n, BLOCK, d->sms), BLOCK, 0, dev_stream(d)>>>(
        (bf16 *)out, tokens, (const bf16 *)table, n, D);
    dev_launched(d, "embed_fwd");
}

void cuda_embed_bwd(struct dev *d, float *dtable, const int32_t *tokens,
                    const void *dout, int T, int D, int V)
{
    struct carve c = { d, "embed_bwd", 0 };
    size_t n = (size_t)T * sizeof(int32_t), temp_bytes = cuda_sort_temp_bytes(T);
    int bits = 1;

    if (T == 0 || !width_ok(d, "embed_bwd", D))
        return;
    while (bits < 31 && 1 << bits < V)
        bits++;
    int32_t *sorted = (int32_t *)carve_take(&c, n);
    int32_t *iota = (int32_t *)carve_take(&c, n);
    int32_t *place = (int32_t *)carve_take(&c, n);
    float *part = (float *)carve_take(&c, cuda_embed_part_bytes(T, D));
    void *temp = carve_take(&c, temp_bytes);
    if (!dev_ok(d))
        return;
    iota_kernel<<<(unsigned)div_up(T, BLOCK), BLOCK, 0, dev_stream(d)>>>(iota, T);
    dev_check(d,
              cub::DeviceRadixSort::SortPairs(temp, temp_bytes, tokens, sorted, iota,
                                              place, T, 0, bits, dev_stream(d)),
              "embed_bwd: sorting tokens");
    dim3 grid((unsigned)div_up(T, EMBED_PIECE), (unsigned)div_up(D, 64 * VEC));
    embed_pieces_kernel<<<grid, 64, 0, dev_stream(d)>>>(dtable, part, sorted, place,
                                                        (const bf16 *)dout, T, D);
    embed_join_kernel<<<grid, 64, 0, dev_stream(d)>>>(dtable, part, sorted, T, D);
    dev_launched(d, "embed_bwd");
}

} /* extern "C" */
