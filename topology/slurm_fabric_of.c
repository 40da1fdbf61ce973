/* What a topology knows of switches, as entries that Slurm can read. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "topology/hostlist.h"
#include "topology/slurm_fabric.h"
#include "topology/topology.h"

/* A list of indices. */
struct list {
    int n, room;
    int *at;
};

static void list_add(struct list *l, int v)
{
    if (l->n == l->room) {
        l->room = l->room ? 2 * l->room : 8;
        l->at = xrealloc(l->at, (size_t)l->room, sizeof(*l->at));
    }
    l->at[l->n++] = v;
}

static int compare_ints(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;

    return (x > y) - (x < y);
}

/* Ascending, each once. */
static void list_tidy(struct list *l)
{
    int kept = 0;

    if (l->n == 0)
        return;
    qsort(l->at, (size_t)l->n, sizeof(int), compare_ints);
    for (int i = 0; i < l->n; i++)
        if (kept == 0 || l->at[i] != l->at[kept - 1])
            l->at[kept++] = l->at[i];
    l->n = kept;
}

static int list_compare(const struct list *a, const struct list *b)
{
    for (int i = 0; i < a->n && i < b->n; i++)
        if (a->at[i] != b->at[i])
            return a->at[i] < b->at[i] ? -1 : 1;
    return (a->n > b->n) - (a->n < b->n);
}

static void lists_free(struct list *l, int n)
{
    for (int i = 0; i < n; i++)
        free(l[i].at);
    free(l);
}

static char *fold_names(const struct strlist *names)
{
    return names->n ? hostlist_fold(names) : NULL;
}

static enum slurm_kind kind_of(const struct fabric_switch *w)
{
    return str_eq(w->kind, "block")  ? SLURM_BLOCK
           : str_eq(w->kind, "ring") ? SLURM_RING
                                     : SLURM_SWITCH;
}

/* --- nodes that Slurm placed ---------------------------------------------------------- */

static void collect(const struct topology *t, struct strlist *nodes,
                    struct strlist *below)
{
    for (int i = 0; i < t->n_nodes; i++)
        if (t->nodes[i].leaf >= 0)
            strlist_add(&nodes[t->nodes[i].leaf], t->nodes[i].name);
    for (int i = 0; i < t->n_links; i++)
        strlist_add(&below[t->links[i].to], t->switches[t->links[i].from].name);
}

static int add_entry(struct slurm_fabric *f, enum slurm_kind kind, const char *name,
                     const struct strlist *nodes, const struct strlist *below)
{
    struct slurm_entry *e = slurm_fabric_add(f, kind, 0);

    if (!e)
        return -1;
    e->name = xstrdup(name);
    e->nodes = fold_names(nodes);
    e->below = fold_names(below);
    return 0;
}

/* A switch with neither nodes nor children is left out: Slurm refuses it. */
static int of_placed(const struct topology *t, struct slurm_fabric *f)
{
    struct strlist *nodes = xcalloc((size_t)t->n_switches + 1, sizeof(*nodes));
    struct strlist *below = xcalloc((size_t)t->n_switches + 1, sizeof(*below));
    int rc = 0;

    collect(t, nodes, below);
    for (int i = 0; i < t->n_switches; i++) {
        const struct strlist none = { 0 };
        if (rc == 0 && (nodes[i].n || below[i].n)) {
            rc = add_entry(f, kind_of(&t->switches[i]), t->switches[i].name, &nodes[i],
                           nodes[i].n ? &none : &below[i]);
            f->entry[f->n - 1].speed = t->switches[i].link_speed;
        }
        strlist_release(&nodes[i]);
        strlist_release(&below[i]);
    }
    free(nodes);
    free(below);
    f->n_sizes =
        t->n_block_sizes < SLURM_SIZES_MAX ? t->n_block_sizes : SLURM_SIZES_MAX;
    for (int i = 0; i < f->n_sizes; i++)
        f->size[i] = t->block_sizes[i];
    return rc;
}

/* --- nodes that hang on leaves by their NICs -------------------------------------------- */

/* Entries while they are made: `key` are the leaves of its nodes, or the entries below
 * it; equal keys of one level are one entry. */
struct group {
    struct list key;
    int first; /* the node or switch that it was made for */
    int entry;
};

struct derive {
    const struct topology *t;
    struct slurm_fabric *f;
    struct list *key;    /* of every node, then of every switch */
    int *entry;          /* [n_switches] what a switch became; -1 nothing */
    struct list *leaves; /* [n_switches] entries that stand for a leaf */
};

/* An adapter whose host is unknown, under its GUID: Slurm knows no such node. */
static int is_nameless(const struct node *n)
{
    return n->n_nics == 1 && strncmp(n->name, "ca-", 3) == 0 &&
           strncmp(n->nics[0].guid, "0x", 2) == 0 &&
           str_eq(n->name + 3, n->nics[0].guid + 2);
}

static void leaves_of(const struct node *n, struct list *out)
{
    for (int i = 0; i < n->n_nics; i++)
        if (n->nics[i].leaf >= 0 && n->nics[i].kind != NIC_STORAGE &&
            n->nics[i].kind != NIC_MANAGEMENT)
            list_add(out, n->nics[i].leaf);
    list_tidy(out);
}

static int compare_groups(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    int c = list_compare(&x->key, &y->key);

    return c ? c : x->first - y->first;
}

static int compare_firsts(const void *a, const void *b)
{
    return ((const struct group *)a)->first - ((const struct group *)b)->first;
}

/* Name for a set of leaves: the leaf's own, or "leafset0", ... with the leaves in a
 * comment. */
static void name_set(struct derive *d, struct slurm_entry *e, const struct list *key,
                     int *n_sets)
{
    struct strlist names = { 0 };
    char *folded;

    if (key->n == 1) {
        e->name = xstrdup(d->t->switches[key->at[0]].name);
        return;
    }
    for (int i = 0; i < key->n; i++)
        strlist_add(&names, d->t->switches[key->at[i]].name);
    folded = hostlist_fold(&names);
    e->name = xasprintf("leafset%d", (*n_sets)++);
    e->comment = xasprintf("%s stands for %s", e->name, folded);
    free(folded);
    strlist_release(&names);
}

/* Make one entry of g[0..n), nodes with equal leaves. */
static int add_set(struct derive *d, const struct group *g, int n, int *n_sets)
{
    struct slurm_entry *e = slurm_fabric_add(d->f, SLURM_SWITCH, 0);
    struct strlist names = { 0 };

    if (!e)
        return -1;
    name_set(d, e, &g[0].key, n_sets);
    for (int i = 0; i < n; i++)
        strlist_add(&names, d->t->nodes[g[i].first].name);
    e->nodes = hostlist_fold(&names);
    strlist_release(&names);
    for (int i = 0; i < g[0].key.n; i++)
        list_add(&d->leaves[g[0].key.at[i]], d->f->n - 1);
    return 0;
}

/* Groups of equal keys in the order of their first members: sorted by key, every
 * member takes the first of its group, then sorted by that. */
static void order_groups(struct group *g, int n)
{
    qsort(g, (size_t)n, sizeof(*g), compare_groups);
    for (int i = 0; i < n; i++)
        g[i].entry = i && list_compare(&g[i].key, &g[i - 1].key) == 0 ? g[i - 1].entry
                                                                      : g[i].first;
}

static int compare_entries(const void *a, const void *b)
{
    const struct group *x = a, *y = b;

    return x->entry != y->entry ? x->entry - y->entry : compare_firsts(a, b);
}

static int add_sets(struct derive *d)
{
    struct group *g = xcalloc((size_t)d->t->n_nodes + 1, sizeof(*g));
    int n = 0, rc = 0, n_sets = 0;

    for (int i = 0; i < d->t->n_nodes; i++) {
        struct list *key = &d->key[i];
        leaves_of(&d->t->nodes[i], key);
        if (key->n && !is_nameless(&d->t->nodes[i]))
            g[n++] = (struct group){ *key, i, -1 };
    }
    order_groups(g, n);
    qsort(g, (size_t)n, sizeof(*g), compare_entries);
    for (int i = 0, j; i < n && rc == 0; i = j) {
        for (j = i + 1; j < n && g[j].entry == g[i].entry; j++)
            ;
        rc = add_set(d, &g[i], j - i, &n_sets);
    }
    free(g);
    return rc;
}

/* The entries below switch i. */
static void children_of(struct derive *d, int i, struct list *out)
{
    for (int k = 0; k < d->t->n_links; k++) {
        int from = d->t->links[k].from;
        if (d->t->links[k].to != i)
            continue;
        for (int m = 0; m < d->leaves[from].n; m++)
            list_add(out, d->leaves[from].at[m]);
        if (d->entry[from] >= 0)
            list_add(out, d->entry[from]);
    }
    list_tidy(out);
}

static int add_upper(struct derive *d, const struct group *g, int n)
{
    struct slurm_entry *e = slurm_fabric_add(d->f, SLURM_SWITCH, 0);
    struct strlist below = { 0 }, same = { 0 };
    char *folded;

    if (!e)
        return -1;
    e->name = xstrdup(d->t->switches[g[0].first].name);
    for (int i = 0; i < g[0].key.n; i++)
        strlist_add(&below, d->f->entry[g[0].key.at[i]].name);
    e->below = hostlist_fold(&below);
    for (int i = 0; i < n; i++) {
        d->entry[g[i].first] = d->f->n - 1;
        strlist_add(&same, d->t->switches[g[i].first].name);
    }
    if (n > 1) {
        folded = hostlist_fold(&same);
        e->comment = xasprintf("%s stands for %s", e->name, folded);
        free(folded);
    }
    strlist_release(&below);
    strlist_release(&same);
    return 0;
}

/* Switches of one level. */
static int add_level(struct derive *d, int level)
{
    struct group *g = xcalloc((size_t)d->t->n_switches + 1, sizeof(*g));
    int n = 0, rc = 0;

    for (int i = 0; i < d->t->n_switches; i++) {
        struct list *key = &d->key[d->t->n_nodes + i];
        if (d->t->switches[i].level != level)
            continue;
        children_of(d, i, key);
        if (key->n)
            g[n++] = (struct group){ *key, i, -1 };
    }
    order_groups(g, n);
    qsort(g, (size_t)n, sizeof(*g), compare_entries);
    for (int i = 0, j; i < n && rc == 0; i = j) {
        for (j = i + 1; j < n && g[j].entry == g[i].entry; j++)
            ;
        rc = add_upper(d, &g[i], j - i);
    }
    free(g);
    return rc;
}

static int of_nics(const struct topology *t, struct slurm_fabric *f)
{
    struct derive d = { t, f, NULL, NULL, NULL };
    int top = 0, rc;

    d.key = xcalloc((size_t)t->n_nodes + (size_t)t->n_switches + 1, sizeof(*d.key));
    d.entry = xcalloc((size_t)t->n_switches + 1, sizeof(*d.entry));
    d.leaves = xcalloc((size_t)t->n_switches + 1, sizeof(*d.leaves));
    for (int i = 0; i < t->n_switches; i++) {
        d.entry[i] = -1;
        top = t->switches[i].level > top ? t->switches[i].level : top;
    }
    rc = add_sets(&d);
    for (int level = 1; level <= top && level < 32 && rc == 0 && f->n; level++)
        rc = add_level(&d, level);
    lists_free(d.key, t->n_nodes + t->n_switches);
    lists_free(d.leaves, t->n_switches);
    free(d.entry);
    return rc;
}

int slurm_fabric_of(const struct topology *t, struct slurm_fabric *out, struct err *err)
{
    struct slurm_fabric f = { 0 };
    int placed = 0, rc;

    for (int i = 0; i < t->n_nodes && !placed; i++)
        placed = t->nodes[i].leaf >= 0;
    rc = placed ? of_placed(t, &f) : of_nics(t, &f);
    if (rc < 0)
        err_set(err, ERR_USAGE, "more than %d switches: Slurm's file is not written",
                SLURM_ENTRIES_MAX);
    else if (f.n == 0)
        rc = err_set(err, ERR_FAILED,
                     "%s knows no switch that a node hangs on: there is nothing to "
                     "write (add --source ibnet:FILE, slurmconf:FILE or spec:FILE)",
                     t->source);
    if (rc < 0)
        slurm_fabric_release(&f);
    else
        *out = f;
    return rc;
}
