#include "topology/place_order.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topology/place_pack.h"
#include "topology/topology.h"

/* --- suspects -------------------------------------------------------------------- */

struct named {
    const char *name;
    size_t len;
    int node;
};

static int compare_named(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    size_t len = x->len < y->len ? x->len : y->len;
    int by_name = strncmp(x->name, y->name, len);

    return by_name ? by_name : (x->len > y->len) - (x->len < y->len);
}

/* The node that a finding is about: "gn01", "gn01 mlx5_0"; -1 none. */
static int node_of(const struct named *all, int n, const char *object)
{
    struct named key = { object, strcspn(object, " "), -1 }, *found;

    found = bsearch(&key, all, (size_t)n, sizeof(*all), compare_named);
    return found ? found->node : -1;
}

int place_suspects(const struct topology *t, char *suspect)
{
    struct named *all = xcalloc((size_t)t->n_nodes + 1, sizeof(*all));
    char *warned = xcalloc((size_t)t->n_nodes + 1, 1);
    int n = 0, warnings = 0;

    memset(suspect, 0, (size_t)t->n_nodes);
    for (int i = 0; i < t->n_nodes; i++)
        all[i] = (struct named){ t->nodes[i].name, strlen(t->nodes[i].name), i };
    qsort(all, (size_t)t->n_nodes, sizeof(*all), compare_named);
    for (int i = 0; i < t->n_findings; i++) {
        const struct finding *f = &t->findings[i];
        int node = node_of(all, t->n_nodes, f->object);
        if (node >= 0 && f->severity == SEVERITY_FAIL)
            suspect[node] = 1;
        if (node >= 0 && f->severity == SEVERITY_WARN) {
            warnings += !warned[node];
            warned[node] = 1;
        }
    }
    for (int i = 0; i < t->n_nodes; i++) {
        if (warned[i] && 4 * warnings <= t->n_nodes)
            suspect[i] = 1;
        n += suspect[i];
    }
    free(warned);
    free(all);
    return n;
}

/* --- which nodes ---------------------------------------------------------------------- */

struct deficit {
    int unit, missing, have, at; /* nodes to the next whole group; suspects it has */
};

static int compare_deficits(const void *a, const void *b)
{
    const struct deficit *x = a, *y = b;

    if (x->missing != y->missing)
        return x->missing < y->missing ? -1 : 1;
    return (x->unit > y->unit) - (x->unit < y->unit);
}

/* Suspects that each unit of the lowest tier gives: the units that lack least to one
 * more group first, then what is still wanted from wherever there are some. */
static void ask_units(struct deficit *d, int units, int group, int wanted, int *give)
{
    qsort(d, (size_t)units, sizeof(*d), compare_deficits);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < units && wanted > 0; i++) {
            int left = d[i].have - give[d[i].unit];
            int ask = round ? left : d[i].missing % group;
            if (ask > left || ask > wanted)
                ask = round ? (left < wanted ? left : wanted) : 0;
            give[d[i].unit] += ask;
            wanted -= ask;
        }
}

/* The good nodes and `wanted` suspects behind them; how many. */
static int take_suspects(const struct place_tiers *tiers, const int *fit, int n,
                         const char *suspect, int group, int wanted, int *out)
{
    int units = tiers->n ? tiers->units[0] : 1, taken = 0;
    struct deficit *d = xcalloc((size_t)units + 1, sizeof(*d));
    int *give = xcalloc((size_t)units + 1, sizeof(*give));

    for (int u = 0; u < units; u++)
        d[u].unit = u;
    for (int i = 0; i < n; i++) {
        struct deficit *here = &d[tiers->n ? tiers->unit[0][fit[i]] : 0];
        here->have += suspect[fit[i]];
        here->at += !suspect[fit[i]];
        if (!suspect[fit[i]])
            out[taken++] = fit[i];
    }
    for (int u = 0; u < units; u++)
        d[u].missing = (group - d[u].at % group) % group;
    ask_units(d, units, group, wanted, give);
    for (int i = 0; i < n; i++) {
        int u = tiers->n ? tiers->unit[0][fit[i]] : 0;
        if (suspect[fit[i]] && give[u] > 0) {
            give[u]--;
            out[taken++] = fit[i];
        }
    }
    free(give);
    free(d);
    return taken;
}

/* The nodes to choose from, those to be taken last at the end; how many. */
static int candidates(const struct topology *t, const struct place_tiers *tiers,
                      const int *fit, int n, int need, int group, int *out)
{
    char *suspect = xcalloc((size_t)t->n_nodes + 1, 1);
    int good = n;

    place_suspects(t, suspect);
    for (int i = 0; i < n; i++)
        good -= suspect[fit[i]];
    n = take_suspects(tiers, fit, n, suspect, group, need > good ? need - good : 0,
                      out);
    free(suspect);
    return n;
}

/* --- as others would ------------------------------------------------------------------ */

void place_by_name(const struct topology *t, const int *fit, int n, int need,
                   int *order)
{
    struct named *all = xcalloc((size_t)n + 1, sizeof(*all));

    for (int i = 0; i < n; i++) {
        const char *name = t->nodes[fit[i]].name;
        all[i] = (struct named){ name, strlen(name), fit[i] };
    }
    qsort(all, (size_t)n, sizeof(*all), compare_named);
    for (int i = 0; i < need; i++)
        order[i] = all[i].node;
    free(all);
}

/* order[] unless it is worse than the nodes as they are listed, or by name: where the
 * greedy packing is not proven it could be. */
static void no_worse(const struct topology *t, struct pack *p, int *order)
{
    int need = p->group * p->groups;
    int *other = xcalloc((size_t)need + 1, sizeof(*other));

    for (int by_name = 0; by_name < 2 && !p->exact; by_name++) {
        struct pack_score score;
        memcpy(other, p->node, (size_t)need * sizeof(*other));
        if (by_name)
            place_by_name(t, p->node, p->n, need, other);
        pack_score_of(p->tiers, other, p->group, p->groups, &score);
        if (pack_score_compare(&score, &p->score, p->tiers->n) >= 0)
            continue;
        memcpy(order, other, (size_t)need * sizeof(*other));
        p->score = score;
    }
    free(other);
}

/* --- the parts that no link joins ----------------------------------------------------- */

static int in_component(const struct place_tiers *tiers, const int *fit, int n, int c,
                        int *out)
{
    int count = 0;

    for (int i = 0; i < n; i++) {
        int here = tiers->component[fit[i]];
        if (c < 0 || here < 0 || here == c)
            out[count++] = fit[i];
    }
    return count;
}

void place_order(const struct topology *t, const struct place_tiers *tiers,
                 const int *fit, int n, int need, int group, int *order)
{
    int *part = xcalloc((size_t)n + 1, sizeof(*part));
    int *chosen = xcalloc((size_t)n + 1, sizeof(*chosen));
    int *tried = xcalloc((size_t)need + 1, sizeof(*tried)), found = 0;
    struct pack_score least;

    /* each part that has enough; all together when none has, to be refused by name */
    for (int c = tiers->components > 1 ? 0 : -1; c < tiers->components; c++) {
        struct pack p = { .tiers = tiers, .group = group, .groups = need / group };
        int count = in_component(tiers, fit, n, c, part);
        if (count < need)
            continue;
        p.node = chosen;
        p.n = candidates(t, tiers, part, count, need, group, chosen);
        place_pack(&p, tried);
        no_worse(t, &p, tried);
        if (!found || pack_score_compare(&p.score, &least, tiers->n) < 0) {
            memcpy(order, tried, (size_t)need * sizeof(*order));
            least = p.score;
        }
        found = 1;
        if (c < 0)
            break;
    }
    if (!found)
        memcpy(order, fit, (size_t)need * sizeof(*order));
    free(tried);
    free(chosen);
    free(part);
}
