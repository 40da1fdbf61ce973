/* A rank's device and its communicators. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/js.h"
#include "base/log.h"
#include "base/mem.h"
#include "trainer/coll.h"
#include "trainer/heartbeat.h"
#include "trainer/ops.h"
#include "trainer/trainer.h"
#include "trainer/wireup.h"
#include "trainer/wireup_rules.h"

enum { COLL_TIMEOUT_MS = 600000 };

/* --- device ---------------------------------------------------------------------- */
static int cores_allowed(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return 1;
    return CPU_COUNT(&set);
}

/* This rank's share of the cores, at least one. */
static int default_threads(const struct wireup_self *self)
{
    int share = cores_allowed() / (self->local_world > 0 ? self->local_world : 1);

    return share > 0 ? share : 1;
}

/* CUDA_VISIBLE_DEVICES holds one device a rank, or all of the node's (case C16). */
static int device_index(const struct trainer *t, int *index, struct err *err)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");

    *index = t->self->local_rank;
    if (strcmp(t->ops->name, "cpu") == 0 || !visible)
        return 0;
    return wireup_pick_device(visible, 0, t->self->local_rank, index, err);
}

static int open_named(struct trainer *t, const char *name, struct err *err)
{
    if (ops_find(name, &t->ops, err) || device_index(t, &t->device, err))
        return -1;
    return t->ops->open(&t->dev, t->device, t->threads, err);
}

static int open_wanted(struct trainer *t, enum device want, struct err *err)
{
    struct err absent = ERR_INIT;

    if (want == DEVICE_SIM)
        return err_set(err, ERR_USAGE,
                       "cluster.device: sim computes nothing (trainer/sim.h)");
    if (want != DEVICE_AUTO)
        return open_named(t, device_name(want), err);
    if (open_named(t, "cuda", &absent) == 0)
        return 0;
    log_debug("cluster.device auto: the CPU computes: %s", err_text(&absent));
    err_release(&absent);
    return open_named(t, "cpu", err);
}

static const char *bus_id(const struct trainer *t)
{
    return t->ops->busid ? t->ops->busid(t->dev) : "";
}

/* With `auto` a rank without its GPU would compute on the CPU and wait for ranks
 * that speak another protocol. */
static int check_alike(const struct trainer *t, struct err *err)
{
    const char *mine = t->ops->name;
    int rc = 0;

    for (int r = 0; r < t->self->world && rc == 0; r++) {
        char *theirs = NULL;
        size_t n;

        if (wireup_get(t->wireup, r, "muster.device", (void **)&theirs, &n, err))
            return -1;
        if (n != strlen(mine) || memcmp(theirs, mine, n) != 0)
            rc = err_set(err, ERR_MISSING,
                         "rank %d computes on %s, rank %d (%s) on %.*s: set "
                         "cluster.device, and see what `muster doctor` says there",
                         t->self->rank, mine, r, wireup_host(t->wireup, r), (int)n,
                         theirs);
        free(theirs);
    }
    return rc;
}

/* As the kernel writes it: "0-7,16". */
static void allowed_cpus(char *out, size_t size)
{
    FILE *fp = fopen("/proc/self/status", "re");
    char line[256];

    *out = '\0';
    while (fp && fgets(line, sizeof(line), fp))
        if (strncmp(line, "Cpus_allowed_list:\t", 19) == 0)
            snprintf(out, size, "%.*s", (int)strcspn(line + 19, "\n"), line + 19);
    if (fp)
        fclose(fp);
}

static void report_place(const struct trainer *t)
{
    struct js *o = js_object();
    char cpus[256];

    allowed_cpus(cpus, sizeof(cpus));
    js_put_str(o, "host", t->self->host);
    js_put_str(o, "boot_id", t->self->boot_id);
    js_put_int(o, "device", t->device);
    js_put_str(o, "busid", bus_id(t));
    js_put_str(o, "cpus", cpus);
    js_put_int(o, "threads", t->threads);
    js_put_str(o, "describe", t->ops->describe(t->dev));
    js_put_str(o, "method", t->self->method);
    heartbeat_send("place", o);
}

int trainer_open_device(struct trainer *t, const struct trainer_options *o,
                        struct err *err)
{
    enum device want = o->device == DEVICE_AUTO ? t->recipe.cluster.device : o->device;

    t->threads = o->threads > 0 ? o->threads : default_threads(t->self);
    if (t->recipe.training.deterministic == 1)
        setenv("MUSTER_DETERMINISTIC", "1", 1); /* read by the CUDA module */
    if (open_wanted(t, want, err) ||
        wireup_put(t->wireup, "muster.device", t->ops->name, strlen(t->ops->name),
                   err) ||
        wireup_claim_device(t->wireup, bus_id(t), err) || check_alike(t, err))
        return -1;
    t->peak_flops = model_peak_flops(t->ops->describe(t->dev));
    report_place(t);
    return 0;
}

/* --- communicators ----------------------------------------------------------------- */
static int timeout_of(const struct trainer_options *o)
{
    const char *text = getenv("MUSTER_COLL_TIMEOUT_MS");
    long v = text ? strtol(text, NULL, 10) : 0;

    if (o->timeout_ms >= 0)
        return o->timeout_ms;
    return v > 0 && v < INT32_MAX ? (int)v : COLL_TIMEOUT_MS;
}

static int split_groups(struct trainer *t, int shard, int replicate, struct err *err)
{
    int rank = t->self->rank;

    t->shard_rank = trainer_shard_rank(rank, shard);
    t->replica_rank = trainer_replica_rank(rank, shard);
    if (shard > 1 &&
        (t->coll->split(t->world, t->replica_rank, t->shard_rank, STREAM_GATHER,
                        "shard group (gather)", &t->gather, err) ||
         t->coll->split(t->world, t->replica_rank, t->shard_rank, STREAM_REDUCE,
                        "shard group (reduce)", &t->reduce, err)))
        return -1;
    if (replicate > 1 &&
        t->coll->split(t->world, t->shard_rank, t->replica_rank, STREAM_REPLICA,
                       "replica group", &t->replica, err))
        return -1;
    return 0;
}

/* The first use of a communicator allocates: before the arena takes its share. */
static int warm(struct trainer *t, struct err *err)
{
    struct coll *all[] = { t->world, t->gather, t->reduce, t->replica };

    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (all[i] && t->coll->barrier(all[i], err))
            return err_wrap(err, "warming the communicators");
    return 0;
}

int trainer_open_collectives(struct trainer *t, const struct trainer_options *o,
                             struct err *err)
{
    struct recipe *r = &t->recipe;
    int shard, replicate;

    if (recipe_layout(r, t->self->world, &shard, &replicate, &t->accumulation, err))
        return -1;
    r->parallelism.data_parallel_shard_degree = shard;
    r->parallelism.data_parallel_replicate_degree = replicate;
    r->training.global_batch_size =
        (int64_t)r->training.local_batch_size * t->self->world * t->accumulation;
    if (coll_find(t->ops, t->self->world, &t->coll, err) ||
        t->coll->open(&t->world, t->wireup, t->ops, t->dev, timeout_of(o), err) ||
        split_groups(t, shard, replicate, err))
        return -1;
    return warm(t, err);
}
