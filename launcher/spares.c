#include "launcher/spares.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "topology/place.h"
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

int spares_choose(struct topology *t, const struct placement *p, int k, struct err *err)
{
    int left = k - spares_left(t);

    for (int i = 0; i < t->n_nodes && left > 0; i++) {
        struct node *n = &t->nodes[i];
        if (n->set_aside || is_used(p, i) || !could_serve(p, n))
            continue;
        n->set_aside = AS_SPARE;
        left--;
    }
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

int spares_swap(struct topology *t, const struct placement *p, const char *blamed)
{
    int n, in;
    char *bad = bad_nodes(t, p, blamed, &n);

    if (n == 0 || n > spares_left(t) || (n == p->n_nodes && n > 1)) {
        free(bad);
        return 0;
    }
    in = n;
    for (int i = 0; i < t->n_nodes; i++) {
        if (bad[i])
            t->nodes[i].set_aside = AS_BAD;
        else if (t->nodes[i].set_aside == AS_SPARE && in-- > 0)
            t->nodes[i].set_aside = IN_USE;
    }
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
