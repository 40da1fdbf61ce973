#include "topology/place_work.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* --- bins ------------------------------------------------------------------------- */

int work_unit(const struct pack_work *w, int tier, int bin)
{
    const struct place_tiers *t = w->p->tiers;

    return tier < t->n ? t->unit[tier][w->sorted[w->start[bin]]] : 0;
}

int work_unit_end(const struct pack_work *w, int tier, int lo, int hi)
{
    int end = lo + 1, unit = work_unit(w, tier, lo);

    while (end < hi && work_unit(w, tier, end) == unit)
        end++;
    return end;
}

int work_compare_keyed(const void *a, const void *b)
{
    const struct work_keyed *x = a, *y = b;

    if (x->unit != y->unit)
        return x->unit < y->unit ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

/* Lowest tier first, stably: units are numbered as their first nodes are listed. */
static void sort_nodes(struct pack_work *w)
{
    const struct pack *p = w->p;
    struct work_keyed *key = xcalloc((size_t)p->n + 1, sizeof(*key));
    int *old = xcalloc((size_t)p->n + 1, sizeof(*old));

    for (int i = 0; i < p->n; i++)
        w->sorted[i] = p->node[i];
    for (int k = 0; k < p->tiers->n; k++) {
        memcpy(old, w->sorted, (size_t)p->n * sizeof(*old));
        for (int i = 0; i < p->n; i++)
            key[i] = (struct work_keyed){ p->tiers->unit[k][old[i]], i };
        qsort(key, (size_t)p->n, sizeof(*key), work_compare_keyed);
        for (int i = 0; i < p->n; i++)
            w->sorted[i] = old[key[i].at];
    }
    free(key);
    free(old);
}

void work_init(struct pack_work *w)
{
    const struct pack *p = w->p;
    size_t n = (size_t)p->n + 1;

    w->sorted = xcalloc(n, sizeof(int));
    w->start = xcalloc(n, sizeof(int));
    sort_nodes(w);
    for (int i = 0; i < p->n; i++)
        if (i == 0 || (p->tiers->n && p->tiers->unit[0][w->sorted[i]] !=
                                          p->tiers->unit[0][w->sorted[i - 1]]))
            w->start[w->bins++] = i;
    w->start[w->bins] = p->n;
    w->cap = xcalloc(n, sizeof(int));
    w->whole = xcalloc(n, sizeof(int));
    w->rest = xcalloc(n, sizeof(int));
    w->room = xcalloc(n + 1, sizeof(long));
    w->part = xcalloc(2 * n, sizeof(*w->part));
    w->first = xcalloc((size_t)p->groups + 2, sizeof(int));
    w->head = xcalloc((size_t)p->group + 1, sizeof(int));
    w->next = xcalloc(n, sizeof(int));
    for (int b = 0; b < w->bins; b++)
        w->rest[b] = w->cap[b] = w->start[b + 1] - w->start[b];
}

void work_release(struct pack_work *w)
{
    free(w->sorted);
    free(w->start);
    free(w->cap);
    free(w->whole);
    free(w->rest);
    free(w->room);
    free(w->part);
    free(w->first);
    free(w->head);
    free(w->next);
}

/* --- crossing groups out of pieces ------------------------------------------------------ */

static void push(struct pack_work *w, int bin)
{
    int size = w->rest[bin];

    if (size > 0) {
        w->next[bin] = w->head[size];
        w->head[size] = bin + 1;
    }
}

/* `count` nodes of the first bin that has `size` left. */
static void take(struct pack_work *w, int size, int count)
{
    int bin = w->head[size] - 1;

    w->head[size] = w->next[bin];
    w->rest[bin] -= count;
    w->part[w->parts++] = (struct work_part){ bin, count };
    push(w, bin);
}

/* The size that completes `need` best: itself, the least that is larger, the most that
 * is smaller. */
static int fitting(const struct pack_work *w, int need, int top)
{
    for (int s = need; s <= top; s++)
        if (w->head[s])
            return s;
    for (int s = need < top ? need : top; s > 0; s--)
        if (w->head[s])
            return s;
    return 0;
}

void work_form(struct pack_work *w, int lo, int hi, long count)
{
    int top = w->p->group;

    memset(w->head, 0, ((size_t)w->p->group + 1) * sizeof(int));
    for (int b = hi - 1; b >= lo; b--)
        push(w, b);
    for (; count > 0; count--) {
        int need = w->p->group;
        w->first[w->crossing++] = w->parts;
        while (top > 0 && !w->head[top])
            top--;
        for (int size = top; need > 0; size = need ? fitting(w, need, top) : 0) {
            int here = size < need ? size : need;
            take(w, size, here);
            need -= here;
        }
    }
    w->first[w->crossing] = w->parts;
}
