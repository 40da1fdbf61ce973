/* gemm_grouped_sm90_store.cuh - what becomes of a tile's accumulators. */
#ifndef TRAINER_GEMM_GROUPED_SM90_STORE_CUH
#define TRAINER_GEMM_GROUPED_SM90_STORE_CUH

#include "trainer/gemm_grouped_sm90.cuh"

/* A warp's 16 rows of 64 columns in shared memory, 16-byte units swizzled as TMA does:
 * where this lane's 8x8 row of the 16 columns j goes. */
static __device__ __forceinline__ uint32_t frag_addr(uint32_t base, int j, int lane)
{
    int row = lane & 15, unit = 2 * j + (lane >> 4);

    return base + row * ROW_BYTES + ((unit ^ (row & 7)) << 4);
}

/* ... to memory, 128 bytes a row.  to: element (first row, first column). */
static __device__ __forceinline__ void flush(uint32_t base, bf16 *to, int64_t ld,
                                             int rows, int cols, int lane)
{
    int unit = lane & 7;

    __syncwarp();
    if (unit * 8 >= cols)
        return;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int row = i * 4 + (lane >> 3);

        if (row < rows)
            *reinterpret_cast<uint4 *>(to + row * ld + unit * 8) =
                load_shared(base + row * ROW_BYTES + ((unit ^ (row & 7)) << 4));
    }
}

/* The accumulators of 16 columns as the four 8x8 matrices of ldmatrix and stmatrix. */
static __device__ __forceinline__ void pack_frag(uint32_t *r, const float *acc)
{
    r[0] = pack2(acc[0], acc[1]);
    r[1] = pack2(acc[2], acc[3]);
    r[2] = pack2(acc[4], acc[5]);
    r[3] = pack2(acc[6], acc[7]);
}

static __device__ __forceinline__ void
store_plain(struct shared *s, const float (&acc)[128], const struct tile &t,
            const struct arg &a, const struct who &me)
{
#pragma unroll
    for (int c = 0; c < 4; c++) {
        uint32_t base = smem_addr(s->staging[me.warp][c & 1]), r[4];

#pragma unroll
        for (int j = 0; j < 4; j++) {
            pack_frag(r, acc + c * 32 + j * 8);
            stmatrix4(frag_addr(base, j, me.lane), r[0], r[1], r[2], r[3]);
        }
        flush(base, a.out + (int64_t)(t.row + me.first) * a.N + t.n + 64 * c, a.N,
              t.rows - me.first, a.N - t.n - 64 * c, me.lane);
    }
}

/* silu(x) y */
static __device__ __forceinline__ float silu(float x, float y)
{
    return __fdividef(x * y, 1.f + __expf(-x));
}

static __device__ __forceinline__ float2 unpack2(uint32_t u)
{
    return __bfloat1622float2(*reinterpret_cast<__nv_bfloat162 *>(&u));
}

/* UP: columns 0..127 of acc are h1, 128..255 the h3 beside it. */
static __device__ __forceinline__ void
store_up(struct shared *s, const float (&acc)[128], const struct tile &t,
         const struct arg &a, const struct who &me)
{
    uint32_t one = smem_addr(s->staging[me.warp][0]);
    uint32_t two = smem_addr(s->staging[me.warp][1]), r[4];
    int64_t row = t.row + me.first;
    int rows = t.rows - me.first;

#pragma unroll
    for (int c = 0; c < 2; c++) {
        const float *h1 = acc + c * 32, *h3 = acc + 64 + c * 32;
        int cols = a.N - t.n - 64 * c;

        __syncwarp();
#pragma unroll
        for (int j = 0; j < 4; j++) {
            pack_frag(r, h1 + j * 8);
            stmatrix4(frag_addr(one, j, me.lane), r[0], r[1], r[2], r[3]);
            pack_frag(r, h3 + j * 8);
            stmatrix4(frag_addr(two, j, me.lane), r[0], r[1], r[2], r[3]);
        }
        flush(one, a.h + row * 2 * a.N + t.n + 64 * c, 2 * a.N, rows, cols, me.lane);
        flush(two, a.h + row * 2 * a.N + a.N + t.n + 64 * c, 2 * a.N, rows, cols,
              me.lane);
        __syncwarp();
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float v[8];

#pragma unroll
            for (int i = 0; i < 8; i++)
                v[i] = silu(h1[j * 8 + i], h3[j * 8 + i]);
            pack_frag(r, v);
            stmatrix4(frag_addr(one, j, me.lane), r[0], r[1], r[2], r[3]);
        }
        flush(one, a.act + row * a.N + t.n + 64 * c, a.N, rows, cols, me.lane);
    }
}

/* DACT: acc is da.  The stages after the product hold h1 and h3, 64 columns each; the
 * gradients replace them in place. */
struct dact {
    float weight[2], dot[2]; /* of rows lane / 4 and lane / 4 + 8 */
};

/* One element: in h1, h3; out their gradients.  The value is weight x activation. */
static __device__ __forceinline__ float dact_one(struct dact *x, int high, float da,
                                                 float *h1, float *h3)
{
    float s = sigmoidf(*h1), silu1 = *h1 * s, act = silu1 * *h3;

    x->dot[high] += da * act;
    da *= x->weight[high];
    *h1 = da * *h3 * fmaf(silu1, 1.f - s, s);
    *h3 = da * silu1;
    return x->weight[high] * act;
}

static __device__ __forceinline__ uint32_t dact_pair(struct dact *x, int high,
                                                     const float *da, uint32_t *g,
                                                     uint32_t *u)
{
    float2 h1 = unpack2(*g), h3 = unpack2(*u);
    float y0 = dact_one(x, high, da[0], &h1.x, &h3.x);
    float y1 = dact_one(x, high, da[1], &h1.y, &h3.y);

    *g = pack2(h1.x, h1.y);
    *u = pack2(h3.x, h3.y);
    return pack2(y0, y1);
}

static __device__ __forceinline__ void
store_dact(struct shared *s, struct ring *r, const float (&acc)[128],
           const struct tile &t, const struct arg &a, const struct who &me)
{
    int64_t row = t.row + me.first;
    int rows = t.rows - me.first, mine = me.lane >> 2, tiles = (a.N + BN - 1) / BN;
    struct dact x = { { mine < rows ? a.weight[row + mine] : 0.f,
                        mine + 8 < rows ? a.weight[row + mine + 8] : 0.f },
                      { 0, 0 } };

#pragma unroll
    for (int c = 0; c < 4; c++) {
        uint32_t one = smem_addr(s->stage[r->stage]) + me.first * ROW_BYTES;
        uint32_t three = one + A_BYTES, out = smem_addr(s->staging[me.warp][c & 1]);
        int cols = a.N - t.n - 64 * c;

        mbar_wait(smem_addr(&s->full[r->stage]), r->phase);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float *d = acc + c * 32 + j * 8;
            uint32_t g[4], u[4], y[4];

            ldmatrix4(frag_addr(one, j, me.lane), g);
            ldmatrix4(frag_addr(three, j, me.lane), u);
#pragma unroll
            for (int i = 0; i < 4; i++)
                y[i] = dact_pair(&x, i & 1, d + 2 * i, &g[i], &u[i]);
            stmatrix4(frag_addr(one, j, me.lane), g[0], g[1], g[2], g[3]);
            stmatrix4(frag_addr(three, j, me.lane), u[0], u[1], u[2], u[3]);
            stmatrix4(frag_addr(out, j, me.lane), y[0], y[1], y[2], y[3]);
        }
        flush(one, a.out + row * 2 * a.N + t.n + 64 * c, 2 * a.N, rows, cols, me.lane);
        flush(three, a.out + row * 2 * a.N + a.N + t.n + 64 * c, 2 * a.N, rows, cols,
              me.lane);
        flush(out, a.act + row * a.N + t.n + 64 * c, a.N, rows, cols, me.lane);
        fence_async(); /* our stores before the next TMA load into this stage */
        __syncwarp();
        if (me.lane == 0)
            mbar_arrive(smem_addr(&s->empty[r->stage]));
        ring_next(r);
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float v = x.dot[i];

        v += __shfl_xor_sync(~0u, v, 1);
        v += __shfl_xor_sync(~0u, v, 2);
        if ((me.lane & 3) == 0 && mine + 8 * i < rows)
            a.dot[(row + mine + 8 * i) * tiles + t.n / BN] = v;
    }
}

/* K-grouped: FP32, straight from the registers.  Neighbouring lanes exchange halves of
 * two groups of 8 columns, so that each writes 16 bytes. */
static __device__ __forceinline__ float4 four(const float *p, int odd)
{
    float give0 = odd ? p[0] : p[4], give1 = odd ? p[1] : p[5];
    float got0 = __shfl_xor_sync(~0u, give0, 1), got1 = __shfl_xor_sync(~0u, give1, 1);

    return float4{ odd ? got0 : p[0], odd ? got1 : p[1], odd ? p[4] : got0,
                   odd ? p[5] : got1 };
}

/* A store that is not a branch: ptxas then keeps the accumulators where wgmma has
 * them. */
static __device__ __forceinline__ void store_if(int yes, float *to, float4 v)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.b32 p, %0, 0;\n"
                 "@p st.global.cs.v4.f32 [%1], {%2, %3, %4, %5};\n"
                 "}\n" ::"r"(yes),
                 "l"(to), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
                 : "memory");
}

static __device__ __forceinline__ void store_f32(const float (&acc)[128],
                                                 const struct tile &t,
                                                 const struct arg &a,
                                                 const struct who &me)
{
    int odd = me.lane & 1, row = t.m + me.first + (me.lane >> 2);
    int col = t.n + 4 * ((me.lane & 3) >> 1) + 8 * odd;
    float *to = a.dw + ((int64_t)t.expert * a.M + row) * a.N + col;

#pragma unroll
    for (int i = 0; i < 16; i++) { /* columns 16 i .. 16 i + 15 */
        int in = col + 16 * i < a.N;

        store_if(in && row < a.M, to + 16 * i, four(acc + 8 * i, odd));
        store_if(in && row + 8 < a.M, to + 8 * (int64_t)a.N + 16 * i,
                 four(acc + 8 * i + 2, odd));
    }
}

#endif
