#include "launcher/spares.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "topology/place.h"
#include "topology/place_tiers.h"
#include "topology/topology.h"

static int count(const struct topology *t, enum set_aside what)
{
    int n = 0;

    for (int i = 0; i < t->n_nodes; i++)
        n += t->nodes[i].set_aside == (int)what;
    return n;
}

int spares_left(const struct topology *t)
{
    return count(t, AS_SPARE);
}

void spares_reserve(struct topology *t, int k)
{
    for (int i = t->n_nodes - 1; i > 0 && k > 0; i--, k--)
        t->nodes[i].set_aside = AS_SPARE;
}

static int is_used(const struct placement *p, int node)
{
    for (int i = 0; i < p->n_nodes; i++)
        if (p->order[i] == node)
            return 1;
    return 0;
}

/* Ranks of the node that has most. */
static int most_ranks(const struct placement *p)
{
    int most = 0;

    for (int r = 0; r < p->world; r++)
        most = p->rank[r].local_rank >= most ? p->rank[r].local_rank + 1 : most;
    return most;
}

static int could_serve(const struct placement *p, const struct node *n)
{
    int gpus = 0;

    for (int i = 0; i < n->n_gpus; i++)
        gpus += n->gpus[i].mig != 1;
    return !p->on_gpus || gpus >= most_ranks(p);
}

/* Nodes of the run that each spare of a unit stands for, by tier and unit. */
struct cover {
    struct place_tiers *tiers;
    int *used[PLACE_TIERS_MAX], *spares[PLACE_TIERS_MAX];
};

static void cover_add(struct cover *c, int node, int spare)
{
    for (int k = 0; k < c->tiers->n; k++)
        (spare ? c->spares[k] : c->used[k])[c->tiers->unit[k][node]]++;
}

static void cover_open(struct cover *c, const struct topology *t,
                       const struct placement *p)
{
    c->tiers = place_tiers_new(t);
    for (int k = 0; k < c->tiers->n; k++) {
        c->used[k] = xcalloc((size_t)c->tiers->units[k] + 1, sizeof(int));
        c->spares[k] = xcalloc((size_t)c->tiers->units[k] + 1, sizeof(int));
    }
    for (int i = 0; i < p->n_nodes; i++)
        cover_add(c, p->order[i], 0);
    for (int i = 0; i < t->n_nodes; i++)
        if (t->nodes[i].set_aside == AS_SPARE)
            cover_add(c, i, 1);
}

static void cover_close(struct cover *c)
{
    for (int k = 0; k < c->tiers->n; k++) {
        free(c->used[k]);
        free(c->spares[k]);
    }
    place_tiers_free(c->tiers);
}

/* Is node a the better spare?  It stands for more nodes of its unit, shared with the
 * spares that are there; in the lowest tier where they differ. */
static int covers_more(const struct cover *c, int a, int b)
{
    for (int k = 0; k < c->tiers->n; k++) {
        int x = c->tiers->unit[k][a], y = c->tiers->unit[k][b];
        long mine = (long)c->used[k][x] * (c->spares[k][y] + 1);
        long other = (long)c->used[k][y] * (c->spares[k][x] + 1);
        if (mine != other)
            return mine > other;
    }
    return 0;
}

int spares_choose(struct topology *t, const struct placement *p, int k, struct err *err)
{
    int left = k - spares_left(t), best = 0;
    char *taken = xcalloc((size_t)t->n_nodes + 1, 1);
    struct cover c = { .tiers = NULL };

    for (int i = 0; i < p->n_nodes; i++)
        taken[p->order[i]] = 1;
    if (left > 0)
        cover_open(&c, t, p);
    for (; left > 0 && best >= 0; left -= best >= 0) {
        best = -1;
        for (int i = 0; i < t->n_nodes; i++)
            if (!t->nodes[i].set_aside && !taken[i] && could_serve(p, &t->nodes[i]) &&
                (best < 0 || covers_more(&c, i, best)))
                best = i;
        if (best >= 0) {
            t->nodes[best].set_aside = AS_SPARE;
            cover_add(&c, best, 1);
        }
    }
    if (c.tiers)
        cover_close(&c);
    free(taken);
    if (left <= 0)
        return 0;
    return err_set(err, ERR_USAGE,
                   "--spares %d: the ranks take %d of %d node%s, and %d of the others "
                   "could replace one: %d nodes are needed",
                   k, p->n_nodes, t->n_nodes, str_s(t->n_nodes), k - left,
                   p->n_nodes + k);
}

static char *bad_nodes(const struct topology *t, const struct placement *p,
                       const char *blamed, int *n)
{
    char *bad = xcalloc((size_t)t->n_nodes + 1, 1);

    *n = 0;
    for (int r = 0; r < p->world; r++) {
        if (!blamed[r])
            continue;
        *n += !bad[p->rank[r].node];
        bad[p->rank[r].node] = 1;
    }
    return bad;
}

/* The first of the spares that are nearest to a node; there is one. */
static int nearest_spare(const struct topology *t, const struct place_tiers *tiers,
                         int node)
{
    int best = -1;

    for (int i = 0; i < t->n_nodes; i++)
        if (t->nodes[i].set_aside == AS_SPARE &&
            (best < 0 || place_tiers_common(tiers, i, node) <
                             place_tiers_common(tiers, best, node)))
            best = i;
    return best;
}

int spares_swap(struct topology *t, const struct placement *p, const char *blamed)
{
    int n;
    struct place_tiers *tiers;
    char *bad = bad_nodes(t, p, blamed, &n);

    if (n == 0 || n > spares_left(t) || (n == p->n_nodes && n > 1)) {
        free(bad);
        return 0;
    }
    tiers = place_tiers_new(t);
    for (int i = 0; i < t->n_nodes; i++) {
        if (!bad[i])
            continue;
        t->nodes[i].set_aside = AS_BAD;
        t->nodes[nearest_spare(t, tiers, i)].set_aside = IN_USE;
    }
    place_tiers_free(tiers);
    free(bad);
    return n;
}

void spares_add_names(const struct topology *t, struct str *s)
{
    const char *before = "";

    for (int i = 0; i < t->n_nodes; i++)
        if (t->nodes[i].set_aside == AS_SPARE) {
            str_addf(s, "%s%s", before, t->nodes[i].name);
            before = ", ";
        }
}

struct js *spares_json(const struct topology *t)
{
    struct js *a = js_array();

    for (int i = 0; i < t->n_nodes; i++)
        if (t->nodes[i].set_aside == AS_SPARE)
            js_push(a, js_string(t->nodes[i].name));
    return a;
}

int spares_drop(struct topology *t, const struct placement *p,
                const struct strlist *names)
{
    int n = 0;

    for (int i = 0; i < t->n_nodes; i++)
        for (int k = 0; k < names->n; k++)
            if (str_eq(t->nodes[i].name, names->item[k]) && !is_used(p, i)) {
                t->nodes[i].set_aside = AS_BAD;
                n++;
            }
    return n;
}

static int add_missing(const struct topology *t, const struct placement *of,
                       const struct placement *in, struct str *s)
{
    int n = 0;

    for (int i = 0; i < of->n_nodes; i++)
        if (!is_used(in, of->order[i]))
            str_addf(s, "%s%s", n++ ? ", " : "", t->nodes[of->order[i]].name);
    return n;
}

void spares_add_change(const struct topology *t, const struct placement *before,
                       const struct placement *after, struct str *s)
{
    struct str out = STR_INIT, in = STR_INIT;
    int n = add_missing(t, before, after, &out);

    add_missing(t, after, before, &in);
    str_addf(s, "node%s %s %s replaced by %s", str_s(n), out.text ? out.text : "",
             n == 1 ? "is" : "are", in.text ? in.text : "");
    str_release(&out);
    str_release(&in);
}
