/* The experts: rows are copied next to each other by expert, multiplied in groups
 * (gemm_grouped.h), and summed back per token in the order of k, in FP32. */
#include "trainer/cuda_dev.h"
#include "trainer/cuda_vec.cuh"
#include "trainer/gemm_grouped.h"
#include "trainer/ops_cuda.h"

enum { MOVE_THREADS = 256, MAX_K = 32 };

/* to[row[t,k]] = x[t] for every choice k: each token is read once.  Also clears the
 * tile counters of the products that follow, and puts weight in row order. */
static __global__ void scatter_kernel(bf16 *to, float *row_weight, int32_t *counters,
                                      const bf16 *x, struct route r, int D, int K)
{
    __shared__ int32_t row[MAX_K];
    int64_t t = blockIdx.x;

    if (t == 0 && threadIdx.x < N_GROUPED)
        counters[threadIdx.x] = 0;
    if ((int)threadIdx.x < K) {
        row[threadIdx.x] = r.row[t * K + threadIdx.x];
        if (row_weight)
            row_weight[row[threadIdx.x]] = r.weight[t * K + threadIdx.x];
    }
    __syncthreads();
    for (int c = threadIdx.x * VEC; c < D; c += blockDim.x * VEC) {
        uint4 v = *reinterpret_cast<const uint4 *>(x + t * D + c);

        for (int k = 0; k < K; k++)
            *reinterpret_cast<uint4 *>(to + (int64_t)row[k] * D + c) = v;
    }
}

/* out[t] = add[t] + sum over k of weight[t,k] from[row[t,k]]; add, weight may be NULL. */
static __global__ void combine_kernel(bf16 *out, const bf16 *add, const bf16 *from,
                                      const float *weight, const int32_t *row, int D,
                                      int K)
{
    int64_t t = blockIdx.x;

    for (int c = threadIdx.x * VEC; c < D; c += blockDim.x * VEC) {
        float sum[VEC] = {}, v[VEC];

#pragma unroll 8
        for (int k = 0; k < K; k++) {
            float w = weight ? weight[t * K + k] : 1.f;

            load8(v, from + (int64_t)row[t * K + k] * D + c);
#pragma unroll
            for (int i = 0; i < VEC; i++)
                sum[i] += w * v[i];
        }
        if (add) {
            load8(v, add + t * D + c);
#pragma unroll
            for (int i = 0; i < VEC; i++)
                sum[i] += v[i];
        }
        store8(out + t * D + c, sum);
    }
}

/* dweight[t,k] = sum of its row's partial dot products. */
static __global__ void dweight_kernel(float *dweight, const float *dot,
                                      const int32_t *row, int64_t n, int tiles)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;

    if (i >= n)
        return;
    for (int j = 0; j < tiles; j++)
        s += dot[(int64_t)row[i] * tiles + j];
    dweight[i] = s;
}

struct sizes {
    int T, D, E, K, F;
};

static int experts_ok(struct dev *d, const struct sizes *z)
{
    if (grouped_mma.fits(z->D, z->E, z->F) && z->K <= MAX_K)
        return 1;
    dev_fail(
        d, ERR_USAGE,
        "experts: hidden %d and expert_ffn %d must be multiples of %d, top_k %d at "
        "most %d",
        z->D, z->F, (int)VEC, z->K, (int)MAX_K);
    return 0;
}

static const struct grouped_table *table_for(struct dev *d, const struct sizes *z)
{
    return d->grouped->fits(z->D, z->E, z->F) ? d->grouped : &grouped_mma;
}

static struct grouped grouped_base(struct dev *d, const struct route *r,
                                   const struct sizes *z)
{
    struct grouped g = {};

    g.stream = dev_stream(d);
    g.sms = d->sms;
    g.offset = r->offset;
    g.E = z->E;
    g.R = z->T * z->K;
    g.D = z->D;
    g.F = z->F;
    return g;
}

static void grouped_do(struct dev *d, const struct grouped_table *t,
                       enum grouped_kind kind, struct grouped *g)
{
    static const char *const names[N_GROUPED] = { "experts up",   "experts down",
                                                  "experts dact", "experts dx",
                                                  "experts dw2",  "experts dw13" };

    g->counter = d->counters + kind;
    dev_check(d, t->run(kind, g), names[kind]);
}

static void scatter(struct dev *d, bf16 *to, float *row_weight, const void *x,
                    const struct route *r, const struct sizes *z)
{
    scatter_kernel<<<z->T, MOVE_THREADS, 0, dev_stream(d)>>>(
        to, row_weight, d->counters, (const bf16 *)x, *r, z->D, z->K);
}

extern "C" {

static size_t bytes_of(int64_t rows, int64_t cols, size_t each)
{
    return carve_round((size_t)(rows * cols) * each);
}

void cuda_experts_fwd(struct dev *d, void *y, void *h, const void *x, const void *add,
                      const void *w13, const void *w2, const struct route *r, int T,
                      int D, int E, int K, int F)
{
    const struct sizes z = { T, D, E, K, F };
    const struct grouped_table *t = table_for(d, &z);
    struct carve c = { d, "experts_fwd", 0 };
    int64_t R = (int64_t)T * K;
    struct grouped g = grouped_base(d, r, &z);
    bf16 *rows = (bf16 *)carve_take(&c, bytes_of(R, D, 2)); /* x, then y, by row */
    bf16 *act = (bf16 *)carve_take(&c, bytes_of(R, F, 2));

    if (!experts_ok(d, &z) || !dev_ok(d) || T == 0)
        return;
    scatter(d, rows, NULL, x, r, &z);
    g.a = rows;
    g.b = w13;
    g.h = h;
    g.act = act;
    grouped_do(d, t, GROUPED_UP, &g);
    if (!y)
        return;
    g.a = act;
    g.b = w2;
    g.out = rows;
    grouped_do(d, t, GROUPED_DOWN, &g);
    combine_kernel<<<T, MOVE_THREADS, 0, dev_stream(d)>>>(
        (bf16 *)y, (const bf16 *)add, rows, r->weight, r->row, D, K);
    dev_launched(d, "experts_fwd");
}

/* dw13 and dw2 of a batch without tokens. */
static void clear_weights(struct dev *d, float *dw13, float *dw2, const struct sizes *z)
{
    size_t n = (size_t)z->E * z->D * z->F * sizeof(float);

    dev_check(d, cudaMemsetAsync(dw13, 0, 2 * n, dev_stream(d)), "experts_bwd");
    dev_check(d, cudaMemsetAsync(dw2, 0, n, dev_stream(d)), "experts_bwd");
}

void cuda_experts_bwd(struct dev *d, void *dx, float *dweight, float *dw13, float *dw2,
                      const void *dy, const void *x, const void *h, const void *w13,
                      const void *w2, const struct route *r, int T, int D, int E, int K,
                      int F)
{
    const struct sizes z = { T, D, E, K, F };
    const struct grouped_table *t = table_for(d, &z);
    struct carve c = { d, "experts_bwd", 0 };
    int64_t R = (int64_t)T * K;
    struct grouped g = grouped_base(d, r, &z);
    bf16 *rows =
        (bf16 *)carve_take(&c, bytes_of(R, D, 2)); /* dy, dx, x by row in turn */
    bf16 *dh = (bf16 *)carve_take(&c, bytes_of(R, 2 * F, 2));
    bf16 *act = (bf16 *)carve_take(&c, bytes_of(R, F, 2)); /* weight x activation */
    float *weight = (float *)carve_take(&c, bytes_of(R, 1, 4));
    float *dot = (float *)carve_take(&c, bytes_of(R, t->dot_tiles(F), 4));

    if (!experts_ok(d, &z) || !dev_ok(d))
        return;
    if (T == 0) {
        clear_weights(d, dw13, dw2, &z);
        return;
    }
    scatter(d, rows, weight, dy, r, &z);
    g.a = rows;
    g.b = w2;
    g.h = const_cast<void *>(h);
    g.weight = weight;
    g.dot = dot;
    g.out = dh;
    g.act = act;
    grouped_do(d, t, GROUPED_DACT, &g);
    dweight_kernel<<<(unsigned)div_up(R, 256), 256, 0, dev_stream(d)>>>(
        dweight, dot, r->row, R, t->dot_tiles(F));
    g.b = act;
    g.dw = dw2;
    grouped_do(d, t, GROUPED_DW2, &g);
    g.a = dh;
    g.b = w13;
    g.out = rows;
    grouped_do(d, t, GROUPED_DX, &g);
    combine_kernel<<<T, MOVE_THREADS, 0, dev_stream(d)>>>((bf16 *)dx, NULL, rows, NULL,
                                                          r->row, D, K);
    scatter(d, rows, NULL, x, r, &z);
    g.b = rows;
    g.dw = dw13;
    grouped_do(d, t, GROUPED_DW13, &g);
    dev_launched(d, "experts_bwd");
}

} /* extern "C" */
