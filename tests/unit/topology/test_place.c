/* Placement: what must hold of every shape, and the refusals. */
#include "trees.h"

#include "base/str.h"
#include "topology/cpulist.h"
#include "topology/place.h"

static void set_degrees(struct recipe *r, int shard, int replicate)
{
    r->parallelism.data_parallel_shard_degree = shard;
    r->parallelism.data_parallel_replicate_degree = replicate;
}

/* A recipe that asks for nothing in particular but its degrees. */
static void recipe_with(struct recipe *r, int shard, int per_node)
{
    recipe_init(r);
    set_degrees(r, shard, shard < 0 ? 1 : -1);
    r->training.local_batch_size = 1;
    r->training.global_batch_size = -1;
    r->cluster.gpus_per_node = per_node;
}

static struct placement *place(const struct recipe *r, const struct topology *t,
                               int world)
{
    struct err err = ERR_INIT;
    struct placement *p = NULL;

    if (placement_make(r, t, world, &p, &err) < 0)
        fail_msg("world %d: %s", world, err_text(&err));
    assert_ok(placement_check(p, &err), &err);
    return p;
}

/* Each rank is in one group of the kind, groups are disjoint and whole. */
static void check_groups(const struct placement *p,
                         int (*get)(const struct placement *, int, int *), int size)
{
    int *group = xcalloc((size_t)p->world, sizeof(*group));
    int *times = xcalloc((size_t)p->world, sizeof(*times));

    for (int i = 0; i < p->world; i++) {
        int n = get(p, i, group), me = 0;
        assert_int_equal(n, size);
        for (int k = 0; k < n; k++) {
            assert_true(group[k] >= 0 && group[k] < p->world);
            assert_true(k == 0 || group[k] > group[k - 1]);
            me += group[k] == i;
            if (group[0] == i)
                times[group[k]]++;
        }
        assert_int_equal(me, 1);
    }
    for (int i = 0; i < p->world; i++)
        assert_int_equal(times[i], 1);
    free(group);
    free(times);
}

static int nodes_spanned(const struct placement *p, int rank)
{
    int *group = xcalloc((size_t)p->world, sizeof(*group));
    int n = placement_shard_group(p, rank, group), nodes = 1;

    for (int k = 1; k < n; k++)
        nodes += p->rank[group[k]].node != p->rank[group[k - 1]].node;
    free(group);
    return nodes;
}

static void check_bindings(const struct placement *p)
{
    for (int i = 0; i < p->world; i++)
        for (int k = 0; k < i; k++) {
            struct cpulist a, b;
            if (p->rank[i].node != p->rank[k].node)
                continue;
            assert_int_not_equal(p->rank[i].gpu, p->rank[k].gpu);
            cpulist_parse(p->rank[i].cpus, &a);
            cpulist_parse(p->rank[k].cpus, &b);
            cpulist_and(&a, &b);
            assert_int_equal(cpulist_count(&a), 0);
        }
}

/* Every world, shard degree and node size that fits. */
static void test_every_shape(void **state)
{
    static const int sizes[] = { 1, 2, 3, 4, 8 };

    (void)state;
    for (size_t s = 0; s < ARRAY_LEN(sizes); s++)
        for (int nodes = 1; nodes <= 4; nodes++)
            for (int world = 1; world <= nodes * sizes[s]; world++) {
                struct topology *t = tree_cluster(nodes, sizes[s], sizes[s]);
                int size = sizes[s];
                for (int shard = 1; shard <= world; shard++) {
                    struct recipe r;
                    struct placement *p;
                    if (world % shard || (world > size && world % size))
                        continue;
                    recipe_with(&r, shard, -1);
                    p = place(&r, t, world);
                    assert_int_equal(p->world, world);
                    assert_int_equal(p->n_nodes, (world + size - 1) / size);
                    check_groups(p, placement_shard_group, shard);
                    check_groups(p, placement_replicate_group, world / shard);
                    check_bindings(p);
                    for (int i = 0; i < world; i++) {
                        int least = (shard + size - 1) / size;
                        assert_true(nodes_spanned(p, i) <= least + 1);
                        if (shard % size == 0 || size % shard == 0)
                            assert_int_equal(nodes_spanned(p, i), least);
                    }
                    placement_free(p);
                    recipe_release(&r);
                }
                topology_free(t);
            }
}

/* F13: world 16, 8 a node, shard 8. */
static void test_groups_f13(void **state)
{
    struct topology *t = tree_cluster(2, 8, 8);
    struct recipe r;
    struct placement *p;
    int group[16];

    (void)state;
    recipe_with(&r, 8, 8);
    p = place(&r, t, 16);
    assert_int_equal(placement_shard_group(p, 11, group), 8);
    for (int i = 0; i < 8; i++)
        assert_int_equal(group[i], 8 + i);
    assert_int_equal(placement_replicate_group(p, 11, group), 2);
    assert_int_equal(group[0], 3);
    assert_int_equal(group[1], 11);
    placement_free(p);
    recipe_release(&r);
    topology_free(t);
}

/* F13: duplicates, gaps and swapped order are refused, and the rank is named. */
static void test_check_refuses_f13(void **state)
{
    struct topology *t = tree_cluster(2, 8, 8);
    struct err err = ERR_INIT;
    struct recipe r;
    struct placement *p;

    (void)state;
    recipe_with(&r, 8, 8);
    p = place(&r, t, 16);
    p->rank[3].shard = 4; /* a duplicate, and so a gap */
    assert_err(placement_check(p, &err), &err, ERR_USAGE,
               "rank 3 has shard 4 of replica 0, which is rank 4's");
    p->rank[4].shard = 3; /* now only swapped */
    assert_int_equal(placement_check(p, &err), -1);
    assert_non_null(strstr(err_text(&err), "rank 3 has shard 4"));
    assert_non_null(strstr(err_text(&err), "rank 4 has shard 3"));
    err_release(&err);
    p->rank[3].shard = 3;
    p->rank[4].shard = 4;
    p->rank[5].shard = 9;
    assert_err(placement_check(p, &err), &err, ERR_USAGE, "outside the mesh");
    p->rank[5].shard = 5;
    p->rank[9].gpu = p->rank[8].gpu; /* C16: two ranks on one card */
    assert_err(placement_check(p, &err), &err, ERR_USAGE, "ranks 8 and 9 are both on");
    p->rank[9].gpu = 1;
    p->replicate_degree = 3;
    assert_err(placement_check(p, &err), &err, ERR_USAGE, "must equal the world of 16");
    placement_free(p);
    recipe_release(&r);
    topology_free(t);
}

static void refuse(const struct recipe *r, const struct topology *t, int world,
                   const char *part)
{
    struct err err = ERR_INIT;
    struct placement *p = NULL;

    assert_err(placement_make(r, t, world, &p, &err), &err, ERR_USAGE, part);
    assert_null(p);
}

static void test_refusals(void **state)
{
    struct topology *t = tree_cluster(2, 8, 8), *cpu = tree_cluster(1, 0, 0);
    struct err err = ERR_INIT;
    struct recipe r;

    (void)state;
    recipe_with(&r, -1, 8);
    assert_ok(recipe_set(&r, "name", "demo", &err), &err);
    refuse(&r, t, 32, "demo wants 32 GPUs, the topology has 2 nodes x 8 = 16 GPUs");
    refuse(&r, t, 12, "12 ranks are not a whole number of nodes of 8");
    r.cluster.gpus_per_node = -1;
    refuse(&r, t, 12, "world 12 is not a whole number of 8-GPU nodes: take 8 or 16");
    refuse(&r, t, 0, "a world of 0 ranks");
    r.cluster.gpus_per_node = 4;
    refuse(&r, t, 16, "of which cluster.gpus_per_node takes 4 a node");
    r.cluster.device = DEVICE_CUDA;
    refuse(&r, cpu, 1, "1 node x 0 = 0 GPUs");
    set_degrees(&r, 3, 2); /* E10 */
    refuse(&r, t, 8, "8");
    recipe_release(&r);
    topology_free(t);
    topology_free(cpu);
}

/* A12: GPUs with MIG on are passed over, and named when they are missed. */
static void test_mig_a12(void **state)
{
    struct topology *t = tree_cluster(1, 4, 0);
    struct recipe r;
    struct placement *p;

    (void)state;
    t->nodes[0].gpus[0].mig = t->nodes[0].gpus[2].mig = 1;
    t->nodes[0].gpus[3].mig = -1; /* not capable: usable */
    recipe_with(&r, -1, -1);
    p = place(&r, t, 2);
    assert_int_equal(p->rank[0].gpu, 1);
    assert_int_equal(p->rank[1].gpu, 3);
    placement_free(p);
    refuse(&r, t, 4,
           "1 node x 2 = 2 GPUs; MIG is on, so not usable whole: n gpu 0, n gpu 2");
    recipe_release(&r);
    topology_free(t);
}

/* Nodes with too few GPUs are passed over. */
static void test_uneven_nodes(void **state)
{
    struct topology *t = tree_cluster(3, 8, 8);
    struct recipe r;
    struct placement *p;

    (void)state;
    t->nodes[1].n_gpus = 4;
    recipe_with(&r, 8, 8);
    p = place(&r, t, 16);
    assert_int_equal(p->order[0], 0);
    assert_int_equal(p->order[1], 2);
    assert_int_equal(p->rank[15].node, 2);
    placement_free(p);
    refuse(&r, t, 24, "1 node x 8 + 1 node x 4 + 1 node x 8 = 20 GPUs");
    set_degrees(&r, 4, -1);
    r.cluster.gpus_per_node = -1;
    refuse(&r, t, 12, "world 12 is not a whole number of 8-GPU nodes");
    t->nodes[0].n_gpus = 4; /* 4 + 4 + 8 */
    refuse(
        &r, t, 12,
        "= 16 GPUs, and too few nodes have 8: cluster.gpus_per_node: 4 takes as many "
        "of each");
    t->nodes[0].n_gpus = 8;
    recipe_release(&r);
    for (int g = 4; g < 8; g++) /* so that they are freed */
        free(t->nodes[1].gpus[g].nvlinks);
    topology_free(t);
}

/* CPU ranks: spread over NUMA nodes, bound while there are CPUs, unbound beyond. */
static void test_cpu_ranks(void **state)
{
    struct topology *t = NULL;
    struct err err = ERR_INIT;
    static const char text[] = "cpu: {cores: 8, threads: 16, numa_nodes: 2}";
    static const char *const want[] = { "0-1,8-9", "2-3,10-11", "4-5,12-13",
                                        "6-7,14-15" };
    struct strlist warnings = { 0 };
    struct placement *p;

    (void)state;
    assert_ok(topology_from_spec_text(text, strlen(text), "t", &t, &err), &err);
    p = place(NULL, t, 4);
    assert_int_equal(p->on_gpus, 0);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(p->rank[i].cpus, want[i]);
        assert_int_equal(p->rank[i].numa, i / 2);
        assert_int_equal(p->rank[i].gpu, i);
    }
    placement_warnings(p, t, &warnings);
    assert_int_equal(warnings.n, 0);
    placement_free(p);
    p = place(NULL, t, 64);
    for (int i = 0; i < 64; i++)
        assert_string_equal(p->rank[i].cpus, "");
    placement_warnings(p, t, &warnings);
    assert_int_equal(warnings.n, 1);
    assert_non_null(strstr(warnings.item[0], "more ranks than CPUs"));
    strlist_release(&warnings);
    placement_free(p);
    topology_free(t);
}

/* Slots of nodes (TASKS_PER_NODE=3,1; a hostfile) are filled as they are. */
static void test_slots(void **state)
{
    struct topology *t = tree_cluster(3, 0, 0);
    static const int node[] = { 0, 0, 0, 1, 2, 2 }, local[] = { 0, 1, 2, 0, 0, 1 };
    struct recipe r;
    struct placement *p;

    (void)state;
    t->nodes[0].slots = 3;
    t->nodes[1].slots = 1;
    t->nodes[2].slots = 4;
    p = place(NULL, t, 6);
    assert_int_equal(p->n_nodes, 3);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(p->rank[i].node, node[i]);
        assert_int_equal(p->rank[i].local_rank, local[i]);
    }
    placement_free(p);
    recipe_with(&r, -1, 2); /* what the recipe says is stronger */
    p = place(&r, t, 6);
    assert_int_equal(p->rank[1].node, 0);
    assert_int_equal(p->rank[2].node, 1);
    placement_free(p);
    recipe_release(&r);
    topology_free(t);
}

/* Nodes below leaves: sizes[] nodes each, dealt out one by one, so that neighbours in
 * the list are never below one leaf. */
static struct topology *leafy(const int *sizes, int leaves)
{
    int left[8], total = 0;
    struct topology *t;

    for (int i = 0; i < leaves; i++)
        total += left[i] = sizes[i];
    t = tree_cluster(total, 8, 8);
    for (int i = 0; i <= leaves; i++)
        snprintf(topology_add_switch(t)->name, 64, i < leaves ? "leaf%d" : "spine", i);
    for (int i = 0; i < leaves; i++) {
        struct fabric_link *l = topology_add_link(t);
        l->from = i;
        l->to = leaves;
        l->count = 1;
    }
    for (int i = 0, at = 0; i < total; at = (at + 1) % leaves)
        if (left[at]-- > 0)
            t->nodes[i++].leaf = at;
    return t;
}

static int leaves_of_group(const struct placement *p, const struct topology *t,
                           int first)
{
    int seen[8] = { 0 }, n = 0;

    for (int i = first; i < first + p->shard_degree; i++) {
        int leaf = t->nodes[p->rank[i].node].leaf;
        n += !seen[leaf]++;
    }
    return n;
}

/* Leaves that the whole run uses, and shard groups that lie below more than one. */
static void count_leaves(const int *sizes, int leaves, int world, int shard,
                         int want_leaves, int want_torn)
{
    struct topology *t = leafy(sizes, leaves);
    int seen[8] = { 0 }, used = 0, torn = 0;
    struct strlist warnings = { 0 };
    struct recipe r;
    struct placement *p;
    char text[80];

    recipe_with(&r, shard, -1);
    p = place(&r, t, world);
    for (int i = 0; i < world; i++)
        used += !seen[t->nodes[p->rank[i].node].leaf]++;
    for (int i = 0; i < world; i += shard)
        torn += leaves_of_group(p, t, i) > 1;
    assert_int_equal(used, want_leaves);
    assert_int_equal(torn, want_torn);
    placement_warnings(p, t, &warnings);
    snprintf(text, sizeof(text), "%d of %d shard groups of %d cross leaf switches",
             torn, world / shard, shard);
    assert_int_equal(warnings.n, torn > 0);
    assert_true(!torn || strstr(warnings.item[0], text));
    strlist_release(&warnings);
    placement_free(p);
    recipe_release(&r);
    topology_free(t);
}

static void test_leaves(void **state)
{
    static const int even[] = { 4, 4, 4 }, odd[] = { 3, 5, 2 }, few[] = { 1, 1, 1, 1 };

    (void)state;
    count_leaves(even, 3, 32, 16, 1, 0); /* all below one */
    count_leaves(even, 3, 96, 16, 3, 0); /* two nodes a group */
    count_leaves(even, 3, 64, 32, 2, 0);
    count_leaves(even, 3, 96, 24, 3, 1); /* three nodes of four: the fourth group */
    count_leaves(odd, 3, 16, 16, 1, 0);  /* the leaf of two, which they fill */
    count_leaves(odd, 3, 24, 8, 1, 0);
    count_leaves(odd, 3, 40, 40, 1, 0);
    count_leaves(odd, 3, 64, 16, 3, 0); /* 2 of 5's, 1 of 3's, 1 of 2's groups */
    count_leaves(odd, 3, 80, 16, 3, 1);
    count_leaves(few, 4, 32, 16, 4, 2); /* none fits anywhere */
}

/* The order within: whole groups side by side, nodes as they were named. */
static void test_leaf_order(void **state)
{
    static const int sizes[] = { 2, 2 }, want[] = { 0, 2, 1, 3 };
    struct topology *t = leafy(sizes, 2); /* leaves 0 1 0 1 */
    struct recipe r;
    struct placement *p;

    (void)state;
    recipe_with(&r, 16, -1);
    p = place(&r, t, 32);
    for (int k = 0; k < 4; k++) {
        assert_int_equal(p->order[k], want[k]);
        assert_int_equal(p->rank[8 * k].node, want[k]);
    }
    placement_free(p);
    for (int i = 0; i < 4; i++) /* nothing is known: as they are */
        t->nodes[i].leaf = -1;
    p = place(&r, t, 32);
    for (int k = 0; k < 4; k++)
        assert_int_equal(p->order[k], k);
    placement_free(p);
    recipe_release(&r);
    topology_free(t);
}

/* GPU ranks share the CPUs of their GPU's NUMA node; without one they are unbound. */
static void test_gpu_binding(void **state)
{
    struct topology *t = tree_cluster(1, 8, 8);
    struct placement *p = place(NULL, t, 8);

    (void)state;
    assert_string_equal(p->rank[0].cpus, "0-1");
    assert_string_equal(p->rank[7].cpus, "14-15");
    placement_free(p);
    t->nodes[0].gpus[0].numa = -1;
    p = place(NULL, t, 8);
    assert_string_equal(p->rank[0].cpus, "");
    assert_string_equal(p->rank[1].cpus, "0-1"); /* of 8 CPUs for three ranks */
    placement_free(p);
    topology_free(t);
}

/* E10, last row: legal, with a warning. */
static void test_warnings_e10(void **state)
{
    struct topology *t = tree_cluster(2, 8, 8);
    struct strlist warnings = { 0 };
    struct recipe r;
    struct placement *p;

    (void)state;
    recipe_with(&r, 2, 8);
    p = place(&r, t, 16);
    placement_warnings(p, t, &warnings);
    assert_int_equal(warnings.n, 1);
    assert_non_null(
        strstr(warnings.item[0], "shard groups of 2 leave the NVLink of 6 GPUs"));
    assert_non_null(strstr(warnings.item[0], "8 replicas"));
    strlist_release(&warnings);
    placement_free(p);
    recipe_release(&r);
    topology_free(t);

    t = tree_cluster(3, 8, 8);
    recipe_with(&r, 3, 8);
    p = place(&r, t, 24);
    placement_warnings(p, t, &warnings);
    assert_non_null(strstr(warnings.item[0], "2 of 8 shard groups of 3 lie on more"));
    strlist_release(&warnings);
    placement_free(p);
    recipe_release(&r);
    topology_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_shape),
        cmocka_unit_test(test_groups_f13),
        cmocka_unit_test(test_check_refuses_f13),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_mig_a12),
        cmocka_unit_test(test_uneven_nodes),
        cmocka_unit_test(test_cpu_ranks),
        cmocka_unit_test(test_gpu_binding),
        cmocka_unit_test(test_warnings_e10),
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_leaves),
        cmocka_unit_test(test_leaf_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
