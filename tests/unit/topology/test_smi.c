/* nvidia-smi's matrix and link listing: cases A01, A02, A03, A06, and what is refused. */
#include "trees.h"

#include "topology/cost.h"
#include "topology/place.h"

static struct topology *load(const char *file)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;
    char *path = xasprintf("tests/cases/%s", file);

    assert_ok(topology_from_smi(path, &t, &err), &err);
    assert_ok(topology_validate(t, &err), &err);
    free(path);
    return t;
}

static const char *near_nic(const struct topology *t, int gpu)
{
    const struct node *n = &t->nodes[0];

    return n->gpus[gpu].nic < 0 ? "" : n->nics[n->gpus[gpu].nic].name;
}

static double edge(const struct topology *t, int a, int b, char tier[16])
{
    struct err err = ERR_INIT;
    struct placement *p = NULL;
    int pair[] = { a, b };
    struct cost c;

    assert_ok(placement_make(NULL, t, t->nodes[0].n_gpus, &p, &err), &err);
    c = cost_collective(COLLECTIVE_SENDRECV, 1 << 20, pair, 2, p, t);
    snprintf(tier, 16, "%s", c.tier);
    placement_free(p);
    return c.gbytes_per_s;
}

static void test_pair_down_a01(void **state)
{
    struct topology *t = load("a01_topo_pair_down.txt");
    struct node *n = &t->nodes[0];
    char tier[16];

    (void)state;
    assert_int_equal(n->n_gpus, 8);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(gpu_nvlink_count(&n->gpus[i]), i == 2 || i == 3 ? 4 : 6);
        for (int k = 0; k < n->gpus[i].n_nvlinks; k++)
            n->gpus[i].nvlinks[k].gbytes_per_s = 25; /* the matrix does not say */
    }
    assert_int_equal(t->n_findings, 1);
    assert_true(tree_found(t, SEVERITY_FAIL, "gpu 2, gpu 3",
                           "GPU 2 and GPU 3 is down: 4 of 6 links"));
    edge(t, 2, 3, tier); /* no ring may take that edge for NVLink */
    assert_string_equal(tier, "unknown");
    n->gpus[2].pcie_gbytes_per_s = n->gpus[3].pcie_gbytes_per_s = 12;
    edge(t, 2, 3, tier);
    assert_string_equal(tier, "pcie");
    edge(t, 0, 1, tier);
    assert_string_equal(tier, "nvlink");
    topology_free(t);
}

static void test_links_a01_a02(void **state)
{
    struct topology *t = load("a01_nvlink_s.txt");

    (void)state;
    for (int i = 0; i < 8; i++)
        assert_int_equal(gpu_nvlink_count(&t->nodes[0].gpus[i]),
                         i == 2 || i == 3 ? 4 : 6);
    assert_string_equal(t->nodes[0].gpus[3].name, "Tesla V100-SXM2-32GB");
    assert_true(tree_found(t, SEVERITY_FAIL, "gpu 2", "4 NVLinks are up, 6"));
    assert_true(tree_found(t, SEVERITY_FAIL, "gpu 3", "4 NVLinks are up, 6"));
    topology_free(t);

    t = load("a02_nvlink_s_h100nvl.txt"); /* 12 of 18 on both: normal for the board */
    assert_int_equal(gpu_nvlink_count(&t->nodes[0].gpus[0]), 12);
    assert_int_equal(gpu_nvlink_count(&t->nodes[0].gpus[1]), 12);
    assert_int_equal(t->n_findings, 0);
    topology_free(t);
}

/* A02: the same board, taken for an SXM one. */
static void test_other_board_a02(void **state)
{
    struct topology *t = load("a02_nvlink_s_h100nvl.txt");

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_string_equal(t->nodes[0].gpus[i].links_down, "4-5,10-11,16-17");
        snprintf(t->nodes[0].gpus[i].name, 64, "NVIDIA H100 80GB HBM3");
    }
    topology_inspect(t);
    assert_true(tree_found(t, SEVERITY_FAIL, "gpu 1", "12 of 18 NVLinks are up"));
    assert_int_equal(t->n_findings, 2);
    topology_free(t);
}

static void test_fabric_a10(void **state)
{
    struct topology *t = load("a10_fabric_inprogress.txt");

    (void)state;
    assert_int_equal(t->nodes[0].n_gpus, 2);
    assert_string_equal(t->nodes[0].gpus[1].busid, "0000:2a:00.0");
    assert_true(tree_found(t, SEVERITY_FAIL, "gpu 0", "0000:18:00.0"));
    assert_true(tree_found(t, SEVERITY_FAIL, "gpu 0", "in progress"));
    assert_true(tree_found(t, SEVERITY_FAIL, "gpu 0", "fabric manager"));
    assert_int_equal(t->n_findings, 1);
    topology_free(t);
    t = load("a10_fabric_none.txt");
    assert_string_equal(t->nodes[0].gpus[0].fabric, "none");
    assert_int_equal(t->n_findings, 0);
    topology_free(t);
}

/* MIG mode and the list of devices together tell that GPU 2 has none. */
static void test_mig_a12(void **state)
{
    struct topology *t = load("a12_mig_mode.csv"), *list = load("a12_mig_L.txt");
    static const int mig[] = { 1, 0, 1, -1 };
    struct err err = ERR_INIT;

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(t->nodes[0].gpus[i].mig, mig[i]);
    assert_true(tree_found(t, SEVERITY_WARN, "gpu 0", "MIG is on"));
    assert_true(tree_found(t, SEVERITY_WARN, "gpu 2", "MIG is on"));
    assert_int_equal(t->n_findings, 2);
    assert_ok(topology_merge(t, list, &err), &err);
    assert_int_equal(t->nodes[0].n_gpus, 4);
    assert_int_equal(t->nodes[0].gpus[0].mig_instances, 2);
    assert_string_equal(t->nodes[0].gpus[3].name, "NVIDIA H100 80GB HBM3");
    topology_free(t);
    topology_free(list);
}

static void test_pcie_d07(void **state)
{
    struct topology *t = load("d07_pcie.csv");

    (void)state;
    assert_int_equal(t->nodes[0].n_gpus, 6);
    assert_true(tree_found(t, SEVERITY_NOTE, "gpu 1", "Gen1 of Gen5 while it idles"));
    assert_true(tree_found(t, SEVERITY_FAIL, "gpu 2", "8 of 16 lanes"));
    assert_true(tree_found(t, SEVERITY_FAIL, "gpu 3", "Gen3 of Gen5 under load"));
    assert_true(tree_found(t, SEVERITY_WARN, "gpu 4", "Gen4 at most, its like Gen5"));
    assert_int_equal(t->n_findings, 4); /* nothing of 0, and of 5 nothing is known */
    topology_free(t);
}

static void test_recorded(void **state)
{
    struct topology *t = load("recorded/smi_topo_2xh200.txt");
    struct topology *links = load("recorded/nvlink_status_2xh200.txt");
    struct err err = ERR_INIT;
    const struct gpu *g;

    (void)state;
    assert_ok(topology_merge(t, links, &err), &err);
    g = &t->nodes[0].gpus[1];
    assert_int_equal(t->nodes[0].n_gpus, 2);
    assert_string_equal(g->name, "NVIDIA H200");
    assert_int_equal(gpu_nvlink_count(g), 18);
    assert_int_equal(g->numa, 0);
    assert_string_equal(t->nodes[0].numas[0].cpus, "0-31");
    assert_true(gpu_nvlink_gbytes_per_s(&links->nodes[0].gpus[0]) > 478.1);
    topology_free(t);
    topology_free(links);
}

/* The first three are one model; the fourth's NUMA node is unknown, never 0. */
static void test_spellings_a03(void **state)
{
    static const char *const files[] = { "a03_topo_old_header.txt",
                                         "a03_topo_new_header.txt",
                                         "a03_topo_spaces_paste.txt" };
    char *first = NULL;
    struct topology *t;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        char *text;
        t = load(files[i]);
        text = tree_json(t);
        if (!first)
            first = xstrdup(text);
        assert_string_equal(text, first);
        free(text);
        assert_int_equal(gpu_nvlink_count(&t->nodes[0].gpus[0]), 4);
        assert_true(gpu_peer(&t->nodes[0], t->nodes[0].gpus[0].nvlinks) ==
                    &t->nodes[0].gpus[1]);
        assert_string_equal(near_nic(t, 0), "mlx5_0"); /* NODE; mlx5_1 is SYS */
        assert_string_equal(near_nic(t, 1), "mlx5_1"); /* PIX */
        assert_int_equal(t->nodes[0].gpus[1].numa, 1);
        assert_string_equal(t->nodes[0].numas[0].cpus, "0-35");
        assert_string_equal(t->nodes[0].numas[1].cpus, "36-71");
        topology_free(t);
    }
    free(first);
    t = load("a03_topo_numa_na.txt");
    assert_int_equal(t->nodes[0].gpus[0].numa, -1);
    assert_int_equal(t->nodes[0].gpus[1].numa, -1);
    assert_int_equal(t->nodes[0].n_numas, 0);
    assert_int_equal(t->nodes[0].gpus[0].n_nvlinks, 0);
    topology_free(t);
}

static void test_islands_a06(void **state)
{
    struct topology *t = load("a06_topo_islands.txt");
    const struct node *n = &t->nodes[0];

    (void)state;
    assert_int_equal(n->n_gpus, 3);
    assert_true(gpu_peer(n, n->gpus[0].nvlinks) == &n->gpus[1]);
    assert_int_equal(n->gpus[2].n_nvlinks, 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(n->gpus[i].numa, 1);
    assert_true(n->gpus[2].nic >= 0);
    assert_false(tree_found(t, SEVERITY_FAIL, "", ""));
    topology_free(t);
}

/* Eight GPUs behind switches: the matrix counts the same links for each partner. */
static void test_switches(void **state)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;
    char text[2048];
    size_t n = 0;

    (void)state;
    for (int i = 0; i < 8; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "\tGPU%d", i);
    for (int i = 0; i < 8; i++) {
        n += (size_t)snprintf(text + n, sizeof(text) - n, "\nGPU%d", i);
        for (int k = 0; k < 8; k++)
            n += (size_t)snprintf(text + n, sizeof(text) - n, "\t%s",
                                  i == k ? "X" : "NV18");
    }
    assert_ok(topology_from_smi_text(text, n, "t", &t, &err), &err);
    assert_int_equal(gpu_nvlink_count(&t->nodes[0].gpus[5]), 18);
    assert_string_equal(t->nodes[0].gpus[5].nvlinks[0].peer, "switch");
    topology_free(t);
}

static void test_refuses(void **state)
{
    static const struct {
        const char *text, *part;
    } bad[] = {
        { "", "no line begins with GPU0" },
        { "No devices were found\n", "no line begins with GPU0" },
        { "\tGPU0\tGPU1\nGPU0\t X \tNV4\n", "row of GPU1 is missing" },
        { "\tGPU0\tGPU1\nGPU0\t X \n", "t:2: row GPU0 has 1 cells" },
        { "\tGPU0\tGPU1\nGPU0\t X \tNVX\n", "t:2: row GPU0: 'NVX'" },
        { "\tGPU0\tGPU1\nGPU0\t X \tNV0\n", "'NV0'" },
        { "\tGPU0\tGPU1\nGPU0\tPIX\tPIX\n", "X stands under GPU0" },
        { "\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU1\tPHB\t X \n", "do not agree" },
        { "\tGPU0\nGPU0\t X \nGPU0\t X \n", "a second row GPU0" },
        { "\tGPU0\nGPU0\t X \nGPU7\tPIX\tX\n", "row GPU7 is not in the header" },
        { "\tGPU0\tGPU0\nGPU0\tX\tPIX\n", "GPU0" },
    };
    struct err err = ERR_INIT;
    struct topology *t = NULL;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_err(
            topology_from_smi_text(bad[i].text, strlen(bad[i].text), "t", &t, &err),
            &err, ERR_USAGE, bad[i].part);
    assert_err(topology_from_smi("/none", &t, &err), &err, ERR_MISSING, "/none");
    assert_null(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pair_down_a01), cmocka_unit_test(test_other_board_a02),
        cmocka_unit_test(test_fabric_a10),    cmocka_unit_test(test_mig_a12),
        cmocka_unit_test(test_pcie_d07),      cmocka_unit_test(test_links_a01_a02),
        cmocka_unit_test(test_recorded),      cmocka_unit_test(test_spellings_a03),
        cmocka_unit_test(test_islands_a06),   cmocka_unit_test(test_switches),
        cmocka_unit_test(test_refuses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
