#include "checks/judge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "checks/catalogue.h"
#include "checks/judge_like.h"
#include "checks/judge_peers.h"
#include "checks/target.h"
#include "topology/cost.h"
#include "topology/place.h"

/* A port passes at this share of its rate (formats.md 7: 380 of 400 and 360 of 400
 * are in use). */
static const double link_floor = 0.9, link_tolerance = 1.005;

static char *number(double v, const char *unit)
{
    return verdict_number(v, unit);
}

/* "<what was found>; <cure>" */
static char *with_cure(const char *text, const char *cure)
{
    if (!text)
        return xstrdup(cure);
    return *cure ? xasprintf("%s; %s", text, cure) : xstrdup(text);
}

static void judge_limit(const struct check *c, const struct measure *m,
                        struct verdict *v)
{
    int good = c->judge == JUDGE_AT_MOST ? m->value <= m->need : m->value >= m->need;
    char *is = number(m->value, m->unit), *must = number(m->need, m->unit);
    char *found = xasprintf("is %s, %s %s%s%s", is,
                            c->judge == JUDGE_AT_MOST ? "at most" : "needs", must,
                            m->text ? "; " : "", m->text ? m->text : "");

    v->expected = m->need;
    if (isnan(m->need) || good) {
        v->reason = xstrdup(m->text);
    } else {
        v->result = c->required ? VERDICT_FAIL : VERDICT_PASS;
        v->warn = !c->required;
        v->reason = with_cure(found, c->cure);
    }
    free(found);
    free(is);
    free(must);
}

static void judge_faults(const struct check *c, const struct measure *m,
                         struct verdict *v)
{
    v->expected = 0;
    if (m->value == 0) {
        v->reason = xstrdup(m->text);
        return;
    }
    v->result = c->judge == JUDGE_NONE ? VERDICT_FAIL : VERDICT_PASS;
    v->warn = c->judge == JUDGE_ADVICE;
    v->reason = with_cure(m->text, c->cure);
}

/* Rates come in bits or bytes, of 1000 or 1024 (case D05); a port's rate is in
 * Gb/s. */
static void judge_link(const struct check *c, const struct measure *m,
                       struct verdict *v)
{
    double gbits = measure_gbytes(m->value, m->unit) * 8;
    char *found = xasprintf("got %.1f of %.0f Gb/s (%.1f %%)", gbits, m->need,
                            100 * gbits / m->need);

    v->measured = gbits;
    v->expected = m->need;
    snprintf(v->unit, sizeof(v->unit), "Gb/s");
    if (isnan(gbits) || !(m->need > 0)) {
        v->result = VERDICT_UNMEASURED;
        v->reason = xasprintf(
            "'%s' is no unit of a rate, or the port's rate is unknown", m->unit);
    } else if (gbits > m->need * link_tolerance) {
        v->result = VERDICT_UNDECIDED;
        v->reason = xasprintf("%s: faster than the port; the measurement or its unit "
                              "(%s) is wrong",
                              found, m->unit);
    } else if (gbits < link_floor * m->need) {
        v->result = VERDICT_FAIL;
        v->reason =
            xasprintf("%s, passes from %.0f %%; %s", found, 100 * link_floor, c->cure);
    } else {
        v->reason = xstrdup(found);
    }
    free(found);
}

/* --- collectives ------------------------------------------------------------------ */

/* The slowest copy of any rank: the group waits for it. */
static double slowest_copy(const struct measures *all)
{
    double least = NAN;

    for (int i = 0; i < all->n; i++)
        if (str_eq(all->item[i].name, "memory_copy") && !(all->item[i].value >= least))
            least = all->item[i].value;
    return least;
}

/* The target of the measure before: all groups of an axis have one. */
struct known_target {
    const struct measure *of; /* NULL none */
    struct target target;
};

static int is_known(const struct known_target *k, const struct measure *m)
{
    return k->of && str_eq(k->of->name, m->name) && str_eq(k->of->group, m->group) &&
           str_eq(k->of->device, m->device) && k->of->ranks == m->ranks &&
           k->of->bytes == m->bytes;
}

static struct target target_of(const struct judge *j, const struct measures *all,
                               const struct measure *m, struct known_target *last)
{
    struct target none = { NAN, 0, NAN, "" };
    struct cost_groups g;
    int *rank;

    if (str_eq(m->device, "cpu"))
        return target_memory(m->name, m->ranks, slowest_copy(all));
    if (!j->placement || !j->topology || m->first < 0 ||
        m->first >= j->placement->world)
        return none;
    if (is_known(last, m))
        return last->target;
    g = str_eq(m->group, "shard") ? cost_shard_groups(j->placement, &rank)
                                  : cost_replicate_groups(j->placement, &rank);
    if (g.size == m->ranks)
        none = target_model(m->name, &g, m->bytes, j->in_switch, j->placement,
                            j->topology);
    free(rank);
    *last = (struct known_target){ m, none };
    return none;
}

static void judge_busbw(const struct judge *j, const struct measures *all,
                        const struct measure *m, struct known_target *last,
                        struct verdict *v)
{
    const struct check *c = catalogue_find(m->name);
    struct target t = target_of(j, all, m, last);
    double best = measure_busbw(m->name, m->ranks, m->bytes, measure_best_ms(m) / 1e3);
    double floor = t.floor * t.expected;
    char *size = number((double)m->bytes, "B");

    v->measured =
        measure_busbw(m->name, m->ranks, m->bytes, measure_median_ms(m) / 1e3);
    v->expected = t.expected;
    if (m->ranks == 1) {
        v->measured = v->expected = 0; /* nothing moves: never infinity (D01) */
        v->reason = xstrdup("groups of one rank: nothing to exchange");
    } else if (isnan(v->measured)) {
        v->result = VERDICT_UNMEASURED;
        v->reason = xstrdup(m->text ? m->text : "no iteration was timed");
    } else if (isnan(t.expected)) {
        v->result = VERDICT_UNMEASURED;
        v->reason = xasprintf(
            "%.2f GB/s, but there is nothing to compute a target from", v->measured);
    } else if (v->measured > t.ceiling) {
        v->result = VERDICT_UNDECIDED;
        v->reason =
            xasprintf("faster than the links allow (%.1f GB/s): the measurement "
                      "is wrong",
                      t.ceiling);
    } else if (v->measured >= floor) {
        v->reason = xasprintf("S is %s; %s", size, t.from);
    } else if (best >= floor) {
        v->result = VERDICT_UNDECIDED;
        v->reason =
            xasprintf("S is %s: the median is too slow, the best iteration (%.2f "
                      "GB/s) is not: the machine is busy, run again",
                      size, best);
    } else {
        v->result = VERDICT_FAIL;
        v->reason = xasprintf("S is %s: under %.2f GB/s, %.0f %% of what is %s; %s",
                              size, floor, 100 * t.floor, t.from, c->cure);
    }
    free(size);
}

/* --- all ------------------------------------------------------------------------------ */

static void judge_one(const struct judge *j, const struct measures *all,
                      const struct measure *m, struct known_target *last,
                      struct likes *likes, struct peers *peers, struct verdict *v)
{
    const struct check *c = catalogue_find(m->name);

    if (!c) {
        v->result = VERDICT_UNMEASURED;
        v->reason = xstrdup("no such check in this version (`muster check --list`)");
        return;
    }
    v->required = c->required;
    if (c->judge == JUDGE_BUSBW) {
        judge_busbw(j, all, m, last, v);
    } else if (isnan(m->value)) {
        v->result = VERDICT_UNMEASURED;
        v->reason = xstrdup(m->text ? m->text : "could not be measured");
    } else if (c->judge == JUDGE_AT_LEAST || c->judge == JUDGE_AT_MOST) {
        judge_limit(c, m, v);
    } else if (c->judge == JUDGE_LINK) {
        judge_link(c, m, v);
    } else if (c->judge == JUDGE_SAME) {
        judge_same(c, likes, m, v);
    } else if (c->judge == JUDGE_USUAL) {
        judge_usual(c, likes, m, v);
    } else if (c->judge == JUDGE_RATE) {
        judge_rate(c, m, v);
    } else if (c->judge == JUDGE_PEERS) {
        judge_rates(c, peers, m, v);
    } else if (c->judge == JUDGE_BITS) {
        judge_bits(c, all, m, v);
    } else if (c->judge == JUDGE_GPU) {
        judge_gpu(c, peers, m, v);
    } else if (c->judge == JUDGE_TOLD) {
        v->reason = xstrdup(m->text);
    } else {
        judge_faults(c, m, v);
    }
}

static int is_reference(const char *name)
{
    const struct check *c = catalogue_find(name);

    return c && c->judge == JUDGE_REFERENCE;
}

static int place_in_catalogue(const struct measure *m)
{
    int n;
    const struct check *all = catalogue(&n), *c = catalogue_find(m->name);

    return c ? (int)(c - all) : n;
}

struct ref {
    const struct measure *m;
};

/* By the catalogue, then by group; what came first stays first. */
static int in_order(const void *a, const void *b)
{
    const struct measure *x = ((const struct ref *)a)->m;
    const struct measure *y = ((const struct ref *)b)->m;
    int by = place_in_catalogue(x) - place_in_catalogue(y);

    if (by == 0)
        by = x->first - y->first;
    return by ? by : (x > y) - (x < y);
}

void judge_all(const struct judge *j, const struct measures *m, struct verdicts *out)
{
    struct ref *sorted = xcalloc((size_t)m->n, sizeof(*sorted));
    struct likes *likes = likes_new(m);
    struct known_target last = { 0 };
    struct peers peers = { .all = m };

    for (int i = 0; i < m->n; i++)
        sorted[i].m = &m->item[i];
    qsort(sorted, (size_t)m->n, sizeof(*sorted), in_order);
    for (int i = 0; i < m->n; i++) {
        const struct measure *one = sorted[i].m;
        struct verdict v = { .expected = NAN, .measured = one->value };

        if (is_reference(one->name))
            continue;
        snprintf(v.name, sizeof(v.name), "%s", one->name);
        snprintf(v.object, sizeof(v.object), "%s", one->object);
        snprintf(v.node, sizeof(v.node), "%s", one->node);
        snprintf(v.unit, sizeof(v.unit), "%s", one->unit);
        judge_one(j, m, one, &last, likes, &peers, &v);
        verdicts_add(out, &v);
    }
    likes_free(likes);
    free(sorted);
}

void judge_missing(const struct measures *m, const char *scope, enum level level,
                   const char *why, struct verdicts *out)
{
    int n;
    const struct check *all = catalogue(&n);

    for (int i = 0; i < n; i++) {
        const struct check *c = &all[i];
        struct verdict v = { .expected = NAN,
                             .measured = NAN,
                             .required = c->required };
        int there = 0;

        for (int k = 0; k < m->n; k++)
            there |= str_eq(m->item[k].name, c->name);
        if (there || c->judge == JUDGE_REFERENCE || c->level > level ||
            !str_eq(c->scope, scope))
            continue;
        v.result = VERDICT_UNMEASURED;
        snprintf(v.name, sizeof(v.name), "%s", c->name);
        snprintf(v.object, sizeof(v.object), "-");
        snprintf(v.unit, sizeof(v.unit), "%s", c->unit);
        v.reason = xstrdup(why);
        verdicts_add(out, &v);
    }
}
