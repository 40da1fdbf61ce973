/* The fabric as parts that hold each other: a leaf, the switches up to level 1 that are
 * joined, those up to level 2, and so on. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "topology/cost_state.h"
#include "topology/topology.h"

static int root_of(int *parent, int i)
{
    while (parent[i] != i) {
        parent[i] = parent[parent[i]];
        i = parent[i];
    }
    return i;
}

static int new_part(struct cost_model *m, int at, int level)
{
    struct cost_part *p;

    if ((m->n_parts & (m->n_parts - 1)) == 0) /* full: twice the room */
        m->part = xrealloc(m->part, 2 * (size_t)m->n_parts + 1, sizeof(*m->part));
    p = &m->part[m->n_parts];
    *p = (struct cost_part){ .above = -1, .uplink = -1, .at = at, .level = level };
    return m->n_parts++;
}

/* One more cable bundle upwards from a part; bytes/s so far in *sum. */
static void add_cables(struct cost_part *p, const struct fabric_link *l, double *sum)
{
    double rate = l->gbits_per_s > 0 ? l->gbits_per_s : NAN;
    int count = l->count > 0 ? l->count : 1;

    if (!p->cables)
        p->gbits_per_s = rate;
    else if (!(p->gbits_per_s == rate) && !(isnan(p->gbits_per_s) && isnan(rate)))
        p->gbits_per_s = 0;
    p->cables += count;
    *sum += rate * count / 8 * 1e9;
}

static int is_of_level(const struct topology *t, const struct fabric_link *l, int level)
{
    return t->switches[l->from].level <= level && t->switches[l->to].level <= level;
}

struct build {
    struct cost_model *m;
    int *joined; /* union of switches up to the level */
    int *part;   /* [n_switches] by representative; -1 none yet */
};

/* Parts of one level from the switches that they hold. */
static void add_parts(struct build *b, int level)
{
    const struct topology *t = b->m->t;

    for (int i = 0; i < t->n_switches; i++)
        b->part[i] = -1;
    for (int i = 0; i < t->n_links; i++)
        if (is_of_level(t, &t->links[i], level))
            b->joined[root_of(b->joined, t->links[i].from)] =
                root_of(b->joined, t->links[i].to);
    for (int i = 0; i < t->n_switches; i++) {
        int root = root_of(b->joined, i);
        if (t->switches[i].level > level)
            continue;
        if (b->part[root] < 0)
            b->part[root] = new_part(b->m, i, level);
        if (t->switches[i].level == level) /* rather a spine than a leaf names it */
            if (t->switches[b->m->part[b->part[root]].at].level < level)
                b->m->part[b->part[root]].at = i;
    }
}

/* The trunk of each part of the level: what leads from its switches above the level. */
static void add_trunks(struct build *b, int level, int first)
{
    const struct topology *t = b->m->t;
    int n = b->m->n_parts - first;
    double *sum = xcalloc((size_t)n + 1, sizeof(*sum));

    for (int i = 0; i < t->n_links; i++) {
        const struct fabric_link *l = &t->links[i];
        if (t->switches[l->from].level <= level && t->switches[l->to].level > level) {
            int p = b->part[root_of(b->joined, l->from)];
            add_cables(&b->m->part[p], l, &sum[p - first]);
        }
    }
    for (int p = first; p < b->m->n_parts; p++)
        if (b->m->part[p].cables && t->switches[b->m->part[p].at].level == level)
            b->m->part[p].uplink = cost_model_add_link(
                b->m, sum[p - first], level ? COST_SPINE : COST_LEAF, -1, p);
    free(sum);
}

static int top_level(const struct topology *t)
{
    int top = 0;

    for (int i = 0; i < t->n_switches; i++)
        top = t->switches[i].level > top ? t->switches[i].level : top;
    return top;
}

void cost_fabric_build(struct cost_model *m)
{
    const struct topology *t = m->t;
    struct build b = { .m = m };
    int *below = xcalloc((size_t)t->n_switches + 1, sizeof(*below));

    m->first_trunk = m->n_links;
    m->part_of = xcalloc((size_t)t->n_switches + 1, sizeof(*m->part_of));
    b.joined = xcalloc((size_t)t->n_switches + 1, sizeof(*b.joined));
    b.part = xcalloc((size_t)t->n_switches + 1, sizeof(*b.part));
    for (int i = 0; i < t->n_switches; i++) {
        b.joined[i] = i;
        m->part_of[i] = below[i] = -1;
    }
    for (int level = 0, top = top_level(t); level <= top; level++) {
        int first = m->n_parts;
        add_parts(&b, level);
        for (int i = 0; i < t->n_switches; i++) {
            int p = t->switches[i].level <= level ? b.part[root_of(b.joined, i)] : -1;
            if (p >= 0 && below[i] < 0)
                m->part_of[i] = p;
            else if (p >= 0)
                m->part[below[i]].above = p;
            below[i] = p;
        }
        add_trunks(&b, level, first);
    }
    free(below);
    free(b.joined);
    free(b.part);
}

void cost_fabric_describe(const struct cost_model *m, int part, int groups, char *out,
                          int size)
{
    const struct cost_part *p = &m->part[part];
    const char *name = m->t->switches[p->at].name, *plural = groups == 1 ? "" : "s";
    char each[32] = "unlike speeds";

    if (p->gbits_per_s > 0)
        snprintf(each, sizeof(each), "%g Gb/s", p->gbits_per_s);
    else if (isnan(p->gbits_per_s))
        snprintf(each, sizeof(each), "unknown speed");
    if (p->level == 0)
        snprintf(out, (size_t)size, "%s's %d trunk%s of %s, shared by %d group%s", name,
                 p->cables, p->cables == 1 ? "" : "s", each, groups, plural);
    else
        snprintf(out, (size_t)size,
                 "%d trunk%s of %s above the part of %s, shared by %d group%s",
                 p->cables, p->cables == 1 ? "" : "s", each, name, groups, plural);
}
