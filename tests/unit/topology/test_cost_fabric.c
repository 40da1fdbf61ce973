/* The cost of what crosses leaves and spines; trees; a search. */
#include "topology/cost_spec.h"

/* Two leaves of two nodes; 16 NICs of 400 below each and two trunks of 400 above: the
 * eight rings of the replicas cross once each. */
static void test_trunks(void **state)
{
    struct topology *t =
        spec("nodes: {count: 4, prefix: n}\n"
             "nics: {per_node: 8, gbits_per_s: 400}\n"
             "fabric: {leaves: node, nodes_per_leaf: 2, spines: 2, cables: 1}\n");
    struct placement *p = place(t, 32);
    struct cost c = replicas(t, p, COLLECTIVE_ALL_GATHER, 4 * GB);

    (void)state;
    assert_string_equal(c.tier, "leaf");
    assert_string_equal(c.object, "leaf0's 2 trunks of 400 Gb/s, shared by 8 groups");
    /* 8 rings x 3 GB over 100 GB/s */
    assert_true(near(c.link_seconds, 24.0 / 100));
    assert_true(near(c.gbytes_per_s, 100.0 / 8));
    assert_true(near(c.bytes[COST_NIC], 8 * 4 * 3e9));
    assert_true(near(c.bytes[COST_LEAF], 8 * 2 * 3e9));
    assert_int_equal(c.fabric_known, 1);
    assert_string_equal(c.note, "");
    /* all to all: 2 GB of a rank's 4 GB go to the other leaf */
    c = replicas(t, p, COLLECTIVE_ALL_TO_ALL, 4 * GB);
    assert_string_equal(c.algorithm, "pairs");
    assert_true(near(c.bytes[COST_LEAF], 32 * 2e9));
    assert_true(near(c.bytes[COST_NIC], 32 * 3e9));
    assert_true(near(c.link_seconds, 32.0 / 100));
    /* every other node: three times as many crossings */
    p->rank[8].node = 2;
    for (int i = 0; i < 8; i++) {
        p->rank[8 + i].node = 2;
        p->rank[16 + i].node = 1;
    }
    c = replicas(t, p, COLLECTIVE_ALL_GATHER, 4 * GB);
    assert_true(near(c.link_seconds, 48.0 / 100));
    placement_free(p);
    topology_free(t);
}

/* A rail's leaf carries one NIC of each node; a group of the node's eight GPUs spreads
 * over all rails. */
static void test_rails(void **state)
{
    struct topology *t =
        spec("nodes: {count: 4, prefix: n}\n"
             "nics: {per_node: 8, gbits_per_s: 400}\n"
             "fabric: {leaves: rail, nodes_per_leaf: 2, spines: 1, cables: 1}\n");
    struct placement *p = place(t, 32);
    struct cost c;

    (void)state;
    for (int k = 0; k < 32; k++)
        t->nodes[k / 8].gpus[k % 8].pcie_gbytes_per_s = -1;
    c = replicas(t, p, COLLECTIVE_ALL_GATHER, 4 * GB);
    /* one ring crosses from a leaf of its rail: as much as from a NIC */
    assert_string_equal(c.tier, "nic");
    assert_true(near(c.link_seconds, 3.0 / 50));
    assert_true(near(c.bytes[COST_LEAF], 8 * 2 * 3e9));
    /* two ranks change seats: their rings meet another rail, whose leaf is another */
    p->rank[8].gpu = 1;
    p->rank[9].gpu = 0;
    c = replicas(t, p, COLLECTIVE_ALL_GATHER, 4 * GB);
    assert_string_equal(c.tier, "leaf");
    assert_true(near(c.link_seconds, 6.0 / 50));
    assert_string_equal(c.object,
                        "leaf0-rail0's 1 trunk of 400 Gb/s, shared by 2 groups");
    placement_free(p);
    topology_free(t);
}

/* Three levels: leaves, spines of a pod, cores; no cable above one pod is free. */
static void test_pods(void **state)
{
    struct topology *t = spec("nodes: {count: 4, prefix: n}\n"
                              "nics: {per_node: 8, gbits_per_s: 400}\n"
                              "fabric: {leaves: node, nodes_per_leaf: 1, spines: 0}\n");
    struct placement *p = place(t, 32);
    struct cost c;

    (void)state;
    for (int k = 0; k < 32; k++)
        t->nodes[k / 8].gpus[k % 8].pcie_gbytes_per_s = -1;
    c = replicas(t, p, COLLECTIVE_ALL_GATHER, 4 * GB);
    assert_int_equal(c.fabric_known, 0); /* leaves that nothing joins */
    assert_non_null(strstr(c.note, "fabric unknown above the leaves"));
    assert_string_equal(c.tier, "nic");
    for (int i = 0; i < 3; i++) {
        struct fabric_switch *w = topology_add_switch(t);
        snprintf(w->name, sizeof(w->name), "%s%d", i < 2 ? "spine" : "core", i);
        w->level = i < 2 ? 1 : 2;
    }
    for (int i = 0; i < 6; i++) {
        struct fabric_link *l = topology_add_link(t);
        *l = (struct fabric_link){ i, i < 4 ? 4 + i / 2 : 6, i < 4 ? 8 : 2, 400 };
    }
    c = replicas(t, p, COLLECTIVE_ALL_GATHER, 4 * GB);
    assert_int_equal(c.fabric_known, 1);
    assert_string_equal(c.tier, "spine");
    assert_string_equal(c.object, "2 trunks of 400 Gb/s above the part of spine0, "
                                  "shared by 8 groups");
    assert_true(near(c.link_seconds, 8 * 3.0 / 100));
    assert_true(near(c.bytes[COST_SPINE], 8 * 2 * 3e9));
    assert_true(near(c.bytes[COST_LEAF], 8 * 4 * 3e9));
    t->links[5].gbits_per_s = -1; /* as Slurm's files: joined, at an unknown rate */
    c = replicas(t, p, COLLECTIVE_ALL_GATHER, 4 * GB);
    assert_int_equal(c.fabric_known, 0);
    assert_non_null(strstr(c.note, "trunks of spine1 have no known rate"));
    placement_free(p);
    topology_free(t);
}

/* Taking away what was added leaves what was there. */
static void test_search(void **state)
{
    struct topology *t =
        spec("nodes: {count: 8, prefix: n}\n"
             "nics: {per_node: 8, gbits_per_s: 400}\n"
             "fabric: {leaves: rail, nodes_per_leaf: 2, spines: 2, cables: 1}\n");
    struct placement *p = place(t, 64);
    struct cost_model *m = cost_model_new(t);
    struct cost_load *l = cost_load_new(m, COLLECTIVE_ALL_REDUCE, 1 << 28, 1);
    int *rank;
    struct cost_groups g = cost_replicate_groups(p, &rank);
    struct cost c, d;

    (void)state;
    for (int i = 0; i < g.groups; i++)
        cost_load_add(l, p->rank, rank + (size_t)i * (size_t)g.size, g.size);
    c = cost_load_cost(l);
    d = cost_concurrent(COLLECTIVE_ALL_REDUCE, 1 << 28, &g, p, t, m);
    assert_true(near(c.seconds, d.seconds));
    assert_string_equal(c.object, d.object);
    assert_true(near(cost_load_trunks(l).leaf_bytes, c.bytes[COST_LEAF]));
    for (int i = 0; i < 20; i++) { /* out, in at another place, and back */
        int *group = rank + i % g.groups * g.size;
        struct place was = p->rank[group[1]];
        cost_load_remove(l, p->rank, group, g.size);
        p->rank[group[1]].gpu = (was.gpu + 1) % 8;
        cost_load_add(l, p->rank, group, g.size);
        cost_load_remove(l, p->rank, group, g.size);
        p->rank[group[1]] = was;
        cost_load_add(l, p->rank, group, g.size);
    }
    d = cost_load_cost(l);
    assert_true(near(c.seconds, d.seconds));
    assert_string_equal(c.object, d.object);
    for (int i = 0; i < g.groups; i++)
        cost_load_remove(l, p->rank, rank + (size_t)i * (size_t)g.size, g.size);
    d = cost_load_cost(l);
    assert_string_equal(d.tier, "self");
    assert_true(d.seconds == 0 && cost_load_trunks(l).seconds == 0);
    free(rank);
    cost_load_free(l);
    cost_model_free(m);
    placement_free(p);
    topology_free(t);
}

/* The tree of NCCL: over two nodes half of what a ring sends, and every byte counted
 * on more of them. */
static void test_tree(void **state)
{
    for (int nodes = 2; nodes <= 9; nodes++) {
        struct topology *t = spec("nodes: {count: %d, prefix: n}\n"
                                  "nics: {per_node: 8, gbits_per_s: 400}\n",
                                  nodes);
        struct placement *p = place(t, nodes * 8);
        int *rank = xcalloc((size_t)p->world, sizeof(*rank));
        struct cost c;
        (void)state;
        for (int i = 0; i < p->world; i++)
            rank[i] = i;
        c = cost_collective(COLLECTIVE_ALL_REDUCE, 1 << 16, rank, p->world, p, t);
        assert_string_equal(c.algorithm, "tree");
        /* nodes-1 edges of two trees of half of it, both directions */
        assert_true(near(c.bytes[COST_NIC], 2.0 * (nodes - 1) * (1 << 16)));
        free(rank);
        placement_free(p);
        topology_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trunks), cmocka_unit_test(test_rails),
        cmocka_unit_test(test_pods),   cmocka_unit_test(test_search),
        cmocka_unit_test(test_tree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
