#include "trainer/memplan.h"

#include <math.h>

#include "base/js.h"
#include "base/str.h"
#include "recipes/recipe.h"
#include "trainer/meter.h"
#include "trainer/routing.h"
#include "trainer/units.h"

static const char *const names[N_MEM_KINDS] = {
    [MEM_MASTER] = "master weights",
    [MEM_MOMENT1] = "first moments",
    [MEM_MOMENT2] = "second moments",
    [MEM_GRADS] = "reduced gradients",
    [MEM_WEIGHTS] = "weight shard",
    [MEM_GATHERED] = "gathered weights",
    [MEM_FULLGRADS] = "full gradients",
    [MEM_SAVED] = "saved activations",
    [MEM_RECOMPUTE] = "recomputed activations",
    [MEM_STREAM] = "residual stream",
    [MEM_WORK] = "layer work",
    [MEM_SCRATCH] = "operation scratch",
    [MEM_BATCH] = "batch",
    [MEM_METRICS] = "metrics",
    [MEM_ROUTING] = "given routing",
};

/* What a process holds beside the arena, measured on this program: libraries, the
 * context of a GPU, the buffers of the communicators. */
static const struct outside {
    const char *ops;
    int64_t alone, grouped; /* one rank; several */
} outside[] = {
    { "cpu", INT64_C(12) << 20, INT64_C(28) << 20 },
    { "cuda", INT64_C(700) << 20, INT64_C(1800) << 20 },
};

int memplan_accumulates(const struct recipe *r, int shard)
{
    int replicate = r->parallelism.data_parallel_replicate_degree;

    if (r->training.global_batch_size < 0)
        return 0;
    if (replicate < 0)
        return 1;
    return r->training.global_batch_size >
           (int64_t)r->training.local_batch_size * shard * replicate;
}

int memplan_loss_chunk(const struct recipe *r)
{
    int tokens = r->training.local_batch_size * r->training.seq_len;
    int chunk = r->training.loss_chunk;

    return chunk > 0 && chunk < tokens ? chunk : tokens;
}

static void plan_weights(const struct recipe *r, const struct ops *ops,
                         const struct units *u, int64_t *bytes)
{
    int64_t elem = (int64_t)ops->elem_bytes;
    int whole = u->shard == 1;
    int64_t gathered =
        r->parallelism.reshard_after_forward ? u->ring_count : u->flat_count;

    for (int k = MEM_MASTER; k <= MEM_GRADS; k++)
        bytes[k] = u->shard_count * 4;
    bytes[MEM_WEIGHTS] = elem == 4 ? 0 : u->shard_count * elem;
    bytes[MEM_GATHERED] = whole ? 0 : gathered * elem;
    bytes[MEM_FULLGRADS] =
        whole && !memplan_accumulates(r, u->shard) ? 0 : u->ring_count * 4;
}

static void plan_activations(const struct recipe *r, const struct ops *ops,
                             int64_t *bytes)
{
    const struct model *m = &r->model;
    enum ac_mode ac = r->activation_checkpoint.mode;
    int B = r->training.local_batch_size, S = r->training.seq_len, T = B * S;
    int chunk = memplan_loss_chunk(r);

    bytes[MEM_SAVED] = m->layers * mem_align((int64_t)saved_bytes(m, ops, ac, B, S));
    bytes[MEM_RECOMPUTE] = (int64_t)recompute_bytes(m, ops, ac, B, S);
    bytes[MEM_STREAM] = 2 * mem_align((int64_t)ops->elem_bytes * T * m->hidden);
    bytes[MEM_WORK] = (int64_t)work_bytes(m, ops, B, S, chunk);
    bytes[MEM_SCRATCH] = (int64_t)ops->scratch_bytes(
        T, S, m->hidden, m->heads, m->kv_heads, m->head_dim, m->experts, m->top_k,
        m->expert_ffn, chunk, m->vocab);
    bytes[MEM_BATCH] = 4 * mem_align((int64_t)T * 4);
    bytes[MEM_METRICS] = meter_bytes(m);
    bytes[MEM_ROUTING] = routing_bytes(r);
}

static int64_t plan_outside(const struct ops *ops, const struct recipe *r, int shard)
{
    int alone = shard == 1 && r->parallelism.data_parallel_replicate_degree == 1;

    for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++)
        if (str_eq(outside[i].ops, ops->name))
            return alone ? outside[i].alone : outside[i].grouped;
    return 0;
}

void memplan_make(const struct recipe *r, const struct ops *ops, int shard,
                  int64_t device_bytes, struct memplan *out)
{
    int64_t bytes[N_MEM_KINDS] = { 0 };
    int64_t tokens = (int64_t)r->training.local_batch_size * r->training.seq_len;
    struct units u;

    units_make(&r->model, shard, &u);
    plan_weights(r, ops, &u, bytes);
    plan_activations(r, ops, bytes);
    *out = (struct memplan){ .n = N_MEM_KINDS, .device_bytes = device_bytes };
    for (int k = 0; k < N_MEM_KINDS; k++) {
        out->item[k] = (struct mem_item){ names[k], mem_align(bytes[k]) };
        out->arena_bytes += out->item[k].bytes;
    }
    out->outside_bytes = plan_outside(ops, r, shard);
    out->activation_bytes_per_token_layer =
        bytes[MEM_SAVED] / (tokens * r->model.layers);
    out->percent = device_bytes > 0
                       ? 100.0 * (double)(out->arena_bytes + out->outside_bytes) /
                             (double)device_bytes
                       : NAN;
}

struct js *memplan_json(const struct memplan *m)
{
    struct js *o = js_object(), *items = js_object();

    js_put_int(o, "arena_bytes", m->arena_bytes);
    js_put_int(o, "outside_bytes", m->outside_bytes);
    js_put(o, "device_bytes",
           m->device_bytes > 0 ? js_int(m->device_bytes) : js_string(NULL));
    js_put_real(o, "percent", m->percent);
    js_put_int(o, "activation_bytes_per_token_layer",
               m->activation_bytes_per_token_layer);
    for (int k = 0; k < m->n; k++)
        if (m->item[k].bytes)
            js_put_int(items, m->item[k].name, m->item[k].bytes);
    js_put(o, "items", items);
    return o;
}
