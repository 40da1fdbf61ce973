/* forest.h - random ragged clusters for the tests of mapping, with a score of their own
 * that shares nothing with topology/place_*.c. */
#ifndef UNIT_FOREST_H
#define UNIT_FOREST_H

#include "trees.h"

#include "topology/place.h"
#include "topology/place_order.h"

enum { FOREST_MAX = 256 };

/* Where each node lies; tier 0 domain, 1 leaf, 2 pod. */
struct forest {
    int n, unit[3][FOREST_MAX];
    int leaf_pod[FOREST_MAX], leaves, pods;
    struct topology *t;
};

struct forest_score {
    int value[9]; /* crossing pod, leaf, domain; extra ...; used ... */
};

static unsigned long long forest_state;

/* A number of 0 .. n-1, the same on every machine. */
static inline int forest_random(int n)
{
    forest_state = forest_state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (int)((forest_state >> 33) % (unsigned long long)n);
}

static inline void forest_switches(struct forest *f)
{
    struct fabric_link *l;

    for (int i = 0; i < f->leaves + f->pods + 1; i++) {
        struct fabric_switch *w = topology_add_switch(f->t);
        snprintf(w->name, sizeof(w->name), "switch%d", i);
        w->level = i < f->leaves ? 0 : i < f->leaves + f->pods ? 1 : 2;
    }
    for (int i = 0; i < f->leaves + f->pods; i++) {
        l = topology_add_link(f->t);
        l->from = i;
        l->to = i < f->leaves ? f->leaves + f->leaf_pod[i] : f->leaves + f->pods;
        l->count = 1 + forest_random(3);
        l->gbits_per_s = 400;
    }
}

/* n nodes of one GPU and one NIC below `leaves` leaves of `pods` pods, by chance; every
 * other forest has NVLink domains, some nodes of which nobody knows the leaf. */
static inline void forest_make(struct forest *f, int n, int leaves, int pods)
{
    int domains = forest_random(2), stray = forest_random(4) == 0;

    *f = (struct forest){ .n = n, .leaves = leaves, .pods = pods };
    f->t = tree_cluster(n, 1, 1);
    for (int l = 0; l < leaves; l++)
        f->leaf_pod[l] = l < pods ? l : forest_random(pods);
    for (int i = 0; i < n; i++) {
        struct node *node = &f->t->nodes[i];
        int leaf = forest_random(leaves), part = forest_random(3);
        snprintf(node->name, sizeof(node->name), "n%d", i + 1); /* n10 before n2 */
        f->unit[0][i] = 1000 + i;
        if (stray && forest_random(5) == 0) {
            f->unit[1][i] = f->unit[2][i] = 1000 + i;
            continue;
        }
        node->nics[0].leaf = leaf;
        f->unit[1][i] = leaf;
        f->unit[2][i] = f->leaf_pod[leaf];
        if (domains && part) {
            f->unit[0][i] = 3 * leaf + part;
            snprintf(node->nvlink_domain, sizeof(node->nvlink_domain), "u%d.%d", leaf,
                     part);
        }
    }
    forest_switches(f);
}

/* Different units among count nodes. */
static inline int forest_units(const struct forest *f, int tier, const int *node,
                               int count)
{
    int units = 0;

    for (int i = 0; i < count; i++) {
        int before = 0;
        for (int k = 0; k < i && !before; k++)
            before = f->unit[tier][node[k]] == f->unit[tier][node[i]];
        units += !before;
    }
    return units;
}

static inline struct forest_score forest_score(const struct forest *f, const int *order,
                                               int group, int groups)
{
    struct forest_score s = { { 0 } };

    for (int tier = 0; tier < 3; tier++) {
        for (int g = 0; g < groups; g++) {
            int units = forest_units(f, tier, &order[(size_t)g * (size_t)group], group);
            s.value[2 - tier] += units > 1;
            s.value[5 - tier] += units - 1;
        }
        s.value[8 - tier] = forest_units(f, tier, order, group * groups);
    }
    return s;
}

static inline int forest_compare(const struct forest_score *a,
                                 const struct forest_score *b)
{
    for (int i = 0; i < 9; i++)
        if (a->value[i] != b->value[i])
            return a->value[i] < b->value[i] ? -1 : 1;
    return 0;
}

/* Groups that must cross a tier: those for which its units have no room. */
static inline int forest_bound(const struct forest *f, int tier, int group, int groups)
{
    int room = 0;

    for (int i = 0; i < f->n; i++) {
        int here = 0, first = 1;
        for (int k = 0; k < f->n; k++) {
            here += f->unit[tier][k] == f->unit[tier][i];
            first &= k >= i || f->unit[tier][k] != f->unit[tier][i];
        }
        room += first ? here / group : 0;
    }
    return groups > room ? groups - room : 0;
}

/* The packing of `groups` groups of `group` nodes, before times are compared. */
static inline void forest_pack(const struct forest *f, int group, int groups,
                               int *order)
{
    struct place_tiers *tiers = place_tiers_new(f->t);
    int all[FOREST_MAX];

    for (int i = 0; i < f->n; i++)
        all[i] = i;
    place_order(f->t, tiers, all, f->n, group * groups, group, order);
    place_tiers_free(tiers);
}

static inline void forest_recipe(struct recipe *r, int group, int groups)
{
    recipe_init(r);
    r->parallelism.data_parallel_shard_degree = group;
    r->parallelism.data_parallel_replicate_degree = groups;
    r->training.local_batch_size = 1;
    r->training.global_batch_size = -1;
}

/* The placement of `groups` shard groups of `group` nodes. */
static inline struct placement *forest_place(const struct forest *f, int group,
                                             int groups)
{
    struct err err = ERR_INIT;
    struct placement *p = NULL;
    struct recipe r;

    forest_recipe(&r, group, groups);
    if (placement_make(&r, f->t, group * groups, &p, &err) < 0)
        fail_msg("%s", err_text(&err));
    assert_ok(placement_check(p, &err), &err);
    recipe_release(&r);
    return p;
}

#endif
