#include "checks/judge_peers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "checks/catalogue.h"
#include "checks/measure.h"
#include "checks/verdict.h"

static const double sigmas = 5, sigma_of_mad = 1.4826;

/* --- the others of a kind ---------------------------------------------------------- */

static int is_like(const struct measure *a, const struct measure *b)
{
    return !isnan(b->value) && str_eq(a->name, b->name) && str_eq(a->kind, b->kind);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof(*v), by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

void peers_find(struct peers *p, const struct measure *m, int on_node)
{
    const char *node = on_node ? m->node : NULL;
    double *v;

    if (p->of && is_like(p->of, m) && !node == !p->node &&
        (!node || str_eq(node, p->node)))
        return;
    v = xcalloc((size_t)p->all->n, sizeof(*v));
    p->of = m;
    p->node = node;
    p->n = 0;
    for (int i = 0; i < p->all->n; i++) {
        const struct measure *one = &p->all->item[i];

        if (is_like(m, one) && (!node || str_eq(node, one->node)))
            v[p->n++] = one->value;
    }
    p->median = p->n ? median(v, p->n) : NAN;
    for (int i = 0; i < p->n; i++)
        v[i] = fabs(v[i] - p->median);
    p->spread = p->n ? median(v, p->n) : NAN;
    free(v);
}

/* --- rates -------------------------------------------------------------------------- */

/* The least share of what the card reports it can do: healthy ones reach 0.70 (dense
 * products, H200, 748 TFLOP/s) and 0.85 (copies); a locked clock or a lost memory channel
 * that all GPUs of a job have in common shows here and not beside the others. */
static double share_of_card(const char *name)
{
    return str_eq(name, "gemm") ? 0.45 : str_eq(name, "memory_bandwidth") ? 0.65 : 0;
}

static void say(struct verdict *v, enum verdict_result r, const struct check *c,
                char *found)
{
    v->result = c->required ? r : VERDICT_PASS;
    v->warn = !c->required;
    v->reason = xasprintf("%s; %s", found, c->cure);
}

static char *rate_text(const struct measure *m, const struct peers *p)
{
    struct str s = STR_INIT;

    str_adds(&s, m->text ? m->text : "");
    if (m->need > 0)
        str_addf(&s, "%s%.0f %% of the %.1f %s that the card says it can do",
                 s.len ? "; " : "", 100 * m->value / m->need, m->need, m->unit);
    if (p->n > 1)
        str_addf(&s, "%s%.1f %% of the median of %d", s.len ? "; " : "",
                 100 * m->value / p->median, p->n);
    return str_take(&s);
}

void judge_rates(const struct check *c, struct peers *p, const struct measure *m,
                 struct verdict *v)
{
    double share = str_eq(m->device, "cpu") ? 2.0 / 3 : 0.1, margin, floor, usual;
    int under_card, under_usual;
    char *found;

    peers_find(p, m, 0);
    margin = sigmas * sigma_of_mad * p->spread;
    floor = share_of_card(m->name) * m->need;
    usual = p->n == 2 ? 2 * p->median - m->value : p->median; /* of two: the other */
    found = rate_text(m, p);
    v->expected = p->n > 1 ? p->median : floor > 0 ? floor : NAN;
    under_card = floor > 0 && m->value < floor;
    under_usual = p->n > 1 && m->value < (1 - share) * usual;
    if (under_card || (under_usual && p->n > 2 && m->value < p->median - margin))
        say(v, VERDICT_FAIL, c, found);
    else if (under_usual)
        say(v, VERDICT_UNDECIDED, c, found);
    else
        v->reason = xstrdup(found);
    free(found);
}

/* --- results ------------------------------------------------------------------------ */

static int same_bits(const struct measure *a, const struct measure *b)
{
    return str_eq(a->text ? a->text : "", b->text ? b->text : "");
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Those of its kind that do not contradict themselves: how many, how many have the same
 * as m, and the largest number that have the same. */
static void count_alike(const struct measures *all, const struct measure *m, int *total,
                        int *with_me, int *most)
{
    const char **text = xcalloc((size_t)all->n, sizeof(*text));
    int run = 0;

    *total = *with_me = *most = 0;
    for (int i = 0; i < all->n; i++) {
        const struct measure *one = &all->item[i];

        if (!is_like(m, one) || one->value != 0)
            continue;
        text[(*total)++] = one->text ? one->text : "";
        *with_me += same_bits(m, one);
    }
    qsort(text, (size_t)*total, sizeof(*text), by_text);
    for (int i = 0; i < *total; i++) {
        run = i > 0 && str_eq(text[i], text[i - 1]) ? run + 1 : 1;
        *most = run > *most ? run : *most;
    }
    free(text);
}

void judge_bits(const struct check *c, const struct measures *all,
                const struct measure *m, struct verdict *v)
{
    int total, with_me, most;

    v->expected = 0;
    if (m->value > 0) {
        v->result = VERDICT_FAIL;
        v->reason =
            xasprintf("the same product gave another result in %.0f repeats: it "
                      "contradicts itself; %s",
                      m->value, c->cure);
        return;
    }
    count_alike(all, m, &total, &with_me, &most);
    if (with_me == total) {
        v->reason = total > 1
                        ? xasprintf("%s, as on all %d of its kind", m->text, total)
                        : xasprintf("%s, each time; no other of its kind", m->text);
    } else if (most >= 3 && 2 * most > total && with_me == most) {
        v->reason = xasprintf("%s, as on %d of %d of its kind", m->text, most, total);
    } else if (most >= 3 && 2 * most > total) {
        v->result = VERDICT_FAIL;
        v->reason =
            xasprintf("%s, but %d of %d of its kind agree on another result; %s",
                      m->text, most, total, c->cure);
    } else {
        v->result = VERDICT_UNDECIDED;
        v->reason = xasprintf("%s, as on %d of %d of its kind, each the same when "
                              "repeated: no three agree, so none can be named; %s",
                              m->text, with_me, total, c->cure);
    }
}
