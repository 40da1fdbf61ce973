#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "checks/deadline.h"
#include "checks/gpu.h"
#include "checks/measure.h"
#include "checks/probe.h"
#include "checks/work.h"
#include "trainer/coll.h"
#include "trainer/ops.h"
#include "trainer/wireup.h"

enum {
    OPEN_MS = 60000, /* the first use of a GPU loads its kernels */
    STEP_MS = 15000, /* beside the step's own budget; MUSTER_CHECK_STEP_MS, for tests */
    CPU_MS = 80,
    CUDA_MS = 1200,
    CUDA_FULL_MS = 12000
};

static int step_ms(void)
{
    const char *text = getenv("MUSTER_CHECK_STEP_MS");
    long ms = text ? strtol(text, NULL, 10) : 0;

    return ms > 0 && ms < STEP_MS ? (int)ms : STEP_MS;
}

struct rank_work {
    struct probe *p;
    struct device_work w;
    int cuda;
    char object[96], model[64];
};

/* "NVIDIA H200 (sm_90, ...": the model; a CPU by its whole description. */
static void name_device(struct rank_work *r)
{
    const struct probe *p = r->p;
    const struct gpu_state *s = probe_gpu_state(p);
    const char *text = p->bench.ops->describe(p->dev), *end = strstr(text, " (");

    snprintf(r->model, sizeof(r->model), "%.*s",
             r->cuda && end ? (int)(end - text) : (int)strlen(text), text);
    if (r->cuda && s)
        gpu_object(s, p->self->host, r->object);
    else
        snprintf(r->object, sizeof(r->object), "%.70s rank %d", p->self->host,
                 p->self->rank);
}

static struct measure *add(const struct rank_work *r, struct measures *l,
                           const char *name, const char *kind)
{
    struct measure *m = measures_add(l, name, r->object, r->p->self->host);

    snprintf(m->device, sizeof(m->device), "%s", r->p->bench.ops->name);
    snprintf(m->kind, sizeof(m->kind), "%s", kind);
    return m;
}

/* --- results ------------------------------------------------------------------------ */

static int check_bits(struct rank_work *r, struct err *err)
{
    static const int repeats[] = { 3, 8, 64 };
    int n = repeats[r->p->o->level], differ;
    struct measures l = { 0 };
    struct measure *m;
    uint64_t hash;

    deadline_start(step_ms(), "%s: %d products to compare", r->object, n);
    if (work_bits(&r->w, n, &hash, &differ, err))
        return -1;
    deadline_end();
    m = add(r, &l, "gemm_bits", r->model);
    measure_set(m, differ, NAN, "repeats");
    measure_say(m, "bits %016llx", (unsigned long long)hash);
    probe_send(&l);
    return 0;
}

/* --- rates --------------------------------------------------------------------------- */

struct rate {
    const char *name, *what;
    work_step step;
    double amount; /* of one step, in units of the rate */
    double card;   /* what the card says it can do, in the unit; NaN */
    const char *unit;
    int share; /* of the budget, one part in so many */
    int up;
};

/* What the recipe's experts are too small for is told, not left out. */
static void send_none(const struct rank_work *r, const struct rate *t)
{
    struct measures l = { 0 };

    measure_none(add(r, &l, t->name, r->model),
                 "the recipe's products are too small to time on a GPU");
    probe_send(&l);
}

static int measure_rate(struct rank_work *r, const struct rate *t, struct err *err)
{
    struct probe *p = r->p;
    int full = p->o->level == LEVEL_FULL;
    int ms = (!r->cuda ? CPU_MS : full ? CUDA_FULL_MS : CUDA_MS) / t->share;
    struct measures l = { 0 };
    struct measure *m;
    double seconds;

    if (p->bench.coll->barrier(p->world, err)) /* all at the same time */
        return -1;
    r->w.up = t->up;
    deadline_start(ms + step_ms(), "%s: %s", r->object, t->what);
    if (work_time(&r->w, t->step, ms, t->share == 1 ? probe_gpu_busy : NULL, p,
                  &seconds, err))
        return err_wrap(err, "%s", t->name);
    deadline_end();
    m = add(r, &l, t->name, r->model);
    measure_set(m, t->amount / seconds, t->card, t->unit);
    measure_say(m, "%s", t->what);
    probe_send(&l);
    return 0;
}

static void say_shapes(const struct rank_work *r, char *dense, char *experts, size_t n)
{
    const struct device_work *w = &r->w;

    snprintf(dense, n, "%d x %d x %d%s", w->T, w->N, w->D,
             w->own ? "" : " (the recipe's own are too small to time)");
    snprintf(experts, n, "%d tokens, %d of %d experts, %d x %d", w->T, w->K, w->E, w->D,
             w->F);
}

static int measure_rates(struct rank_work *r, struct err *err)
{
    const struct device_work *w = &r->w;
    const struct gpu_state *s = r->cuda ? probe_gpu_state(r->p) : NULL;
    double scale = r->cuda ? 1e-12 : 1e-9, host = (double)work_transfer_bytes() * 1e-9;
    const char *unit = r->cuda ? "TFLOP/s" : "GFLOP/s";
    char dense[96], experts[96], copy[64];
    const struct rate all[] = {
        { "gemm", dense, work_dense, work_dense_flops(w) * scale,
          s ? gpu_peak_flops(s) * scale : NAN, unit, 1, 0 },
        { "gemm_experts", experts, w->E ? work_experts : NULL,
          work_experts_flops(w) * scale, NAN, unit, 2, 0 },
        { "memory_bandwidth", copy, r->cuda ? work_copy : NULL,
          2e-9 * (double)w->copy_bytes, s ? gpu_peak_bytes(s) * 1e-9 : NAN, "GB/s", 4,
          0 },
        { "host_to_device", "256 MiB of pinned memory",
          w->pinned ? work_transfer : NULL, host, s ? gpu_pcie_bytes(s) * 1e-9 : NAN,
          "GB/s", 4, 1 },
        { "device_to_host", "256 MiB of pinned memory",
          w->pinned ? work_transfer : NULL, host, s ? gpu_pcie_bytes(s) * 1e-9 : NAN,
          "GB/s", 4, 0 },
    };

    say_shapes(r, dense, experts, sizeof(dense));
    snprintf(copy, sizeof(copy), "copies of %.0f MiB",
             (double)w->copy_bytes / (1 << 20));
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (!all[i].step && r->cuda)
            send_none(r, &all[i]);
        else if (all[i].step && measure_rate(r, &all[i], err))
            return -1;
    return 0;
}

/* --- all -------------------------------------------------------------------------------- */

int probe_work(struct probe *p, struct err *err)
{
    struct rank_work r = { .p = p, .cuda = str_eq(p->bench.ops->name, "cuda") };
    int rc = -1;

    if (work_fault_of(p->recipe.debug.check_fault, p->self->rank, &r.w.fault, err))
        return -1;
    name_device(&r);
    deadline_start(OPEN_MS, "%s: buffers for the products", r.object);
    if (work_open(&r.w, &p->recipe, p->bench.ops, p->dev, err))
        goto out;
    deadline_end();
    if (check_bits(&r, err) || (p->o->level > LEVEL_QUICK && measure_rates(&r, err)))
        goto out;
    probe_gpu_load(p);
    rc = 0;
out:
    deadline_end();
    work_close(&r.w);
    return rc;
}
