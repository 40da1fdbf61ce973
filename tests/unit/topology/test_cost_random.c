/* The cost on random ragged trees against a count by hand: which pairs of neighbours in
 * a ring lie below different leaves and pods, and what their trunks carry. */
#include "trees.h"

#include <math.h>

#include "topology/cost.h"
#include "topology/place.h"

enum { NODES_MAX = 24, LEAVES_MAX = 8, PODS_MAX = 3, GROUPS_MAX = 4 };
static const int64_t S = 1 << 30;

static unsigned seed;

static int pick(int n)
{
    seed = seed * 1103515245u + 12345u;
    return (int)(seed >> 16) % n;
}

struct world {
    struct topology *t;
    int nodes, leaves, pods, groups, size;
    int leaf_of[NODES_MAX], pod_of[LEAVES_MAX], cables[LEAVES_MAX], up[PODS_MAX];
    struct place rank[NODES_MAX * GROUPS_MAX];
    int group[NODES_MAX * GROUPS_MAX];
};

static void link_up(struct topology *t, int from, int to, int count)
{
    struct fabric_link *l = topology_add_link(t);

    *l = (struct fabric_link){ from, to, count, 100 };
}

/* Switches: leaves, then pods, then the top. */
static void make_fabric(struct world *w)
{
    for (int i = 0; i < w->leaves + w->pods + 1; i++) {
        struct fabric_switch *s = topology_add_switch(w->t);
        s->level = i < w->leaves ? 0 : i < w->leaves + w->pods ? 1 : 2;
        snprintf(s->name, sizeof(s->name), "s%d", i);
    }
    for (int i = 0; i < w->leaves; i++) {
        w->pod_of[i] = i < w->pods ? i : pick(w->pods);
        w->cables[i] = 1 + pick(4);
        link_up(w->t, i, w->leaves + w->pod_of[i], w->cables[i]);
    }
    for (int i = 0; i < w->pods; i++) {
        w->up[i] = 1 + pick(4);
        link_up(w->t, w->leaves + i, w->leaves + w->pods, w->up[i]);
    }
}

/* One rank of each group on each of its nodes, in random order. */
static void make_groups(struct world *w)
{
    w->groups = 1 + pick(GROUPS_MAX);
    w->size = 2 + pick(w->nodes - 1);
    for (int g = 0; g < w->groups; g++) {
        int order[NODES_MAX] = { 0 };
        for (int i = 0; i < w->nodes; i++)
            order[i] = i;
        for (int i = 0; i < w->size; i++) {
            int other = i + pick(w->nodes - i), at = g * w->size + i,
                node = order[other];
            order[other] = order[i];
            w->rank[at] = (struct place){ .node = node, .gpu = g, .nic = -1 };
            w->group[at] = at;
        }
    }
}

static void make_world(struct world *w)
{
    memset(w, 0, sizeof(*w));
    w->nodes = 2 + pick(NODES_MAX - 1);
    w->leaves = 1 + pick(LEAVES_MAX);
    w->pods = 1 + pick(w->leaves < PODS_MAX ? w->leaves : PODS_MAX);
    w->t = tree_cluster(w->nodes, GROUPS_MAX, GROUPS_MAX);
    make_fabric(w);
    for (int i = 0; i < w->nodes; i++) {
        w->leaf_of[i] = pick(w->leaves);
        for (int k = 0; k < GROUPS_MAX; k++)
            w->t->nodes[i].nics[k].leaf = w->leaf_of[i];
    }
    make_groups(w);
}

struct count {
    double leaf[LEAVES_MAX], pod[PODS_MAX], leaf_sum, pod_sum, slowest;
};

static void count_by_hand(const struct world *w, struct count *c)
{
    double each = (double)S * (w->size - 1) / w->size;

    memset(c, 0, sizeof(*c));
    for (int i = 0; i < w->groups * w->size; i++) {
        int next = i % w->size == w->size - 1 ? i - w->size + 1 : i + 1;
        int a = w->leaf_of[w->rank[i].node], b = w->leaf_of[w->rank[next].node];
        if (a == b)
            continue;
        c->leaf[a] += each;
        c->leaf_sum += each;
        if (w->pod_of[a] == w->pod_of[b])
            continue;
        c->pod[w->pod_of[a]] += each;
        c->pod_sum += each;
    }
    for (int i = 0; i < w->leaves; i++)
        c->slowest = fmax(c->slowest, c->leaf[i] / (w->cables[i] * 12.5e9));
    for (int i = 0; i < w->pods; i++)
        c->slowest = fmax(c->slowest, c->pod[i] / (w->up[i] * 12.5e9));
}

static int near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * (fabs(b) > 1 ? fabs(b) : 1);
}

static void check_world(const struct world *w)
{
    struct cost_model *m = cost_model_new(w->t);
    struct cost_load *l = cost_load_new(m, COLLECTIVE_ALL_GATHER, S, 1);
    struct cost_trunks before, after;
    struct count c;
    struct cost cost;

    count_by_hand(w, &c);
    for (int g = 0; g < w->groups; g++)
        cost_load_add(l, w->rank, w->group + (size_t)g * (size_t)w->size, w->size);
    before = cost_load_trunks(l);
    cost = cost_load_cost(l);
    assert_true(near(before.leaf_bytes, c.leaf_sum));
    assert_true(near(before.spine_bytes, c.pod_sum));
    assert_true(near(before.seconds, c.slowest));
    assert_true(cost.fabric_known && cost.link_seconds >= before.seconds);
    /* a NIC carries one rank's share of its ring at most: 50 GB/s */
    assert_true(near(cost.link_seconds,
                     fmax(c.slowest, (double)S * (w->size - 1) / w->size / 50e9)));
    for (int i = 0; i < 5; i++) {
        const int *group = w->group + (size_t)pick(w->groups) * (size_t)w->size;
        cost_load_remove(l, w->rank, group, w->size);
        cost_load_add(l, w->rank, group, w->size);
    }
    after = cost_load_trunks(l);
    assert_true(near(after.seconds, before.seconds));
    assert_true(near(after.leaf_bytes, before.leaf_bytes));
    cost_load_free(l);
    cost_model_free(m);
}

static void test_random_trees(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 300; i++) {
        struct world *w = xcalloc(1, sizeof(*w));
        seed = i;
        make_world(w);
        check_world(w);
        topology_free(w->t);
        free(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_random_trees) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
