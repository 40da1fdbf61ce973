/* Groups of nodes below the same leaves, and the load of each switch. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "topology/svg_fabric.h"

enum { SETS_MAX = 2048 }; /* beyond, no group is compared with all others */

/* The leaves of a node, ascending, each once. */
struct leaves {
    int node, n;
    int *leaf;
};

static int compare_ints(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static void add_leaf(const struct topology *t, struct leaves *l, int leaf)
{
    if (leaf >= 0 && t->switches[leaf].level == 0)
        l->leaf[l->n++] = leaf;
}

static struct leaves leaves_of(const struct topology *t, int node)
{
    const struct node *n = &t->nodes[node];
    struct leaves l = { node, 0, xcalloc((size_t)n->n_nics + 1, sizeof(int)) };
    int kept = 0;

    for (int i = 0; i < n->n_nics; i++)
        if (n->nics[i].kind != NIC_STORAGE && n->nics[i].kind != NIC_MANAGEMENT)
            add_leaf(t, &l, n->nics[i].leaf);
    if (l.n == 0)
        add_leaf(t, &l, n->leaf);
    qsort(l.leaf, (size_t)l.n, sizeof(int), compare_ints);
    for (int i = 0; i < l.n; i++)
        if (kept == 0 || l.leaf[kept - 1] != l.leaf[i])
            l.leaf[kept++] = l.leaf[i];
    l.n = kept;
    return l;
}

static int compare_sets(const struct leaves *a, const struct leaves *b)
{
    for (int i = 0; i < a->n && i < b->n; i++)
        if (a->leaf[i] != b->leaf[i])
            return a->leaf[i] - b->leaf[i];
    return a->n - b->n;
}

static int compare_leaves(const void *a, const void *b)
{
    const struct leaves *x = a, *y = b;
    int c = compare_sets(x, y);

    return c ? c : x->node - y->node;
}

static int shared(const struct leaves *a, const struct leaves *b)
{
    int count = 0;

    for (int i = 0, k = 0; i < a->n && k < b->n;) {
        count += a->leaf[i] == b->leaf[k];
        if (a->leaf[i] < b->leaf[k])
            i++;
        else
            k++;
    }
    return count;
}

/* A set of leaves, its nodes [first, first + n), and the set that it counts to. */
struct set {
    int first, n, to;
};

/* Few nodes beside many that share most of their leaves are not a group of their own. */
static int counts_to(const struct leaves *l, const struct set *few,
                     const struct set *many)
{
    int same = shared(&l[few->first], &l[many->first]);

    return few->n <= 2 && many->n >= 3 && many->n > few->n &&
                   2 * same >= l[few->first].n
               ? same
               : 0;
}

static void unite(const struct leaves *l, struct set *set, int n)
{
    for (int i = 0; i < n; i++) {
        int most = 0;
        set[i].to = i;
        for (int k = 0; k < n && n <= SETS_MAX && set[i].n <= 2; k++) {
            int same = k != i ? counts_to(l, &set[i], &set[k]) : 0;
            if (same > most) {
                set[i].to = k;
                most = same;
            }
        }
    }
}

/* Groups in the order of their first leaves, in a group nodes as they are numbered. */
static void build_pods(struct fabric_view *v, const struct leaves *l,
                       const struct set *set, int n)
{
    int at = 0;

    for (int k = 0; k < n; k++) {
        struct pod *p = &v->pod[v->n_pods];
        if (set[k].to != k)
            continue;
        *p = (struct pod){ .first = at };
        for (int i = 0; i < n; i++)
            for (int j = 0; set[i].to == k && j < set[i].n; j++)
                v->order[at++] = l[set[i].first + j].node;
        p->n = at - p->first;
        qsort(v->order + p->first, (size_t)p->n, sizeof(int), compare_ints);
        for (int i = p->first; i < at; i++)
            v->pod_of[v->order[i]] = v->n_pods;
        v->n_pods++;
    }
}

static void find_pods(struct fabric_view *v)
{
    const struct topology *t = v->t;
    size_t nodes = (size_t)t->n_nodes + 1;
    struct leaves *l = xcalloc(nodes, sizeof(*l));
    struct set *set = xcalloc(nodes, sizeof(*set));
    int n = 0;

    for (int i = 0; i < t->n_nodes; i++)
        l[i] = leaves_of(t, i);
    qsort(l, (size_t)t->n_nodes, sizeof(*l), compare_leaves);
    for (int i = 0; i < t->n_nodes; i++) {
        if (i == 0 || compare_sets(&l[i], &l[i - 1]) != 0)
            set[n++] = (struct set){ .first = i };
        set[n - 1].n++;
    }
    unite(l, set, n);
    v->pod = xcalloc((size_t)n + 1, sizeof(*v->pod));
    build_pods(v, l, set, n);
    for (int i = 0; i < t->n_nodes; i++)
        free(l[i].leaf);
    free(l);
    free(set);
}

/* --- load ---------------------------------------------------------------------------------- */

static void add_rate(double *sum, double rate)
{
    *sum = *sum < 0 || rate <= 0 ? -1 : *sum + rate;
}

static void load_leaf(struct fabric_view *v, const struct nic *c)
{
    struct spot *s = &v->spot[c->leaf];

    if (s->votes == 0)
        s->rail = c->rail;
    s->votes += s->rail == c->rail ? 1 : -1;
    s->nics++;
    add_rate(&s->down, c->gbits_per_s);
}

static void find_loads(struct fabric_view *v)
{
    const struct topology *t = v->t;

    for (int i = 0; i < t->n_switches; i++)
        v->spot[i] = (struct spot){ .pod = -1, .rail = -1 };
    for (int i = 0; i < t->n_nodes; i++) {
        const struct node *n = &t->nodes[i];
        for (int k = 0; k < n->n_nics; k++)
            if (n->nics[k].leaf >= 0 && n->nics[k].kind == NIC_COMPUTE)
                load_leaf(v, &n->nics[k]);
    }
    for (int i = 0; i < t->n_links; i++) {
        const struct fabric_link *l = &t->links[i];
        double rate = l->gbits_per_s > 0 ? l->count * l->gbits_per_s : -1;
        add_rate(&v->spot[l->from].up, rate);
        if (t->switches[l->to].level > t->switches[l->from].level)
            add_rate(&v->spot[l->to].down, rate);
    }
}

/* A leaf stands above the group that has most NICs on it. */
static void claim_leaves(struct fabric_view *v)
{
    int *best = xcalloc((size_t)v->t->n_switches + 1, sizeof(int));
    int *count = xcalloc((size_t)v->t->n_switches + 1, sizeof(int));

    for (int p = 0; p < v->n_pods; p++)
        for (int i = 0; i < 2 * v->pod[p].n; i++) { /* count, then clear */
            const struct node *n =
                &v->t->nodes[v->order[v->pod[p].first + i % v->pod[p].n]];
            for (int k = -1; k < n->n_nics; k++) {
                int leaf = k < 0 ? n->leaf : n->nics[k].leaf;
                if (leaf < 0 || v->t->switches[leaf].level != 0)
                    continue;
                if (i >= v->pod[p].n)
                    count[leaf] = 0;
                else if (++count[leaf] > best[leaf]) {
                    best[leaf] = count[leaf];
                    v->spot[leaf].pod = p;
                }
            }
        }
    free(best);
    free(count);
}

/* Groups with findings are drawn before others. */
static void choose_pods(struct fabric_view *v)
{
    int room = v->n_pods <= PODS_DRAWN ? v->n_pods : PODS_DRAWN - 1, limit = v->n_pods;

    for (int p = 0; p < limit && room < v->n_pods && room > 1; p++)
        for (int i = 0; i < v->pod[p].n && !v->pod[p].drawn; i++) {
            const struct node *n = &v->t->nodes[v->order[v->pod[p].first + i]];
            if (v->t->n_findings && v->t->n_findings < 1000 &&
                svg_finding(v->t, n->name, 1) >= SEVERITY_WARN) {
                v->pod[p].drawn = 1;
                room--;
            }
        }
    for (int p = 0; p < v->n_pods && room > 0; p++)
        if (!v->pod[p].drawn) {
            v->pod[p].drawn = 1;
            room--;
        }
    for (int i = 0; i < v->t->n_switches; i++) {
        struct spot *s = &v->spot[i];
        s->drawn = s->pod >= 0 && v->pod[s->pod].drawn;
        v->leaves_drawn += s->drawn;
    }
}

void fabric_view_init(struct fabric_view *v, const struct topology *t)
{
    *v = (struct fabric_view){ .t = t };
    v->order = xcalloc((size_t)t->n_nodes + 1, sizeof(int));
    v->pod_of = xcalloc((size_t)t->n_nodes + 1, sizeof(int));
    v->spot = xcalloc((size_t)t->n_switches + 1, sizeof(*v->spot));
    find_pods(v);
    find_loads(v);
    claim_leaves(v);
    choose_pods(v);
}

void fabric_view_release(struct fabric_view *v)
{
    free(v->order);
    free(v->pod_of);
    free(v->pod);
    free(v->spot);
}

int fabric_level(const struct topology *t, int i)
{
    int level = t->switches[i].level;

    return level < 0 ? 0 : level < LEVELS_MAX ? level : LEVELS_MAX - 1;
}

double fabric_oversubscription(const struct spot *s)
{
    return s->down > 0 && s->up > 0 ? s->down / s->up : -1;
}

int fabric_usual_cables(const struct topology *t, int level)
{
    enum { MOST = 256 };
    int links[MOST] = { 0 }, best = 0;

    for (int i = 0; i < t->n_links; i++)
        if (fabric_level(t, t->links[i].from) == level && t->links[i].count < MOST)
            links[t->links[i].count]++;
    for (int n = 0; n < MOST; n++)
        best = links[n] > links[best] ? n : best;
    return best;
}

double fabric_usual_speed(const struct topology *t, int level)
{
    double best = -1;

    for (int i = 0; i < t->n_links; i++)
        if (fabric_level(t, t->links[i].from) == level &&
            t->links[i].gbits_per_s > best)
            best = t->links[i].gbits_per_s;
    return best;
}
