/* Grouped products for Hopper: one persistent kernel, warp-specialised.
 *
 * A block of 384 threads: warpgroup 0 is the producer (one thread fetches tiles from a
 * counter on the device and issues TMA loads into a ring of STAGES), warpgroups 1 and
 * 2 each multiply 64 of the tile's 128 rows with wgmma m64n256k16 and write their part
 * of the result.  The counter gives tiles to whoever is free, so a multiprocessor that
 * NCCL has taken costs its share and no more.
 *
 * Shared memory holds operands in 128-byte swizzled rows: K-major ones as
 * [rows][64 k], MN-major ones (K is the row index in memory) as chunks of
 * [64 k][64 columns].
 *
 * M-grouped tiles (UP, DOWN, DACT, DX) cover 128 rows of one expert; rows beyond its
 * end are computed and not stored.  K-grouped tiles (DW2, DW13) run over an expert's
 * rows in steps of 64; the rows of the last step that belong to the next expert are
 * zeroed in A, in shared memory, before they are multiplied. */
#include <cuda.h>
#include <cuda_runtime.h>

#include "trainer/gemm_grouped_sm90_store.cuh"

/* --- which tile ---------------------------------------------------------------------- */

static __device__ __forceinline__ int rows_of(const struct arg &a, int e)
{
    return a.offset[e + 1] - a.offset[e];
}

/* All threads, once: the table that tile numbers are looked up in. */
template <int K_GROUPED>
static __device__ void tiles_prepare(struct shared *s, const struct arg &a)
{
    for (int e = threadIdx.x; e < a.E; e += THREADS) {
        int n = rows_of(a, e), before = 0;

        for (int o = 0; o < a.E; o++) {
            int other = rows_of(a, o);

            if (K_GROUPED)
                before += other > n || (other == n && o < e);
            else
                before += o < e ? (other + BM - 1) / BM : 0;
        }
        if (K_GROUPED)
            s->order[before] = (unsigned char)e;
        else
            s->first[e] = before;
        if (!K_GROUPED && e == a.E - 1)
            s->first[a.E] = before + (n + BM - 1) / BM;
    }
}

/* Tiles of one expert are neighbours, rows before columns: blocks that run side by
 * side share the weights and then the rows in L2.  expert -1: no more. */
template <int K_GROUPED>
static __device__ struct tile tile_find(const struct shared *s, const struct arg &a,
                                        int i)
{
    int across = (a.N + a.tile_n - 1) / a.tile_n, lo = 0, hi = a.E, down, local;

    if (K_GROUPED) {
        down = (a.M + BM - 1) / BM;
        lo = i / (down * across);
        if (lo >= a.E)
            return { -1, 0, 0, 0, 0 };
        local = i % (down * across);
        lo = s->order[lo];
        return { lo, a.offset[lo], rows_of(a, lo), local % down * BM,
                 local / down * a.tile_n };
    }
    if (i >= s->first[a.E] * across)
        return { -1, 0, 0, 0, 0 };
    while (hi - lo > 1) { /* first[lo] across <= i < first[hi] across */
        int mid = (lo + hi) / 2;

        if (s->first[mid] * across <= i)
            lo = mid;
        else
            hi = mid;
    }
    down = s->first[lo + 1] - s->first[lo];
    local = i - s->first[lo] * across;
    return { lo, a.offset[lo] + local % down * BM,
             min(BM, rows_of(a, lo) - local % down * BM), 0, local / down * a.tile_n };
}

/* --- producer -------------------------------------------------------------------------- */

template <int KIND>
static __device__ __forceinline__ void
load_stage(struct shared *s, int stage, const CUtensorMap *ma, const CUtensorMap *mb,
           const struct arg &a, const struct tile &t, int k)
{
    uint32_t pa = smem_addr(s->stage[stage]), pb = pa + A_BYTES;
    uint32_t bar = smem_addr(&s->full[stage]);

    mbar_expect(bar, STAGE_BYTES);
    if (KIND == GROUPED_DW2 || KIND == GROUPED_DW13) {
        for (int c = 0; c < 2; c++)
            tma_load(pa + c * CHUNK, ma, t.m + 64 * c, t.row + k, bar);
        for (int c = 0; c < 4; c++)
            tma_load(pb + c * CHUNK, mb, t.n + 64 * c, t.row + k, bar);
        return;
    }
    tma_load(pa, ma, k, t.row, bar);
    if (KIND == GROUPED_UP) { /* 128 rows of W1, the same 128 of W3 */
        tma_load(pb, mb, k, t.expert * a.b_rows + t.n, bar);
        tma_load(pb + B_BYTES / 2, mb, k, t.expert * a.b_rows + a.b_rows / 2 + t.n,
                 bar);
    } else if (KIND == GROUPED_DOWN) {
        tma_load(pb, mb, k, t.expert * a.b_rows + t.n, bar);
    } else {
        for (int c = 0; c < 4; c++)
            tma_load(pb + c * CHUNK, mb, t.n + 64 * c, t.expert * a.b_rows + k, bar);
    }
}

/* DACT: 64 columns of h1 and of h3 as one more stage. */
static __device__ __forceinline__ void load_h(struct shared *s, const struct ring &r,
                                              const CUtensorMap *mh,
                                              const struct arg &a, const struct tile &t,
                                              int c)
{
    uint32_t p = smem_addr(s->stage[r.stage]), bar = smem_addr(&s->full[r.stage]);

    mbar_wait(smem_addr(&s->empty[r.stage]), r.phase ^ 1);
    mbar_expect(bar, 2 * A_BYTES);
    tma_load(p, mh, t.n + c, t.row, bar);
    tma_load(p + A_BYTES, mh, a.N + t.n + c, t.row, bar);
}

template <int KIND>
static __device__ void produce(struct shared *s, const CUtensorMap *ma,
                               const CUtensorMap *mb, const CUtensorMap *mh,
                               const struct arg &a)
{
    constexpr int K_GROUPED = KIND == GROUPED_DW2 || KIND == GROUPED_DW13;
    struct ring r = { 0, 0 };
    int next = blockIdx.x;

    for (int i = 0;; i++) {
        struct tile t = tile_find<K_GROUPED>(s, a, next);
        int slot = i % SLOTS, ks = K_GROUPED ? t.rows : a.K;

        if (t.expert >= 0)
            next = gridDim.x + atomicAdd(a.counter, 1);
        mbar_wait(smem_addr(&s->slot_empty[slot]), (i / SLOTS & 1) ^ 1);
        s->slot[slot] = t;
        mbar_arrive(smem_addr(&s->slot_full[slot]));
        if (t.expert < 0)
            return;
        for (int k = 0; k < ks; k += BK, ring_next(&r)) {
            mbar_wait(smem_addr(&s->empty[r.stage]), r.phase ^ 1);
            load_stage<KIND>(s, r.stage, ma, mb, a, t, k);
        }
        if constexpr (KIND == GROUPED_DACT)
            for (int c = 0; c < BN; c += 64, ring_next(&r))
                load_h(s, r, mh, a, t, c);
    }
}

/* --- consumers: the product ---------------------------------------------------------------- */

static __device__ __forceinline__ void zero_tail(uint32_t half, int valid, int thread,
                                                 int group)
{
    for (int at = valid * ROW_BYTES + thread * 16; at < CHUNK; at += 128 * 16)
        store_shared(half + at, make_uint4(0, 0, 0, 0));
    fence_async();
    asm volatile("bar.sync %0, 128;" ::"r"(1 + group) : "memory");
}

/* acc = the tile's product.  A stage is handed back when the wgmma after it has been
 * issued and it is known to be done. */
template <int KIND>
static __device__ __forceinline__ void
multiply(struct shared *s, struct ring *r, float (&acc)[128], const struct tile &t,
         const struct arg &a, const struct who &me)
{
    constexpr int A_MN = KIND == GROUPED_DW2 || KIND == GROUPED_DW13;
    constexpr int B_MN = KIND != GROUPED_UP && KIND != GROUPED_DOWN;
    constexpr int A_STEP = A_MN ? 16 * ROW_BYTES : 32,
                  B_STEP = B_MN ? 16 * ROW_BYTES : 32;
    int ks = A_MN ? t.rows : a.K, last = -1;

    if constexpr (A_MN) { /* an expert without rows: zeros */
#pragma unroll
        for (int i = 0; i < 128; i++)
            acc[i] = 0;
    }
    for (int k = 0; k < ks; k += BK) {
        uint32_t pa = smem_addr(s->stage[r->stage]) + me.group * HALF_A;
        uint32_t pb = smem_addr(s->stage[r->stage]) + A_BYTES;
        uint64_t da = matrix_desc(pa, A_MN ? CHUNK : 16, 1024);
        uint64_t db = matrix_desc(pb, B_MN ? CHUNK : 16, 1024);

        mbar_wait(smem_addr(&s->full[r->stage]), r->phase);
        if (A_MN && ks - k < BK)
            zero_tail(pa, ks - k, threadIdx.x & 127, me.group);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < BK / 16; i++)
            wgmma_m64n256k16<A_MN, B_MN>(acc, da + i * (A_STEP >> 4),
                                         db + i * (B_STEP >> 4),
                                         A_MN || k > 0 || i > 0);
        wgmma_commit();
        wgmma_wait<1>();
        if (last >= 0 && me.lane == 0)
            mbar_arrive(smem_addr(&s->empty[last]));
        last = r->stage;
        ring_next(r);
    }
    wgmma_wait<0>();
    wgmma_settle(acc);
    if (last >= 0 && me.lane == 0)
        mbar_arrive(smem_addr(&s->empty[last]));
}

template <int KIND>
static __device__ __forceinline__ void consume(struct shared *s, const struct arg &a,
                                               const struct who &me)
{
    struct ring r = { 0, 0 };
    float acc[128];

    for (int i = 0;; i++) {
        int slot = i % SLOTS;
        struct tile t;

        mbar_wait(smem_addr(&s->slot_full[slot]), i / SLOTS & 1);
        t = s->slot[slot];
        __syncwarp();
        if (me.lane == 0)
            mbar_arrive(smem_addr(&s->slot_empty[slot]));
        if (t.expert < 0)
            return;
        multiply<KIND>(s, &r, acc, t, a, me);
        if (KIND == GROUPED_UP)
            store_up(s, acc, t, a, me);
        else if (KIND == GROUPED_DACT)
            store_dact(s, &r, acc, t, a, me);
        else if (KIND == GROUPED_DW2 || KIND == GROUPED_DW13)
            store_f32(acc, t, a, me);
        else
            store_plain(s, acc, t, a, me);
    }
}

template <int KIND>
static __global__ void __launch_bounds__(THREADS, 1)
    grouped_kernel(const __grid_constant__ CUtensorMap ma,
                   const __grid_constant__ CUtensorMap mb,
                   const __grid_constant__ CUtensorMap mh, const struct arg a)
{
    extern __shared__ __align__(1024) unsigned char raw[];
    struct shared *s = reinterpret_cast<struct shared *>(raw);
    constexpr int K_GROUPED = KIND == GROUPED_DW2 || KIND == GROUPED_DW13;

    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            mbar_init(smem_addr(&s->full[i]), 1);
            mbar_init(smem_addr(&s->empty[i]), CONSUMER_WARPS);
        }
        for (int i = 0; i < SLOTS; i++) {
            mbar_init(smem_addr(&s->slot_full[i]), 1);
            mbar_init(smem_addr(&s->slot_empty[i]), CONSUMER_WARPS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        fence_async();
    }
    tiles_prepare<K_GROUPED>(s, a);
    __syncthreads();
    if (threadIdx.x < 128) {
        registers_less<40>();
        if (threadIdx.x == 0)
            produce<KIND>(s, &ma, &mb, &mh, a);
    } else {
        int warp = (int)threadIdx.x / 32 - 4;
        struct who me = { warp / 4, warp, (int)threadIdx.x & 31, warp * 16 };

        registers_more<232>();
        consume<KIND>(s, a, me);
    }
}

/* --- host ------------------------------------------------------------------------------------ */

/* A row-major BF16 matrix [rows, cols], read in boxes of box_rows x 64 columns. */
static cudaError_t make_map(CUtensorMap *map, const void *base, int64_t rows,
                            int64_t cols, int box_rows)
{
    cuuint64_t dims[2] = { (cuuint64_t)cols, (cuuint64_t)(rows > 0 ? rows : 1) };
    cuuint64_t strides[1] = { (cuuint64_t)cols * sizeof(bf16) };
    cuuint32_t box[2] = { 64, (cuuint32_t)box_rows }, steps[2] = { 1, 1 };
    CUresult r = cuTensorMapEncodeTiled(
        map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<void *>(base), dims,
        strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);

    return r == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

template <int KIND>
static cudaError_t launch(const struct grouped *g, const CUtensorMap &ma,
                          const CUtensorMap &mb, const CUtensorMap &mh,
                          const struct arg &a)
{
    static int ready = 0; /* one process opens one device */
    cudaError_t e = cudaSuccess;

    if (!ready)
        e = cudaFuncSetAttribute(grouped_kernel<KIND>,
                                 cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 (int)sizeof(struct shared));
    if (e != cudaSuccess)
        return e;
    ready = 1;
    grouped_kernel<KIND>
        <<<g->sms, THREADS, sizeof(struct shared), g->stream>>>(ma, mb, mh, a);
    return cudaGetLastError();
}

/* Shapes of the operands: a[a_rows, a_cols], b[b_rows, b_cols] and their boxes. */
struct operands {
    int64_t a_rows, a_cols, b_rows, b_cols;
    int a_box, b_box;
};

static struct operands operands_of(enum grouped_kind kind, const struct grouped *g)
{
    int64_t R = g->R, D = g->D, F = g->F, E = g->E;
    const struct operands all[N_GROUPED] = {
        { R, D, E * 2 * F, D, BM, BN / 2 }, /* UP */
        { R, F, E * D, F, BM, BN },         /* DOWN */
        { R, D, E * D, F, BM, BK },         /* DACT */
        { R, 2 * F, E * 2 * F, D, BM, BK }, /* DX */
        { R, D, R, F, BK, BK },             /* DW2 */
        { R, 2 * F, R, D, BK, BK },         /* DW13 */
    };

    return all[kind];
}

static struct arg arg_of(enum grouped_kind kind, const struct grouped *g)
{
    int D = g->D, F = g->F;
    const struct {
        int M, N, K, tile_n, b_rows;
    } all[N_GROUPED] = {
        { 0, F, D, BN / 2, 2 * F }, /* UP */
        { 0, D, F, BN, D },         /* DOWN */
        { 0, F, D, BN, D },         /* DACT */
        { 0, D, 2 * F, BN, 2 * F }, /* DX */
        { D, F, 0, BN, 0 },         /* DW2 */
        { 2 * F, D, 0, BN, 0 },     /* DW13 */
    };
    struct arg a = { g->offset,
                     g->counter,
                     g->E,
                     all[kind].M,
                     all[kind].N,
                     all[kind].K,
                     all[kind].tile_n,
                     all[kind].b_rows,
                     (bf16 *)g->out,
                     (bf16 *)g->act,
                     (bf16 *)g->h,
                     g->weight,
                     g->dot,
                     g->dw };

    return a;
}

static cudaError_t run(enum grouped_kind kind, const struct grouped *g)
{
    static cudaError_t (*const launches[N_GROUPED])(
        const struct grouped *, const CUtensorMap &, const CUtensorMap &,
        const CUtensorMap &, const struct arg &) = {
        launch<GROUPED_UP>, launch<GROUPED_DOWN>, launch<GROUPED_DACT>,
        launch<GROUPED_DX>, launch<GROUPED_DW2>,  launch<GROUPED_DW13>,
    };
    struct operands o = operands_of(kind, g);
    CUtensorMap ma, mb, mh;
    cudaError_t e = make_map(&ma, g->a, o.a_rows, o.a_cols, o.a_box);

    if (e == cudaSuccess)
        e = make_map(&mb, g->b, o.b_rows, o.b_cols, o.b_box);
    mh = ma;
    if (e == cudaSuccess && kind == GROUPED_DACT)
        e = make_map(&mh, g->h, g->R, 2 * (int64_t)g->F, BM);
    return e == cudaSuccess ? launches[kind](g, ma, mb, mh, arg_of(kind, g)) : e;
}

static int fits(int D, int E, int F)
{
    return D % 8 == 0 && F % 8 == 0 && E <= MAX_E;
}

static int dot_tiles(int F)
{
    return (F + BN - 1) / BN;
}

extern "C" const struct grouped_table grouped_sm90 = { "wgmma (sm_90a)", fits,
                                                       dot_tiles, run };
