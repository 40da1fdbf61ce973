/* Mapping: against brute force on small clusters, against the bound and the orders of
 * others on large ones. */
#include "forest.h"

#include "base/str.h"
#include "topology/place_fill.h"
#include "topology/place_map.h"

/* --- brute force ------------------------------------------------------------------ */

struct brute {
    const struct forest *f;
    int group, groups;
    int size[16], member[16][16];
    struct forest_score best;
    int any;
};

static void brute_score(struct brute *b)
{
    int order[16], n = 0;
    struct forest_score s;

    for (int g = 0; g < b->groups; g++)
        for (int i = 0; i < b->group; i++)
            order[n++] = b->member[g][i];
    s = forest_score(b->f, order, b->group, b->groups);
    if (!b->any || forest_compare(&s, &b->best) < 0)
        b->best = s;
    b->any = 1;
}

/* Node i goes into each group that has room, the first empty one included, or is left
 * out. */
static void brute_node(struct brute *b, int i, int used)
{
    int open = 1;

    if (used == b->group * b->groups) {
        brute_score(b);
        return;
    }
    if (b->f->n - i > b->group * b->groups - used)
        brute_node(b, i + 1, used);
    for (int g = 0; g < b->groups && open; g++) {
        open = b->size[g] > 0;
        if (b->size[g] == b->group)
            continue;
        b->member[g][b->size[g]++] = i;
        brute_node(b, i + 1, used + 1);
        b->size[g]--;
    }
}

static void check_brute(int round)
{
    struct forest f;
    struct brute b;
    int order[16];
    struct forest_score mine;
    int n = 1 + forest_random(round % 4 ? 10 : 12);

    forest_make(&f, n, 1 + forest_random(5), 1 + forest_random(3));
    b = (struct brute){ .f = &f, .group = 1 + forest_random(n < 5 ? n : 5) };
    b.groups = 1 + forest_random(n / b.group);
    brute_node(&b, 0, 0);
    forest_pack(&f, b.group, b.groups, order);
    mine = forest_score(&f, order, b.group, b.groups);
    if (forest_compare(&mine, &b.best) != 0) {
        for (int i = 0; i < 9; i++)
            print_error("%d (%d)  ", mine.value[i], b.best.value[i]);
        fail_msg("round %d: %d groups of %d of %d nodes: not the least", round,
                 b.groups, b.group, n);
    }
    topology_free(f.t);
}

static void test_brute_force(void **state)
{
    (void)state;
    forest_state = 4;
    for (int round = 0; round < 300; round++)
        check_brute(round);
}

/* --- large ones -------------------------------------------------------------------- */

static const struct forest *sorting;

static int by_name(const void *a, const void *b)
{
    const struct node *node = sorting->t->nodes;

    return strcmp(node[*(const int *)a].name, node[*(const int *)b].name);
}

static void name_order(const struct forest *f, int *order)
{
    for (int i = 0; i < f->n; i++)
        order[i] = i;
    sorting = f;
    qsort(order, (size_t)f->n, sizeof(*order), by_name);
}

/* Seconds of the placement's communication on this order of nodes. */
static double seconds_on(const struct forest *f, const struct placement *p,
                         const int *order, const struct recipe *r, int *known)
{
    struct placement other = *p;
    double s;

    other.rank = xcalloc((size_t)p->world, sizeof(*other.rank));
    memcpy(other.rank, p->rank, (size_t)p->world * sizeof(*other.rank));
    for (int i = 0; i < p->world; i++)
        other.rank[i].node = order[i];
    s = place_seconds(r, &other, f->t, NULL, known);
    free(other.rank);
    return s;
}

/* The crossing groups are as few as the bound; no worse than the other order. */
static void check_pack(const struct forest *f, int group, int groups, const int *listed,
                       const int *named, int round)
{
    int order[FOREST_MAX];
    struct forest_score mine, other;

    forest_pack(f, group, groups, order);
    mine = forest_score(f, order, group, groups);
    for (int tier = 0; tier < 3; tier++)
        if (mine.value[2 - tier] != forest_bound(f, tier, group, groups))
            fail_msg("round %d, tier %d: %d groups of %d cross, not %d", round, tier,
                     mine.value[2 - tier], group, forest_bound(f, tier, group, groups));
    other = forest_score(f, listed, group, groups);
    assert_true(forest_compare(&mine, &other) <= 0);
    other = forest_score(f, named, group, groups);
    assert_true(forest_compare(&mine, &other) <= 0);
}

/* What the map says is what the order is. */
static int check_map(const struct forest *f, const struct placement *p, int group,
                     int groups, const int *listed)
{
    int checked = 0;
    struct forest_score s = forest_score(f, p->order, group, groups);
    struct place_map m;

    place_map_make(p, f->t, &m);
    assert_int_equal(m.shard.on_nodes, group > 1 ? groups : 0);
    for (int k = 0; k < m.tiers->n; k++) {
        int tier = (int)m.tiers->kind[k];
        if (m.tiers->units[k] != forest_units(f, tier, listed, f->n))
            continue; /* the core beside nodes of unknown leaf */
        checked++;
        assert_int_equal(m.shard.crossing[k], s.value[2 - tier]);
        assert_int_equal(m.shard.bound[k], forest_bound(f, tier, group, groups));
        assert_true(m.replicate.crossing[k] >= m.replicate.bound[k]);
    }
    place_map_release(&m);
    return checked;
}

static int maps;

static void check_large(int round)
{
    struct forest f;
    int listed[FOREST_MAX], named[FOREST_MAX], n = 2 + forest_random(60), group, groups;
    int known, known_too;
    struct placement *p;
    struct recipe r;
    double mine;

    forest_make(&f, n, 1 + forest_random(12), 1 + forest_random(4));
    group = 1 + forest_random(n < 9 ? n : 9);
    groups = 1 + forest_random(n / group);
    for (int i = 0; i < n; i++)
        listed[i] = i;
    name_order(&f, named);
    check_pack(&f, group, groups, listed, named, round);
    forest_recipe(&r, group, groups);
    p = forest_place(&f, group, groups);
    maps += check_map(&f, p, group, groups, listed);
    mine = seconds_on(&f, p, p->order, &r, &known);
    for (int by_name = 0; by_name < 2; by_name++) {
        double s = seconds_on(&f, p, by_name ? named : listed, &r, &known_too);
        if (known && known_too && mine > s * (1 + 1e-9))
            fail_msg("round %d: %g s, and %g %s", round, mine, s,
                     by_name ? "by name" : "as listed");
    }
    recipe_release(&r);
    placement_free(p);
    topology_free(f.t);
}

/* Slurm's block order: nodes as they are listed; torchrun's: names as strings. */
static void test_never_worse(void **state)
{
    (void)state;
    forest_state = 11;
    for (int round = 0; round < 1000; round++)
        check_large(round);
    assert_true(maps > 1000); /* tiers compared */
}

/* --- what must not be mixed ----------------------------------------------------------- */

static struct topology *load(const char *path)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;

    assert_ok(topology_from_source(path, &t, &err), &err);
    return t;
}

/* B09: nodes that no link joins carry no job, and are not mixed where one part will do. */
static void test_roots_b09(void **state)
{
    struct topology *t = load("slurmconf:tests/cases/b09_topology_two_roots.conf");
    struct err err = ERR_INIT;
    struct placement *p = NULL;

    (void)state;
    t->nodes[0].set_aside = AS_BAD; /* one node is left of the first part */
    assert_ok(placement_make(NULL, t, 2, &p, &err), &err);
    assert_int_equal(p->n_nodes, 2);
    assert_int_equal(p->order[0], 2);
    assert_int_equal(p->order[1], 3);
    placement_free(p);
    t->nodes[0].set_aside = IN_USE;
    for (int i = 0; i < t->n_nodes; i++)
        t->nodes[i].slots = 1;
    p = NULL;
    assert_err(placement_make(NULL, t, t->n_nodes, &p, &err), &err, ERR_FAILED,
               "no link joins the switches of gn01 and gn03");
    assert_null(p);
    topology_free(t);
}

static struct topology *cliques(void)
{
    struct topology *t = load("slurmconf:tests/cases/b10_block.conf");
    struct topology *more = load("cliques:tests/cases/b10_cliques.tsv");
    struct err err = ERR_INIT;

    assert_ok(topology_merge(t, more, &err), &err);
    topology_free(more);
    for (int i = 0; i < t->n_nodes; i++) {
        if (!t->nodes[i].nvlink_domain[0])
            t->nodes[i].set_aside = AS_BAD;
        for (int g = 0; g < 4; g++) {
            struct gpu *gpu = topology_add_gpu(&t->nodes[i]);
            snprintf(gpu->busid, sizeof(gpu->busid), "0000:%02x:00.0", g + 1);
            gpu->mig = 0;
        }
    }
    return t;
}

/* Shard groups of two nodes of the ten: how many are not NVLink, and the warning. */
static void check_cliques(struct topology *t, int groups, int torn, const char *warning)
{
    struct err err = ERR_INIT;
    struct strlist warnings = { 0 };
    struct placement *p = NULL;
    struct recipe r;
    int apart = 0;

    recipe_init(&r);
    r.parallelism.data_parallel_shard_degree = 8;
    r.parallelism.data_parallel_replicate_degree = -1;
    r.training.local_batch_size = 1;
    r.training.global_batch_size = -1;
    assert_ok(placement_make(&r, t, 8 * groups, &p, &err), &err);
    for (int k = 0; k < p->n_nodes; k += 2)
        apart += strcmp(t->nodes[p->order[k]].nvlink_domain,
                        t->nodes[p->order[k + 1]].nvlink_domain) != 0;
    assert_int_equal(apart, torn);
    placement_warnings(p, t, &warnings);
    apart = 0;
    for (int i = 0; i < warnings.n; i++)
        apart += strstr(warnings.item[i], warning) != NULL;
    assert_int_equal(apart, torn > 0);
    strlist_release(&warnings);
    placement_free(p);
    recipe_release(&r);
}

/* B10: gb018 + gb019 and gb020 + gb021 are no NVLink domain: groups of two nodes stay
 * inside {15-18} {19-20} {21-24}; where one cannot, that is said. */
static void test_cliques_b10(void **state)
{
    struct topology *t = cliques();

    (void)state;
    check_cliques(t, 5, 0, "leave their NVLink domain");
    for (int i = 0; i < t->n_nodes; i++)
        if (strcmp(t->nodes[i].name, "gb018") == 0 ||
            strcmp(t->nodes[i].name, "gb020") == 0)
            t->nodes[i].set_aside = AS_BAD;
    check_cliques(t, 4, 1,
                  "1 of 4 shard groups of 8 leave their NVLink domain: gb017 and gb019 "
                  "are not NVLink: their domains differ");
    topology_free(t);
}

/* Groups of 12 on nodes of 8: three nodes hold two, and stay together. */
static void test_unaligned(void **state)
{
    struct topology *t = tree_cluster(8, 8, 8);
    struct err err = ERR_INIT;
    struct placement *p = NULL;
    struct recipe r;

    (void)state;
    for (int i = 0; i < 8; i++) {
        if (i < 2)
            topology_add_switch(t);
        t->nodes[i].leaf = i % 2;
    }
    snprintf(t->switches[0].name, 64, "a");
    snprintf(t->switches[1].name, 64, "b");
    topology_add_switch(t)->level = 1;
    for (int i = 0; i < 2; i++) {
        struct fabric_link *l = topology_add_link(t);
        l->from = i;
        l->to = 2;
        l->count = 1;
    }
    recipe_init(&r);
    r.parallelism.data_parallel_shard_degree = 12;
    r.parallelism.data_parallel_replicate_degree = -1;
    r.training.local_batch_size = 1;
    r.training.global_batch_size = -1;
    assert_ok(placement_make(&r, t, 48, &p, &err), &err);
    for (int k = 1; k < 6; k++)
        if (k != 3)
            assert_int_equal(t->nodes[p->order[k]].leaf,
                             t->nodes[p->order[k - 1]].leaf);
    placement_free(p);
    recipe_release(&r);
    topology_free(t);
}

/* --- suspects --------------------------------------------------------------------------- */

static int uses(const struct placement *p, int node)
{
    for (int k = 0; k < p->n_nodes; k++)
        if (p->order[k] == node)
            return 1 + k;
    return 0;
}

/* 8 nodes below two leaves, 1, 4 and 5 with findings: kept out where others will do;
 * else in one group where they can. */
static void test_suspects(void **state)
{
    struct forest f = { .n = 8, .leaves = 2, .pods = 1 };
    struct placement *p;

    (void)state;
    f.t = tree_cluster(8, 1, 1);
    for (int i = 0; i < 8; i++)
        f.t->nodes[i].nics[0].leaf = i / 4;
    forest_switches(&f);
    topology_find(f.t, SEVERITY_FAIL, f.t->nodes[1].name, "smoke");
    topology_find(f.t, SEVERITY_FAIL, "n6 mlx5_0", "miswired");
    topology_find(f.t, SEVERITY_WARN, "n5", "half its links");
    topology_find(f.t, SEVERITY_NOTE, "n1", "nothing");
    topology_find(f.t, SEVERITY_WARN, "n", "nobody");
    p = forest_place(&f, 2, 2);
    assert_false(uses(p, 1) || uses(p, 4) || uses(p, 5));
    placement_free(p);
    p = forest_place(&f, 1, 5);
    assert_false(uses(p, 1) || uses(p, 4) || uses(p, 5));
    placement_free(p);
    p = forest_place(&f, 2, 3); /* one of them: it completes 0 2 3 */
    assert_true(uses(p, 1) && !uses(p, 4) && !uses(p, 5));
    placement_free(p);
    p = forest_place(&f, 2, 4); /* all: 4 and 5 together */
    assert_int_equal((uses(p, 4) - 1) / 2, (uses(p, 5) - 1) / 2);
    placement_free(p);
    topology_free(f.t);
}

/* The same answer every time. */
static void test_deterministic(void **state)
{
    struct forest f;
    struct placement *a, *b;

    (void)state;
    forest_state = 5;
    forest_make(&f, 200, 9, 3);
    a = forest_place(&f, 7, 27);
    b = forest_place(&f, 7, 27);
    assert_memory_equal(a->order, b->order, (size_t)a->n_nodes * sizeof(int));
    placement_free(a);
    placement_free(b);
    topology_free(f.t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_brute_force),   cmocka_unit_test(test_never_worse),
        cmocka_unit_test(test_deterministic), cmocka_unit_test(test_roots_b09),
        cmocka_unit_test(test_cliques_b10),   cmocka_unit_test(test_unaligned),
        cmocka_unit_test(test_suspects),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
