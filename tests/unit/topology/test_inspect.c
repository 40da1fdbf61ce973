/* Findings over made-up clusters: each names its object and the evidence. */
#include "topology/fabric.h"
#include "trees.h"

/* 4 nodes below each leaf group; 2 rails, so 2 leaves a group; `spines` above. */
static struct topology *fabric_of(int nodes, int spines, int cables)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;
    char *text = xasprintf(
        "nodes: {count: %d, prefix: n}\n"
        "cpu: {sockets: 1, cores: 8, threads: 8, numa_nodes: 1}\n"
        "gpus: {per_node: 2, name: NVIDIA H200, memory: 141GiB, sm: 90, nvlinks: 18, "
        "nvlink_gbytes_per_s: 450}\n"
        "nics: {per_node: 2, layer: infiniband, gbits_per_s: 400}\n"
        "fabric: {leaves: rail, nodes_per_leaf: 4, spines: %d, cables: %d}\n",
        nodes, spines, cables);

    if (topology_from_spec_text(text, strlen(text), "fabric", &t, &err) < 0)
        fail_msg("%s", err_text(&err));
    free(text);
    return t;
}

static void inspect(struct topology *t)
{
    topology_inspect(t);
    fabric_inspect(t);
}

static void test_sound(void **state)
{
    struct topology *t = fabric_of(16, 2, 2);

    (void)state;
    inspect(t);
    assert_int_equal(t->n_findings, 0);
    topology_free(t);
}

static void test_inspected_once(void **state)
{
    struct topology *t = fabric_of(16, 2, 2);

    (void)state;
    t->nodes[3].nics[1].gbits_per_s = 200;
    t->nodes[4].nics[1].up = 0;
    t->nodes[5].n_gpus = 1;
    inspect(t);
    assert_int_equal(t->n_findings, 3);
    inspect(t);
    assert_int_equal(t->n_findings, 3);
    topology_free(t);
}

static void test_slow_port(void **state)
{
    struct topology *t = fabric_of(8, 2, 2);

    (void)state;
    t->nodes[2].nics[1].gbits_per_s = 200;
    inspect(t);
    assert_true(tree_found(t, SEVERITY_FAIL, "n3 mlx5_1",
                           "the port runs at 200 Gb/s, its like at 400"));
    assert_int_equal(t->n_findings, 1);
    topology_free(t);

    /* all of a node: it is another kind of node */
    t = fabric_of(8, 2, 2);
    t->nodes[2].nics[0].gbits_per_s = t->nodes[2].nics[1].gbits_per_s = 200;
    inspect(t);
    assert_true(tree_found(t, SEVERITY_WARN, "n3",
                           "not like the other 7 in rate of compute NICs: 200 Gb/s on "
                           "n3; 400 Gb/s on the others"));
    assert_int_equal(t->n_findings, 1);
    topology_free(t);

    /* a port that is down is not slow as well */
    t = fabric_of(8, 2, 2);
    t->nodes[2].nics[1].gbits_per_s = 10;
    t->nodes[2].nics[1].up = 0;
    inspect(t);
    assert_true(tree_found(t, SEVERITY_FAIL, "n3 mlx5_1", "port is down"));
    assert_int_equal(t->n_findings, 1);
    topology_free(t);
}

static void test_trunks(void **state)
{
    struct topology *t = fabric_of(16, 2, 2);

    (void)state;
    /* the second leaf loses the cables to one spine */
    for (int i = 0; i < t->n_links; i++)
        if (t->links[i].from == 1 && t->links[i].to == t->links[t->n_links - 1].to) {
            t->links[i] = t->links[--t->n_links];
            break;
        }
    inspect(t);
    assert_true(tree_found(t, SEVERITY_FAIL, t->switches[1].name,
                           "has 2 cables upward, most of the 8 leaves have 4 (half or "
                           "less): fewer to "));
    assert_true(tree_found(t, SEVERITY_FAIL, t->switches[1].name, "(0 of 2)"));
    topology_free(t);

    t = fabric_of(16, 2, 2); /* one cable */
    t->links[0].count = 1;
    inspect(t);
    assert_true(
        tree_found(t, SEVERITY_WARN, t->switches[t->links[0].from].name,
                   "has 3 cables upward, most of the 8 leaves have 4: fewer to"));
    topology_free(t);
}

static void test_oversubscription(void **state)
{
    struct topology *t = fabric_of(16, 2, 1); /* 4 NICs of 400 down, 2 cables up */

    (void)state;
    inspect(t);
    assert_true(tree_found(t, SEVERITY_WARN, "tier 0 (leaves)",
                           "oversubscribed 2.0:1: 12.8 Tb/s come from below, 6.4 Tb/s "
                           "go up, over 8 switches"));
    assert_int_equal(t->n_findings, 1);
    topology_free(t);

    t = fabric_of(16, 2, 1); /* nothing is said of rates that are unknown */
    t->links[0].gbits_per_s = -1;
    inspect(t);
    assert_int_equal(t->n_findings, 0);
    topology_free(t);
}

/* Each rail its own fabric, no link between them: two planes. */
static void test_planes(void **state)
{
    struct topology *t = fabric_of(8, 2, 2);
    int kept = 0;

    (void)state;
    inspect(t);
    assert_int_equal(t->nodes[0].nics[0].plane, -1); /* one fabric */
    topology_free(t);

    t = fabric_of(8, 2, 2);
    for (int i = 0; i < t->n_links; i++) /* even leaves to the first spine */
        if (t->links[i].from % 2 == t->links[i].to % 2)
            t->links[kept++] = t->links[i];
    t->n_links = kept;
    inspect(t);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(t->nodes[i].nics[0].plane, 0);
        assert_int_equal(t->nodes[i].nics[1].plane, 1);
    }
    topology_free(t);
}

static void test_differ(void **state)
{
    struct topology *t = fabric_of(16, 2, 2);

    (void)state;
    for (int i = 0; i < 16; i++)
        snprintf(t->nodes[i].driver, sizeof(t->nodes[i].driver), "%s",
                 i == 3 || (i > 7 && i < 11) ? "550.54.15" : "570.86.10");
    t->nodes[6].n_gpus = 1;
    for (int g = 0; g < 2; g++) {
        snprintf(t->nodes[12].gpus[g].name, 64, "NVIDIA H100 80GB HBM3");
        t->nodes[12].gpus[g].memory_bytes = 80LL << 30;
    }
    t->nodes[13].memory_bytes = 1LL << 40;
    for (int i = 0; i < 16; i++)
        if (i != 13)
            t->nodes[i].memory_bytes = (2LL << 40) + i * 4096;
    inspect(t);
    assert_true(tree_found(t, SEVERITY_WARN, "4 nodes",
                           "not like the other 12 in GPU driver: 550.54.15 on "
                           "n[04,09-11]; 570.86.10 on the others"));
    assert_true(tree_found(t, SEVERITY_WARN, "n07",
                           "not like the other 15 in GPUs: 1 on n07; 2 on the others"));
    assert_true(tree_found(t, SEVERITY_WARN, "n13",
                           "in GPU model: NVIDIA H100 80GB HBM3 on n13; NVIDIA H200"));
    assert_true(tree_found(t, SEVERITY_WARN, "n14",
                           "in memory: about 1024 GiB on n14; about 2048 GiB"));
    assert_int_equal(t->n_findings, 4); /* not the memory of the H100s as well */
    topology_free(t);

    t = tree_cluster(2, 2, 2); /* no majority: both are named */
    t->nodes[1].n_nics = 1;
    t->nodes[1].gpus[1].nic = 0;
    inspect(t);
    assert_true(tree_found(t, SEVERITY_WARN, "2 nodes",
                           "differ in compute NICs: 1 on n2; 2 on n1"));
    topology_free(t);
}

static void test_far_nic(void **state)
{
    struct topology *t = tree_cluster(1, 4, 4);
    struct node *n = &t->nodes[0];

    (void)state;
    for (int i = 0; i < 4; i++)
        snprintf(n->gpus[i].nic_path, sizeof(n->gpus[i].nic_path), "PIX");
    inspect(t);
    assert_int_equal(t->n_findings, 0);
    snprintf(n->gpus[2].nic_path, sizeof(n->gpus[2].nic_path), "NODE");
    n->gpus[2].nic = 3;
    inspect(t);
    assert_true(tree_found(t, SEVERITY_WARN, "n gpu 2",
                           "its nearest compute NIC, mlx5_3, is far (NODE)"));
    topology_free(t);

    t = tree_cluster(1, 4, 2); /* both NICs are on the first socket */
    n = &t->nodes[0];
    for (int i = 0; i < 4; i++) {
        n->gpus[i].nic = i < 2 ? i : -1;
        if (i < 2)
            n->nics[i].numa = 0;
    }
    inspect(t);
    assert_true(tree_found(t, SEVERITY_WARN, "n gpu 3", "far from the network (SYS)"));
    assert_int_equal(t->n_findings, 2);
    topology_free(t);
}

/* What two sources both know and say otherwise is named; the first is taken. */
static void test_conflicts(void **state)
{
    struct topology *t = tree_cluster(2, 2, 2), *more = tree_cluster(2, 2, 2);
    struct gpu *g = &more->nodes[1].gpus[1];
    struct err err = ERR_INIT;

    (void)state;
    snprintf(g->name, sizeof(g->name), "NVIDIA H100 NVL");
    g->numa = 0;
    g->nvlinks[0].count = 12;
    more->nodes[0].nics[0].up = 0;
    more->nodes[0].nics[1].gbits_per_s = 200;
    more->nodes[1].nics[0].gbits_per_s = 396;                       /* rounded */
    snprintf(more->nodes[0].gpus[0].name, sizeof(g->name), "H200"); /* Slurm's word */
    snprintf(more->source, sizeof(more->source), "smi");
    assert_ok(topology_merge(t, more, &err), &err);
    assert_true(tree_found(t, SEVERITY_WARN, "n2 gpu 1",
                           "sources differ on its model: NVIDIA H200 by spec:cluster, "
                           "NVIDIA H100 NVL by smi; the first is taken"));
    assert_true(tree_found(t, SEVERITY_WARN, "n2 gpu 1", "NUMA node: 1 by"));
    assert_true(tree_found(t, SEVERITY_WARN, "n2 gpu 1", "NVLinks: 18 by"));
    assert_true(tree_found(t, SEVERITY_WARN, "n1 mlx5_0", "state: up by"));
    assert_true(tree_found(t, SEVERITY_WARN, "n1 mlx5_1", "rate: 400 Gb/s by"));
    assert_int_equal(t->n_findings, 5);
    assert_int_equal(t->nodes[1].gpus[1].numa, 1);
    topology_free(t);
    topology_free(more);
}

/* Switches of one name in two sources stay two. */
static void test_two_leaves_of_a_name(void **state)
{
    struct topology *t = fabric_of(4, 2, 2), *more = fabric_of(4, 2, 2);
    struct err err = ERR_INIT;
    int n = t->n_switches;

    (void)state;
    snprintf(more->source, sizeof(more->source), "ibnet:fab");
    assert_ok(topology_merge(t, more, &err), &err);
    assert_int_equal(t->n_switches, 2 * n);
    assert_true(strstr(t->switches[n].name, ".ibnet") != NULL);
    topology_free(t);
    topology_free(more);
}

/* Model counts are the board's, never one number (A02). */
static void test_models(void **state)
{
    static const struct {
        const char *name;
        int up;
        const char *down;
        int found;
    } cases[] = {
        { "NVIDIA H100 NVL", 12, "4-5,10-11,16-17", 0 },
        { "NVIDIA H100 80GB HBM3", 12, "4-5,10-11,16-17", 1 },
        { "NVIDIA H100 80GB HBM3", 18, "", 0 },
        { "Tesla V100-SXM2-32GB", 6, "", 0 },
        { "Tesla V100-SXM2-32GB", 4, "3,5", 1 },
        { "NVIDIA A100-SXM4-80GB", 12, "", 0 },
        { "NVIDIA H100 PCIe", 0, "0-17", 0 }, /* no bridge */
        { "NVIDIA B200", 17, "9", 1 },
        { "Somebody's GPU", 3, "1", 0 },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct topology *t = tree_cluster(1, 2, 2);
        for (int g = 0; g < 2; g++) {
            struct gpu *gpu = &t->nodes[0].gpus[g];
            snprintf(gpu->name, sizeof(gpu->name), "%s", cases[i].name);
            snprintf(gpu->links_down, sizeof(gpu->links_down), "%s", cases[i].down);
            gpu->nvlinks[0].count = cases[i].up;
            gpu->n_nvlinks = cases[i].up > 0;
        }
        topology_inspect(t);
        if (t->n_findings != 2 * cases[i].found)
            fail_msg("%s with %d links: %d findings", cases[i].name, cases[i].up,
                     t->n_findings);
        topology_free(t);
    }
}

/* The GPU of a virtual machine that holds one of a host's eight. */
static void test_one_gpu(void **state)
{
    (void)state;
    for (int gpus = 1; gpus <= 2; gpus++) {
        struct topology *t = tree_cluster(1, gpus, gpus);

        for (int g = 0; g < gpus; g++) {
            struct gpu *gpu = &t->nodes[0].gpus[g];
            snprintf(gpu->name, sizeof(gpu->name), "NVIDIA H200");
            snprintf(gpu->links_down, sizeof(gpu->links_down), "0-17");
            gpu->n_nvlinks = 0;
        }
        topology_inspect(t);
        assert_int_equal(t->n_findings, gpus);
        assert_int_equal(t->findings[0].severity,
                         gpus == 1 ? SEVERITY_NOTE : SEVERITY_FAIL);
        topology_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound),     cmocka_unit_test(test_inspected_once),
        cmocka_unit_test(test_slow_port), cmocka_unit_test(test_trunks),
        cmocka_unit_test(test_planes),    cmocka_unit_test(test_oversubscription),
        cmocka_unit_test(test_differ),    cmocka_unit_test(test_far_nic),
        cmocka_unit_test(test_models),    cmocka_unit_test(test_one_gpu),
        cmocka_unit_test(test_conflicts), cmocka_unit_test(test_two_leaves_of_a_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
