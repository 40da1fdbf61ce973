/* Each grouped product of the experts alone, at the 30B-A3B layer's shape: the Hopper
 * kernel's time and its distance from the mma.sync kernel's result.
 *
 *   gpu_grouped [SPREAD...]    0: the same rows for every expert; else uneven */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <vector>

#include "trainer/cuda_vec.cuh"
#include "trainer/gemm_grouped.h"

enum { T = 16384, K = 8, R = T * K, D = 2048, F = 768, E = 128, CALLS = 5, ROUNDS = 7 };

static void check(cudaError_t e, const char *what)
{
    if (e == cudaSuccess)
        return;
    fprintf(stderr, "gpu_grouped: %s: %s\n", what, cudaGetErrorString(e));
    exit(1);
}

static __global__ void noise_kernel(bf16 *p, int64_t n, uint32_t seed, float by)
{
    int64_t step = (int64_t)gridDim.x * blockDim.x;

    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        uint32_t x = (uint32_t)i * 2654435761u + seed;
        float s = 0;

        for (int j = 0; j < 4; j++) {
            x ^= x >> 16;
            x *= 0x7feb352du;
            x ^= x >> 15;
            x *= 0x846ca68bu;
            s += (float)(x >> 8) / 16777216.f - 0.5f;
        }
        p[i] = __float2bfloat16(s * 1.73f * by);
    }
}

static __global__ void difference_kernel(double *out, const void *a, const void *b,
                                         int64_t n, int f32)
{
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    double diff = 0, norm = 0;

    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        double x = f32 ? ((const float *)a)[i] : __bfloat162float(((const bf16 *)a)[i]);
        double y = f32 ? ((const float *)b)[i] : __bfloat162float(((const bf16 *)b)[i]);

        diff += (x - y) * (x - y);
        norm += y * y;
    }
    atomicAdd(out, diff);
    atomicAdd(out + 1, norm);
}

template <class X> static X *take(int64_t n, uint32_t seed = 0, float by = 1)
{
    X *p;

    check(cudaMalloc(&p, n * sizeof(X)), "memory");
    check(cudaMemset(p, 0xff, n * sizeof(X)), "memory");
    if (seed)
        noise_kernel<<<1024, 256>>>((bf16 *)p, n, seed, by);
    return p;
}

static double difference(const void *a, const void *b, int64_t n, int f32)
{
    static double *d = take<double>(2);
    double h[2];

    check(cudaMemset(d, 0, 16), "difference");
    difference_kernel<<<1024, 256>>>(d, a, b, n, f32);
    check(cudaMemcpy(h, d, 16, cudaMemcpyDeviceToHost), "difference");
    return sqrt(h[0] / h[1]);
}

static double time_ms(enum grouped_kind kind, struct grouped *g)
{
    cudaEvent_t a, b;
    std::vector<float> ms;

    cudaEventCreate(&a);
    cudaEventCreate(&b);
    for (int r = -1; r < ROUNDS; r++) {
        float t;

        cudaEventRecord(a, g->stream);
        for (int i = 0; i < CALLS; i++) {
            cudaMemsetAsync(g->counter, 0, 4, g->stream);
            check(grouped_sm90.run(kind, g), "launch");
        }
        cudaEventRecord(b, g->stream);
        check(cudaEventSynchronize(b), "run");
        cudaEventElapsedTime(&t, a, b);
        if (r >= 0)
            ms.push_back(t / CALLS);
    }
    std::sort(ms.begin(), ms.end());
    return ms[ROUNDS / 2];
}

struct memory {
    bf16 *x, *dy, *act, *dh, *h, *w13, *w2, *out[2], *act_out[2], *h_out[2];
    float *weight, *dot[2], *dw[2];
    int32_t *offset, *counter;
};

static std::vector<int32_t> offsets(double spread)
{
    std::vector<double> p(E);
    std::vector<int32_t> o(E + 1, 0);
    double sum = 0;
    int most = 0;

    srand(7);
    for (int e = 0; e < E; e++)
        sum += p[e] = exp(spread * sqrt(3.) * (2. * rand() / RAND_MAX - 1));
    for (int e = 0; e < E; e++) {
        int n = e == E - 1 ? R - o[e] : (int)(p[e] / sum * R);

        if (spread > 0 && e == 17)
            n = 0;
        o[e + 1] = o[e] + n;
        most = std::max(most, n);
    }
    printf("# spread %.1f: max:mean %.2f\n", spread, (double)most * E / R);
    return o;
}

/* What a kind reads and writes, and how much to compare. */
struct work {
    const char *name;
    const void *a, *b;
    double flop;
    int64_t out, act, h, dw;
};

int main(int argc, char **argv)
{
    const double one = 2. * R * D * F;
    struct memory m = {};

    m.x = take<bf16>((int64_t)R * D, 1);
    m.dy = take<bf16>((int64_t)R * D, 2);
    m.act = take<bf16>((int64_t)R * F, 3);
    m.dh = take<bf16>((int64_t)R * 2 * F, 4);
    m.h = take<bf16>((int64_t)R * 2 * F, 5);
    m.w13 = take<bf16>((int64_t)E * 2 * F * D, 6, 0.02f);
    m.w2 = take<bf16>((int64_t)E * F * D, 7, 0.02f);
    m.weight = take<float>(R);
    check(cudaMemset(m.weight, 0x3e, R * 4), "weights");
    for (int i = 0; i < 2; i++) {
        m.out[i] = take<bf16>((int64_t)R * D);
        m.act_out[i] = take<bf16>((int64_t)R * F);
        m.h_out[i] = take<bf16>((int64_t)R * 2 * F);
        m.dot[i] = take<float>((int64_t)R * 12);
        m.dw[i] = take<float>((int64_t)E * 2 * F * D);
    }
    m.offset = take<int32_t>(E + 1);
    m.counter = take<int32_t>(1);
    const struct work works[N_GROUPED] = {
        { "up, SwiGLU", m.x, m.w13, 2 * one, 0, (int64_t)R * F, (int64_t)R * 2 * F, 0 },
        { "down", m.act, m.w2, one, (int64_t)R * D, 0, 0, 0 },
        { "dact, dSwiGLU", m.dy, m.w2, one, (int64_t)R * 2 * F, (int64_t)R * F, 0, 0 },
        { "dx", m.dh, m.w13, 2 * one, (int64_t)R * D, 0, 0, 0 },
        { "dw2", m.dy, m.act, one, 0, 0, 0, (int64_t)E * F * D },
        { "dw13", m.dh, m.x, 2 * one, 0, 0, 0, (int64_t)E * 2 * F * D },
    };
    for (int s = 1; s < std::max(argc, 2); s++) {
        std::vector<int32_t> o = offsets(argc > 1 ? atof(argv[s]) : 0);
        double total = 0;

        check(cudaMemcpy(m.offset, o.data(), (E + 1) * 4, cudaMemcpyHostToDevice),
              "copy");
        for (int k = 0; k < N_GROUPED; k++) {
            const struct work *w = &works[k];
            double ms = 0, worst = 0;

            for (int i = 0; i < 2; i++) {
                struct grouped g = {};

                g.sms = 132;
                g.counter = m.counter;
                g.offset = m.offset;
                g.E = E;
                g.R = R;
                g.D = D;
                g.F = F;
                g.a = w->a;
                g.b = w->b;
                g.out = m.out[i];
                g.act = m.act_out[i];
                g.h = k == GROUPED_DACT ? m.h : m.h_out[i];
                g.weight = m.weight;
                g.dot = m.dot[i];
                g.dw = m.dw[i];
                if (i == 0)
                    ms = time_ms((enum grouped_kind)k, &g);
                else if (!getenv("NO_CHECK"))
                    check(grouped_mma.run((enum grouped_kind)k, &g), "reference");
                check(cudaDeviceSynchronize(), w->name);
            }
            if (w->out)
                worst = fmax(worst, difference(m.out[0], m.out[1], w->out, 0));
            if (w->act)
                worst = fmax(worst, difference(m.act_out[0], m.act_out[1], w->act, 0));
            if (w->h)
                worst = fmax(worst, difference(m.h_out[0], m.h_out[1], w->h, 0));
            if (w->dw)
                worst = fmax(worst, difference(m.dw[0], m.dw[1], w->dw, 1));
            total += ms;
            printf("%-16s %7.3f ms %6.1f TFLOP/s  error %.1e\n", w->name, ms,
                   w->flop / ms * 1e-9, worst);
        }
        printf("%-16s %7.3f ms %6.1f TFLOP/s\n", "all six", total,
               9 * one / total * 1e-9);
    }
    return 0;
}
