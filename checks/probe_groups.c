#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "checks/measure.h"
#include "checks/probe.h"
#include "trainer/coll.h"
#include "trainer/heartbeat.h"
#include "trainer/ops.h"
#include "trainer/wireup.h"

enum {
    STANDARD_MS = 700,
    FULL_MS = 3000,
    COPY_MS = 150,
    SPEED_LEAST = 8 << 20, /* below, latency is measured, not bandwidth */
    CPU_MOST = 64 << 20,
    CUDA_MOST = 1 << 30
};

void probe_send(struct measures *l)
{
    for (int i = 0; i < l->n; i++)
        heartbeat_send("measure", measure_json(&l->item[i]));
    measures_release(l);
}

/* "ranks 0-3", "ranks 0, 2, 4" */
static void name_ranks(char *to, size_t size, int first, int ranks, int stride)
{
    struct str s = STR_INIT;

    if (ranks == 1)
        str_addf(&s, "rank %d", first);
    else if (stride == 1)
        str_addf(&s, "ranks %d-%d", first, first + ranks - 1);
    else
        for (int i = 0; i < ranks; i++)
            str_addf(&s, "%s%d", i ? ", " : "ranks ", first + i * stride);
    if (s.len >= size)
        snprintf(to, size, "%d ranks from %d by %d", ranks, first, stride);
    else
        snprintf(to, size, "%s", s.text);
    str_release(&s);
}

struct group {
    const char *kind;
    int first, ranks, stride;
    struct coll *coll; /* NULL: a group of one */
};

static struct group shard_group(const struct probe *p)
{
    return (struct group){ "shard", p->self->rank / p->shard * p->shard, p->shard, 1,
                           NULL };
}

static struct group replicate_group(const struct probe *p)
{
    return (struct group){ "replicate", p->self->rank % p->shard, p->replicate,
                           p->shard, NULL };
}

static struct measure *new_measure(struct measures *l, const struct probe *p,
                                   const struct group *g, const char *name)
{
    char ranks[64], object[96];
    struct measure *m;

    name_ranks(ranks, sizeof(ranks), g->first, g->ranks, g->stride);
    snprintf(object, sizeof(object), "%s group, %s", g->kind, ranks);
    m = measures_add(l, name, object, "");
    snprintf(m->group, sizeof(m->group), "%s", g->kind);
    snprintf(m->device, sizeof(m->device), "%s", p->bench.ops->name);
    m->first = g->first;
    m->ranks = g->ranks;
    return m;
}

/* The first rank of the group reports; others only what is wrong with them. */
static int check_result(struct probe *p, const struct group *g, enum bench_op op,
                        struct err *err)
{
    char *name = xasprintf("%s.result", bench_op_name(op));
    struct measures l = { 0 };
    struct measure *m = new_measure(&l, p, g, name);
    int64_t wrong = 0;
    int rc = 0;

    free(name);
    if (g->coll)
        rc = bench_result(&p->bench, op, &wrong, m, err);
    else
        measure_say(m, "groups of one rank: nothing to exchange");
    measure_set(m, (double)wrong, NAN, "values");
    if (wrong > 0) {
        snprintf(m->object + strlen(m->object), sizeof(m->object) - strlen(m->object),
                 ", at rank %d", p->self->rank);
        snprintf(m->node, sizeof(m->node), "%s", p->self->host);
    }
    if (rc == 0 && (p->self->rank == g->first || wrong > 0))
        probe_send(&l);
    measures_release(&l);
    return rc;
}

/* The recipe's largest unit: what this collective carries in a step. */
static int64_t step_bytes(const struct probe *p, enum bench_op op)
{
    int cuda = str_eq(p->bench.ops->name, "cuda");
    int64_t most = 0, bytes, cap = cuda ? CUDA_MOST : CPU_MOST;

    for (int u = 0; u < p->units.n; u++) {
        int64_t n = units_at(&p->units, u)->padded;

        most = n > most ? n : most;
    }
    bytes = most * (op == BENCH_ALL_GATHER ? (int64_t)p->bench.ops->elem_bytes : 4);
    if (op == BENCH_ALL_REDUCE)
        bytes /= p->shard;
    return bytes < SPEED_LEAST ? SPEED_LEAST : bytes > cap ? cap : bytes;
}

static int check_speed(struct probe *p, const struct group *g, enum bench_op op,
                       struct err *err)
{
    int budget = p->o->level == LEVEL_FULL ? FULL_MS : STANDARD_MS;
    struct measures l = { 0 };
    struct measure *m = new_measure(&l, p, g, bench_op_name(op));
    int rc = 0;

    snprintf(m->unit, sizeof(m->unit), "GB/s");
    if (g->coll)
        rc = bench_speed(&p->bench, op, step_bytes(p, op), budget, m, err);
    if (rc == 0 && p->self->rank == g->first)
        probe_send(&l);
    measures_release(&l);
    return rc;
}

static const struct {
    enum bench_op op;
    int replicate;
} steps[] = {
    { BENCH_ALL_GATHER, 0 },
    { BENCH_REDUCE_SCATTER, 0 },
    { BENCH_ALL_REDUCE, 1 },
};

static int check_groups(struct probe *p, struct group *kinds,
                        int (*check)(struct probe *, const struct group *,
                                     enum bench_op, struct err *),
                        struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        struct group *g = &kinds[steps[i].replicate];

        p->bench.group = g->coll;
        if (check(p, g, steps[i].op, err))
            return err_wrap(err, "%s, %s group", bench_op_name(steps[i].op), g->kind);
        if (p->bench.coll->barrier(p->world, err))
            return -1;
    }
    return 0;
}

static int check_copy(struct probe *p, struct err *err)
{
    int64_t bytes = (256 << 20) / p->self->local_world;
    struct measures l = { 0 };
    char object[32];
    double rate, share;

    if (!str_eq(p->bench.ops->name, "cpu"))
        return 0;
    bytes = bytes > 32 << 20 ? 32 << 20 : bytes < 8 << 20 ? 8 << 20 : bytes;
    if (p->bench.coll->barrier(p->world, err))
        return -1;
    /* ranks that share a core get their share of it */
    share = fmin(1, (double)sysconf(_SC_NPROCESSORS_ONLN) / p->self->local_world);
    rate = bench_copy(bytes, COPY_MS) * share;
    snprintf(object, sizeof(object), "rank %d", p->self->rank);
    measure_set(measures_add(&l, "memory_copy", object, p->self->host), rate, NAN,
                "GB/s");
    probe_send(&l);
    return p->bench.coll->barrier(p->world, err);
}

int64_t probe_step_bytes(const struct probe *p)
{
    int64_t most = 0;

    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        int64_t bytes = step_bytes(p, steps[i].op);

        most = bytes > most ? bytes : most;
    }
    return most;
}

static int split(struct probe *p, struct group *g, enum stream s, struct err *err)
{
    if (g->ranks == 1)
        return 0;
    return p->bench.coll->split(p->world, g->first, p->self->rank, s, g->kind, &g->coll,
                                err);
}

int probe_groups(struct probe *p, struct err *err)
{
    struct group kinds[2] = { shard_group(p), replicate_group(p) };

    if (split(p, &kinds[0], STREAM_GATHER, err) ||
        split(p, &kinds[1], STREAM_REPLICA, err) ||
        check_groups(p, kinds, check_result, err))
        return -1;
    if (p->o->level > LEVEL_QUICK &&
        (check_copy(p, err) || check_groups(p, kinds, check_speed, err)))
        return -1;
    for (int i = 0; i < 2; i++)
        if (kinds[i].coll)
            p->bench.coll->close(kinds[i].coll);
    return 0;
}
