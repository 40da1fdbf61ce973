#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "launcher/climb_walk.h"
#include "launcher/store.h"

void walk_say(const struct walk *w, const char *fmt, ...)
{
    va_list ap;
    char *line;

    if (!w->c->say)
        return;
    va_start(ap, fmt);
    line = xvasprintf(fmt, ap);
    va_end(ap);
    w->c->say(w->c->arg, line);
    free(line);
}

int climb_trial_recipe(const struct candidate *c, int gpus, struct recipe *out,
                       struct err *err)
{
    if (candidate_at(c, gpus, out, err) < 0)
        return -1;
    out->training.steps = out->scale.trial_warmup + out->scale.trial_steps;
    out->data.validation_interval = 0;
    return recipe_set(out, "checkpoint.folder", "", err);
}

/* --- the store ----------------------------------------------------------------- */

int walk_put(const struct walk *w, const struct candidate *k, int gpus, int attempt,
             const char *state, const struct trial *t, struct err *err)
{
    struct js *settings = candidate_settings(k);
    char *line = js_line(settings);
    struct store_trial row = {
        .gpus = gpus,
        .candidate = k->index,
        .attempt = attempt,
        .settings = line,
        .state = state,
        .reason = t ? t->reason : k->refused,
        .run = t && *t->run ? t->run : NULL,
        .predicted = isnan(w->predicted) ? k->predicted : w->predicted,
        .tokens_per_s_per_gpu = t ? t->tokens_per_s_per_gpu : NAN,
        .memory_percent = t ? t->memory_percent : k->memory_percent,
        .result = t ? t->result : NULL,
    };
    int rc = store_trial_put(w->c->store, w->c->id, &row, err);

    free(line);
    js_free(settings);
    return rc;
}

/* The row of a trial that ended in an earlier part of this climb; else NULL. */
static const struct js *known_trial(const struct walk *w, int index, int gpus,
                                    int attempt)
{
    for (size_t i = 0; i < js_len(w->known); i++) {
        const struct js *row = js_at(w->known, i);
        if (js_get_int(row, "candidate", -1) == index &&
            js_get_int(row, "gpus", -1) == gpus &&
            js_get_int(row, "attempt", -1) == attempt &&
            !str_eq(js_str(row, "state", ""), "running") &&
            !str_eq(js_str(row, "state", ""), "skipped"))
            return row;
    }
    return NULL;
}

/* --- one trial ------------------------------------------------------------------ */

static void trial_release(struct trial *t)
{
    free(t->reason);
    js_free(t->result);
}

static const char *trial_state(const struct candidate *k, struct trial *t)
{
    double ceiling = 100 * k->recipe.scale.memory_ceiling;

    if (t->status != 0 || isnan(t->tokens_per_s_per_gpu)) {
        if (!t->reason)
            t->reason = xasprintf("run %s told no speed", t->run);
        return "failed";
    }
    if (t->memory_percent > ceiling) {
        t->reason = xasprintf("used %.1f %% of memory, the ceiling is %.1f %%",
                              t->memory_percent, ceiling);
        return "over";
    }
    return "measured";
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Half the distance of the quartiles of a run's measured step times over their
 * median: how far one trial's figure may be off by chance. */
static double spread_of(const struct walk *w, const char *run)
{
    int64_t warmup = w->c->recipe->scale.trial_warmup;
    struct js *steps = *run ? store_steps(w->c->store, run, NULL) : NULL;
    size_t n = 0, rows = js_len(steps);
    double *s = xcalloc(rows, sizeof(*s)), spread = 0;

    for (size_t i = 0; i < rows; i++) {
        const struct js *row = js_at(steps, i);
        double v = js_get_real(js_get(row, "metrics"), "step_s", NAN);
        if (js_get_int(row, "step", 0) > warmup && v > 0)
            s[n++] = v;
    }
    qsort(s, n, sizeof(*s), by_value);
    if (n >= 4)
        spread = (s[3 * n / 4] - s[n / 4]) / 2 / s[n / 2];
    free(s);
    js_free(steps);
    return spread;
}

static void widen(struct walk *w, const char *run)
{
    double spread = spread_of(w, run);

    if (spread > CLIMB_NOISE_MAX)
        spread = CLIMB_NOISE_MAX;
    if (spread > w->spread)
        w->spread = spread;
}

static enum outcome take(struct walk *w, struct candidate *k, int gpus,
                         const char *state, double rate)
{
    int first = gpus == w->c->recipe->scale.rungs.item[0];

    w->done++;
    if (!str_eq(state, "measured")) {
        k->lost = 1;
        return OUTCOME_BAD;
    }
    if (first && k->n_rates < ATTEMPTS_MAX)
        k->rates[k->n_rates++] = rate;
    return OUTCOME_GOOD;
}

static void say_trial(const struct walk *w, const struct candidate *k, int gpus,
                      const struct trial *t, const char *state)
{
    const char *sim = js_get_bool(t->result, "simulated", 0) ? " (simulated)" : "";
    char *text = candidate_text(k);

    if (str_eq(state, "measured") && isnan(t->memory_percent))
        walk_say(w, "%d rank%s, %s: %.0f tokens/s/GPU%s", gpus, str_s(gpus), text,
                 t->tokens_per_s_per_gpu, sim);
    else if (str_eq(state, "measured"))
        walk_say(w, "%d rank%s, %s: %.0f tokens/s/GPU%s, memory %.1f %%", gpus,
                 str_s(gpus), text, t->tokens_per_s_per_gpu, sim, t->memory_percent);
    else
        walk_say(w, "%d rank%s, %s: %s", gpus, str_s(gpus), text, t->reason);
    free(text);
}

static int measure(struct walk *w, struct candidate *k, int gpus, int attempt,
                   struct err *err)
{
    struct trial t = { .tokens_per_s_per_gpu = NAN, .memory_percent = NAN };
    const char *state;
    struct recipe at;
    int rc;

    if (climb_trial_recipe(k, gpus, &at, err) < 0 ||
        walk_put(w, k, gpus, attempt, "running", NULL, err) < 0)
        return -1;
    rc = w->c->measure(w->c->arg, &at, gpus, &t, err);
    recipe_release(&at);
    if (rc == 0 && t.stopped) {
        rc = OUTCOME_STOPPED; /* the row stays "running": measured again */
    } else if (rc == 0) {
        state = trial_state(k, &t);
        rc = walk_put(w, k, gpus, attempt, state, &t, err);
        if (rc == 0) {
            say_trial(w, k, gpus, &t, state);
            widen(w, t.run);
            rc = take(w, k, gpus, state, t.tokens_per_s_per_gpu);
            if (rc == OUTCOME_BAD) {
                free(w->why);
                w->why = xstrdup(t.reason);
            }
        }
    }
    trial_release(&t);
    return rc;
}

int walk_try(struct walk *w, struct candidate *k, int gpus, int attempt,
             struct err *err)
{
    const struct js *row = known_trial(w, k->index, gpus, attempt);

    if (!row)
        return measure(w, k, gpus, attempt, err);
    free(w->why);
    w->why = xstrdup(js_str(row, "reason", NULL));
    widen(w, js_str(row, "run", ""));
    return take(w, k, gpus, js_str(row, "state", ""),
                js_get_real(row, "tokens_per_s_per_gpu", NAN));
}
