#include "launcher/predict.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/js.h"
#include "base/mem.h"
#include "recipes/recipe.h"
#include "topology/place.h"
#include "topology/topology.h"

/* --- the device of a rank -------------------------------------------------------- */

static int ranks_on(const struct placement *p, int node)
{
    int n = 0;

    for (int i = 0; i < p->world; i++)
        n += p->rank[i].node == node;
    return n;
}

/* Memory bandwidth by name, GB/s; NVIDIA's data sheets, of which copies reach 0.85. */
static double memory_rate(const char *name)
{
    static const struct {
        const char *part;
        double gbytes_per_s;
    } table[] = { { "GB200", 8000 }, { "B200", 8000 },           { "B300", 8000 },
                  { "H200", 4800 },  { "H100 NVL", 3900 },       { "H100 PCIe", 2000 },
                  { "H100", 3350 },  { "A100-SXM4-80GB", 2039 }, { "A100", 1555 } };

    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (strstr(name, table[i].part))
            return 0.85 * table[i].gbytes_per_s;
    return 0.85 * 1000;
}

/* The slowest node decides for all: cores a rank has there. */
static double cores_per_rank(const struct topology *t, const struct placement *p)
{
    double least = INFINITY;

    for (int i = 0, count; i < p->world; i += count) {
        const struct node *n = &t->nodes[p->rank[i].node];
        int cores = n->cores > 0 ? n->cores : n->threads > 0 ? n->threads : 1;
        for (count = 1; i + count < p->world && p->rank[i + count].local_rank; count++)
            ;
        least = (double)cores / count < least ? (double)cores / count : least;
    }
    return least;
}

static void assume(const struct topology *t, const struct placement *p,
                   const struct predict_assumptions *given, struct prediction *x)
{
    struct predict_assumptions *a = &x->assumed;
    const struct place *first = &p->rank[0];
    const char *name = p->on_gpus ? t->nodes[first->node].gpus[first->gpu].name : "";
    double known = model_peak_flops(name);

    *a = given ? *given : (struct predict_assumptions){ 0 };
    x->peak_known = known > 0 || a->peak_flops > 0;
    if (a->efficiency <= 0)
        a->efficiency = PREDICT_EFFICIENCY;
    if (a->peak_flops <= 0)
        a->peak_flops =
            known > 0 ? known : PREDICT_CPU_CORE_FLOPS * cores_per_rank(t, p);
    if (a->memory_gbytes_per_s <= 0)
        a->memory_gbytes_per_s =
            p->on_gpus ? memory_rate(name)
                       : COST_MEMORY_GBYTES / ranks_on(p, p->rank[0].node);
}

/* --- communication ---------------------------------------------------------------- */

struct units {
    int64_t embedding, layer, head; /* parameters */
};

static struct units units_of(const struct model *m)
{
    struct units u;

    u.embedding = (int64_t)m->vocab * m->hidden;
    u.head = (m->tied ? 0 : u.embedding) + m->hidden;
    u.layer = (model_params_total(m) - u.embedding - u.head) / m->layers;
    return u;
}

struct bytes {
    int64_t gather, scatter, replica;
};

static struct bytes bytes_of(int64_t parameters, int elem, int shard)
{
    return (struct bytes){ parameters * elem, parameters * 4,
                           (parameters + shard - 1) / shard * 4 };
}

struct comm {
    struct cost gather, scatter, replica;
};

/* Whose collectives are predicted; all groups of an axis run one at the same time. */
struct mesh {
    const struct placement *p;
    const struct topology *t;
    struct cost_model *model;
    int *shard_rank, *replicate_rank;
    struct cost_groups shard, replicate;
};

static struct mesh mesh_open(const struct placement *p, const struct topology *t)
{
    struct mesh m = { .p = p, .t = t, .model = cost_model_new(t) };

    m.shard = cost_shard_groups(p, &m.shard_rank);
    m.replicate = cost_replicate_groups(p, &m.replicate_rank);
    return m;
}

static void mesh_close(struct mesh *m)
{
    cost_model_free(m->model);
    free(m->shard_rank);
    free(m->replicate_rank);
}

static struct comm comm_of(struct bytes b, const struct mesh *m)
{
    return (struct comm){
        cost_concurrent(COLLECTIVE_ALL_GATHER, b.gather, &m->shard, m->p, m->t,
                        m->model),
        cost_concurrent(COLLECTIVE_REDUCE_SCATTER, b.scatter, &m->shard, m->p, m->t,
                        m->model),
        cost_concurrent(COLLECTIVE_ALL_REDUCE, b.replica, &m->replicate, m->p, m->t,
                        m->model),
    };
}

/* --- compute ------------------------------------------------------------------------ */

struct work {
    double layer, recompute, head; /* FLOPs of one token, forward + backward */
};

static struct work work_of(const struct recipe *r)
{
    const struct model *m = &r->model;
    double total = model_flops_per_token(m, r->training.seq_len, FLOPS_CAUSAL);
    double first_products =
        2.0 * 2 * m->hidden * ((double)m->expert_ffn * m->top_k + m->shared_ffn);
    struct work w;

    w.head = 6.0 * m->vocab * m->hidden;
    w.layer = (total - w.head) / m->layers;
    w.recompute = 0;
    if (r->activation_checkpoint.mode == AC_FULL)
        w.recompute = w.layer / 3;
    else if (r->activation_checkpoint.mode == AC_SELECTIVE)
        w.recompute = first_products;
    return w;
}

/* Time that is not known does not count; predict_make() keeps what is missing. */
static double known_s(const struct cost *c)
{
    return isnan(c->seconds) ? 0 : c->seconds;
}

static double beyond(double communication, double compute)
{
    return communication > compute ? communication - compute : 0;
}

/* Exposed seconds of one micro-batch. */
static double exposed(const struct prediction *x, const struct recipe *r,
                      const struct comm *layer, const struct comm *embedding,
                      const struct comm *head)
{
    int last = r->model.layers;
    double again = r->parallelism.reshard_after_forward ? known_s(&layer->gather) : 0;
    double forward = known_s(&embedding->gather) +
                     last * beyond(known_s(&layer->gather), x->layer_forward_s) +
                     beyond(known_s(&head->gather), x->layer_forward_s);
    double backward =
        last * beyond(again + known_s(&layer->scatter), x->layer_backward_s) +
        beyond(known_s(&head->scatter), x->layer_backward_s) +
        known_s(&embedding->scatter);

    return forward + backward;
}

/* What the sum over replicas adds to the last micro-batch: it shares the layer's time
 * with that layer's other communication. */
static double exposed_replica(const struct prediction *x, const struct recipe *r,
                              const struct comm *layer, const struct comm *embedding,
                              const struct comm *head)
{
    double again = r->parallelism.reshard_after_forward ? known_s(&layer->gather) : 0;
    double without = beyond(again + known_s(&layer->scatter), x->layer_backward_s);
    double with = beyond(again + known_s(&layer->scatter) + known_s(&layer->replica),
                         x->layer_backward_s);

    return r->model.layers * (with - without) + known_s(&embedding->replica) +
           beyond(known_s(&head->replica), x->layer_backward_s);
}

/* --- the whole ----------------------------------------------------------------------- */

static void add_compute(struct prediction *x, const struct recipe *r,
                        const struct placement *p)
{
    struct work w = work_of(r);
    double tokens = (double)r->training.local_batch_size * r->training.seq_len;
    double rate = x->assumed.peak_flops * x->assumed.efficiency;

    x->layer_forward_s = tokens * w.layer / 3 / rate;
    x->layer_backward_s = tokens * (w.layer * 2 / 3 + w.recompute) / rate;
    x->compute_s = p->accumulation *
                   (r->model.layers * (x->layer_forward_s + x->layer_backward_s) +
                    tokens * w.head / rate);
    x->optimizer_s = 30.0 * (double)model_params_total(&r->model) / p->shard_degree /
                     (x->assumed.memory_gbytes_per_s * 1e9);
}

static void add_rates(struct prediction *x, const struct recipe *r,
                      const struct placement *p)
{
    double tokens = (double)r->training.local_batch_size * r->training.seq_len;
    double peak = x->peak_known ? x->assumed.peak_flops : 0;

    x->step_s = x->compute_s + x->exposed_s + x->optimizer_s;
    x->tokens_per_s_per_gpu = tokens * p->accumulation / x->step_s;
    x->mfu_reference = model_mfu(
        model_flops_per_token(&r->model, r->training.seq_len, FLOPS_REFERENCE),
        x->tokens_per_s_per_gpu, peak);
    x->mfu_causal =
        model_mfu(model_flops_per_token(&r->model, r->training.seq_len, FLOPS_CAUSAL),
                  x->tokens_per_s_per_gpu, peak);
}

static void add_missing(struct prediction *x)
{
    const struct cost *all[] = { &x->gather, &x->scatter, &x->replica };

    for (size_t i = 0; i < ARRAY_LEN(all) && !x->missing[0]; i++)
        if (all[i]->limit == COST_UNKNOWN)
            snprintf(x->missing, sizeof(x->missing), "%s", all[i]->object);
    for (size_t i = 0; i < ARRAY_LEN(all) && !x->missing[0]; i++)
        snprintf(x->missing, sizeof(x->missing), "%s", all[i]->note);
}

void predict_make(const struct recipe *r, const struct topology *t,
                  const struct placement *p, const struct predict_assumptions *assumed,
                  struct prediction *out)
{
    struct prediction x = { .peak_known = 0 };
    struct units u = units_of(&r->model);
    int elem = p->on_gpus ? 2 : 4;
    struct bytes b = bytes_of(u.layer, elem, p->shard_degree);
    struct mesh m = mesh_open(p, t);
    struct comm layer = comm_of(b, &m),
                embedding = comm_of(bytes_of(u.embedding, elem, p->shard_degree), &m),
                head = comm_of(bytes_of(u.head, elem, p->shard_degree), &m);

    mesh_close(&m);
    assume(t, p, assumed, &x);
    add_compute(&x, r, p);
    x.gather_bytes = b.gather;
    x.scatter_bytes = b.scatter;
    x.replica_bytes = b.replica;
    x.gather = layer.gather;
    x.scatter = layer.scatter;
    x.replica = layer.replica;
    x.exposed_shard_s = p->accumulation * exposed(&x, r, &layer, &embedding, &head);
    x.exposed_replicate_s = exposed_replica(&x, r, &layer, &embedding, &head);
    x.exposed_s = x.exposed_shard_s + x.exposed_replicate_s;
    add_missing(&x);
    add_rates(&x, r, p);
    *out = x;
}

static struct js *cost_json(const struct cost *c, int64_t bytes)
{
    struct js *o = js_object(), *tiers = js_object();

    js_put_int(o, "bytes", bytes);
    js_put_real(o, "seconds", c->seconds);
    js_put_real(o, "gbytes_per_s", c->gbytes_per_s);
    js_put_str(o, "tier", c->tier);
    js_put_str(o, "limit", c->object);
    js_put_str(o, "algorithm", c->algorithm);
    js_put_str(o, "protocol", c->protocol);
    for (int i = 0; i < N_COST_TIERS; i++)
        if (c->bytes[i] > 0)
            js_put_real(tiers, cost_tier_name((enum cost_tier)i), c->bytes[i]);
    js_put(o, "tier_bytes", tiers);
    js_put_bool(o, "fabric_known", c->fabric_known);
    js_put_str(o, "note", c->note);
    return o;
}

struct js *predict_json(const struct prediction *x)
{
    struct js *o = js_object(), *assumed = js_object();

    js_put_real(o, "tokens_per_s_per_gpu", x->tokens_per_s_per_gpu);
    js_put_real(o, "mfu_reference", x->mfu_reference);
    js_put_real(o, "mfu_causal", x->mfu_causal);
    js_put_real(o, "step_s", x->step_s);
    js_put_real(o, "compute_s", x->compute_s);
    js_put_real(o, "exposed_communication_s", x->exposed_s);
    js_put_real(o, "exposed_shard_s", x->exposed_shard_s);
    js_put_real(o, "exposed_replicate_s", x->exposed_replicate_s);
    js_put_str(o, "not_counted", x->missing);
    js_put_real(o, "optimizer_s", x->optimizer_s);
    js_put_real(o, "layer_forward_s", x->layer_forward_s);
    js_put_real(o, "layer_backward_s", x->layer_backward_s);
    js_put(o, "layer_all_gather", cost_json(&x->gather, x->gather_bytes));
    js_put(o, "layer_reduce_scatter", cost_json(&x->scatter, x->scatter_bytes));
    js_put(o, "layer_all_reduce", cost_json(&x->replica, x->replica_bytes));
    js_put_real(assumed, "peak_flops", x->assumed.peak_flops);
    js_put_bool(assumed, "peak_known", x->peak_known);
    js_put_real(assumed, "efficiency", x->assumed.efficiency);
    js_put_real(assumed, "memory_gbytes_per_s", x->assumed.memory_gbytes_per_s);
    js_put(o, "assumptions", assumed);
    return o;
}
