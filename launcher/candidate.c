#include "launcher/candidate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "launcher/plan.h"
#include "recipes/value.h"

int64_t candidate_global_batch(const struct recipe *at, int gpus)
{
    int64_t global = at->training.global_batch_size;

    return global > 0 ? global : (int64_t)at->training.local_batch_size * gpus;
}

int candidate_at(const struct candidate *c, int gpus, struct recipe *out,
                 struct err *err)
{
    const struct recipe *r = &c->recipe;
    int64_t first = r->scale.rungs.n ? r->scale.rungs.item[0] : gpus;
    int64_t global = r->training.global_batch_size, grown;
    char text[32];

    recipe_copy(out, r);
    if (r->scale.batch != BATCH_PER_GPU || global < 0)
        return 0;
    if (__builtin_mul_overflow(global, (int64_t)gpus, &grown) || grown % first) {
        recipe_release(out);
        return err_set(err, ERR_USAGE,
                       "global batch %lld of %lld ranks is not a whole number at %d "
                       "(scale.batch per_gpu)",
                       (long long)global, (long long)first, gpus);
    }
    snprintf(text, sizeof(text), "%lld", (long long)(grown / first));
    if (recipe_set(out, "training.global_batch_size", text, err) < 0) {
        recipe_release(out);
        return -1;
    }
    return 0;
}

static int judge_memory(struct candidate *c, const struct plan *p, struct err *err)
{
    double percent = p->memory.percent, ceiling = 100 * p->recipe.scale.memory_ceiling;

    if (!isnan(percent) && !(c->memory_percent >= percent))
        c->memory_percent = percent;
    if (percent > ceiling)
        return err_set(err, ERR_FAILED,
                       "needs %.1f %% of the memory of a rank, the ceiling is %.1f %%",
                       percent, ceiling);
    return 0;
}

static int plan_at(const struct candidate *c, const struct topology *t, int gpus,
                   const struct predict_assumptions *assumed, struct plan *out,
                   struct err *err)
{
    struct recipe at;
    int shard, replicate, accumulation, rc;

    if (candidate_at(c, gpus, &at, err) < 0)
        return -1;
    rc = recipe_layout(&at, gpus, &shard, &replicate, &accumulation, err);
    if (rc == 0)
        rc = plan_make(&at, t, gpus, assumed, out, err);
    recipe_release(&at);
    return rc;
}

static int judge_at(struct candidate *c, const struct topology *t, int rung,
                    struct err *err)
{
    struct plan p = { 0 };
    int rc = plan_at(c, t, (int)c->recipe.scale.rungs.item[rung], NULL, &p, err);

    if (rc < 0)
        return -1;
    rc = judge_memory(c, &p, err);
    if (rung == 0)
        c->predicted = p.predicted.tokens_per_s_per_gpu;
    plan_release(&p);
    return rc;
}

double candidate_predict(const struct candidate *c, const struct topology *t, int gpus,
                         double measured)
{
    struct predict_assumptions assumed;
    struct plan p = { 0 };
    double step_s, compute_s, rate;

    if (isnan(measured) || measured <= 0 ||
        plan_at(c, t, (int)c->recipe.scale.rungs.item[0], NULL, &p, NULL) < 0)
        return NAN;
    /* the same step, as long as it really took: what is not communication or the
     * optimizer's memory traffic is compute */
    step_s = p.predicted.step_s * p.predicted.tokens_per_s_per_gpu / measured;
    compute_s = step_s - p.predicted.exposed_s - p.predicted.optimizer_s;
    if (compute_s < step_s / 10)
        compute_s = step_s / 10;
    assumed = p.predicted.assumed;
    assumed.efficiency *= p.predicted.compute_s / compute_s;
    assumed.peak_flops = 0; /* by the place of a rank: fewer cores, less of it */
    assumed.memory_gbytes_per_s = 0;
    plan_release(&p);
    if (plan_at(c, t, gpus, &assumed, &p, NULL) < 0)
        return NAN;
    rate = p.predicted.tokens_per_s_per_gpu;
    plan_release(&p);
    return rate;
}

static void judge(struct candidate *c, const struct topology *t)
{
    const struct intlist *rungs = &c->recipe.scale.rungs;
    struct err err = ERR_INIT;

    c->memory_percent = c->predicted = NAN;
    if (recipe_validate(&c->recipe, c->recipe.name, &err) < 0)
        c->refused = xstrdup(err_text(&err));
    for (int i = 0; i < rungs->n && !c->refused; i++)
        if (judge_at(c, t, i, &err) < 0)
            c->refused = xasprintf("at %lld rank%s: %s", (long long)rungs->item[i],
                                   str_s(rungs->item[i]), err_text(&err));
    err_release(&err);
}

/* Candidate `index`: the last axis runs fastest. */
static int make_one(struct candidate *c, const struct recipe *r, int index,
                    struct err *err)
{
    const struct sweep_axis *axis = r->scale.sweep;
    int n = r->scale.n_sweep, rest = index, rc = 0;
    int *at = xcalloc((size_t)n, sizeof(*at));

    for (int i = n - 1; i >= 0; i--) {
        at[i] = rest % axis[i].values.n;
        rest /= axis[i].values.n;
    }
    c->index = index;
    recipe_copy(&c->recipe, r);
    for (int i = 0; i < n && rc == 0; i++) {
        const char *value = axis[i].values.item[at[i]];
        strlist_add(&c->values, value);
        rc = recipe_set(&c->recipe, axis[i].key, value, err);
    }
    free(at);
    return rc;
}

int candidates_make(const struct recipe *r, const struct topology *t,
                    struct candidate **out, int *n, struct err *err)
{
    struct candidate *c;
    int64_t total = 1;
    int rc = 0;

    if (r->scale.rungs.n == 0)
        return err_set(
            err, ERR_USAGE,
            "scale.rungs is empty: give it, or --rungs, from small to large");
    for (int i = 0; i < r->scale.n_sweep; i++) {
        total *= r->scale.sweep[i].values.n;
        if (total > CANDIDATES_MAX)
            return err_set(err, ERR_USAGE,
                           "scale.sweep has more than %d combinations: leave some out",
                           CANDIDATES_MAX);
    }
    c = xcalloc((size_t)total, sizeof(*c));
    for (int i = 0; i < total && rc == 0; i++) {
        rc = make_one(&c[i], r, i, err);
        if (rc == 0)
            judge(&c[i], t);
    }
    if (rc < 0) {
        candidates_free(c, (int)total);
        return -1;
    }
    *out = c;
    *n = (int)total;
    return 0;
}

void candidates_free(struct candidate *c, int n)
{
    for (int i = 0; i < n; i++) {
        strlist_release(&c[i].values);
        recipe_release(&c[i].recipe);
        free(c[i].refused);
    }
    free(c);
}

struct js *candidate_settings(const struct candidate *c)
{
    struct js *o = js_object();

    for (int i = 0; i < c->values.n; i++) {
        const char *key = c->recipe.scale.sweep[i].key, *text = c->values.item[i];
        int64_t v = 0;
        if (value_int64(text, &v, NULL) == 0)
            js_put_int(o, key, v);
        else
            js_put_str(o, key, text);
    }
    return o;
}

char *candidate_text(const struct candidate *c)
{
    struct str s = STR_INIT;

    for (int i = 0; i < c->values.n; i++) {
        const char *key = c->recipe.scale.sweep[i].key, *dot = strrchr(key, '.');
        str_addf(&s, "%s%s %s", i ? ", " : "", dot ? dot + 1 : key, c->values.item[i]);
    }
    if (!s.len)
        str_adds(&s, "the recipe as it is");
    return str_take(&s);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double candidate_rate(const struct candidate *c)
{
    double sorted[ATTEMPTS_MAX];
    int n = c->n_rates;

    if (!n)
        return NAN;
    memcpy(sorted, c->rates, (size_t)n * sizeof(*sorted));
    qsort(sorted, (size_t)n, sizeof(*sorted), by_value);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}
