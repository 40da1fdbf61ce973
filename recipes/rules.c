#include "recipes/rules.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "recipes/field.h"
#include "recipes/recipe.h"
#include "recipes/slurm_signal.h"
#include "recipes/value.h"

void rules_break(struct rules *rules, const char *key, const char *fmt, ...)
{
    va_list ap;
    char *text;

    va_start(ap, fmt);
    text = xvasprintf(fmt, ap);
    va_end(ap);
    rules->n++;
    rules->broken(rules->arg, key, text);
    free(text);
}

void rules_check_model(struct rules *rules, const struct model *m)
{
    if (m->kv_heads < 1 || m->heads % m->kv_heads)
        rules_break(rules, "model.kv_heads", "%d does not divide model.heads (%d)",
                    m->kv_heads, m->heads);
    if (m->head_dim % 2)
        rules_break(rules, "model.head_dim", "%d is odd: rotary positions turn pairs",
                    m->head_dim);
    if (m->top_k > m->experts)
        rules_break(rules, "model.top_k", "%d is above model.experts (%d)", m->top_k,
                    m->experts);
}

/* Returns how many fields of the model nobody gave. */
static int check_required(struct rules *rules, const struct recipe *r)
{
    int missing = 0;

    for (int i = 0; i < n_fields; i++) {
        const struct field *f = &fields[i];
        if (f->def || f->type != FIELD_INT || strncmp(f->key, "model.", 6) != 0 ||
            *(const int *)((const char *)r + f->offset) != 0)
            continue;
        missing++;
        if (!*r->preset && missing == 1 && r->model.layers == 0 && r->model.hidden == 0)
            return rules_break(rules, "model", "no model: name one with model.preset"),
                   1;
        rules_break(rules, f->key, "is missing: give it, or name a model.preset");
    }
    return missing;
}

static void check_data(struct rules *rules, const struct recipe *r)
{
    if (r->data.weights.n && r->data.weights.n != r->data.path.n)
        rules_break(rules, "data.weights", "%d weights for %d sources in data.path",
                    r->data.weights.n, r->data.path.n);
    if (r->data.validation_interval && !r->data.validation_path.n &&
        r->data.validation_fraction == 0)
        rules_break(rules, "data.validation_interval",
                    "there is nothing to validate on: give data.validation_path or "
                    "data.validation_fraction");
    if (r->data.document_mask && r->data.eod_token < 0)
        rules_break(rules, "data.document_mask",
                    "needs data.eod_token, the token that ends a document");
    if (r->model.vocab && r->data.eod_token >= r->model.vocab)
        rules_break(rules, "data.eod_token", "%lld is not below model.vocab (%d)",
                    (long long)r->data.eod_token, r->model.vocab);
}

static void check_debug(struct rules *rules, const struct recipe *r)
{
    if (r->debug.moe_routing == ROUTING_REPLAY && !*r->debug.moe_counts)
        rules_break(rules, "debug.moe_routing",
                    "replay needs debug.moe_counts, a recording to replay");
    if (r->debug.moe_routing != ROUTING_REPLAY && *r->debug.moe_counts)
        rules_break(rules, "debug.moe_counts", "is read by moe_routing: replay only");
    if (r->cluster.device == DEVICE_SIM && *r->debug.moe_record)
        rules_break(rules, "debug.moe_record",
                    "cluster.device: sim routes nothing that could be recorded");
}

static void check_scale(struct rules *rules, const struct recipe *r)
{
    for (int i = 1; i < r->scale.rungs.n; i++)
        if (r->scale.rungs.item[i] <= r->scale.rungs.item[i - 1])
            rules_break(rules, "scale.rungs", "%lld comes after %lld: rungs must rise",
                        (long long)r->scale.rungs.item[i],
                        (long long)r->scale.rungs.item[i - 1]);
}

/* TERM and the like end a run; ranks of any kind may wait for USR1 and USR2. */
static void check_signal(struct rules *rules, const char *text)
{
    struct err err = ERR_INIT;
    struct slurm_signal s;

    if (slurm_signal_parse(text, &s, &err) < 0)
        rules_break(rules, "cluster.slurm.signal", "%s", err_text(&err));
    else if (s.number != SIGUSR1 && s.number != SIGUSR2)
        rules_break(rules, "cluster.slurm.signal",
                    "%s: USR1 or USR2 is wanted, others end a run", text);
    err_release(&err);
}

static void check_slurm(struct rules *rules, const struct recipe *r)
{
    const char *time = r->cluster.slurm_time;
    struct err e = ERR_INIT;
    int64_t s = 1;

    if (*time && strcmp(time, "unlimited") != 0 &&
        (value_duration(time, &s, &e) < 0 || s < 1))
        rules_break(rules, "cluster.slurm.time", "%s",
                    s < 1 ? "a job without time" : err_text(&e));
    if (r->cluster.container_mounts.n && !*r->cluster.container_image)
        rules_break(rules, "cluster.slurm.container_mounts",
                    "mounts without a cluster.slurm.container_image");
    check_signal(rules, r->cluster.slurm_signal);
    err_release(&e);
}

void rules_check_recipe(struct rules *rules, const struct recipe *r)
{
    int64_t global = r->training.global_batch_size;

    if (check_required(rules, r) == 0)
        rules_check_model(rules, &r->model);
    if (strcmp(r->optimizer.name, "adamw") != 0)
        rules_break(rules, "optimizer.name", "'%s' is not known: adamw is the only one",
                    r->optimizer.name);
    if (r->parallelism.data_parallel_shard_degree < 0 &&
        r->parallelism.data_parallel_replicate_degree < 0)
        rules_break(rules, "parallelism.data_parallel_replicate_degree",
                    "two free degrees: give shard or replicate a number");
    if (global > 0 && global % r->training.local_batch_size)
        rules_break(rules, "training.global_batch_size",
                    "%lld is not a multiple of local_batch_size (%d)",
                    (long long)global, r->training.local_batch_size);
    check_data(rules, r);
    check_debug(rules, r);
    check_scale(rules, r);
    check_slurm(rules, r);
}

struct listing {
    const char *where;
    struct err *err;
};

static void list_broken(void *arg, const char *key, const char *text)
{
    struct listing *l = arg;

    err_append(l->err, ERR_USAGE, "%s: %s: %s", l->where, key, text);
}

int model_validate(const struct model *m, const char *where, struct err *err)
{
    struct listing l = { where, err };
    struct rules rules = { list_broken, &l, 0 };

    rules_check_model(&rules, m);
    return rules.n ? -1 : 0;
}

int recipe_validate(const struct recipe *r, const char *where, struct err *err)
{
    struct listing l = { where, err };
    struct rules rules = { list_broken, &l, 0 };

    rules_check_recipe(&rules, r);
    return rules.n ? -1 : 0;
}
