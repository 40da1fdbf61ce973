#include "topology/place_tiers.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topology/fabric.h"
#include "topology/topology.h"

int place_leaf(const struct topology *t, int node)
{
    const struct node *n = &t->nodes[node];
    int least = n->leaf;

    for (int i = 0; n->leaf < 0 && i < n->n_nics; i++)
        if (n->nics[i].leaf >= 0 && n->nics[i].kind != NIC_STORAGE &&
            n->nics[i].kind != NIC_MANAGEMENT && (least < 0 || n->nics[i].leaf < least))
            least = n->nics[i].leaf;
    return least;
}

/* --- units from keys -------------------------------------------------------------- */

/* Number keys[n] (0 .. limit-1; -1: one of its own) by first appearance; how many. */
static int number(int *key, int n, int limit)
{
    int *seen = xcalloc((size_t)limit + 1, sizeof(*seen)), units = 0;

    for (int i = 0; i < n; i++) {
        if (key[i] >= 0 && seen[key[i]])
            key[i] = seen[key[i]] - 1;
        else if (key[i] >= 0)
            key[i] = (seen[key[i]] = ++units) - 1;
        else
            key[i] = units++;
    }
    free(seen);
    return units;
}

/* Takes unit[] over when the tier says something. */
static void add_tier(struct place_tiers *p, enum place_tier kind, int *unit, int limit)
{
    int units = number(unit, p->n_nodes, limit);

    if (units < 2 || units == (p->n ? p->units[p->n - 1] : p->n_nodes) ||
        p->n == PLACE_TIERS_MAX) {
        free(unit);
        return;
    }
    p->kind[p->n] = kind;
    p->units[p->n] = units;
    p->unit[p->n++] = unit;
}

/* --- NVLink domains ----------------------------------------------------------------- */

struct named {
    const char *name;
    int node;
};

static int compare_names(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    int by_name = strcmp(x->name, y->name);

    return by_name ? by_name : (x->node > y->node) - (x->node < y->node);
}

/* first[i]: the first node of the domain of node i; i itself where it has none. */
static int *first_of_domain(const struct topology *t)
{
    int n = t->n_nodes, *first = xcalloc((size_t)n + 1, sizeof(*first));
    struct named *all = xcalloc((size_t)n + 1, sizeof(*all));

    for (int i = 0; i < n; i++)
        all[i] = (struct named){ t->nodes[i].nvlink_domain, i };
    qsort(all, (size_t)n, sizeof(*all), compare_names);
    for (int i = 0; i < n; i++) {
        int same = i > 0 && *all[i].name && strcmp(all[i].name, all[i - 1].name) == 0;
        first[all[i].node] = same ? first[all[i - 1].node] : all[i].node;
    }
    free(all);
    return first;
}

/* --- leaves and what is above ---------------------------------------------------------- */

static int root_of(int *parent, int i)
{
    while (parent[i] != i) {
        parent[i] = parent[parent[i]];
        i = parent[i];
    }
    return i;
}

/* Switches that are joined at `level` and were not below it. */
static int join(const struct topology *t, int level, int *parent)
{
    int joined = 0;

    for (int i = 0; i < t->n_links; i++) {
        const struct fabric_link *l = &t->links[i];
        if (t->switches[l->to].level != level)
            continue;
        joined = 1;
        parent[root_of(parent, l->from)] = root_of(parent, l->to);
    }
    return joined;
}

static int *units_of_leaves(const struct topology *t, const int *first, int *parent)
{
    int *unit = xcalloc((size_t)t->n_nodes + 1, sizeof(*unit));

    for (int i = 0; i < t->n_nodes; i++) {
        int leaf = place_leaf(t, first[i]);
        unit[i] = leaf >= 0 ? root_of(parent, leaf) : -1;
        if (leaf < 0 && first[i] != i)
            unit[i] = unit[first[i]];
        else if (leaf < 0)
            unit[i] = t->n_switches + i; /* a domain of unknown leaf stays whole */
    }
    return unit;
}

static int highest(const struct topology *t)
{
    int top = 0;

    for (int i = 0; i < t->n_switches; i++)
        top = t->switches[i].level > top ? t->switches[i].level : top;
    return top;
}

static void add_fabric(struct place_tiers *p, const struct topology *t,
                       const int *first)
{
    int *parent = xcalloc((size_t)t->n_switches + 1, sizeof(*parent));
    int known = 0, top = highest(t), limit = t->n_switches + t->n_nodes;

    for (int i = 0; i < t->n_switches; i++)
        parent[i] = i;
    for (int i = 0; i < t->n_nodes && !known; i++)
        known = place_leaf(t, i) >= 0;
    if (known) {
        add_tier(p, TIER_LEAF, units_of_leaves(t, first, parent), limit);
        for (int level = 1; level <= top && p->n < PLACE_TIERS_MAX; level++)
            if (join(t, level, parent))
                add_tier(p, TIER_PART, units_of_leaves(t, first, parent), limit);
    }
    free(parent);
}

struct place_tiers *place_tiers_new(const struct topology *t)
{
    struct place_tiers *p = xcalloc(1, sizeof(*p));
    int *first = first_of_domain(t), *unit, known = 0;

    p->n_nodes = t->n_nodes;
    for (int i = 0; i < t->n_nodes && !known; i++)
        known = t->nodes[i].nvlink_domain[0] != '\0';
    if (known) {
        unit = xcalloc((size_t)t->n_nodes + 1, sizeof(*unit));
        memcpy(unit, first, (size_t)t->n_nodes * sizeof(*unit));
        add_tier(p, TIER_DOMAIN, unit, t->n_nodes);
    }
    add_fabric(p, t, first);
    p->component = xcalloc((size_t)t->n_nodes + 1, sizeof(int));
    p->components = fabric_components(t, p->component);
    free(first);
    return p;
}

void place_tiers_free(struct place_tiers *p)
{
    if (!p)
        return;
    for (int k = 0; k < p->n; k++)
        free(p->unit[k]);
    free(p->component);
    free(p);
}

const char *place_tier_name(const struct place_tiers *p, int tier, int several)
{
    switch (p->kind[tier]) {
    case TIER_DOMAIN:
        return several ? "NVLink domains" : "NVLink domain";
    case TIER_LEAF:
        return several ? "leaves" : "leaf";
    default:
        if (tier > 0 && p->kind[tier - 1] == TIER_PART)
            return several ? "parts of the fabric" : "part of the fabric";
        return several ? "pods" : "pod";
    }
}

int place_tiers_leaf(const struct place_tiers *p)
{
    for (int k = 0; k < p->n; k++)
        if (p->kind[k] == TIER_LEAF)
            return k;
    return -1;
}

int place_tiers_common(const struct place_tiers *p, int a, int b)
{
    int k = 0;

    while (k < p->n && p->unit[k][a] != p->unit[k][b])
        k++;
    return k;
}
