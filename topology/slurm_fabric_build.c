/* From definitions to a topology, with every check on the way. */
#include "topology/slurm_fabric.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "topology/hostlist.h"
#include "topology/topology.h"

static const char *const kind_words[] = { "switch", "block", "ring" };

enum { PROBLEMS_MAX = 20, LEVELS_MAX = 32 };

/* A node where an entry names it. */
struct seat {
    const char *name;
    int entry, i; /* i: its place in the text */
};

/* A child of an entry. */
struct bond {
    int from, to; /* below, above */
};

struct build {
    const struct slurm_fabric *f;
    const char *where;
    int problems;
    struct err *err;
    struct strlist *nodes, *again; /* [f->n]; again: named more than once */
    int n_seats, n_bonds;
    int n_below; /* names in Switches= */
    struct seat *seat;
    struct bond *bond;
    int *by_name; /* [f->n] entries, sorted by name */
    int *level;   /* [f->n]; -1 on a cycle */
    struct topology *t;
};

/* --- names ------------------------------------------------------------------------ */

/* A problem of entry i; only the first ones are listed. */
static void __attribute__((format(printf, 3, 4)))
problem(struct build *b, int i, const char *fmt, ...)
{
    va_list ap;
    char *text;

    if (b->problems++ >= PROBLEMS_MAX)
        return;
    va_start(ap, fmt);
    text = xvasprintf(fmt, ap);
    va_end(ap);
    err_more(b->err, ERR_USAGE, "%s:%d: %s", b->where, b->f->entry[i].line, text);
    free(text);
}

static void problem_of(struct build *b, int i, struct err *one)
{
    problem(b, i, "%s", err_text(one));
    err_release(one);
}

static int compare_entries(const void *a, const void *b, void *arg)
{
    const struct slurm_entry *e = arg;
    int i = *(const int *)a, j = *(const int *)b, c = strcmp(e[i].name, e[j].name);

    return c ? c : (i > j) - (i < j);
}

static int find_entry(const struct build *b, const char *name)
{
    int lo = 0, hi = b->f->n;

    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        if (strcmp(b->f->entry[b->by_name[mid]].name, name) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < b->f->n && str_eq(b->f->entry[b->by_name[lo]].name, name)
               ? b->by_name[lo]
               : -1;
}

static void check_entry(struct build *b, int i)
{
    const struct slurm_entry *e = &b->f->entry[i];
    const char *word = kind_words[e->kind];

    if (!hostlist_name_valid(e->name) || strlen(e->name) > 63)
        problem(b, i, "%s name '%.64s': up to 63 letters, digits and ._:@-", word,
                e->name);
    if (e->kind != b->f->entry[0].kind)
        problem(b, i, "%s %s stands beside a %s: a file describes one kind", word,
                e->name, kind_words[b->f->entry[0].kind]);
    if (!e->nodes && !e->below)
        problem(b, i, "%s %s has no %s", word, e->name,
                e->kind == SLURM_SWITCH ? "Nodes= and no Switches=" : "nodes");
    if (e->nodes && e->below)
        problem(b, i,
                "switch %s has Nodes= and Switches=: put the nodes on a leaf of their "
                "own",
                e->name);
}

static void check_names(struct build *b)
{
    const struct slurm_entry *e = b->f->entry;

    for (int i = 0; i < b->f->n; i++) {
        check_entry(b, i);
        b->by_name[i] = i;
    }
    qsort_r(b->by_name, (size_t)b->f->n, sizeof(int), compare_entries, b->f->entry);
    for (int k = 1; k < b->f->n; k++) {
        int i = b->by_name[k], first = b->by_name[k - 1];
        if (str_eq(e[i].name, e[first].name))
            problem(b, i, "%s %s is defined again (first on line %d)",
                    kind_words[e[i].kind], e[i].name, e[first].line);
    }
}

/* --- nodes ------------------------------------------------------------------------ */

static int compare_seats(const void *a, const void *b)
{
    const struct seat *x = a, *y = b;
    int c = strcmp(x->name, y->name);

    return c ? c : (x->i > y->i) - (x->i < y->i);
}

/* A repeat inside one entry is a finding, in a second entry a problem. */
static void check_seats(struct build *b)
{
    const struct slurm_entry *e = b->f->entry;

    qsort(b->seat, (size_t)b->n_seats, sizeof(*b->seat), compare_seats);
    for (int k = 1; k < b->n_seats && b->problems < PROBLEMS_MAX; k++) {
        const struct seat *s = &b->seat[k], *first = &b->seat[k - 1];
        if (str_eq(s->name, first->name))
            problem(b, s->entry,
                    "node %s is in %s %s and in %s %s: a node has one place", s->name,
                    kind_words[e[first->entry].kind], e[first->entry].name,
                    kind_words[e[s->entry].kind], e[s->entry].name);
    }
}

static void expand_nodes(struct build *b, int i)
{
    const struct slurm_entry *e = &b->f->entry[i];
    struct strlist *names = &b->nodes[i];
    struct err one = ERR_INIT;

    if (!e->nodes)
        return;
    if (hostlist_expand(e->nodes, names, &one) < 0) {
        problem_of(b, i, &one);
        return;
    }
    if (e->kind == SLURM_RING && names->n > SLURM_RING_MAX)
        problem(b, i, "ring %s has %d nodes, %d are allowed", e->name, names->n,
                SLURM_RING_MAX);
    for (int k = 0; k < names->n; k++)
        if (strlen(names->item[k]) > 63) {
            problem(b, i, "node name '%.70s...' is longer than 63 bytes",
                    names->item[k]);
            strlist_release(names);
            return;
        }
    if (names->n > SLURM_NODES_MAX - b->n_seats) {
        problem(b, i, "more than %d nodes", SLURM_NODES_MAX);
        strlist_release(names);
    }
    hostlist_unique(names, &b->again[i]);
    b->n_seats += names->n;
}

static void collect_nodes(struct build *b)
{
    int n = 0;

    for (int i = 0; i < b->f->n && b->problems < PROBLEMS_MAX; i++) {
        expand_nodes(b, i);
    }
    b->seat = xcalloc((size_t)b->n_seats + 1, sizeof(*b->seat));
    for (int i = 0; i < b->f->n; i++)
        for (int k = 0; k < b->nodes[i].n; k++, n++)
            b->seat[n] = (struct seat){ b->nodes[i].item[k], i, n };
    b->n_seats = n;
    check_seats(b);
}

/* --- switches above switches --------------------------------------------------------- */

static void add_bond(struct build *b, int i, const char *child)
{
    int k = find_entry(b, child);

    if (k < 0) {
        problem(b, i, "switch %s names switch %s, which is not defined",
                b->f->entry[i].name, child);
        return;
    }
    if ((b->n_bonds & (b->n_bonds - 1)) == 0)
        b->bond = xrealloc(b->bond, (size_t)b->n_bonds * 2 + 1, sizeof(*b->bond));
    b->bond[b->n_bonds++] = (struct bond){ k, i };
}

static void collect_bonds(struct build *b)
{
    for (int i = 0; i < b->f->n && b->problems < PROBLEMS_MAX; i++) {
        struct strlist names = { 0 };
        struct err one = ERR_INIT;
        if (!b->f->entry[i].below)
            continue;
        if (hostlist_expand(b->f->entry[i].below, &names, &one) < 0)
            problem_of(b, i, &one);
        b->n_below += names.n;
        hostlist_unique(&names, NULL);
        if (b->n_below > SLURM_LINKS_MAX) {
            problem(b, i, "more than %d links between switches", SLURM_LINKS_MAX);
            b->problems += PROBLEMS_MAX; /* that is enough */
        }
        for (int k = 0; k < names.n && b->problems < PROBLEMS_MAX; k++)
            add_bond(b, i, names.item[k]);
        strlist_release(&names);
    }
}

/* From the leaves up: a switch has a level when all its children have one. */
static int raise_levels(struct build *b)
{
    int changed = 0;
    char *waits = xcalloc((size_t)b->f->n + 1, 1);
    int *highest = xcalloc((size_t)b->f->n + 1, sizeof(*highest));

    for (int k = 0; k < b->n_bonds; k++) {
        int below = b->level[b->bond[k].from], to = b->bond[k].to;
        if (below < 0)
            waits[to] = 1;
        highest[to] = below > highest[to] ? below : highest[to];
    }
    for (int i = 0; i < b->f->n; i++)
        if (b->level[i] < 0 && !waits[i]) {
            b->level[i] = highest[i] + 1;
            changed = 1;
        }
    free(waits);
    free(highest);
    return changed;
}

/* The names of one cycle, "a over b over a": i has no level, and so has one of its
 * children, and so on. */
static void report_cycle(struct build *b, int i)
{
    int *child = xcalloc((size_t)b->f->n + 1, sizeof(*child)), start, steps = 0;
    struct str s = STR_INIT;

    for (int k = 0; k < b->n_bonds; k++)
        if (b->level[b->bond[k].from] < 0)
            child[b->bond[k].to] = b->bond[k].from;
    for (int k = 0; k < b->f->n; k++) /* surely on a cycle after that many steps */
        i = child[i];
    start = i;
    do {
        str_addf(&s, "%s over ", b->f->entry[i].name);
        i = child[i];
    } while (i != start && ++steps < 8);
    problem(b, start, "switches form a cycle: %s%s", s.text,
            i == start ? b->f->entry[i].name : "...");
    str_release(&s);
    free(child);
}

static void find_levels(struct build *b)
{
    int rounds = 0;

    for (int i = 0; i < b->f->n; i++)
        b->level[i] = b->f->entry[i].below ? -1 : 0;
    while (rounds < LEVELS_MAX && raise_levels(b))
        rounds++;
    for (int i = 0; i < b->f->n; i++) {
        if (b->level[i] >= 0)
            continue;
        if (rounds == LEVELS_MAX)
            problem(b, i, "switch %s is more than %d levels above its leaves",
                    b->f->entry[i].name, LEVELS_MAX);
        else
            report_cycle(b, i);
        return;
    }
}

/* --- the topology -------------------------------------------------------------------- */

static void fill_switches(struct build *b)
{
    struct topology *t = b->t;

    t->n_switches = b->f->n;
    t->switches = xcalloc((size_t)b->f->n, sizeof(*t->switches));
    for (int i = 0; i < b->f->n; i++) {
        const struct slurm_entry *e = &b->f->entry[i];
        struct fabric_switch *w = &t->switches[i];
        snprintf(w->name, sizeof(w->name), "%s", e->name);
        if (e->kind != SLURM_SWITCH)
            snprintf(w->kind, sizeof(w->kind), "%s", kind_words[e->kind]);
        w->level = b->level[i];
        w->link_speed = e->speed;
    }
    t->n_links = b->n_bonds;
    t->links = xcalloc((size_t)b->n_bonds + 1, sizeof(*t->links));
    for (int k = 0; k < b->n_bonds; k++)
        t->links[k] = (struct fabric_link){ b->bond[k].from, b->bond[k].to, 1, -1 };
}

static void fill_nodes(struct build *b)
{
    int n = 0;

    for (int i = 0; i < b->f->n; i++)
        for (int k = 0; k < b->nodes[i].n; k++, n++) {
            struct node *node = &b->t->nodes[n];
            snprintf(node->name, sizeof(node->name), "%s", b->nodes[i].item[k]);
            node->leaf = i;
        }
}

static void note_roots(struct build *b)
{
    char *has_parent = xcalloc((size_t)b->f->n + 1, 1);
    struct strlist roots = { 0 };
    char *folded;

    for (int k = 0; k < b->n_bonds; k++)
        has_parent[b->bond[k].from] = 1;
    for (int i = 0; i < b->f->n; i++)
        if (!has_parent[i] && b->f->entry[i].kind == SLURM_SWITCH)
            strlist_add(&roots, b->f->entry[i].name);
    if (roots.n > 1) {
        folded = hostlist_fold(&roots);
        topology_find(b->t, SEVERITY_WARN, b->where,
                      "%d unconnected switches at the top (%.200s%s): no job may span "
                      "them",
                      roots.n, folded, strlen(folded) > 200 ? "..." : "");
        free(folded);
    }
    strlist_release(&roots);
    free(has_parent);
}

static void note_repeats(struct build *b)
{
    for (int i = 0; i < b->f->n; i++) {
        char *folded;
        if (b->again[i].n == 0)
            continue;
        folded = hostlist_fold(&b->again[i]);
        topology_find(b->t, SEVERITY_WARN, b->f->entry[i].name,
                      "line %d names %.200s%s more than once", b->f->entry[i].line,
                      folded, strlen(folded) > 200 ? "..." : "");
        free(folded);
    }
}

static void note_short_blocks(struct build *b)
{
    const struct slurm_fabric *f = b->f;

    b->t->n_block_sizes = f->n_sizes;
    for (int i = 0; i < f->n_sizes; i++)
        b->t->block_sizes[i] = f->size[i];
    for (int i = 0; i < f->n && f->n_sizes; i++)
        if (f->entry[i].kind == SLURM_BLOCK && b->nodes[i].n < f->size[0])
            topology_find(b->t, SEVERITY_WARN, f->entry[i].name,
                          "the block has %d nodes, short of the base size %d: "
                          "segments of that size do not fit in it",
                          b->nodes[i].n, f->size[0]);
}

static int check(struct build *b)
{
    if (b->f->n == 0)
        return err_set(b->err, ERR_USAGE,
                       "%s: it defines no switch, block or ring: generate it again",
                       b->where);
    check_names(b);
    collect_nodes(b);
    collect_bonds(b);
    if (b->problems == 0)
        find_levels(b);
    if (b->problems > PROBLEMS_MAX)
        err_more(b->err, ERR_USAGE, "%s: and more like these", b->where);
    if (b->problems == 0 && b->n_seats == 0)
        problem(b, 0, "no %s has nodes", kind_words[b->f->entry[0].kind]);
    return b->problems ? -1 : 0;
}

static void build_release(struct build *b)
{
    for (int i = 0; i < b->f->n; i++) {
        strlist_release(&b->nodes[i]);
        strlist_release(&b->again[i]);
    }
    free(b->nodes);
    free(b->again);
    free(b->seat);
    free(b->bond);
    free(b->by_name);
    free(b->level);
}

int slurm_fabric_build(const struct slurm_fabric *f, const char *source,
                       const char *where, struct topology **out, struct err *err)
{
    size_t n = (size_t)f->n + 1;
    struct build b = { .f = f,
                       .where = where,
                       .err = err,
                       .nodes = xcalloc(n, sizeof(*b.nodes)),
                       .again = xcalloc(n, sizeof(*b.again)),
                       .by_name = xcalloc(n, sizeof(*b.by_name)),
                       .level = xcalloc(n, sizeof(*b.level)) };
    int rc = check(&b);

    if (rc == 0) {
        b.t = topology_new(source, b.n_seats);
        fill_switches(&b);
        fill_nodes(&b);
        note_repeats(&b);
        note_roots(&b);
        note_short_blocks(&b);
        rc = topology_validate(b.t, err);
    }
    if (rc == 0)
        *out = b.t;
    else
        topology_free(b.t);
    build_release(&b);
    return rc;
}
