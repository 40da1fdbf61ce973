/* The fabric of the text tree. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "topology/hostlist.h"
#include "topology/print.h"
#include "topology/topology.h"

enum { LEAVES_MAX = 32 }; /* so many are listed one by one */

static void print_level(const struct topology *t, int level, FILE *fp)
{
    const char *first = NULL, *last = NULL, *kind = level ? "spine" : "leaf ";
    int n = 0;

    for (int i = 0; i < t->n_switches; i++) {
        if (t->switches[i].level != level)
            continue;
        last = t->switches[i].name;
        kind = t->switches[i].kind[0] ? t->switches[i].kind : kind;
        first = n++ ? first : last;
    }
    if (n)
        fprintf(fp, "  %s %d: %s%s%s\n", kind, n, first, n > 1 ? " .. " : "",
                n > 1 ? last : "");
}

static void print_switches(const struct topology *t, FILE *fp)
{
    int top = 0;

    if (t->n_switches == 0)
        return;
    for (int i = 0; i < t->n_switches; i++)
        top = t->switches[i].level > top ? t->switches[i].level : top;
    fprintf(fp, "fabric\n");
    for (int level = top; level >= 0; level--)
        print_level(t, level, fp);
}

static void print_links(const struct topology *t, FILE *fp)
{
    int cables = 0;

    for (int i = 0; i < t->n_links; i++)
        cables += t->links[i].count;
    if (t->n_links && t->links[0].gbits_per_s < 0)
        fprintf(fp, "  links %d between switches, cables and rate unknown\n",
                t->n_links);
    else if (t->n_links)
        fprintf(fp, "  links %d between switches, %d cables of %.0f Gb/s\n", t->n_links,
                cables, t->links[0].gbits_per_s);
}

/* --- leaves ----------------------------------------------------------------------------- */

/* What hangs on each leaf: its nodes, and the one rail of its NICs (-1 mixed). */
struct leaf {
    int nics, rail;
    struct strlist names;
};

static void add_node(struct leaf *leaf, const struct node *n)
{
    int last = leaf->names.n - 1;

    if (last < 0 || !str_eq(leaf->names.item[last], n->name))
        strlist_add(&leaf->names, n->name);
}

static struct leaf *collect_leaves(const struct topology *t)
{
    struct leaf *leaf = xcalloc((size_t)t->n_switches + 1, sizeof(*leaf));

    for (int i = 0; i < t->n_nodes; i++) {
        const struct node *n = &t->nodes[i];
        if (n->leaf >= 0)
            add_node(&leaf[n->leaf], n);
        for (int k = 0; k < n->n_nics; k++) {
            struct leaf *l;
            if (n->nics[k].leaf < 0)
                continue;
            l = &leaf[n->nics[k].leaf];
            add_node(l, n);
            l->rail = l->nics++ && l->rail != n->nics[k].rail ? -1 : n->nics[k].rail;
        }
    }
    return leaf;
}

static int cables_up(const struct topology *t, int w)
{
    int n = 0;

    for (int i = 0; i < t->n_links; i++)
        n += (t->links[i].from == w || t->links[i].to == w) ? t->links[i].count : 0;
    return n;
}

static void print_leaf(const struct topology *t, int w, const struct leaf *l, FILE *fp)
{
    char *names = hostlist_fold(&l->names), rail[32] = "", up[32] = "";

    if (l->nics && l->rail >= 0)
        snprintf(rail, sizeof(rail), " rail %d,", l->rail);
    if (l->nics && cables_up(t, w))
        snprintf(up, sizeof(up), ", %d cables up", cables_up(t, w));
    if (l->nics)
        print_line(fp, 8, "  %s:%s %d NIC%s of %s%s", t->switches[w].name, rail,
                   l->nics, str_s(l->nics), names, up);
    else
        print_line(fp, 8, "  %s: %s", t->switches[w].name, names);
    free(names);
}

static void print_leaves(const struct topology *t, FILE *fp)
{
    struct leaf *leaf = collect_leaves(t);
    int said = 0, more = 0;

    for (int w = 0; w < t->n_switches; w++) {
        if (leaf[w].names.n && said++ < LEAVES_MAX)
            print_leaf(t, w, &leaf[w], fp);
        else
            more += leaf[w].names.n > 0;
        strlist_release(&leaf[w].names);
    }
    if (more)
        fprintf(fp, "  and %d more leaves (--json lists all)\n", more);
    free(leaf);
}

/* --- NVLink domains ------------------------------------------------------------------------- */

struct member {
    const char *domain, *name;
    int node;
};

static int compare_members(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    int c = strcmp(x->domain, y->domain);

    return c ? c : x->node - y->node;
}

static void print_domains(const struct topology *t, FILE *fp)
{
    struct member *m = xcalloc((size_t)t->n_nodes + 1, sizeof(*m));
    int n = 0;

    for (int i = 0; i < t->n_nodes; i++)
        if (t->nodes[i].nvlink_domain[0])
            m[n++] = (struct member){ t->nodes[i].nvlink_domain, t->nodes[i].name, i };
    qsort(m, (size_t)n, sizeof(*m), compare_members);
    if (n > 1)
        fprintf(fp, "NVLink domains\n");
    for (int i = 0, to; n > 1 && i < n; i = to) {
        struct strlist names = { 0 };
        char *folded;
        for (to = i; to < n && str_eq(m[to].domain, m[i].domain); to++)
            strlist_add(&names, m[to].name);
        folded = hostlist_fold(&names);
        print_line(fp, 8, "  %s: %s", m[i].domain, folded);
        free(folded);
        strlist_release(&names);
    }
    free(m);
}

void print_fabric(const struct topology *t, FILE *fp)
{
    print_switches(t, fp);
    print_links(t, fp);
    if (t->n_switches)
        print_leaves(t, fp);
    print_domains(t, fp);
}
