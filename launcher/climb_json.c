#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "launcher/climb.h"
#include "launcher/store.h"

/* The rows of one candidate at one rung, put together. */
struct tally {
    struct candidate rates; /* n_rates, rates */
    const char *state, *reason, *run;
    const struct js *result, *settings;
    double memory_percent, predicted;
    int attempts;
};

/* Worst first: a candidate that failed once has failed. */
static int rank_of(const char *state)
{
    static const char *const order[] = { "failed",   "over",    "refused",
                                         "measured", "running", "interrupted",
                                         "skipped" };

    for (size_t i = 0; i < ARRAY_LEN(order); i++)
        if (str_eq(order[i], state))
            return (int)i;
    return (int)ARRAY_LEN(order);
}

static void tally_add(struct tally *t, const struct js *row)
{
    const char *state = js_str(row, "state", "");
    double rate = js_get_real(row, "tokens_per_s_per_gpu", NAN);
    double memory = js_get_real(row, "memory_percent", NAN);

    if (!t->state || rank_of(state) < rank_of(t->state)) {
        t->state = state;
        t->reason = js_str(row, "reason", NULL);
        t->run = js_str(row, "run", NULL);
        t->result = js_get(row, "result");
        t->settings = js_get(row, "settings");
        t->predicted = js_get_real(row, "predicted", NAN);
    }
    if (str_eq(state, "measured") && t->rates.n_rates < ATTEMPTS_MAX)
        t->rates.rates[t->rates.n_rates++] = rate;
    if (!(t->memory_percent >= memory))
        t->memory_percent = memory;
    t->attempts += rank_of(state) <= 1 || str_eq(state, "measured");
}

static struct tally tally_of(const struct js *rows, int64_t gpus, int64_t candidate)
{
    struct tally t = { .memory_percent = NAN, .predicted = NAN };

    for (size_t i = 0; i < js_len(rows); i++) {
        const struct js *row = js_at(rows, i);
        if (js_get_int(row, "gpus", 0) == gpus &&
            js_get_int(row, "candidate", -1) == candidate)
            tally_add(&t, row);
    }
    return t;
}

static struct js *shared(const struct js *v)
{
    return v ? js_ref((struct js *)v) : js_string(NULL);
}

/* What stands beside every rate. */
static void put_rates(struct js *o, const struct tally *t)
{
    js_put_real(o, "mfu_reference", js_get_real(t->result, "mfu_reference", NAN));
    js_put_real(o, "mfu_causal", js_get_real(t->result, "mfu_causal", NAN));
    if (js_get_bool(t->result, "simulated", 0))
        js_put_bool(o, "simulated", 1);
}

static struct js *trial_object(const struct tally *t, int64_t gpus, int64_t candidate)
{
    struct js *o = js_object();

    js_put_int(o, "gpus", gpus);
    js_put_int(o, "candidate", candidate);
    js_put(o, "settings", shared(t->settings));
    js_put_str(o, "state", t->state);
    js_put_str(o, "reason", t->reason);
    js_put_real(o, "tokens_per_s_per_gpu", candidate_rate(&t->rates));
    put_rates(o, t);
    js_put_real(o, "predicted_tokens_per_s_per_gpu", t->predicted);
    js_put_real(o, "memory_percent", t->memory_percent);
    js_put_int(o, "attempts", t->attempts);
    js_put_str(o, "run", t->run);
    return o;
}

/* Trials of the first rung; *best is the candidate that wins, or -1. */
static struct js *trial_list(const struct js *rows, int64_t gpus, int64_t *best)
{
    struct js *list = js_array();
    int64_t last = -1;
    double top = -1;

    *best = -1;
    for (size_t i = 0; i < js_len(rows); i++) {
        int64_t k = js_get_int(js_at(rows, i), "candidate", -1);
        struct tally t;
        if (js_get_int(js_at(rows, i), "gpus", 0) != gpus || k == last)
            continue;
        last = k; /* rows come in order of the candidates */
        t = tally_of(rows, gpus, k);
        js_push(list, trial_object(&t, gpus, k));
        if (str_eq(t.state, "measured") && candidate_rate(&t.rates) > top) {
            top = candidate_rate(&t.rates);
            *best = k;
        }
    }
    return list;
}

static struct js *rung_object(const struct js *rows, int64_t gpus, int64_t winner,
                              double perfect)
{
    struct tally t = tally_of(rows, gpus, winner);
    double rate = candidate_rate(&t.rates);
    struct js *o = js_object();

    js_put_int(o, "gpus", gpus);
    js_put_str(o, "state", t.state ? t.state : "pending");
    js_put_str(o, "reason", t.reason);
    js_put_real(o, "tokens_per_s_per_gpu", rate);
    js_put_real(o, "tokens_per_s", rate * (double)gpus);
    put_rates(o, &t);
    js_put_real(o, "memory_percent", t.memory_percent);
    js_put_real(o, "predicted_tokens_per_s_per_gpu", t.predicted);
    js_put_real(o, "efficiency", rate / (isnan(perfect) ? rate : perfect));
    js_put_str(o, "run", t.run);
    return o;
}

/* Case G03: the same batch at every rung is strong scaling, one that grows with the
 * ranks is weak. */
static const char *scaling_of(const struct js *rungs)
{
    int64_t gpus = js_get_int(js_at(rungs, 0), "gpus", 1);
    int64_t batch = js_get_int(js_at(rungs, 0), "global_batch_size", 1);
    int strong = 1, weak = 1;

    for (size_t i = 1; i < js_len(rungs); i++) {
        int64_t g = js_get_int(js_at(rungs, i), "gpus", 1);
        int64_t b = js_get_int(js_at(rungs, i), "global_batch_size", 1);
        strong &= b == batch;
        weak &= b * gpus == batch * g;
    }
    return strong ? "strong" : weak ? "weak" : "mixed";
}

/* The winner's recipe, from the climb's and the settings of its trial. */
static int winner_recipe(const char *text, const struct js *settings,
                         struct recipe *out, struct err *err)
{
    const char *key;
    struct js *v;

    if (recipe_parse(text, strlen(text), "recipe in the store", out, err) < 0)
        return -1;
    for (size_t i = 0; js_pair(settings, i, &key, &v); i++) {
        char *value = js_is_int(v) ? xasprintf("%lld", (long long)js_as_int(v, 0))
                                   : xstrdup(js_as_str(v, ""));
        int rc = recipe_set(out, key, value, err);
        free(value);
        if (rc < 0) {
            recipe_release(out);
            return -1;
        }
    }
    return 0;
}

static void put_batch(struct js *rung, const struct recipe *r)
{
    struct candidate k = { .recipe = *r };
    struct recipe at;
    int gpus = (int)js_get_int(rung, "gpus", 1);

    if (candidate_at(&k, gpus, &at, NULL) < 0)
        return;
    js_put_int(rung, "global_batch_size", candidate_global_batch(&at, gpus));
    recipe_release(&at);
}

static struct js *ladder(const struct js *rows, const struct recipe *r, int64_t winner)
{
    struct js *rungs = js_array();
    double perfect = NAN;

    for (int i = 0; i < r->scale.rungs.n; i++) {
        struct js *rung = rung_object(rows, r->scale.rungs.item[i], winner, perfect);
        if (i == 0)
            perfect = js_get_real(rung, "tokens_per_s_per_gpu", NAN);
        put_batch(rung, r);
        js_push(rungs, rung);
    }
    return rungs;
}

static void put_climb(struct js *o, const struct js *climb, const struct recipe *r)
{
    static const char *const same[] = { "id", "name", "state", "started", "ended" };

    for (size_t i = 0; i < ARRAY_LEN(same); i++)
        js_put(o, i ? same[i] : "climb", shared(js_get(climb, same[i])));
    js_put_real(o, "memory_ceiling_percent", 100 * r->scale.memory_ceiling);
    js_put_int(o, "trial_steps", r->scale.trial_steps);
    js_put_int(o, "trial_warmup", r->scale.trial_warmup);
}

static struct js *put_together(const struct js *climb, const struct js *rows,
                               struct err *err)
{
    const char *text = js_str(climb, "recipe", "");
    struct js *o = NULL, *trials, *rungs;
    struct recipe r, won;
    int64_t winner;

    if (recipe_parse(text, strlen(text), "recipe in the store", &r, err) < 0)
        return NULL;
    trials = trial_list(rows, r.scale.rungs.item[0], &winner);
    struct tally t = tally_of(rows, r.scale.rungs.item[0], winner);
    if (winner_recipe(text, t.settings, &won, err) == 0) {
        o = js_document("climb");
        put_climb(o, climb, &r);
        rungs = ladder(rows, &won, winner);
        js_put_str(o, "scaling", scaling_of(rungs));
        if (js_get_bool(js_at(rungs, 0), "simulated", 0))
            js_put_bool(o, "simulated", 1);
        js_put(o, "rungs", rungs);
        js_put(o, "trials", js_ref(trials));
        js_put(o, "winner", winner >= 0 ? shared(t.settings) : js_string(NULL));
        recipe_release(&won);
    }
    js_free(trials);
    recipe_release(&r);
    return o;
}

/* What was being measured when the climb ended is not being measured any more. */
static void mark_interrupted(const struct js *climb, struct js *rows)
{
    if (str_eq(js_str(climb, "state", ""), "running"))
        return;
    for (size_t i = 0; i < js_len(rows); i++)
        if (str_eq(js_str(js_at(rows, i), "state", ""), "running"))
            js_put_str(js_at(rows, i), "state", "interrupted");
}

struct js *climb_json(struct store *s, const char *id, struct err *err)
{
    struct js *climb = store_climb(s, id, err);
    struct js *rows = climb ? store_trials(s, id, err) : NULL;
    struct js *o = NULL;

    if (rows) {
        mark_interrupted(climb, rows);
        o = put_together(climb, rows, err);
    }
    js_free(climb);
    js_free(rows);
    return o;
}
