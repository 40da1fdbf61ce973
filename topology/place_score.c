/* The score of an order of nodes, and the search for the least one. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topology/place_pack.h"

/* Units of a tier among count nodes; *run counts those that no group before has. */
static int units_of(const int *unit, const int *node, int count, int stamp, int *seen,
                    long *run)
{
    int units = 0;

    for (int i = 0; i < count; i++) {
        int u = unit[node[i]];
        *run += seen[u] == 0;
        units += seen[u] != stamp;
        seen[u] = stamp;
    }
    return units;
}

void pack_score_of(const struct place_tiers *t, const int *order, int group, int groups,
                   struct pack_score *out)
{
    memset(out, 0, sizeof(*out));
    for (int k = 0; k < t->n; k++) {
        int *seen = xcalloc((size_t)t->units[k] + 1, sizeof(*seen));
        for (int g = 0; g < groups; g++) {
            int units = units_of(t->unit[k], order + (size_t)g * (size_t)group, group,
                                 g + 1, seen, &out->used[k]);
            out->crossing[k] += units > 1;
            out->extra[k] += units - 1;
        }
        free(seen);
    }
}

static int compare_down(const long *a, const long *b, int tiers)
{
    for (int k = tiers - 1; k >= 0; k--)
        if (a[k] != b[k])
            return a[k] < b[k] ? -1 : 1;
    return 0;
}

int pack_score_compare(const struct pack_score *a, const struct pack_score *b,
                       int tiers)
{
    int c = compare_down(a->crossing, b->crossing, tiers);

    c = c ? c : compare_down(a->extra, b->extra, tiers);
    return c ? c : compare_down(a->used, b->used, tiers);
}

/* --- branch and bound --------------------------------------------------------------- */

/* Groups are made one after the other, each no larger than the one before it (as a
 * word of counts), so every set of groups is met once. */
struct search {
    const struct pack_bins *b;
    int groups;
    long steps;
    int mask[PLACE_TIERS_MAX][PACK_EXACT_UNITS]; /* the unit of a bin, as one bit */
    int left[PACK_EXACT_UNITS];
    int now[PACK_EXACT_UNITS][PACK_EXACT_UNITS];
    int (*count)[PACK_EXACT_UNITS];
    struct pack_score *best;
};

static void make_masks(struct search *s)
{
    const struct pack_bins *b = s->b;

    for (int k = 0; k < b->tiers; k++)
        for (int i = 0; i < b->n; i++) {
            int first = 0;
            while (b->unit[k][first] != b->unit[k][i])
                first++;
            s->mask[k][i] = 1 << first;
        }
}

/* The least that the first `done` groups can lead to. */
static struct pack_score least(const struct search *s, int done)
{
    const struct pack_bins *b = s->b;
    struct pack_score low = { { 0 }, { 0 }, { 0 } };

    for (int k = 0; k < b->tiers; k++) {
        int all = 0;
        for (int i = 0; i < b->n; i++)
            all |= b->used[i] ? s->mask[k][i] : 0;
        for (int g = 0; g < done; g++) {
            int units = 0;
            for (int i = 0; i < b->n; i++)
                units |= s->now[g][i] ? s->mask[k][i] : 0;
            low.crossing[k] += __builtin_popcount((unsigned)units) > 1;
            low.extra[k] += __builtin_popcount((unsigned)units) - 1;
            all |= units;
        }
        low.used[k] = __builtin_popcount((unsigned)all);
        /* every group that must cross has one unit more at least */
        if (low.crossing[k] < s->best->crossing[k]) {
            low.extra[k] += s->best->crossing[k] - low.crossing[k];
            low.crossing[k] = s->best->crossing[k];
        }
    }
    return low;
}

static void next_group(struct search *s, int g);

/* Group g takes `need` more nodes of bins `bin` and above; tight: so far it equals the
 * group before. */
static void next_bin(struct search *s, int g, int bin, int need, int tight)
{
    int limit, above = 0;

    if (++s->steps > PACK_STEPS)
        return;
    if (bin == s->b->n) {
        next_group(s, g + 1);
        return;
    }
    for (int i = bin + 1; i < s->b->n; i++)
        above += s->left[i];
    limit = s->left[bin] < need ? s->left[bin] : need;
    if (tight && s->now[g - 1][bin] < limit)
        limit = s->now[g - 1][bin];
    for (int x = limit; x >= 0 && need - x <= above; x--) {
        s->now[g][bin] = x;
        s->left[bin] -= x;
        next_bin(s, g, bin + 1, need - x, tight && x == s->now[g - 1][bin]);
        s->left[bin] += x;
    }
    s->now[g][bin] = 0;
}

static void next_group(struct search *s, int g)
{
    struct pack_score low = least(s, g);

    if (pack_score_compare(&low, s->best, s->b->tiers) >= 0)
        return;
    if (g < s->groups) {
        next_bin(s, g, 0, s->b->group, g > 0);
        return;
    }
    *s->best = low;
    memcpy(s->count, s->now, (size_t)g * sizeof(*s->now));
}

int pack_search(const struct pack_bins *b, int groups, struct pack_score *best,
                int (*count)[PACK_EXACT_UNITS])
{
    struct search s = { .b = b, .groups = groups, .count = count, .best = best };

    memcpy(s.left, b->cap, sizeof(s.left));
    make_masks(&s);
    next_group(&s, 0);
    return s.steps <= PACK_STEPS;
}
