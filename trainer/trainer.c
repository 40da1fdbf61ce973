#include "trainer/trainer.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "trainer/coll.h"
#include "trainer/data.h"
#include "trainer/fsdp.h"
#include "trainer/heartbeat.h"
#include "trainer/ops.h"
#include "trainer/weights.h"
#include "trainer/wireup.h"

enum { COLL_TIMEOUT_MS = 600000, INIT_CHUNK = 1 << 20 };

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

static int find_device(const struct recipe *r, enum device asked,
                       const struct ops **out, struct err *err)
{
    enum device want = asked == DEVICE_AUTO ? r->cluster.device : asked;
    struct err ignored = ERR_INIT;

    if (want == DEVICE_SIM)
        return err_set(err, ERR_USAGE,
                       "cluster.device: sim has no ranks to run; use cpu or cuda");
    if (want == DEVICE_CPU)
        return ops_find("cpu", out, err);
    if (want == DEVICE_CUDA)
        return ops_find("cuda", out, err);
    if (ops_find("cuda", out, &ignored) == 0)
        return 0;
    err_release(&ignored);
    return ops_find("cpu", out, err);
}

static int open_device(struct trainer *t, const struct trainer_options *o,
                       struct err *err)
{
    if (find_device(&t->recipe, o->device, &t->ops, err))
        return -1;
    t->threads = o->threads > 0 ? o->threads : default_threads(t->self);
    if (t->ops->open(&t->dev, t->self->local_rank, t->threads, err))
        return -1;
    t->peak_flops = model_peak_flops(t->ops->describe(t->dev));
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

static int open_collectives(struct trainer *t, const struct trainer_options *o,
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

/* --- memory -------------------------------------------------------------------------- */
static int64_t device_bytes(const struct trainer *t)
{
    size_t used = 0, total = 0;

    t->ops->memory(t->dev, &used, &total);
    /* ranks of one machine share its memory; each has a GPU of its own */
    if (strcmp(t->ops->name, "cpu") == 0)
        total /= (size_t)(t->self->local_world > 0 ? t->self->local_world : 1);
    return (int64_t)total;
}

static void carve_activations(struct trainer *t, char *saved, void *recompute)
{
    const struct recipe *r = &t->recipe;
    const struct model *m = &r->model;
    enum ac_mode ac = r->activation_checkpoint.mode;
    int B = r->training.local_batch_size, S = r->training.seq_len;
    int64_t each = mem_align((int64_t)saved_bytes(m, t->ops, ac, B, S));

    t->step.saved = xcalloc((size_t)m->layers, sizeof(*t->step.saved));
    for (int i = 0; i < m->layers; i++) {
        saved_carve(&t->step.saved[i], saved + i * each, m, t->ops, ac, B, S);
        recompute_carve(&t->step.saved[i], recompute, m, t->ops, ac, B, S);
    }
}

static void set_step(struct trainer *t, void *const *at)
{
    const struct recipe *r = &t->recipe;
    const struct model *m = &r->model;
    int B = r->training.local_batch_size, S = r->training.seq_len;
    struct model_step *s = &t->step;

    s->ctx = (struct layer_ctx){
        .ops = t->ops, .dev = t->dev, .m = m, .ac = r->activation_checkpoint.mode
    };
    s->loss_chunk = memplan_loss_chunk(r);
    work_carve(&s->ctx.work, at[MEM_WORK], m, t->ops, B, S, s->loss_chunk);
    carve_activations(t, at[MEM_SAVED], at[MEM_RECOMPUTE]);
    s->fsdp = t->fsdp;
    s->units = &t->units;
    s->x_head = at[MEM_STREAM];
    s->dx = (char *)at[MEM_STREAM] +
            mem_align((int64_t)t->ops->elem_bytes * B * S * m->hidden);
    s->loss = t->meter.loss;
    s->loss_total = t->meter.loss_total;
    s->counts = t->meter.counts;
    s->bias = m->bias_update_rate > 0 ? t->meter.bias : NULL;
}

static void set_states(struct trainer *t, void *const *at)
{
    int fp32 = t->ops->elem_bytes == sizeof(float);

    t->optim = (struct optim){ .ops = t->ops,
                               .dev = t->dev,
                               .master = at[MEM_MASTER],
                               .m = at[MEM_MOMENT1],
                               .v = at[MEM_MOMENT2],
                               .grads = at[MEM_GRADS],
                               .weights = fp32 ? NULL : at[MEM_WEIGHTS] };
    optim_plan(&t->optim, &t->units, t->shard_rank);
    t->fsdp = fsdp_new(&(struct fsdp_config){
        .ops = t->ops,
        .dev = t->dev,
        .units = &t->units,
        .coll = t->coll,
        .gather = t->gather,
        .reduce = t->reduce,
        .replica = t->replica,
        .reshard_after_forward = t->recipe.parallelism.reshard_after_forward,
        .weights = fp32 ? at[MEM_MASTER] : at[MEM_WEIGHTS],
        .gathered = at[MEM_GATHERED],
        .grads = at[MEM_GRADS],
        .full = at[MEM_FULLGRADS] });
}

static void set_meter(struct trainer *t, void *base)
{
    const struct model *m = &t->recipe.model;

    t->meter = (struct meter){ .ops = t->ops,
                               .dev = t->dev,
                               .coll = t->coll,
                               .world = t->world,
                               .rank = t->self->rank,
                               .size = t->self->world,
                               .shard = t->units.shard,
                               .layers = m->layers,
                               .experts = m->experts };
    meter_carve(&t->meter, base);
    t->bias = xcalloc((size_t)m->layers * (size_t)m->experts, sizeof(*t->bias));
}

static void set_ckpt(struct trainer *t)
{
    t->ckpt = (struct ckpt){ .ops = t->ops,
                             .dev = t->dev,
                             .units = &t->units,
                             .recipe = &t->recipe,
                             .meter = &t->meter,
                             .rank = t->self->rank,
                             .world = t->self->world,
                             .shard_rank = t->shard_rank,
                             .replica_rank = t->replica_rank,
                             .state = { t->optim.master, t->optim.m, t->optim.v },
                             .weights = t->optim.weights,
                             .bias = t->bias };
}

static int open_memory(struct trainer *t, struct err *err)
{
    int shard = t->recipe.parallelism.data_parallel_shard_degree;
    void *at[N_MEM_KINDS];

    if (t->self->world > MEM_MAX_WORLD)
        return err_set(err, ERR_USAGE, "%d ranks: at most %d are supported",
                       t->self->world, MEM_MAX_WORLD);
    units_make(&t->recipe.model, shard, &t->units);
    memplan_make(&t->recipe, t->ops, shard, device_bytes(t), &t->plan);
    if (arena_init(&t->arena, t->ops, t->dev, &t->plan, err))
        return -1;
    for (int k = 0; k < N_MEM_KINDS; k++)
        if (arena_take(&t->arena, t->plan.item[k].bytes, t->plan.item[k].name, &at[k],
                       err))
            return -1;
    t->ops->set_scratch(t->dev, at[MEM_SCRATCH],
                        (size_t)t->plan.item[MEM_SCRATCH].bytes);
    set_meter(t, at[MEM_METRICS]);
    set_states(t, at);
    set_step(t, at);
    batch_feed_init(&t->feed, t->ops, t->dev, &t->recipe, t->self->rank, t->self->world,
                    at[MEM_BATCH]);
    set_ckpt(t);
    return 0;
}

/* --- weights and data ------------------------------------------------------------------ */
static void init_unit(struct trainer *t, int unit, float *host)
{
    int64_t part = units_part(&t->units, unit), from = t->shard_rank * part;
    float *master = t->optim.master + units_shard_offset(&t->units, unit);

    for (int64_t at = 0; at < part; at += INIT_CHUNK) {
        int64_t n = part - at < INIT_CHUNK ? part - at : INIT_CHUNK;

        weights_fill(&t->units, unit, (uint64_t)t->recipe.training.seed, from + at, n,
                     host);
        t->ops->upload(t->dev, master + at, host, (size_t)n * sizeof(float));
    }
}

static int init_weights(struct trainer *t, struct err *err)
{
    float *host = xcalloc(INIT_CHUNK, sizeof(*host));

    for (int unit = 0; unit < t->units.n; unit++)
        init_unit(t, unit, host);
    free(host);
    if (t->optim.weights)
        t->ops->from_f32(t->dev, t->optim.weights, t->optim.master,
                         t->units.shard_count);
    return t->ops->sync(t->dev, err);
}

static int open_data(struct trainer *t, struct err *err)
{
    const struct recipe *r = &t->recipe;

    if (dataset_open(r, t->self->world, 0, &t->data, err))
        return -1;
    if (r->data.validation_interval <= 0 ||
        (r->data.validation_path.n == 0 && !(r->data.validation_fraction > 0)))
        return 0;
    return dataset_open(r, t->self->world, 1, &t->validation, err);
}

static void report_place(const struct trainer *t)
{
    struct js *o = js_object();

    js_put_str(o, "host", t->self->host);
    js_put_str(o, "boot_id", t->self->boot_id);
    js_put_int(o, "device", t->self->local_rank);
    js_put_int(o, "threads", t->threads);
    js_put_str(o, "describe", t->ops->describe(t->dev));
    js_put_str(o, "method", t->self->method);
    js_put_int(o, "shard", t->shard_rank);
    js_put_int(o, "replica", t->replica_rank);
    heartbeat_send("place", o);
}

int trainer_open(struct trainer *t, const struct recipe *r,
                 const struct trainer_options *o, struct err *err)
{
    memset(t, 0, sizeof(*t));
    recipe_copy(&t->recipe, r);
    if (wireup_open(&t->wireup, -1, err))
        return -1;
    t->self = wireup_self(t->wireup);
    if (open_device(t, o, err))
        return -1;
    report_place(t);
    return open_collectives(t, o, err) || open_memory(t, err) || open_data(t, err) ||
                   init_weights(t, err)
               ? -1
               : 0;
}

static void close_collectives(struct trainer *t)
{
    struct coll *all[] = { t->replica, t->reduce, t->gather, t->world };

    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (all[i])
            t->coll->close(all[i]);
}

void trainer_close(struct trainer *t)
{
    if (t->validation)
        dataset_close(t->validation);
    if (t->data)
        dataset_close(t->data);
    batch_feed_release(&t->feed);
    fsdp_free(t->fsdp);
    optim_release(&t->optim);
    meter_release(&t->meter);
    free(t->step.saved);
    free(t->bias);
    if (t->arena.base)
        arena_release(&t->arena);
    close_collectives(t);
    if (t->dev)
        t->ops->close(t->dev);
    wireup_close(t->wireup);
    recipe_release(&t->recipe);
    memset(t, 0, sizeof(*t));
}
