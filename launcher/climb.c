#include <math.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "launcher/climb_walk.h"
#include "launcher/store.h"

/* --- the first rung -------------------------------------------------------------- */

static struct candidate *best_of(struct walk *w)
{
    struct candidate *best = NULL;

    for (int i = 0; i < w->n; i++) {
        struct candidate *k = &w->cand[i];
        if (k->n_rates && !k->lost &&
            (!best || candidate_rate(k) > candidate_rate(best)))
            best = k;
    }
    return best;
}

static int first_rung(const struct walk *w)
{
    return (int)w->c->recipe->scale.rungs.item[0];
}

static int measure_all(struct walk *w, struct err *err)
{
    int rc = OUTCOME_GOOD;

    for (int i = 0; i < w->n && rc >= 0 && rc != OUTCOME_STOPPED; i++)
        if (!w->cand[i].refused)
            rc = walk_try(w, &w->cand[i], first_rung(w), 0, err);
    return rc < 0 || rc == OUTCOME_STOPPED ? rc : OUTCOME_GOOD;
}

static double best_prediction(const struct walk *w)
{
    double best = NAN;

    for (int i = 0; i < w->n; i++)
        if (!w->cand[i].refused && !(best >= w->cand[i].predicted))
            best = w->cand[i].predicted;
    return best;
}

/* Those whose prediction is near the best one's; all when there is none. */
static int measure_predicted(struct walk *w, struct err *err)
{
    double bar = best_prediction(w) * (1 - CLIMB_PREDICTED_MARGIN);
    int rc = OUTCOME_GOOD;

    for (int i = 0; i < w->n && rc >= 0 && rc != OUTCOME_STOPPED; i++)
        if (!w->cand[i].refused && !(w->cand[i].predicted < bar))
            rc = walk_try(w, &w->cand[i], first_rung(w), 0, err);
    return rc < 0 || rc == OUTCOME_STOPPED ? rc : OUTCOME_GOOD;
}

static int same_prefix(const struct candidate *a, const struct candidate *b, int axes)
{
    for (int i = 0; i < axes; i++)
        if (!str_eq(a->values.item[i], b->values.item[i]))
            return 0;
    return 1;
}

/* The first that may run with the settled values and this one. */
static struct candidate *admitted_with(struct walk *w, const struct candidate *settled,
                                       int axis, const char *value)
{
    for (int i = 0; i < w->n; i++) {
        struct candidate *k = &w->cand[i];
        if (!k->refused && str_eq(k->values.item[axis], value) &&
            (!settled || same_prefix(k, settled, axis)))
            return k;
    }
    return NULL;
}

/* One axis after the other: the best of the first settles it for the next. */
static int measure_by_axis(struct walk *w, struct err *err)
{
    const struct recipe *r = w->c->recipe;
    const struct candidate *settled = NULL;
    int rc = OUTCOME_GOOD;

    for (int a = 0; a < r->scale.n_sweep && (a == 0 || settled); a++) {
        struct candidate *best = NULL;
        for (int v = 0; v < r->scale.sweep[a].values.n; v++) {
            const char *value = r->scale.sweep[a].values.item[v];
            struct candidate *k = admitted_with(w, settled, a, value);
            if (!k)
                continue;
            if (!k->n_rates && !k->lost)
                rc = walk_try(w, k, first_rung(w), 0, err);
            if (rc < 0 || rc == OUTCOME_STOPPED)
                return rc;
            if (!k->lost && (!best || candidate_rate(k) > candidate_rate(best)))
                best = k;
        }
        settled = best;
    }
    return OUTCOME_GOOD;
}

static double noise_of(const struct walk *w)
{
    return w->spread > CLIMB_NOISE ? w->spread : CLIMB_NOISE;
}

/* Those too close to the best to call, best first; returns how many. */
static int leaders_of(struct walk *w, struct candidate *leader[CLIMB_LEADERS_MAX])
{
    double bar = candidate_rate(best_of(w)) * (1 - noise_of(w));
    int n = 0;

    for (int i = 0; i < w->n; i++) {
        struct candidate *k = &w->cand[i];
        int at = n;
        if (!k->n_rates || k->lost || candidate_rate(k) < bar)
            continue;
        while (at > 0 && candidate_rate(leader[at - 1]) < candidate_rate(k))
            at--;
        if (at == CLIMB_LEADERS_MAX)
            continue;
        n += n < CLIMB_LEADERS_MAX;
        for (int m = n - 1; m > at; m--)
            leader[m] = leader[m - 1];
        leader[at] = k;
    }
    return n;
}

/* Bring the leaders to ATTEMPTS_MAX attempts, by turns, so that a machine that slows
 * down slows all of them.  *more: trials that were added. */
static int repeat_round(struct walk *w, struct candidate *const *leader, int n,
                        int *more, struct err *err)
{
    *more = 0;
    for (int attempt = 1; attempt < ATTEMPTS_MAX; attempt++)
        for (int i = 0; i < n; i++) {
            int rc;
            if (leader[i]->lost || leader[i]->n_rates != attempt)
                continue;
            (*more)++;
            rc = walk_try(w, leader[i], first_rung(w), attempt, err);
            if (rc < 0 || rc == OUTCOME_STOPPED)
                return rc;
        }
    return OUTCOME_GOOD;
}

/* Until the best was measured as often as those it beat.  A clear winner is not
 * measured again. */
static int repeat_leaders(struct walk *w, struct err *err)
{
    struct candidate *leader[CLIMB_LEADERS_MAX];
    int more = 1, rc = OUTCOME_GOOD;

    for (int round = 0; more && rc == OUTCOME_GOOD && best_of(w); round++) {
        int n = leaders_of(w, leader);
        if (round == 0 && n < 2)
            break;
        if (round == 0)
            walk_say(w, "%d candidates are within %.0f %% of the best: measured again",
                     n, 100 * noise_of(w));
        rc = repeat_round(w, leader, n, &more, err);
    }
    return rc;
}

/* --- the whole ------------------------------------------------------------------- */

static int write_refused(struct walk *w, struct err *err)
{
    int rc = 0;

    for (int i = 0; i < w->n && rc == 0; i++) {
        struct candidate *k = &w->cand[i];
        char *text;
        if (!k->refused) {
            w->admitted++;
            continue;
        }
        text = candidate_text(k);
        walk_say(w, "refused: %s: %s", text, k->refused);
        free(text);
        rc = walk_put(w, k, first_rung(w), 0, "refused", NULL, err);
    }
    return rc;
}

/* What the strategy left out is listed too. */
static int write_skipped(struct walk *w, struct err *err)
{
    int rc = 0;

    for (int i = 0; i < w->n && rc == 0; i++)
        if (!w->cand[i].refused && !w->cand[i].lost && !w->cand[i].n_rates)
            rc = walk_put(w, &w->cand[i], first_rung(w), 0, "skipped", NULL, err);
    return rc;
}

static int verify(struct walk *w, struct candidate *winner, enum climb_end *end,
                  struct err *err)
{
    const struct intlist *rungs = &w->c->recipe->scale.rungs;
    int rc = OUTCOME_GOOD;

    for (int i = 1; i < rungs->n && rc == OUTCOME_GOOD; i++) {
        w->predicted = candidate_predict(winner, w->c->topology, (int)rungs->item[i],
                                         candidate_rate(winner));
        rc = walk_try(w, winner, (int)rungs->item[i], 0, err);
        if (rc == OUTCOME_BAD) {
            char *cause = w->why;
            w->why = xasprintf("the rung of %lld ranks failed: %s",
                               (long long)rungs->item[i], cause ? cause : "?");
            free(cause);
        }
    }
    *end = rc == OUTCOME_STOPPED ? CLIMB_STOPPED
           : rc == OUTCOME_BAD   ? CLIMB_FAILED
                                 : CLIMB_DONE;
    return rc < 0 ? -1 : 0;
}

static int sweep(struct walk *w, struct err *err)
{
    static int (*const measure[])(struct walk * w, struct err * err) = {
        [STRATEGY_HIERARCHICAL] = measure_by_axis,
        [STRATEGY_PREDICTED] = measure_predicted,
        [STRATEGY_EXHAUSTIVE] = measure_all,
    };
    int rc = write_refused(w, err);

    if (rc < 0)
        return rc;
    walk_say(w, "%d of %d candidates may run on every rung", w->admitted, w->n);
    rc = measure[w->c->recipe->scale.strategy](w, err);
    if (rc == OUTCOME_GOOD)
        rc = write_skipped(w, err);
    if (rc == OUTCOME_GOOD && best_of(w))
        rc = repeat_leaders(w, err);
    return rc;
}

static int ascend(struct walk *w, enum climb_end *end, struct err *err)
{
    struct candidate *winner;
    char *text;
    int rc = sweep(w, err);

    if (rc < 0)
        return -1;
    *end = CLIMB_STOPPED;
    if (rc == OUTCOME_STOPPED)
        return 0;
    winner = best_of(w);
    if (!winner) {
        *end = CLIMB_FAILED;
        free(w->why);
        w->why = xasprintf("no candidate is left: of %d, %d were refused and %d failed",
                           w->n, w->n - w->admitted, w->admitted);
        return 0;
    }
    text = candidate_text(winner);
    walk_say(w, "best at %d rank%s: %s, %.0f tokens/s/GPU", first_rung(w),
             str_s(first_rung(w)), text, candidate_rate(winner));
    free(text);
    return verify(w, winner, end, err);
}

static const char *const end_names[] = { "done", "stopped", "failed" };

int climb_execute(const struct climb *c, enum climb_end *end, char **why,
                  struct err *err)
{
    struct walk w = { .c = c, .predicted = NAN };
    struct js *whole;
    int rc = candidates_make(c->recipe, c->topology, &w.cand, &w.n, err);

    if (rc == 0) {
        w.known = store_trials(c->store, c->id, err);
        rc = w.known ? ascend(&w, end, err) : -1;
    }
    if (rc == 0) { /* state first: the object tells it */
        rc = store_climb_end(c->store, c->id, end_names[*end], NULL, err);
        whole = rc == 0 ? climb_json(c->store, c->id, err) : NULL;
        rc = whole ? store_climb_end(c->store, c->id, end_names[*end], whole, err) : -1;
        js_free(whole);
    } else {
        store_climb_end(c->store, c->id, "failed", NULL, NULL);
    }
    if (rc == 0)
        *why = *end == CLIMB_FAILED ? xstrdup(w.why) : NULL;
    free(w.why);
    js_free(w.known);
    candidates_free(w.cand, w.n);
    return rc;
}
