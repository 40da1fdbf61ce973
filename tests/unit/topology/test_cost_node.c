/* The cost of what leaves a node: NICs and PCIe of GPUs, far and slow ones, unknown ones,
 * NVLink domains. */
#include "topology/cost_spec.h"

#include <math.h>

#include "base/str.h"

/* NICs: several a GPU, several GPUs a NIC, one on the other CPU, none known. */
static void test_nics_of_gpus(void **state)
{
    static const struct {
        int nics;
        double seconds;
    } rows[] = {
        { 16, 3.0 / 100 }, { 8, 3.0 / 50 }, { 4, 6.0 / 50 }, { 1, 24.0 / 50 }
    };
    struct topology *t;
    struct placement *p;
    struct cost c;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        t = spec(
            "nodes: {count: 4, prefix: n}\nnics: {per_node: %d, gbits_per_s: 400}\n",
            rows[i].nics);
        p = place(t, 32);
        c = replicas(t, p, COLLECTIVE_ALL_GATHER, 4 * GB);
        if (rows[i].nics == 16) { /* 100 GB/s of NICs behind 48 GB/s of PCIe */
            assert_string_equal(c.tier, "pcie");
            for (int k = 0; k < 32; k++)
                t->nodes[k / 8].gpus[k % 8].pcie_gbytes_per_s = 96 * 2;
            c = replicas(t, p, COLLECTIVE_ALL_GATHER, 4 * GB);
        }
        if (rows[i].nics == 8) { /* a hair less than the NIC's 50 */
            assert_string_equal(c.tier, "pcie");
            assert_true(near(c.link_seconds, 3.0 / 48));
            for (int k = 0; k < 32; k++)
                t->nodes[k / 8].gpus[k % 8].pcie_gbytes_per_s = -1;
            c = replicas(t, p, COLLECTIVE_ALL_GATHER, 4 * GB);
        }
        if (rows[i].nics == 1) { /* half of the GPUs cross to it */
            assert_string_equal(c.tier, "cpu");
            assert_true(near(c.link_seconds, 4 * 3.0 / 10));
            for (int k = 0; k < 4; k++)
                snprintf(t->nodes[k].cpu_model, 64, "Intel Xeon Platinum 8480C");
            c = replicas(t, p, COLLECTIVE_ALL_GATHER, 4 * GB);
            assert_string_equal(c.object,
                                "between the CPUs of n1, 22 GB/s, shared by 4 "
                                "groups");
            for (int k = 0; k < 32; k++) /* nvidia-smi's word goes before NUMA nodes */
                snprintf(t->nodes[k / 8].gpus[k % 8].nic_path, 8, "NODE");
            assert_string_equal(replicas(t, p, COLLECTIVE_ALL_GATHER, 4 * GB).tier,
                                "nic");
            for (int k = 0; k < 32; k++)
                t->nodes[k / 8].gpus[k % 8].nic_path[0] = '\0';
            for (int k = 0; k < 4; k++) { /* CPUID says more: Emerald Rapids */
                snprintf(t->nodes[k].cpu_vendor, 16, "GenuineIntel");
                t->nodes[k].cpu_family = 6;
                t->nodes[k].cpu_version = 0xcf;
            }
            c = replicas(t, p, COLLECTIVE_ALL_GATHER, 4 * GB);
        }
        assert_string_equal(c.tier, "nic");
        assert_true(near(c.link_seconds, rows[i].seconds));
        placement_free(p);
        topology_free(t);
    }
}

static int add_pci(struct node *n, const char *busid, const char *class, int above,
                   int width)
{
    struct pci *p = topology_add_pci(n);

    snprintf(p->busid, sizeof(p->busid), "%s", busid);
    snprintf(p->class, sizeof(p->class), "%s", class);
    snprintf(p->link_speed, sizeof(p->link_speed), "32.0 GT/s PCIe");
    p->above = above;
    p->link_width = width;
    return n->n_pcis - 1;
}

/* Four GPUs without NVLink below a switch each pair; the NIC below the first one or,
 * `beside`, at the host bridge, or with half of its lanes. */
static struct topology *pcie_box(int beside, int nic_lanes)
{
    struct topology *t =
        spec("nodes: {count: 2, prefix: n}\nnics: {per_node: 1, gbits_per_s: 400}\n");

    for (int i = 0; i < 2; i++) {
        struct node *n = &t->nodes[i];
        int a = add_pci(n, "0000:10:00.0", "0x060400", -1, 16);
        int b = add_pci(n, "0000:20:00.0", "0x060400", -1, 16);
        for (int k = 4; k < 8; k++)
            free(n->gpus[k].nvlinks);
        n->n_gpus = 4;
        for (int k = 0; k < 4; k++) {
            struct gpu *g = &n->gpus[k];
            g->n_nvlinks = 0;
            g->pcie_gbytes_per_s = 96;
            snprintf(g->busid, sizeof(g->busid), "0000:1%d:00.0", (k + 1) % 10);
            add_pci(n, g->busid, "0x030200", k < 2 ? a : b, 16);
        }
        snprintf(n->nics[0].busid, sizeof(n->nics[0].busid), "0000:18:00.0");
        add_pci(n, "0000:18:00.0", "0x020700", beside ? -1 : a, nic_lanes);
        n->nics[0].numa = -1;
    }
    return t;
}

/* What GPUs share below a PCIe switch. */
static void test_pcie_tree(void **state)
{
    int four[] = { 0, 1, 2, 3 }, pairs[] = { 0, 4, 1, 5, 2, 6, 3, 7 };
    struct cost_groups one = { 1, 4, four }, all = { 4, 2, pairs };
    struct topology *t = pcie_box(0, 16);
    struct placement *p = NULL;
    struct err err = ERR_INIT;
    struct cost c;

    (void)state;
    assert_ok(placement_make(NULL, t, 8, &p, &err), &err);
    c = cost_concurrent(COLLECTIVE_ALL_GATHER, 4 * GB, &one, p, t, NULL);
    /* one of two crossings leaves each switch: 3 GB through 48 GB/s */
    assert_string_equal(c.object, "n1's PCIe link of 0000:10:00.0, 48.0 GB/s");
    assert_true(near(c.link_seconds, 3.0 / 48));
    c = cost_concurrent(COLLECTIVE_ALL_GATHER, GB, &all, p, t, NULL);
    assert_true(near(c.link_seconds, 4 * 0.5 / 48)); /* into the NIC's own link */
    assert_string_equal(
        c.object, "n1's PCIe link of 0000:18:00.0, 48.0 GB/s, shared by 4 groups");
    placement_free(p);
    topology_free(t);
    t = pcie_box(1, 8); /* half of its lanes */
    assert_ok(placement_make(NULL, t, 8, &p, &err), &err);
    c = cost_concurrent(COLLECTIVE_ALL_GATHER, GB, &all, p, t, NULL);
    assert_true(near(c.link_seconds, 4 * 0.5 / 24));
    placement_free(p);
    topology_free(t);
}

/* A07: which NIC a GPU of a flat virtual machine has nobody knows. */
static void test_unknown(void **state)
{
    struct topology *t =
        spec("nodes: {count: 2, prefix: n}\nnics: {per_node: 8, gbits_per_s: 400}\n");
    struct placement *p = place(t, 16);
    struct cost c;
    int group[] = { 0, 1, 2, 3 };

    (void)state;
    for (int i = 0; i < 16; i++) {
        t->nodes[i / 8].gpus[i % 8].nic = -1;
        t->nodes[i / 8].gpus[i % 8].numa = -1;
        t->nodes[i / 8].nics[i % 8].numa = -1;
    }
    c = replicas(t, p, COLLECTIVE_ALL_REDUCE, GB);
    assert_true(isnan(c.seconds) && isnan(c.gbytes_per_s));
    assert_string_equal(c.tier, "unknown");
    assert_string_equal(
        c.object, "which NIC is near n1 gpu 0 is not known: supply NCCL_TOPO_FILE");
    c = cost_collective(COLLECTIVE_ALL_REDUCE, GB, group, 4, p, t);
    assert_string_equal(c.tier, "nvlink"); /* that much is known */
    for (int i = 0; i < 8; i++) {
        t->nodes[0].gpus[i].n_nvlinks = 0;
        t->nodes[0].gpus[i].pcie_gbytes_per_s = -1;
    }
    c = cost_collective(COLLECTIVE_ALL_REDUCE, GB, group, 4, p, t);
    assert_true(isnan(c.seconds));
    assert_string_equal(c.object, "the PCIe rate of n1 gpu 0 is not known");
    for (int i = 0; i < 8; i++)
        t->nodes[0].gpus[i].n_nvlinks = 1;
    placement_free(p);
    topology_free(t);
}

/* D04: one slow rail of a node holds up the groups that use it, whatever the mean. */
static void test_slow_rail_d04(void **state)
{
    struct topology *t =
        spec("nodes: {count: 2, prefix: gn0}\nnics: {per_node: 8, gbits_per_s: 400}\n");
    struct placement *p = place(t, 16);
    FILE *fp = fopen("tests/cases/d04_rails.tsv", "r");
    char line[256], node[32], name[32];
    double rate, port, mean = 0;
    struct cost c;
    int rows = 0;

    (void)state;
    assert_non_null(fp);
    while (fgets(line, sizeof(line), fp)) {
        if (sscanf(line, "%31s %31s %lf %lf", node, name, &rate, &port) != 4)
            continue;
        for (int i = 0; i < 16; i++)
            if (str_eq(t->nodes[i / 8].name, node) &&
                str_eq(t->nodes[i / 8].nics[i % 8].name, name))
                t->nodes[i / 8].nics[i % 8].gbits_per_s = rate;
        mean += rate;
        rows++;
    }
    fclose(fp);
    assert_int_equal(rows, 8);
    c = replicas(t, p, COLLECTIVE_ALL_GATHER, GB);
    assert_string_equal(c.object, "gn01 mlx5_3 of 13.2 Gb/s, shared by 1 group");
    assert_true(near(c.gbytes_per_s, 13.2 / 8));
    assert_true(mean / rows > 20 * 13.2);
    t->nodes[0].nics[3].gbits_per_s = 400;
    c = replicas(t, p, COLLECTIVE_ALL_GATHER, GB);
    assert_string_equal(c.object, "gn02 mlx5_1 of 240.3 Gb/s, shared by 1 group");
    placement_free(p);
    topology_free(t);
}

/* B10: nodes of one NVLink domain reach each other by NVLink, others by NIC. */
static void test_domains(void **state)
{
    struct topology *t =
        spec("nodes: {count: 4, prefix: n}\nnics: {per_node: 8, gbits_per_s: 400}\n");
    struct placement *p = place(t, 32);
    int same[16], apart[16];
    struct cost c;

    (void)state;
    for (int i = 0; i < 4; i++)
        snprintf(t->nodes[i].nvlink_domain, 64, "u.%d", i < 2 ? 1 : 2);
    for (int i = 0; i < 16; i++) {
        same[i] = i;
        apart[i] = 8 + i;
    }
    c = cost_collective(COLLECTIVE_ALL_GATHER, GB, same, 16, p, t);
    assert_string_equal(c.tier, "nvlink");
    assert_true(c.bytes[COST_NIC] == 0);
    c = cost_collective(COLLECTIVE_ALL_GATHER, GB, apart, 16, p, t);
    assert_true(c.bytes[COST_NIC] > 0);
    placement_free(p);
    topology_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nics_of_gpus), cmocka_unit_test(test_pcie_tree),
        cmocka_unit_test(test_unknown),      cmocka_unit_test(test_slow_rail_d04),
        cmocka_unit_test(test_domains),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
