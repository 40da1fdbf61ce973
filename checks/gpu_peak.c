/* What a card can do by its own account. */
#include <math.h>

#include "base/mem.h"
#include "checks/gpu.h"

double gpu_peak_flops(const struct gpu_state *s)
{
    static const struct {
        int from, to;
        double flop; /* a core and clock */
    } rates[] = {
        { 80, 80, 32 }, { 86, 89, 8 }, { 90, 90, 32 }, { 100, 109, 64 }, { 120, 129, 8 }
    };
    double sm = s->fact[GPU_SM];

    for (size_t i = 0; i < ARRAY_LEN(rates); i++)
        if (sm >= rates[i].from && sm <= rates[i].to)
            return s->fact[GPU_CORES] * s->fact[GPU_CLOCK_MAX] * 1e6 * rates[i].flop;
    return NAN;
}

double gpu_peak_bytes(const struct gpu_state *s)
{
    return s->fact[GPU_MEMORY_CLOCK_MAX] * 1e6 * s->fact[GPU_BUS_WIDTH] * 2 / 8;
}

double gpu_pcie_bytes(const struct gpu_state *s)
{
    /* GT/s a lane, and the share that line coding leaves */
    static const double lane[] = { 0,
                                   2.5 * 0.8,
                                   5 * 0.8,
                                   8 * 128.0 / 130,
                                   16 * 128.0 / 130,
                                   32 * 128.0 / 130,
                                   64 * 0.98 };
    double gen = s->fact[GPU_PCIE_GEN_MAX];

    return gen >= 1 && gen <= 6 ? lane[(int)gen] * 1e9 / 8 * s->fact[GPU_PCIE_WIDTH]
                                : NAN;
}
