/* probe.h - internal: one rank of a preflight check, and the parts it measures. */
#ifndef CHECKS_PROBE_H
#define CHECKS_PROBE_H

#include "base/str.h"
#include "checks/bench.h"
#include "recipes/recipe.h"
#include "trainer/units.h"

struct coll;
struct dev;
struct measures;
struct probe_gpu;
struct probe_nic;
struct wireup;
struct wireup_self;

struct probe_options {
    const char *recipe, *device;
    struct strlist sets;
    enum level level;
};

struct probe {
    const struct probe_options *o;
    struct recipe recipe;
    struct wireup *wireup;
    const struct wireup_self *self;
    struct dev *dev;
    int shard, replicate;
    struct coll *world;
    struct bench bench; /* its group changes */
    struct units units;
    struct probe_gpu *gpu; /* what NVML showed; NULL: nothing is asked of it */
    struct probe_nic *nic; /* counters at the start; NULL: another rank reads them */
};

/* Report them ("measure" events), and release. */
void probe_send(struct measures *l);

/* probe_host.c: this machine (its first rank), and the clocks of all. */
void probe_host(struct probe *p);
int probe_clock(struct probe *p, struct err *err);

/* probe_gpu.c: what NVML says of this rank's GPU: before any rank opens a device; once it
 * is open and known which it is; while it works; and at the end.  CPU ranks have none, but
 * with MUSTER_PROBE_NVML=1 (for tests) take the GPU of their local rank. */
int probe_gpu_before(struct probe *p, struct err *err);
void probe_gpu_mine(struct probe *p);
void probe_gpu_busy(void *probe); /* a look; the last one's numbers are reported */
void probe_gpu_load(struct probe *p);
void probe_gpu_after(struct probe *p);
/* What the card reports it can do; NaN unknown. */
struct gpu_state;
const struct gpu_state *probe_gpu_state(const struct probe *p); /* NULL: unknown */

/* probe_nic.c: error counters of this machine's NICs (its first rank), over the whole check;
 * the end is reported on a failing way out, too, and only once. */
void probe_nic_before(struct probe *p);
void probe_nic_after(struct probe *p);

/* probe_work.c: this rank's device at the recipe's own products, beside all others. */
int probe_work(struct probe *p, struct err *err);

/* probe_groups.c: buffers, communicators, results and, from standard on, speed of
 * the recipe's shard and replicate groups; all groups of a kind at the same time. */
int probe_groups(struct probe *p, struct err *err);
/* The largest whole buffer whose collective is timed. */
int64_t probe_step_bytes(const struct probe *p);

#endif
