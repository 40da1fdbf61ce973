#include "topology/place_pack.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topology/place_work.h"

/* --- where the groups go ------------------------------------------------------------- */

struct child {
    int lo, hi;
    long room;
};

static int compare_children(const void *a, const void *b)
{
    const struct child *x = a, *y = b;

    if (x->room != y->room)
        return x->room > y->room ? -1 : 1;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

/* The first of the children with the least room that is enough; child[0] has enough. */
static int least_enough(const struct child *child, int n, long m)
{
    int i = n - 1;

    while (child[i].room < m)
        i--;
    while (i > 0 && child[i - 1].room == child[i].room)
        i--;
    return i;
}

/* m groups into few children of this unit: the roomiest, then the last where they fit
 * best; down to the units of tier `base`, in which they lie whole. */
static void spread(struct pack_work *w, int tier, int lo, int hi, long m)
{
    struct child *child;
    int n = 0, i = 0;

    if (tier == w->base) {
        if (tier == 0)
            w->whole[lo] = (int)m;
        else
            work_form(w, lo, hi, m);
        return;
    }
    child = xcalloc((size_t)(hi - lo), sizeof(*child));
    for (int b = lo, end; b < hi; b = end) {
        end = work_unit_end(w, tier - 1, b, hi);
        child[n++] = (struct child){ b, end, w->room[end] - w->room[b] };
    }
    qsort(child, (size_t)n, sizeof(*child), compare_children);
    while (m > 0) {
        int at = child[i].room >= m ? i + least_enough(child + i, n - i, m) : i;
        long here = child[at].room < m ? child[at].room : m;
        spread(w, tier - 1, child[at].lo, child[at].hi, here);
        m -= here;
        i++;
    }
    free(child);
}

/* Whole groups that the units of a tier have room for, from what is left in bins. */
static long room_in(const struct pack_work *w, int tier, long *room)
{
    long sum = 0;

    for (int b = 0, end; b < w->bins; b = end) {
        long left = 0;
        end = tier ? work_unit_end(w, tier, b, w->bins) : b + 1;
        for (int i = b; i < end; i++) {
            left += w->rest[i];
            if (room)
                room[i + 1] = sum + left / w->p->group;
        }
        sum += left / w->p->group;
    }
    return sum;
}

static void fill_unit(struct pack_work *w, int tier, int lo, int hi)
{
    long left = 0;

    for (int b = lo; b < hi; b++)
        left += w->rest[b];
    if (tier == 0) {
        w->whole[lo] = w->rest[lo] / w->p->group;
        w->rest[lo] %= w->p->group;
    } else if (left >= w->p->group)
        work_form(w, lo, hi, left / w->p->group);
}

/* Tiers that cannot hold all are filled from below; the first that can is `base`. */
static void pack_greedily(struct pack_work *w)
{
    long left = w->p->groups, here;

    for (w->base = 0; (here = room_in(w, w->base, NULL)) < left; w->base++) {
        for (int b = 0, end; b < w->bins; b = end) {
            end = w->base ? work_unit_end(w, w->base, b, w->bins) : b + 1;
            fill_unit(w, w->base, b, end);
        }
        left -= here;
    }
    room_in(w, w->base, w->room);
    spread(w, w->p->tiers->n, 0, w->bins, left);
}

/* --- the order of nodes --------------------------------------------------------------- */

static void add_nodes(const struct pack_work *w, int bin, int count, int *used,
                      int *order, int *n)
{
    while (count-- > 0)
        order[(*n)++] = w->sorted[w->start[bin] + used[bin]++];
}

/* Crossing groups by their first bin, behind the whole ones of that bin. */
static int *crossing_by_bin(const struct pack_work *w)
{
    struct work_keyed *key = xcalloc((size_t)w->crossing + 1, sizeof(*key));
    int *by = xcalloc((size_t)w->crossing + 1, sizeof(*by));

    for (int c = 0; c < w->crossing; c++) {
        int least = w->bins;
        for (int i = w->first[c]; i < w->first[c + 1]; i++)
            least = w->part[i].bin < least ? w->part[i].bin : least;
        key[c] = (struct work_keyed){ least, c };
    }
    qsort(key, (size_t)w->crossing, sizeof(*key), work_compare_keyed);
    for (int c = 0; c < w->crossing; c++)
        by[c] = key[c].at;
    free(key);
    return by;
}

static int compare_parts(const void *a, const void *b)
{
    const struct work_part *x = a, *y = b;

    return (x->bin > y->bin) - (x->bin < y->bin);
}

static void write_order(const struct pack_work *w, int *order)
{
    int *used = xcalloc((size_t)w->bins + 1, sizeof(*used)), n = 0, c = 0;
    int *by = crossing_by_bin(w);

    for (int i = 0; i < w->crossing; i++)
        qsort(w->part + w->first[i], (size_t)(w->first[i + 1] - w->first[i]),
              sizeof(*w->part), compare_parts);
    for (int b = 0; b < w->bins; b++) {
        add_nodes(w, b, w->whole[b] * w->p->group, used, order, &n);
        for (; c < w->crossing && w->part[w->first[by[c]]].bin == b; c++)
            for (int i = w->first[by[c]]; i < w->first[by[c] + 1]; i++)
                add_nodes(w, w->part[i].bin, w->part[i].count, used, order, &n);
    }
    free(by);
    free(used);
}

/* --- exactly, where it is small ---------------------------------------------------------- */

/* What the search may deal out; 0: it is too much. */
static int small_enough(const struct pack_work *w, struct pack_bins *b, int *bin,
                        int *groups)
{
    *groups = w->p->groups;
    *b = (struct pack_bins){ .tiers = w->p->tiers->n, .group = w->p->group };
    for (int i = 0; i < w->bins; i++) {
        int whole = w->base ? w->cap[i] / w->p->group : 0;
        int cap = w->cap[i] - whole * w->p->group;
        *groups -= whole;
        if (!cap && !whole)
            continue;
        if (b->n == PACK_EXACT_UNITS)
            return 0;
        b->cap[b->n] = cap;
        b->used[b->n] = (char)(whole > 0);
        for (int k = 0; k < b->tiers; k++)
            b->unit[k][b->n] = work_unit(w, k, i);
        bin[b->n++] = i;
    }
    return *groups <= PACK_EXACT_UNITS;
}

/* The search's answer in place of the greedy one. */
static void take_over(struct pack_work *w, const int *bin, int n, int groups,
                      int (*count)[PACK_EXACT_UNITS])
{
    w->parts = w->crossing = 0;
    for (int i = 0; i < w->bins; i++)
        w->whole[i] = w->base ? w->cap[i] / w->p->group : 0;
    for (int g = 0; g < groups; g++) {
        w->first[w->crossing] = w->parts;
        for (int i = 0; i < n; i++) {
            if (count[g][i] == w->p->group)
                w->whole[bin[i]]++;
            else if (count[g][i])
                w->part[w->parts++] = (struct work_part){ bin[i], count[g][i] };
        }
        w->crossing += w->parts > w->first[w->crossing];
        w->first[w->crossing] = w->parts;
    }
}

static void search(struct pack_work *w, int *order)
{
    struct pack *p = w->p;
    int count[PACK_EXACT_UNITS][PACK_EXACT_UNITS], bin[PACK_EXACT_UNITS], groups;
    int *better;
    struct pack_bins b;
    struct pack_score s;

    if (!small_enough(w, &b, bin, &groups))
        return;
    memset(count, 0, sizeof(count));
    s = p->score;
    p->exact = pack_search(&b, groups, &s, count);
    if (pack_score_compare(&s, &p->score, p->tiers->n) >= 0)
        return;
    better = xcalloc((size_t)p->group * (size_t)p->groups + 1, sizeof(*better));
    take_over(w, bin, b.n, groups, count);
    write_order(w, better);
    memcpy(order, better, (size_t)p->group * (size_t)p->groups * sizeof(*order));
    pack_score_of(p->tiers, order, p->group, p->groups, &p->score);
    free(better);
}

void place_pack(struct pack *p, int *order)
{
    struct pack_work w = { .p = p };

    p->exact = 0;
    work_init(&w);
    for (int k = 0; k < p->tiers->n; k++) {
        long room = room_in(&w, k, NULL);
        p->bound[k] = p->groups > room ? p->groups - room : 0;
    }
    pack_greedily(&w);
    write_order(&w, order);
    pack_score_of(p->tiers, order, p->group, p->groups, &p->score);
    search(&w, order);
    work_release(&w);
}
