/* Cluster specifications: the shipped ones, and what is refused. */
#include "trees.h"

static struct topology *load(const char *path)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;

    assert_ok(topology_from_spec(path, &t, &err), &err);
    assert_ok(topology_validate(t, &err), &err);
    assert_int_equal(t->simulated, 1);
    return t;
}

static void test_b200(void **state)
{
    struct topology *t = load("recipes/clusters/b200-64x8.yaml");
    const struct node *n = &t->nodes[40];
    int cables = 0;

    (void)state;
    assert_int_equal(t->n_nodes, 64);
    assert_string_equal(n->name, "b200-41");
    assert_int_equal(n->n_gpus, 8);
    assert_string_equal(n->gpus[7].name, "NVIDIA B200");
    assert_int_equal(n->gpus[7].nic, 7);
    assert_int_equal(n->gpus[7].numa, 1);
    assert_true(gpu_nvlink_gbytes_per_s(&n->gpus[0]) == 900);
    assert_int_equal(n->nics[3].rail, 3);
    assert_true(n->nics[3].gbits_per_s == 400);
    /* every leaf carries one rail of 32 nodes */
    assert_int_equal(n->nics[3].leaf, 8 + 3);
    assert_int_equal(t->n_switches, 16 + 8);
    for (int i = 0; i < t->n_links; i++)
        cables += t->links[i].count;
    assert_int_equal(cables, 16 * 32); /* as many up as down */
    assert_string_equal(n->numas[1].cpus, "56-111,168-223");
    topology_free(t);
}

static void test_h200_and_laptop(void **state)
{
    struct topology *t = load("recipes/clusters/h200-16x8.yaml");

    (void)state;
    assert_int_equal(t->n_nodes, 16);
    assert_int_equal(t->nodes[0].gpus[0].sm, 90);
    assert_int_equal(t->n_switches, 8 + 2);
    topology_free(t);
    t = load("recipes/clusters/laptop.yaml");
    assert_int_equal(t->n_nodes, 1);
    assert_int_equal(t->nodes[0].n_gpus, 0);
    assert_int_equal(t->nodes[0].cores, 2);
    assert_string_equal(t->nodes[0].name, "laptop");
    topology_free(t);
}

/* Every problem of the file, each with its line and a suggestion. */
static void test_lists_problems(void **state)
{
    static const char text[] = "nodes: {count: 0, prefx: a}\n"
                               "gpus:\n"
                               "  per_node: eight\n"
                               "  memory: 80 apples\n"
                               "nic: {per_node: 1}\n"
                               "fabric: {leaves: rails}\n"
                               "cpu: [1]\n"
                               "nics: {gbits_per_s: 1_000}\n";
    struct err err = ERR_INIT;
    struct topology *t = NULL;
    static const char *const parts[] = {
        "c.yaml:1: nodes.count: '0' is not in the range 1 to 16384",
        "c.yaml:1: there is no key 'nodes.prefx' (did you mean 'nodes.prefix'?)",
        "c.yaml:3: gpus.per_node: 'eight'",
        "c.yaml:4: gpus.memory: '80 apples'",
        "c.yaml:5: there is no section 'nic' (did you mean 'nics'?)",
        "c.yaml:6: fabric.leaves: 'rails'",
        "c.yaml:7: cpu must be a mapping, it is a list",
        "c.yaml:8: nics.gbits_per_s: '1_000'",
    };

    (void)state;
    assert_int_equal(topology_from_spec_text(text, strlen(text), "c.yaml", &t, &err),
                     -1);
    assert_int_equal(err.code, ERR_USAGE);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (!strstr(err_text(&err), parts[i]))
            fail_msg("no '%s' in\n%s", parts[i], err_text(&err));
    err_release(&err);
    assert_null(t);
}

static void test_across_keys(void **state)
{
    static const struct {
        const char *text, *part;
    } bad[] = {
        { "gpus: {per_node: 8}", "gpus.name is missing" },
        { "nodes: {count: 2}", "nothing to place ranks on" },
        { "cpu: {cores: 4, threads: 6}", "no multiple of cpu.cores" },
        { "cpu: {cores: 4, numa_nodes: 3}", "no multiple of cpu.numa_nodes" },
        { "gpus: {per_node: 1, name: X, nvlinks: 18}", "nvlink_gbytes_per_s" },
        { "cpu: {cores: 4}\nfabric: {leaves: rail}", "nics.per_node" },
        { "nodes: {count: 64}\ncpu: {cores: 1}\nnics: {per_node: 64}\nfabric: {leaves: "
          "rail, nodes_per_leaf: 1, spines: 1024}",
          "4096 leaves x 1024 spines" },
        { "[1, 2]", "mapping of sections" },
        { "cpu: {cores: 4}\ncpu: {cores: 5}", "c.yaml:2" },
        { "", "nothing to place ranks on" },
    };
    struct err err = ERR_INIT;
    struct topology *t = NULL;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_err(topology_from_spec_text(bad[i].text, strlen(bad[i].text), "c.yaml",
                                           &t, &err),
                   &err, ERR_USAGE, bad[i].part);
    assert_null(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_b200),
        cmocka_unit_test(test_h200_and_laptop),
        cmocka_unit_test(test_lists_problems),
        cmocka_unit_test(test_across_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
