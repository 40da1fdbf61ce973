/* Sizes of each device's scratch.  No BLAS and no CUDA: the launcher links this. */
#include "base/mem.h"
#include "base/str.h"
#include "trainer/ops.h"
#include "trainer/ops_cpu.h"
#include "trainer/ops_cuda.h"

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Partial weight gradients, one a unit of CPU_ROWS tokens. */
size_t cpu_rmsnorm_scratch(int T, int D)
{
    return sizeof(float) * (size_t)cpu_units(T, CPU_ROWS) * (size_t)D;
}

/* cos and sin of each position, then partial gradients of both norms. */
size_t cpu_qkrope_scratch(int T, int hd)
{
    return sizeof(float) * ((size_t)T + 2 * (size_t)cpu_units(T, CPU_ROWS)) *
           (size_t)hd;
}

/* Rows of dy and of x, the scaled activation and the gradient of h. */
size_t cpu_experts_scratch(int T, int D, int K, int F)
{
    return sizeof(float) * (size_t)T * (size_t)K * (2 * (size_t)D + 3 * (size_t)F);
}

/* ops.h gives every size to every device; here few matter. */
/* NOLINTNEXTLINE(readability-function-size): the parameters are ops.h's */
static size_t cpu_bytes(int T, int S, int D, int H, int KV, int hd, int E, int K, int F,
                        int chunk, int V)
{
    size_t most = cpu_experts_scratch(T, D, K, F);

    (void)S, (void)H, (void)KV, (void)E, (void)chunk, (void)V;
    most = larger(most, cpu_rmsnorm_scratch(T, D));
    return larger(most, cpu_qkrope_scratch(T, hd));
}

const struct ops *ops_sizes(const char *name)
{
    static const struct ops table[] = {
        { .name = "cpu", .elem_bytes = 4, .scratch_bytes = cpu_bytes },
        { .name = "cuda", .elem_bytes = 2, .scratch_bytes = cuda_scratch_bytes },
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (str_eq(name, table[i].name))
            return &table[i];
    return NULL;
}
