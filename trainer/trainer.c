#include "trainer/trainer.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "trainer/coll.h"
#include "trainer/data.h"
#include "trainer/fsdp.h"
#include "trainer/memfit.h"
#include "trainer/ops.h"
#include "trainer/pool.h"
#include "trainer/profile.h"
#include "trainer/weights.h"
#include "trainer/wireup.h"

enum { LATE_BYTES = 128 << 20 };
enum { INIT_CHUNK = 1 << 22, INIT_SLICE = 1 << 16 };

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

/* In use on a GPU; 0 on the CPU. */
static int64_t gpu_used(const struct trainer *t)
{
    size_t used = 0, total = 0;

    if (strcmp(t->ops->name, "cpu") == 0)
        return 0;
    t->ops->memory(t->dev, &used, &total);
    return (int64_t)used;
}

/* Once all is in place the prediction for a GPU is what is there beside the arena, and
 * the margin for kernels that the driver loads at their first use. */
static void foresee(struct trainer *t)
{
    struct memplan *m = &t->plan;

    t->used_placed = gpu_used(t);
    if (t->used_placed == 0)
        return;
    m->outside_bytes = t->used_placed - m->arena_bytes + LATE_BYTES;
    m->percent =
        100.0 * (double)(m->arena_bytes + m->outside_bytes) / (double)m->device_bytes;
}

/* What the arena may take.  A GPU says what is free now that communicators and libraries
 * are there; what they allocate later is in the margin. */
static int64_t arena_room(const struct trainer *t)
{
    size_t used = 0, total = 0;

    if (strcmp(t->ops->name, "cpu") == 0)
        return t->plan.device_bytes - t->plan.outside_bytes;
    t->ops->memory(t->dev, &used, &total);
    return (int64_t)(total - used) - LATE_BYTES;
}

static int check_room(const struct trainer *t, struct err *err)
{
    int cpu = strcmp(t->ops->name, "cpu") == 0;
    char *where = cpu ? xstrdup("this rank's share of the machine")
                      : xasprintf("GPU %d", t->device);
    struct recipe asked = t->recipe; /* borrows what it points to */
    int rc;

    asked.training.global_batch_size = t->asked_global;
    rc = memfit_check(&asked, t->ops, t->plan.arena_bytes, arena_room(t),
                      t->plan.device_bytes, where, err);

    free(where);
    return rc;
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
    s->routing = &t->routing;
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

/* A tied embedding has a place of its own, so the second layer's reduction may still run
 * when the backward pass ends: no early norm then. */
static void set_early(struct trainer *t)
{
    const char *words = getenv("MUSTER_EARLY");

    words = words ? words : "gather,norm";
    t->early_gather = strstr(words, "gather") && t->units.shard > 1;
    t->early_norm = strstr(words, "norm") && !t->replica && !t->units.tied;
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
    if (check_room(t, err) || arena_init(&t->arena, t->ops, t->dev, &t->plan, err))
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
    set_early(t);
    foresee(t);
    return routing_open(&t->routing, &t->recipe, t->ops, t->dev, at[MEM_ROUTING], err);
}

/* --- weights and data ------------------------------------------------------------------ */
struct filling {
    const struct trainer *t;
    float *host; /* [INIT_CHUNK] */
    int unit;
    int64_t from, n; /* elements of the whole unit */
};

/* Any slice may be made on its own: weights are a function of their place. */
static void fill_slice(void *arg, int slice, int worker)
{
    const struct filling *f = arg;
    int64_t at = (int64_t)slice * INIT_SLICE;
    int64_t n = f->n - at < INIT_SLICE ? f->n - at : INIT_SLICE;

    (void)worker;
    weights_fill(&f->t->units, f->unit, (uint64_t)f->t->recipe.training.seed,
                 f->from + at, n, f->host + at);
}

static void init_unit(struct trainer *t, int unit, struct pool *pool, float *host)
{
    int64_t part = units_part(&t->units, unit);
    float *master = t->optim.master + units_shard_offset(&t->units, unit);

    for (int64_t at = 0; at < part; at += INIT_CHUNK) {
        struct filling f = { .t = t,
                             .host = host,
                             .unit = unit,
                             .from = t->shard_rank * part + at,
                             .n = part - at < INIT_CHUNK ? part - at : INIT_CHUNK };

        pool_run(pool, (int)((f.n + INIT_SLICE - 1) / INIT_SLICE), fill_slice, &f);
        t->ops->upload(t->dev, master + at, host, (size_t)f.n * sizeof(float));
    }
}

static int init_weights(struct trainer *t, struct err *err)
{
    float *host = xcalloc(INIT_CHUNK, sizeof(*host));
    struct pool *pool = NULL;

    if (pool_new(&pool, t->threads, err)) {
        free(host);
        return -1;
    }
    for (int unit = 0; unit < t->units.n; unit++)
        init_unit(t, unit, pool, host);
    pool_free(pool);
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

/* Before anything keeps the tables that it replaces. */
static int open_profile(struct trainer *t, const struct trainer_options *o,
                        struct err *err)
{
    if (!o->profile_folder)
        return 0;
    return profile_open(&t->profile, &t->ops, t->dev, &t->coll, o->profile_folder,
                        t->self->rank, err);
}

int trainer_open(struct trainer *t, const struct recipe *r,
                 const struct trainer_options *o, struct err *err)
{
    memset(t, 0, sizeof(*t));
    recipe_copy(&t->recipe, r);
    t->asked_global = r->training.global_batch_size;
    if (wireup_open(&t->wireup, -1, err))
        return -1;
    t->self = wireup_self(t->wireup);
    if (trainer_open_device(t, o, err))
        return -1;
    t->used_open = gpu_used(t);
    if (trainer_open_collectives(t, o, err))
        return -1;
    t->used_joined = gpu_used(t);
    return open_profile(t, o, err) || open_memory(t, err) || open_data(t, err) ||
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
    routing_release(&t->routing);
    free(t->step.saved);
    free(t->bias);
    if (t->arena.base)
        arena_release(&t->arena);
    close_collectives(t);
    if (t->dev)
        t->ops->close(t->dev);
    profile_free(t->profile);
    wireup_close(t->wireup);
    recipe_release(&t->recipe);
    memset(t, 0, sizeof(*t));
}
