#include "trainer/sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "recipes/recipe.h"

/* ---- the story ---- */

static const struct {
    const char *name;
    enum sim_fault what;
    int has_value;
} faults[N_SIM_FAULTS] = {
    { "slow", SIM_SLOW, 1 },   { "wedge", SIM_WEDGE, 0 }, { "hang", SIM_HANG, 0 },
    { "crash", SIM_CRASH, 0 }, { "exit", SIM_EXIT, 1 },   { "leave", SIM_LEAVE, 0 },
};

/* RANK@STEP or RANK@STEP:VALUE */
static int parse_event(const char *text, struct sim_event *e, int has_value)
{
    char *end;

    e->rank = (int)strtol(text, &end, 10);
    if (end == text || *end != '@' || e->rank < 0)
        return -1;
    text = end + 1;
    e->step = strtoll(text, &end, 10);
    if (end == text || e->step < 1)
        return -1;
    if (!has_value)
        return *end ? -1 : 0;
    if (*end != ':')
        return -1;
    text = end + 1;
    e->value = strtod(text, &end);
    return end == text || *end || !(e->value >= 0 && e->value < 1e6) ? -1 : 0;
}

static int parse_word(const char *word, struct sim_story *s)
{
    char *end;

    if (strncmp(word, "seed=", 5) == 0) {
        s->seed = strtoull(word + 5, &end, 10);
        return end == word + 5 || *end ? -1 : 0;
    }
    if (strncmp(word, "time=", 5) == 0) {
        s->time = strtod(word + 5, &end);
        return end == word + 5 || *end || !(s->time >= 0 && s->time < 1e6) ? -1 : 0;
    }
    for (size_t i = 0; i < N_SIM_FAULTS; i++) {
        size_t n = strlen(faults[i].name);
        if (strncmp(word, faults[i].name, n) != 0 || word[n] != '=')
            continue;
        if (s->n == SIM_MAX_STORY)
            return -1;
        s->event[s->n].what = faults[i].what;
        return parse_event(word + n + 1, &s->event[s->n++], faults[i].has_value);
    }
    return -1;
}

int sim_story_parse(const char *text, struct sim_story *out, struct err *err)
{
    struct sim_story s = { .seed = 1, .time = 1 };
    char word[64];

    while (text && *text) {
        size_t n = strcspn(text, ",");
        snprintf(word, sizeof(word), "%.*s", (int)n, text);
        if (n >= sizeof(word) || (n && parse_word(word, &s) < 0))
            return err_set(
                err, ERR_USAGE,
                "MUSTER_SIM: '%s' is none of seed=N, time=F, slow=RANK@STEP:F, "
                "exit=RANK@STEP:STATUS, {wedge,hang,crash,leave}=RANK@STEP "
                "(at most %d of those)",
                word, SIM_MAX_STORY);
        text += n + (text[n] == ',');
    }
    *out = s;
    return 0;
}

/* ---- the machine ---- */

/* splitmix64: every draw from its own number. */
static double uniform(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    return (double)(x >> 11) * 0x1p-53;
}

void sim_machine_draw(uint64_t seed, struct sim_machine *out)
{
    const struct {
        double low, high;
        double *to;
    } draws[] = {
        { 0.46, 0.58, &out->efficiency }, { 800, 2000, &out->half_tokens },
        { 0.75, 0.95, &out->hidden },     { 420, 640, &out->nvlink_gbps },
        { 36, 46, &out->nic_gbps },       { 8, 20, &out->alpha_us },
        { 0.02, 0.06, &out->contention }, { 0.004, 0.015, &out->jitter },
    };

    for (size_t i = 0; i < sizeof(draws) / sizeof(draws[0]); i++)
        *draws[i].to =
            draws[i].low + (draws[i].high - draws[i].low) * uniform(seed * 1000 + i);
}

/* ---- one step ---- */

struct shape {
    int per_node, shard, replicas;
};

/* B/s of one rank of a group over `nodes` nodes with `here` ranks on each: so many
 * rings, each through a NIC of its own. */
static double rate(const struct sim_machine *m, double nodes, int here)
{
    double net = here * m->nic_gbps * (1 - m->contention * log2(fmax(nodes, 1)));

    return 1e9 * (nodes <= 1 ? m->nvlink_gbps : fmin(m->nvlink_gbps, net));
}

/* One gather or scatter of `bytes` over the shard group. */
static double shard_s(const struct sim_machine *m, const struct shape *s, double bytes)
{
    double nodes = ceil((double)s->shard / s->per_node);
    int here = s->shard < s->per_node ? s->shard : s->per_node;

    if (s->shard == 1)
        return 0;
    return (s->shard - 1) * m->alpha_us * 1e-6 / s->per_node +
           bytes * (s->shard - 1) / s->shard / rate(m, nodes, here);
}

/* all_reduce of the FP32 shard over the replicas. */
static double replica_s(const struct sim_machine *m, const struct shape *s,
                        double bytes)
{
    int here = s->shard < s->per_node ? s->per_node / s->shard : 1;
    double nodes = ceil((double)s->replicas / here);

    if (s->replicas == 1)
        return 0;
    return 2 * (s->replicas - 1) * m->alpha_us * 1e-6 / s->per_node +
           2 * bytes * (s->replicas - 1) / s->replicas / rate(m, nodes, here);
}

static double recompute(enum ac_mode ac)
{
    return ac == AC_FULL ? 4.0 / 3 : ac == AC_SELECTIVE ? 1.11 : 1;
}

/* Seconds that show of `comm` beside `compute`. */
static double exposed(const struct sim_machine *m, double comm, double compute)
{
    return comm - fmin(comm, compute) * m->hidden;
}

double sim_step_s(const struct sim_machine *m, const struct recipe *r, int accumulation)
{
    const struct model *shape = &r->model;
    struct shape s = { .per_node =
                           r->cluster.gpus_per_node > 0 ? r->cluster.gpus_per_node : 8,
                       .shard = r->parallelism.data_parallel_shard_degree,
                       .replicas = r->parallelism.data_parallel_replicate_degree };
    double params = (double)model_params_total(shape), layers = shape->layers;
    double tokens = (double)r->training.local_batch_size * r->training.seq_len;
    double peak = model_peak_flops(SIM_DEVICE) * m->efficiency * tokens /
                  (tokens + m->half_tokens);
    double compute = model_flops_per_token(shape, r->training.seq_len, FLOPS_CAUSAL) *
                     recompute(r->activation_checkpoint.mode) * tokens / peak / layers;
    double gather = shard_s(m, &s, 2 * params / layers);
    double scatter = shard_s(m, &s, 4 * params / layers);
    int gathers = r->parallelism.reshard_after_forward ? 2 : 1;
    double layer = compute + exposed(m, gathers * gather + scatter, compute);
    double reduce = replica_s(m, &s, 4 * params / s.shard / layers);

    return layers * (layer * accumulation + exposed(m, reduce, compute)) +
           30 * params / s.shard / 6e12;
}

double sim_rank_factor(const struct sim_machine *m, const struct sim_story *s, int rank,
                       int64_t step)
{
    uint64_t key = s->seed * 1000003 + (uint64_t)rank * 65537 + (uint64_t)step * 257;
    double f = 1 + m->jitter * uniform(key);

    for (int i = 0; i < s->n; i++)
        if (s->event[i].what == SIM_SLOW && s->event[i].rank == rank &&
            step >= s->event[i].step)
            f *= s->event[i].value;
    return f;
}
