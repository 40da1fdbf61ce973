/* NCCL's topology file: cases A07, A09, a dump of a real machine, and what is refused. */
#include "trees.h"

#include "base/str.h"

static struct topology *load(const char *file)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;
    char *path = xasprintf("tests/cases/%s", file);

    assert_ok(topology_from_ncclxml(path, &t, &err), &err);
    free(path);
    return t;
}

static void test_recorded(void **state)
{
    struct topology *t = load("recorded/topo.xml");
    const struct node *n = &t->nodes[0];

    (void)state;
    assert_int_equal(t->n_nodes, 1);
    assert_int_equal(n->n_gpus, 2);
    assert_string_equal(n->gpus[1].busid, "0000:00:07.0");
    assert_int_equal(n->gpus[1].index, 1);
    assert_int_equal(n->gpus[1].sm, 90);
    assert_int_equal(n->gpus[1].numa, -1);
    assert_true(n->gpus[1].pcie_gbytes_per_s == -1); /* width 0 */
    assert_string_equal(n->gpus[1].nvlinks[0].peer, "switch");
    assert_int_equal(gpu_nvlink_count(&n->gpus[1]), 18);
    assert_int_equal(n->n_nics, 1);
    assert_string_equal(n->nics[0].name, "eth0");
    assert_true(n->nics[0].gbits_per_s == 10);
    assert_int_equal(n->nics[0].kind, NIC_UNKNOWN);
    topology_free(t);
}

static void test_flat_a07(void **state)
{
    struct topology *t = load("a07_vm_flat.xml");

    (void)state;
    assert_int_equal(t->nodes[0].n_gpus, 8);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(t->nodes[0].gpus[i].numa, -1);
        assert_int_equal(t->nodes[0].gpus[i].nic, -1);
    }
    assert_int_equal(t->nodes[0].n_numas, 0);
    assert_true(tree_found(t, SEVERITY_WARN, "", "flat; affinity unknown"));
    assert_true(
        tree_found(t, SEVERITY_WARN, "", "supply the provider's NCCL_TOPO_FILE"));
    topology_free(t);
}

static void test_injected_a07(void **state)
{
    static const char *const pairs[][2] = { { "0001:00:00.0", "0101:00:00.0" },
                                            { "0002:00:00.0", "0102:00:00.0" },
                                            { "0003:00:00.0", "0103:00:00.0" },
                                            { "0004:00:00.0", "0104:00:00.0" } };
    struct topology *t = load("a07_vm_injected_bridges.xml");
    const struct node *n = &t->nodes[0];

    (void)state;
    assert_int_equal(n->n_gpus, 4);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(n->gpus[i].busid, pairs[i][0]);
        assert_string_equal(n->nics[n->gpus[i].nic].busid, pairs[i][1]);
        assert_int_equal(n->gpus[i].numa, i / 2);
    }
    assert_string_equal(n->numas[0].cpus, "0-47");
    assert_string_equal(n->numas[1].cpus, "48-95");
    assert_int_equal(t->n_findings, 0);
    topology_free(t);
}

/* What the machine does not know, the provider's file adds. */
static void test_merge_a07(void **state)
{
    static const char vm[] = "<system version=\"1\"><cpu numaid=\"-1\">"
                             "<pci busid=\"0001:00:00.0\" class=\"0x030200\"><gpu "
                             "dev=\"0\" sm=\"90\"/></pci>"
                             "<pci busid=\"0003:00:00.0\" class=\"0x030200\"><gpu "
                             "dev=\"1\" sm=\"90\"/></pci>"
                             "</cpu></system>";
    struct err err = ERR_INIT;
    struct topology *t = NULL, *more = load("a07_vm_injected_bridges.xml");

    (void)state;
    assert_ok(topology_from_ncclxml_text(vm, strlen(vm), "vm", &t, &err), &err);
    assert_true(tree_found(t, SEVERITY_WARN, "", "affinity unknown"));
    snprintf(t->nodes[0].name, sizeof(t->nodes[0].name), "vm7");
    more->nodes[0].gpus[1] = more->nodes[0].gpus[2]; /* 0001, 0003 */
    more->nodes[0].gpus[1].index = 1;
    more->nodes[0].n_gpus = 2;
    assert_ok(topology_merge(t, more, &err), &err);
    assert_int_equal(t->n_nodes, 1);
    assert_string_equal(t->nodes[0].name, "vm7");
    assert_int_equal(t->nodes[0].gpus[1].numa, 1);
    assert_int_equal(t->nodes[0].gpus[1].sm, 90);
    assert_string_equal(t->nodes[0].nics[t->nodes[0].gpus[1].nic].busid,
                        "0103:00:00.0");
    assert_int_equal(t->n_findings, 0);
    topology_free(t);
    topology_free(more);
}

static void test_four_switches_a09(void **state)
{
    struct topology *t = load("a09_h100_four_switches.xml");

    (void)state;
    assert_int_equal(gpu_nvlink_count(&t->nodes[0].gpus[0]), 18);
    assert_int_equal(gpu_nvlink_count(&t->nodes[0].gpus[1]), 16);
    assert_int_equal(t->n_findings, 1);
    assert_true(
        tree_found(t, SEVERITY_FAIL, "gpu 1", "2 short, fewest to 0000:08:00.0"));
    topology_free(t);
}

/* A09, aws-ofi-nccl#1226: more elements than any fixed table, and two hosts. */
static void test_many_elements_a09(void **state)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;
    struct str s = STR_INIT;

    (void)state;
    str_adds(&s,
             "<?xml version='1.0'?>\n<!-- > two hosts -->\n<system version = '1'>\n");
    for (int host = 0; host < 2; host++) {
        str_addf(&s, "<cpu numaid=\"0\" host_hash=\"0x%d\" affinity=\"f\">\n",
                 host + 5);
        for (int i = 0; i < 64; i++)
            str_addf(
                &s,
                "\t<pci busid=\"%04x:00:00.0\" class=\"0x060400\">\n"
                "<pci  busid=\"%04x:01:00.0\"\n class=\"0x030200\"><gpu dev=\"%d\" "
                "sm=\"100\" rank=\"%d\"><nvlink target=\"fffffff:ffff:ff\" "
                "count=\"18\" tclass=\"0x068000\"/><unknown/></gpu></pci>"
                "<pci busid=\"%04x:02:00.0\" class=\"0x020700\"><nic><net "
                "name=\"mlx5_%d\" dev=\"%d\" speed=\"400000\" port=\"1\" "
                "guid=\"0x%x\"/></nic></pci></pci>\n",
                i, i, i, i, i, i, i, i + 1);
        str_adds(&s, "</cpu>\n");
    }
    str_adds(&s, "</system>\n");
    assert_ok(topology_from_ncclxml_text(s.text, s.len, "big", &t, &err), &err);
    assert_int_equal(t->n_nodes, 2);
    for (int host = 0; host < 2; host++) {
        assert_int_equal(t->nodes[host].n_gpus, 64);
        assert_int_equal(t->nodes[host].n_nics, 64);
        assert_int_equal(t->nodes[host].gpus[63].nic, 63);
        assert_string_equal(t->nodes[host].gpus[0].nvlinks[0].peer, "switch");
    }
    topology_free(t);
    t = NULL;
    assert_err(topology_from_ncclxml_text(s.text, s.len / 2, "cut", &t, &err), &err,
               ERR_USAGE, "cut:");
    assert_null(t);
    str_release(&s);
}

static void test_refuses(void **state)
{
    static const struct {
        const char *text, *part;
    } bad[] = {
        { "", "x:1: an element is expected" },
        { "<system version=\"2\"/>", "<system version=\"1\"> is expected" },
        { "<graphs version=\"1\"/>", "<system version=\"1\"> is expected" },
        { "<system version=\"1\"/>", "at least one node" },
        { "<system version=\"1\">", "ends inside <system> of line 1" },
        { "<system version=\"1\"></cpu>", "<system> of line 1 is not closed" },
        { "<system version=\"1\">text</system>", "text between" },
        { "<system version=1/>", "without quotes" },
        { "<system version/>", "without a value" },
        { "<system version=\"1/>", "do not close" },
        { "<system version=\"1\"/><a/>", "follows the root" },
        { "<!-- ", "does not end" },
        { "<system version=\"1\"><cpu><pci busid=\"zz\"/></cpu></system>",
          "'zz' is no PCI bus id" },
        { "<system version=\"1\"><cpu><pci busid=\"0:0:0.0\" class=\"0x03\"><gpu "
          "dev=\"-4\"/></pci></cpu></system>",
          "index -4" },
    };
    struct err err = ERR_INIT;
    struct topology *t = NULL;
    char *deep = xcalloc(1000, 3);

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_err(
            topology_from_ncclxml_text(bad[i].text, strlen(bad[i].text), "x", &t, &err),
            &err, ERR_USAGE, bad[i].part);
    for (int i = 0; i < 900; i++)
        snprintf(deep + (size_t)i * 3, 4, "<a>");
    assert_err(topology_from_ncclxml_text(deep, strlen(deep), "x", &t, &err), &err,
               ERR_USAGE, "nest too deep");
    free(deep);
    assert_null(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recorded),
        cmocka_unit_test(test_flat_a07),
        cmocka_unit_test(test_injected_a07),
        cmocka_unit_test(test_merge_a07),
        cmocka_unit_test(test_four_switches_a09),
        cmocka_unit_test(test_many_elements_a09),
        cmocka_unit_test(test_refuses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
