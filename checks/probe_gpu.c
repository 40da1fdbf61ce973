#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "checks/deadline.h"
#include "checks/gpu.h"
#include "checks/kmsg.h"
#include "checks/measure.h"
#include "checks/probe.h"
#include "checks/xid.h"
#include "topology/nvml.h"
#include "topology/topology.h"
#include "trainer/ops.h"
#include "trainer/wireup.h"

enum { LOOK_MS = 30000, SETTLE_MS = 2000, XID_HOURS = 2 };

struct probe_gpu {
    struct nvml nvml;
    struct nvml_event_set *xids; /* NULL: the driver does not report them */
    struct gpu_state *all;       /* before any rank opened one */
    int n, at;                   /* at: which is this rank's; -1 unknown */
    double begun;
    struct gpu_state busy; /* the last look under load */
    int looks;
};

static const char *host(const struct probe *p)
{
    return p->self->host;
}

static int is_asked(const struct probe *p)
{
    return str_eq(p->bench.ops->name, "cuda") ||
           str_eq(getenv("MUSTER_PROBE_NVML"), "1");
}

/* --- before ------------------------------------------------------------------------ */

static int holds(const struct probe_gpu *g)
{
    for (int i = 0; i < g->n; i++)
        if (g->all[i].fact[GPU_PROCESSES] > 0)
            return 1;
    return 0;
}

/* Programs that are just ending get a moment to let go. */
static int look_first(struct probe_gpu *g, struct err *err)
{
    int64_t end = clock_ms() + SETTLE_MS;

    if (nvml_open(&g->nvml, err))
        return -1;
    for (;;) {
        if (nvml_states(&g->nvml, &g->all, &g->n, err)) {
            nvml_close(&g->nvml);
            return -1;
        }
        if (!holds(g) || clock_ms() > end)
            return 0;
        free(g->all);
        clock_nap_us(100000);
    }
}

static void send_node(struct probe *p, const struct probe_gpu *g)
{
    struct measures l = { 0 };
    struct measure *m;
    char driver[32], cuda[16];

    gpu_measure_count(g->all, g->n, p->self->local_world, host(p), &l);
    nvml_versions(&g->nvml, driver, cuda);
    m = measures_add(&l, "version_cuda", host(p), host(p));
    if (*cuda) {
        measure_set(m, 0, NAN, "");
        measure_say(m, "%s", cuda);
    } else {
        measure_none(m, "the driver does not say");
    }
    probe_send(&l);
}

/* Without NVML no measure comes: each of its checks is then unmeasured, and why is told. */
static void send_none(struct probe *p, const struct err *why)
{
    struct measures l = { 0 };

    measure_none(measures_add(&l, "gpu_count", host(p), host(p)), "%s", err_text(why));
    probe_send(&l);
}

int probe_gpu_before(struct probe *p, struct err *err)
{
    struct err why = ERR_INIT;
    struct probe_gpu *g;

    if (!is_asked(p))
        return 0;
    g = xcalloc(1, sizeof(*g));
    g->at = -1;
    deadline_start(LOOK_MS, "the first look at the GPUs of %s through NVML", host(p));
    if (look_first(g, &why) == 0) {
        g->xids = nvml_watch_xids(&g->nvml);
        g->begun = clock_s();
        p->gpu = g;
        if (p->self->local_rank == 0)
            send_node(p, g);
    } else {
        if (p->self->local_rank == 0)
            send_none(p, &why);
        free(g);
    }
    deadline_end();
    err_release(&why);
    /* what others hold must be seen before we hold something ourselves */
    return wireup_fence(p->wireup, "gpus", -1, err);
}

/* --- this rank's ---------------------------------------------------------------------- */

static void find_mine(struct probe *p, struct probe_gpu *g)
{
    const struct ops *ops = p->bench.ops;
    const char *busid = ops->busid ? ops->busid(p->dev) : "";
    char wanted[20] = "";

    if (*busid)
        busid_normalise(busid, wanted);
    for (int i = 0; i < g->n; i++)
        if (*wanted ? str_eq(g->all[i].busid, wanted) : i == p->self->local_rank)
            g->at = i;
}

void probe_gpu_mine(struct probe *p)
{
    struct probe_gpu *g = p->gpu;
    struct measures l = { 0 };

    if (!g)
        return;
    find_mine(p, g);
    if (g->at < 0)
        return;
    g->busy = g->all[g->at];
    gpu_measure_rest(&g->all[g->at], GPU_ASKED_ALL, host(p), &l);
    probe_send(&l);
}

const struct gpu_state *probe_gpu_state(const struct probe *p)
{
    return p->gpu && p->gpu->at >= 0 ? &p->gpu->all[p->gpu->at] : NULL;
}

/* --- at work ---------------------------------------------------------------------------- */

/* Reasons of all looks together: one may come and go. */
void probe_gpu_busy(void *probe)
{
    struct probe *p = probe;
    struct probe_gpu *g = p->gpu;
    struct gpu_state *now;
    struct err ignored = ERR_INIT;
    double before;
    int n;

    if (!g || g->at < 0 || nvml_states(&g->nvml, &now, &n, &ignored)) {
        err_release(&ignored);
        return;
    }
    before = g->looks ? g->busy.fact[GPU_THROTTLE] : 0;
    if (g->at < n)
        g->busy = now[g->at];
    if (!isnan(before) && !isnan(g->busy.fact[GPU_THROTTLE]))
        g->busy.fact[GPU_THROTTLE] =
            (double)((uint64_t)g->busy.fact[GPU_THROTTLE] | (uint64_t)before);
    g->looks++;
    free(now);
}

void probe_gpu_load(struct probe *p)
{
    struct measures l = { 0 };

    if (!p->gpu || p->gpu->at < 0 || p->gpu->looks == 0)
        return;
    gpu_measure_load(&p->gpu->busy, GPU_ASKED_ALL, host(p), &l);
    probe_send(&l);
}

/* --- Xids --------------------------------------------------------------------------------- */

struct seen_xids {
    const char *busid;
    int fatal;
    struct str text;
};

static void add_xid(struct seen_xids *x, int xid, const char *when)
{
    str_addf(&x->text, "%s%d %s", x->text.len ? ", " : "Xid ", xid, when);
    x->fatal += xid_is_fatal(xid);
}

static void see_line(void *arg, double age_s, const char *text)
{
    struct seen_xids *x = arg;
    char busid[20], when[40];
    int xid = xid_in_line(text, busid);

    if (xid == 0 || !str_eq(busid, x->busid))
        return;
    snprintf(when, sizeof(when), "%.0f min ago", age_s / 60);
    add_xid(x, xid, when);
}

static void send_xids(struct probe *p, struct probe_gpu *g)
{
    struct seen_xids x = { .busid = g->all[g->at].busid, .text = STR_INIT };
    struct measures l = { 0 };
    struct err why = ERR_INIT;
    int log = kmsg_read("", XID_HOURS, see_line, &x, &why) == 0, xid;
    char busid[20], object[96];
    struct measure *m;

    while ((xid = nvml_next_xid(&g->nvml, g->xids, busid)) > 0)
        if (str_eq(busid, x.busid))
            add_xid(&x, xid, "while the check ran");
    gpu_object(&g->all[g->at], host(p), object);
    m = measures_add(&l, "gpu_xid", object, host(p));
    if (x.fatal > 0 || log || g->xids)
        measure_set(m, x.fatal, NAN, "Xids");
    if (x.text.len)
        measure_say(m, "%s", x.text.text);
    else if (!log && g->xids)
        measure_say(m, "none while the check ran; what came before is not known: %s",
                    err_text(&why));
    else if (!log)
        measure_none(m, "%s; and the driver reports no events", err_text(&why));
    probe_send(&l);
    err_release(&why);
    str_release(&x.text);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void send_rates(struct probe *p, struct probe_gpu *g)
{
    struct measures l = { 0 };
    struct err ignored = ERR_INIT;
    struct gpu_state *now;
    int n;

    if (nvml_states(&g->nvml, &now, &n, &ignored) == 0) {
        if (g->at < n)
            gpu_measure_over(&g->all[g->at], &now[g->at], clock_s() - g->begun, host(p),
                             &l);
        free(now);
    }
    err_release(&ignored);
    probe_send(&l);
}

void probe_gpu_after(struct probe *p)
{
    struct probe_gpu *g = p->gpu;

    if (!g)
        return;
    deadline_start(LOOK_MS, "the last look at the GPUs of %s through NVML", host(p));
    if (g->at >= 0) {
        send_xids(p, g);
        if (p->o->level > LEVEL_QUICK)
            send_rates(p, g);
    }
    nvml_watch_end(&g->nvml, g->xids);
    nvml_close(&g->nvml);
    deadline_end();
    free(g->all);
    free(g);
    p->gpu = NULL;
}
