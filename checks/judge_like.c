#include "checks/judge_like.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "checks/catalogue.h"
#include "checks/measure.h"
#include "checks/verdict.h"

static const double rare = 1e-3, hour_s = 3600;

static int is_like(const struct measure *a, const struct measure *b)
{
    return !isnan(b->value) && str_eq(a->name, b->name) && str_eq(a->kind, b->kind);
}

/* It failed, or, where the check is not required, deserves reading. */
static void object_to(const struct check *c, enum verdict_result r, struct verdict *v)
{
    v->result = c->required ? r : VERDICT_PASS;
    v->warn = !c->required;
}

/* --- equal ------------------------------------------------------------------------- */

static int same_text(const struct measure *a, const struct measure *b)
{
    return str_eq(a->text ? a->text : "", b->text ? b->text : "");
}

static int same_value(const struct measure *a, const struct measure *b)
{
    return a->value == b->value;
}

struct vote {
    const struct measure *of;    /* one of its kind */
    const struct measure *usual; /* of more than half; NULL none */
    int total, with_usual;
    char *values; /* where none has a majority: what there is; else NULL */
};

struct likes {
    const struct measures *all;
    struct vote *item;
    int n;
};

struct likes *likes_new(const struct measures *all)
{
    struct likes *l = xcalloc(1, sizeof(*l));

    l->all = all;
    return l;
}

void likes_free(struct likes *l)
{
    for (int i = 0; i < l->n; i++)
        free(l->item[i].values);
    free(l->item);
    free(l);
}

typedef int same_fn(const struct measure *, const struct measure *);

/* Boyer and Moore's majority vote: one pass finds who can have it, the next counts. */
static void count_votes(const struct measures *all, same_fn *same, struct vote *v)
{
    int lead = 0;

    for (int i = 0; i < all->n; i++) {
        const struct measure *one = &all->item[i];

        if (!is_like(v->of, one))
            continue;
        v->total++;
        if (lead == 0)
            v->usual = one;
        lead += same(v->usual, one) ? 1 : -1;
    }
    for (int i = 0; i < all->n; i++)
        v->with_usual += is_like(v->of, &all->item[i]) && same(v->usual, &all->item[i]);
    if (v->with_usual * 2 <= v->total)
        v->usual = NULL;
}

enum { VALUES_SAID = 4 };

/* "535.1 on gn01; 550.2 on gn02", each value once, with the first that has it. */
static char *say_values(const struct measures *all, const struct measure *of)
{
    const struct measure *said[VALUES_SAID];
    struct str out = STR_INIT;
    int n = 0;

    str_adds(&out, "");
    for (int i = 0; i < all->n && n < VALUES_SAID; i++) {
        const struct measure *one = &all->item[i];
        int seen = !is_like(of, one);

        for (int k = 0; k < n && !seen; k++)
            seen = same_text(one, said[k]);
        if (seen)
            continue;
        str_addf(&out, "%s%s on %s", n ? "; " : "", one->text ? one->text : "nothing",
                 one->object);
        said[n++] = one;
    }
    return str_take(&out);
}

static const struct vote *find_vote(struct likes *l, const struct measure *m,
                                    same_fn *same)
{
    struct vote *v;

    for (int i = 0; i < l->n; i++)
        if (is_like(l->item[i].of, m))
            return &l->item[i];
    l->item = xrealloc(l->item, (size_t)l->n + 1, sizeof(*l->item));
    v = &l->item[l->n++];
    *v = (struct vote){ .of = m, .usual = m };
    count_votes(l->all, same, v);
    if (!v->usual)
        v->values = say_values(l->all, m);
    return v;
}

void judge_same(const struct check *c, struct likes *l, const struct measure *m,
                struct verdict *v)
{
    const struct vote *votes = find_vote(l, m, same_text);
    const char *text = m->text ? m->text : "nothing";

    v->measured = v->expected = NAN;
    if (votes->with_usual == votes->total) {
        v->reason = xstrdup(text);
    } else if (votes->usual && same_text(m, votes->usual)) {
        v->reason =
            xasprintf("%s, as on %d of %d", text, votes->with_usual, votes->total);
    } else if (votes->usual) {
        object_to(c, VERDICT_FAIL, v);
        v->reason = xasprintf("%s here, %s on %d of %d; %s", text, votes->usual->text,
                              votes->with_usual, votes->total, c->cure);
    } else {
        object_to(c, VERDICT_UNDECIDED, v);
        v->reason =
            xasprintf("%s here, and no majority: %s; %s", text, votes->values, c->cure);
    }
}

void judge_usual(const struct check *c, struct likes *l, const struct measure *m,
                 struct verdict *v)
{
    const struct vote *votes = find_vote(l, m, same_value);
    const char *text = m->text ? m->text : "", *then = m->text ? "; " : "";
    char *usual;

    v->expected = votes->usual ? votes->usual->value : NAN;
    if (!votes->usual) {
        v->reason =
            xasprintf("%s%sno value has a majority: %s", text, then, votes->values);
        v->warn = 1;
        return;
    }
    if (m->value >= votes->usual->value) {
        v->reason = xstrdup(text);
        return;
    }
    usual = verdict_number(votes->usual->value, m->unit);
    object_to(c, VERDICT_FAIL, v);
    v->reason = xasprintf("%s%s%d of %d like it have %s; %s", text, then,
                          votes->with_usual, votes->total, usual, c->cure);
    free(usual);
}

/* --- events -------------------------------------------------------------------------- */

double judge_chance(double n, double mean)
{
    double term = exp(-mean), below = 0;

    if (n <= 0)
        return 1;
    if (!(mean > 0))
        return 0;
    for (int k = 0; k < n && k < 100000; k++) {
        below += term;
        term *= mean / (k + 1);
    }
    return below < 1 ? 1 - below : 0;
}

void judge_rate(const struct check *c, const struct measure *m, struct verdict *v)
{
    double mean = m->need * m->seconds / hour_s;
    char *found;

    v->expected = m->need * m->seconds / hour_s;
    if (!(m->seconds > 0) || isnan(m->need)) {
        v->result = VERDICT_UNMEASURED;
        v->reason = xasprintf("%.0f %s, but in what time, or how many are allowed, is "
                              "not known",
                              m->value, m->unit);
        return;
    }
    found = xasprintf("%.0f %s in %.1f s, %.0f an hour allowed%s%s", m->value, m->unit,
                      m->seconds, m->need, m->text ? "; " : "", m->text ? m->text : "");
    if (m->value <= mean) {
        v->reason = xstrdup(m->text ? m->text : found);
    } else if (judge_chance(m->value, mean) < rare) {
        object_to(c, VERDICT_FAIL, v);
        v->reason = xasprintf("%s; %s", found, c->cure);
    } else {
        v->warn = 1;
        v->reason =
            xasprintf("%s: too few to tell from chance in so short a test", found);
    }
    free(found);
}
