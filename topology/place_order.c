#include "topology/place_order.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topology/topology.h"

enum { DEPTH = 32 };

/* A leaf with nodes that fit; nodes of no known leaf have one each. */
struct leaf {
    int at;          /* fabric.switches; -1 unknown */
    int path[DEPTH]; /* switches from the root down to it */
    int depth;
    int first; /* the node that is named first */
    int n;
    int *node;
    int whole; /* nodes that are taken in whole groups */
    int taken; /* nodes that are taken: the first ones */
};

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

/* --- leaves in the order of the tree ------------------------------------------------- */

static int parent(const struct topology *t, int at)
{
    for (int i = 0; i < t->n_links; i++)
        if (t->links[i].from == at)
            return t->links[i].to;
    return -1;
}

static void find_path(const struct topology *t, struct leaf *l)
{
    int up[DEPTH], n = 0;

    for (int at = l->at; at >= 0 && n < DEPTH; at = parent(t, at))
        up[n++] = at;
    l->depth = n;
    for (int i = 0; i < n; i++)
        l->path[i] = up[n - 1 - i];
}

/* Below one spine side by side; of one switch, as their nodes are named. */
static int compare_leaves(const void *a, const void *b)
{
    const struct leaf *x = a, *y = b;

    for (int i = 0; i < x->depth && i < y->depth; i++) {
        if (x->path[i] == y->path[i])
            continue;
        if (i + 1 == x->depth && i + 1 == y->depth)
            break; /* two leaves of one switch */
        return x->path[i] < y->path[i] ? -1 : 1;
    }
    return (x->first > y->first) - (x->first < y->first);
}

static struct leaf *leaf_for(struct leaf *all, int *n, int at)
{
    for (int i = 0; at >= 0 && i < *n; i++)
        if (all[i].at == at)
            return &all[i];
    all[*n].at = at;
    return &all[(*n)++];
}

static struct leaf *find_leaves(const struct topology *t, const int *fit, int n,
                                int *n_leaves)
{
    struct leaf *all = xcalloc((size_t)n + 1, sizeof(*all));

    *n_leaves = 0;
    for (int i = 0; i < n; i++) {
        struct leaf *l = leaf_for(all, n_leaves, place_leaf(t, fit[i]));
        if (!l->n) {
            l->first = fit[i];
            find_path(t, l);
        }
        if ((l->n & (l->n - 1)) == 0) /* full: twice the room */
            l->node = xrealloc(l->node, 2 * (size_t)l->n + 1, sizeof(*l->node));
        l->node[l->n++] = fit[i];
    }
    qsort(all, (size_t)*n_leaves, sizeof(*all), compare_leaves);
    return all;
}

/* --- choosing ---------------------------------------------------------------------- */

/* The untaken leaf that holds `want` whole groups with the least to spare, else the
 * one that holds most; NULL: none holds any. */
static struct leaf *best(struct leaf *all, int n, int want, int group)
{
    struct leaf *found = NULL;

    for (int i = 0; i < n; i++) {
        int here = all[i].n / group, had = found ? found->n / group : 0;
        if (all[i].taken || here < 1)
            continue;
        if (!found || (here >= want ? had < want || here < had : here > had))
            found = &all[i];
    }
    return found;
}

/* Whole groups into leaves; returns how many are left over. */
static int take_whole(struct leaf *all, int n, int groups, int group)
{
    struct leaf *l;

    while (groups > 0 && (l = best(all, n, groups, group))) {
        int here = l->n / group < groups ? l->n / group : groups;
        l->whole = l->taken = here * group;
        groups -= here;
    }
    return groups;
}

/* The rest goes where most nodes are left, so that it crosses few leaves. */
static void take_rest(struct leaf *all, int n, int need)
{
    while (need > 0) {
        struct leaf *most = &all[0];
        int here;
        for (int i = 1; i < n; i++)
            if (all[i].n - all[i].taken > most->n - most->taken)
                most = &all[i];
        here = most->n - most->taken < need ? most->n - most->taken : need;
        most->taken += here;
        need -= here;
    }
}

void place_order(const struct topology *t, const int *fit, int n, int need, int group,
                 int *order)
{
    int n_leaves, at = 0, rest;
    struct leaf *all = find_leaves(t, fit, n, &n_leaves);

    if (all[0].at < 0 && n_leaves == n) { /* nothing is known of any */
        memcpy(order, fit, (size_t)need * sizeof(*order));
    } else {
        rest = take_whole(all, n_leaves, need / group, group);
        take_rest(all, n_leaves, rest * group);
        for (int i = 0; i < n_leaves; i++)
            for (int k = 0; k < all[i].whole; k++)
                order[at++] = all[i].node[k];
        for (int i = 0; i < n_leaves; i++)
            for (int k = all[i].whole; k < all[i].taken; k++)
                order[at++] = all[i].node[k];
    }
    for (int i = 0; i < n_leaves; i++)
        free(all[i].node);
    free(all);
}
