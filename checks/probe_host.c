#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "checks/host.h"
#include "checks/host_load.h"
#include "checks/measure.h"
#include "checks/probe.h"
#include "topology/source.h"
#include "topology/topology.h"
#include "trainer/coll.h"
#include "trainer/memplan.h"
#include "trainer/ops.h"
#include "trainer/wireup.h"

enum { PARAMETER_BYTES = 12 }; /* of a checkpoint: FP32 weight and two moments */

static int64_t memory_need(const struct probe *p)
{
    struct memplan plan;

    if (!str_eq(p->bench.ops->name, "cpu"))
        return -1;
    memplan_make(&p->recipe, p->bench.ops, p->shard, -1, &plan);
    return (plan.arena_bytes + plan.outside_bytes) * p->self->local_world;
}

static const double load_s = 0.2;

static void sleep_until(double wall_s)
{
    double left = wall_s - clock_wall_s();

    if (left > 0 && left <= load_s) /* the clock may have been set */
        usleep((useconds_t)(left * 1e6));
}

void probe_host(struct probe *p)
{
    const struct recipe *r = &p->recipe;
    int saves = *r->checkpoint.folder != '\0';
    struct host h = {
        .root = "",
        .name = p->self->host,
        .world = p->self->world,
        .ranks = p->self->local_world,
        .cuda = str_eq(p->bench.ops->name, "cuda"),
        .memory_need = memory_need(p),
        .disk_need = saves ? PARAMETER_BYTES * model_params_total(&r->model) *
                                 (r->checkpoint.keep + 1)
                           : 0,
        .disk_dir = r->checkpoint.folder,
        .collectives = p->bench.coll->version(),
    };
    struct host_load before, after;
    struct measures l = { 0 };
    struct topology *t = NULL;
    double start = clock_wall_s();

    if (p->self->local_rank != 0)
        return;
    host_load_look("", &before);
    topology_from_sysfs("", &t, NULL);
    h.topology = t;
    h.machines = wireup_machines(p->wireup);
    host_measure(&h, &l);
    sleep_until(start + load_s);
    host_load_look("", &after);
    host_measure_load(&before, &after, h.name, &l);
    probe_send(&l);
    host_load_release(&before);
    host_load_release(&after);
    topology_free(t);
}

/* Wall clocks, read right after a barrier. */
int probe_clock(struct probe *p, struct err *err)
{
    int n = p->self->world;
    double *all = xcalloc((size_t)n, sizeof(*all)), now, least, most;
    const struct bench *b = &p->bench;
    struct measures l = { 0 };
    struct coll_req *q;
    int rc = -1;

    if (b->coll->barrier(p->world, err))
        goto out;
    now = clock_wall_s();
    b->ops->upload(p->dev, b->b, &now, sizeof(now));
    if (b->coll->all_gather(p->world, &q, b->a, b->b, 1, COLL_F64, err) ||
        b->coll->finish(p->world, &q, err) || b->ops->sync(p->dev, err))
        goto out;
    b->ops->download(p->dev, all, b->a, (size_t)n * sizeof(*all));
    rc = 0;
    if (p->self->rank != 0)
        goto out;
    least = most = all[0];
    for (int i = 1; i < n; i++) {
        least = fmin(least, all[i]);
        most = fmax(most, all[i]);
    }
    measure_set(measures_add(&l, "clock", "all nodes", ""), most - least, 1, "s");
    probe_send(&l);
out:
    free(all);
    return rc;
}
