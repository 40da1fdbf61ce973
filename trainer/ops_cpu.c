/* The CPU device, and the table. */
#include "trainer/ops_cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"

struct cpu_alloc {
    struct cpu_alloc *next;
    void *base;
    size_t bytes;
};

/* --- shared by the ops ------------------------------------------------------ */
void *cpu_scratch(struct dev *d, size_t bytes, const char *op)
{
    if (bytes <= d->scratch_bytes)
        return d->scratch;
    if (d->err.code == ERR_NONE)
        err_set(&d->err, ERR_FAILED,
                "%s needs %zu bytes of scratch and has %zu: size it with "
                "ops->scratch_bytes()",
                op, bytes, d->scratch_bytes);
    return NULL;
}

struct ranges {
    int64_t n, grain;
    cpu_range_fn *fn;
    const void *arg;
};

static void run_range(void *arg, int unit, int worker)
{
    const struct ranges *r = arg;
    int64_t from = unit * r->grain;

    (void)worker;
    r->fn(r->arg, from, from + r->grain < r->n ? from + r->grain : r->n);
}

void cpu_ranges(struct dev *d, int64_t n, int64_t grain, cpu_range_fn *fn,
                const void *arg)
{
    struct ranges r = { n, grain, fn, arg };

    pool_run(d->pool, (int)cpu_units(n, grain), run_range, &r);
}

struct parts {
    float *out;
    const float *part;
    int64_t parts, n;
};

static void sum_parts(const void *arg, int64_t from, int64_t to)
{
    const struct parts *p = arg;

    for (int64_t j = from; j < to; j++)
        p->out[j] = 0;
    for (int64_t i = 0; i < p->parts; i++)
        for (int64_t j = from; j < to; j++)
            p->out[j] += p->part[i * p->n + j];
}

/* NOLINTNEXTLINE(readability-non-const-parameter): written through the struct */
void cpu_sum_parts(struct dev *d, float *out, const float *part, int64_t parts,
                   int64_t n)
{
    struct parts p = { out, part, parts, n };

    cpu_ranges(d, n, 512, sum_parts, &p);
}

/* Each part packs the other operand again, so parts are few and large: 4 to 32, of
 * about 2^28 multiplications. */
static int64_t gemm_grain(const struct gemm *g, int64_t length)
{
    int64_t work = (int64_t)g->m * g->n * g->k, parts = work >> 28, grain;

    parts = parts < 4 ? 4 : parts > 32 ? 32 : parts;
    grain = (length / parts + 63) / 64 * 64;
    return grain < 64 ? 64 : grain;
}

static void gemm_part(const void *arg, int64_t from, int64_t to)
{
    struct gemm g = *(const struct gemm *)arg;

    if (g.m >= g.n) {
        g.a += g.at ? from : from * g.lda;
        g.c += from * g.ldc;
        g.m = (int)(to - from);
    } else {
        g.b += g.bt ? from * g.ldb : from;
        g.c += from;
        g.n = (int)(to - from);
    }
    blas_gemm(&g);
}

void cpu_gemm(struct dev *d, const struct gemm *g)
{
    int64_t length = g->m >= g->n ? g->m : g->n;

    cpu_ranges(d, length, gemm_grain(g, length), gemm_part, g);
}

/* --- the device ----------------------------------------------------------------- */
static void cpu_close(struct dev *d)
{
    if (!d)
        return;
    while (d->allocs) {
        struct cpu_alloc *a = d->allocs;

        d->allocs = a->next;
        munmap(a->base, a->bytes);
        free(a);
    }
    pool_free(d->pool);
    free(d->tiles);
    err_release(&d->err);
    free(d);
}

static int cpu_open(struct dev **out, int local, int threads, struct err *err)
{
    struct dev *d = xcalloc(1, sizeof(*d));

    (void)local;
    if (blas_open(err) != 0 || pool_new(&d->pool, threads, err) != 0)
        goto fail;
    d->tiles = aligned_alloc(64, (size_t)threads * CPU_TILE * sizeof(float));
    if (!d->tiles) {
        err_set(err, ERR_SYSTEM, "no memory for the tiles of %d threads", threads);
        goto fail;
    }
    snprintf(d->text, sizeof(d->text), "cpu, %d thread%s, %s", threads,
             threads == 1 ? "" : "s", blas_describe());
    *out = d;
    return 0;
fail:
    cpu_close(d);
    return -1;
}

static size_t memory_total(void)
{
    return (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
}

static int cpu_alloc(struct dev *d, size_t bytes, void **out, struct err *err)
{
    struct cpu_alloc *a;
    void *p;

    /* Linux promises memory it does not have: refuse what cannot be there. */
    if (bytes > memory_total())
        return err_set(
            err, ERR_SYSTEM,
            "%zu bytes asked for, this machine has %zu: use a smaller batch, "
            "more ranks on other machines, or activation checkpointing",
            bytes, memory_total());
    p = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return err_set(err, ERR_SYSTEM, "mapping %zu bytes: %m", bytes);
    madvise(p, bytes, MADV_HUGEPAGE); /* faster where there are any */
    a = xcalloc(1, sizeof(*a));
    *a = (struct cpu_alloc){ d->allocs, p, bytes ? bytes : 1 };
    d->allocs = a;
    *out = p;
    return 0;
}

static void cpu_free(struct dev *d, void *p)
{
    for (struct cpu_alloc **at = &d->allocs; *at; at = &(*at)->next) {
        struct cpu_alloc *a = *at;

        if (a->base != p)
            continue;
        *at = a->next;
        munmap(a->base, a->bytes);
        free(a);
        return;
    }
}

static void cpu_set_scratch(struct dev *d, void *p, size_t bytes)
{
    d->scratch = p;
    d->scratch_bytes = bytes;
}

/* used: resident pages of this process. */
static void cpu_memory(struct dev *d, size_t *used, size_t *total)
{
    FILE *fp = fopen("/proc/self/statm", "re"); /* pages: all, resident, ... */
    char line[128] = "", *resident = NULL;

    (void)d;
    if (fp) {
        if (fgets(line, sizeof(line), fp))
            resident = strchr(line, ' ');
        fclose(fp);
    }
    *used = resident ? strtoul(resident, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE) : 0;
    *total = memory_total();
}

static const char *cpu_describe(struct dev *d)
{
    return d->text;
}

static int cpu_status(struct dev *d, struct err *err)
{
    if (d->err.code == ERR_NONE)
        return 0;
    return err_set(err, d->err.code, "cpu: %s", err_text(&d->err));
}

static void cpu_record(struct dev *d, int event, enum stream s)
{
    (void)d, (void)event, (void)s; /* one thread queues and runs everything */
}

static void cpu_wait(struct dev *d, enum stream s, int event)
{
    (void)d, (void)s, (void)event;
}

struct bytes {
    char *dst;
    const char *src;
};

static void copy_range(const void *arg, int64_t from, int64_t to)
{
    const struct bytes *b = arg;

    memcpy(b->dst + from, b->src + from, (size_t)(to - from));
}

static void zero_range(const void *arg, int64_t from, int64_t to)
{
    const struct bytes *b = arg;

    memset(b->dst + from, 0, (size_t)(to - from));
}

enum { COPY_GRAIN = 1 << 20 };

static void cpu_copy(struct dev *d, void *dst, const void *src, size_t bytes)
{
    struct bytes b = { dst, src };

    cpu_ranges(d, (int64_t)bytes, COPY_GRAIN, copy_range, &b);
}

static void cpu_zero(struct dev *d, void *dst, size_t bytes)
{
    struct bytes b = { dst, NULL };

    cpu_ranges(d, (int64_t)bytes, COPY_GRAIN, zero_range, &b);
}

/* NOLINTNEXTLINE(readability-function-size): the parameters are ops.h's */
static size_t cpu_scratch_bytes(int T, int S, int D, int H, int KV, int hd, int E,
                                int K, int F, int chunk, int V)
{
    return ops_sizes("cpu")->scratch_bytes(T, S, D, H, KV, hd, E, K, F, chunk, V);
}

const struct ops ops_cpu = {
    .name = "cpu",
    .elem_bytes = sizeof(float),
    .open = cpu_open,
    .close = cpu_close,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .set_scratch = cpu_set_scratch,
    .scratch_bytes = cpu_scratch_bytes,
    .memory = cpu_memory,
    .describe = cpu_describe,
    .status = cpu_status,
    .sync = cpu_status,
    .record = cpu_record,
    .wait = cpu_wait,
    .upload = cpu_copy,
    .download = cpu_copy,
    .zero = cpu_zero,
    .copy = cpu_copy,
    .add = cpu_add,
    .add_f32 = cpu_add_f32,
    .add_i32 = cpu_add_i32,
    .scale_f32 = cpu_scale_f32,
    .from_f32 = cpu_from_f32,
    .embed_fwd = cpu_embed_fwd,
    .embed_bwd = cpu_embed_bwd,
    .rmsnorm_fwd = cpu_rmsnorm_fwd,
    .rmsnorm_bwd = cpu_rmsnorm_bwd,
    .linear_fwd = cpu_linear_fwd,
    .linear_dgrad = cpu_linear_dgrad,
    .linear_wgrad = cpu_linear_wgrad,
    .qkrope_fwd = cpu_qkrope_fwd,
    .qkrope_bwd = cpu_qkrope_bwd,
    .attention_fwd = cpu_attention_fwd,
    .attention_bwd = cpu_attention_bwd,
    .router_fwd = cpu_router_fwd,
    .router_bwd = cpu_router_bwd,
    .route = cpu_route,
    .route_bwd = cpu_route_bwd,
    .experts_fwd = cpu_experts_fwd,
    .experts_bwd = cpu_experts_bwd,
    .swiglu_fwd = cpu_swiglu_fwd,
    .swiglu_bwd = cpu_swiglu_bwd,
    .cross_entropy = cpu_cross_entropy,
    .sum_f32 = cpu_sum_f32,
    .sumsq_f32 = cpu_sumsq_f32,
    .adamw = cpu_adamw,
    .spread = cpu_spread,
};
