/* ops_cpu.h - what the CPU implementation's files share; ops.h is the contract.
 *
 * A loop is cut into units whose size depends on the shapes only; the pool
 * shares them out.  A sum over units is made from partial sums in unit order.
 * So results do not depend on the number of threads. */
#ifndef TRAINER_OPS_CPU_H
#define TRAINER_OPS_CPU_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "trainer/blas.h"
#include "trainer/ops.h"
#include "trainer/pool.h"

/* Floats each worker owns for tiles that never leave the cache. */
enum { CPU_TILE = 1 << 18 };
/* Rows of a partial sum. */
enum { CPU_ROWS = 64 };

struct dev {
    struct pool *pool;
    float *tiles; /* [threads, CPU_TILE] */
    void *scratch;
    size_t scratch_bytes;
    struct err err; /* the sticky error */
    char text[160];
    struct cpu_alloc *allocs;
};

/* Scratch of at least `bytes`, or NULL after recording that `op` lacks it. */
void *cpu_scratch(struct dev *d, size_t bytes, const char *op);

static inline float *cpu_tile(struct dev *d, int worker)
{
    return d->tiles + (size_t)worker * CPU_TILE;
}

/* fn over [0, n) in ranges of `grain`; range i starts at i * grain. */
typedef void cpu_range_fn(const void *arg, int64_t from, int64_t to);
void cpu_ranges(struct dev *d, int64_t n, int64_t grain, cpu_range_fn *fn,
                const void *arg);

/* A product whose longer side is shared out. */
void cpu_gemm(struct dev *d, const struct gemm *g);

/* out[n] = sum over i of part[i, n], in order of i. */
void cpu_sum_parts(struct dev *d, float *out, const float *part, int64_t parts,
                   int64_t n);

static inline int64_t cpu_units(int64_t n, int64_t grain)
{
    return (n + grain - 1) / grain;
}

/* Scratch of each op that takes any (ops_size.c). */
size_t cpu_rmsnorm_scratch(int T, int D);
size_t cpu_qkrope_scratch(int T, int hd);
size_t cpu_experts_scratch(int T, int D, int K, int F);

/* The functions of the table, with the types ops.h gives them. */
#define CPU_OP(name) __typeof__(*((struct ops *)0)->name) cpu_##name
CPU_OP(add);
CPU_OP(add_f32);
CPU_OP(add_i32);
CPU_OP(scale_f32);
CPU_OP(from_f32);
CPU_OP(embed_fwd);
CPU_OP(embed_bwd);
CPU_OP(rmsnorm_fwd);
CPU_OP(rmsnorm_bwd);
CPU_OP(linear_fwd);
CPU_OP(linear_dgrad);
CPU_OP(linear_wgrad);
CPU_OP(qkrope_fwd);
CPU_OP(qkrope_bwd);
CPU_OP(attention_fwd);
CPU_OP(attention_bwd);
CPU_OP(router_fwd);
CPU_OP(router_bwd);
CPU_OP(route);
CPU_OP(route_bwd);
CPU_OP(experts_fwd);
CPU_OP(experts_bwd);
CPU_OP(swiglu_fwd);
CPU_OP(swiglu_bwd);
CPU_OP(cross_entropy);
CPU_OP(sum_f32);
CPU_OP(sumsq_f32);
CPU_OP(adamw);
CPU_OP(spread);

#endif
