/* The sysfs source over trees that tests/trees/make.sh writes, and this machine. */
#include "trees.h"

static struct topology *replay(const char *shape)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;
    char *dir = tree_make(shape);

    assert_ok(topology_from_host(dir, &t, &err), &err);
    assert_int_equal(t->simulated, 0);
    tree_remove(dir);
    return t;
}

static void test_hgx(void **state)
{
    /* the HCA beside each GPU, numbered against the GPUs on NUMA node 1 (nccl#1453) */
    static const char *const near[] = { "mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3",
                                        "mlx5_7", "mlx5_6", "mlx5_5", "mlx5_4" };
    struct topology *t = replay("hgx");
    const struct node *n = &t->nodes[0];

    (void)state;
    assert_string_equal(n->name, "hgx01");
    assert_string_equal(n->boot_id, "11111111-2222-3333-4444-555555555555");
    assert_string_equal(n->cpu_model, "Intel(R) Xeon(R) Platinum 8480C");
    assert_int_equal(n->sockets, 2);
    assert_int_equal(n->cores, 16);
    assert_int_equal(n->threads, 32);
    assert_true(n->memory_bytes == 2113929216LL * 1024);
    assert_int_equal(n->n_numas, 2);
    assert_string_equal(n->numas[1].cpus, "8-15,24-31");
    assert_true(n->numas[1].memory_bytes == 1056964608LL * 1024);
    assert_int_equal(n->n_gpus, 8);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(n->gpus[i].index, i);
        assert_int_equal(n->gpus[i].numa, i / 4);
        assert_string_equal(n->gpus[i].name, "NVIDIA H200");
        assert_true(n->gpus[i].nic >= 0);
        assert_string_equal(n->nics[n->gpus[i].nic].name, near[i]);
        assert_true(n->gpus[i].pcie_gbytes_per_s == (i == 3 ? 24 : 48));
        assert_true(n->gpus[i].memory_bytes == -1); /* sysfs does not know */
    }
    assert_string_equal(n->gpus[0].busid, "0000:18:10.0");
    assert_string_equal(n->gpus[4].busid, "0000:9a:10.0"); /* hexadecimal order */
    assert_true(
        tree_found(t, SEVERITY_FAIL, "hgx01 gpu 3", "0000:5d:10.0 has 8 of 16"));
    assert_int_equal(t->n_findings, 1);
    topology_free(t);
}

/* Compute, storage and management are told apart; what hangs off no device (docker0,
 * bridges, veth, lo) is no NIC at all; the IPoIB face of an HCA is not a second one. */
static void test_hgx_nics(void **state)
{
    struct topology *t = replay("hgx");
    const struct node *n = &t->nodes[0];
    int kinds[4] = { 0 };

    (void)state;
    for (int i = 0; i < n->n_nics; i++)
        kinds[n->nics[i].kind]++;
    assert_int_equal(n->n_nics, 11);
    assert_int_equal(kinds[NIC_COMPUTE], 8);
    assert_int_equal(kinds[NIC_STORAGE], 2);
    assert_int_equal(kinds[NIC_MANAGEMENT], 1);
    assert_string_equal(n->nics[0].guid, "0xe41d2d0300000000");
    assert_int_equal(n->nics[0].layer, LINK_INFINIBAND);
    assert_int_equal(n->nics[0].up, 1);
    assert_true(n->nics[0].gbits_per_s == 400);
    assert_string_equal(n->nics[10].name, "eno1");
    assert_int_equal(n->nics[10].kind, NIC_MANAGEMENT);
    assert_string_equal(n->nics[10].why, "Ethernet beside RDMA devices");
    assert_string_equal(n->nics[8].why, "shares no PCIe switch with a GPU");
    assert_int_equal(n->nics[10].layer, LINK_ETHERNET);
    assert_true(n->nics[10].gbits_per_s == 25);
    topology_free(t);
}

/* A compute port that is down stays a compute port, and is named. */
static void test_port_down(void **state)
{
    struct topology *t = replay("down");

    (void)state;
    assert_int_equal(t->nodes[0].nics[2].kind, NIC_COMPUTE);
    assert_int_equal(t->nodes[0].nics[2].up, 0);
    assert_true(tree_found(t, SEVERITY_FAIL, "hgx01 mlx5_2", "port is down"));
    topology_free(t);
}

/* PCIe below its slot, on the whole way; a port that no subnet manager has set up. */
static void test_worn(void **state)
{
    static const struct {
        enum severity severity;
        const char *object, *text;
    } want[] = {
        { SEVERITY_FAIL, "hgx01 0000:2a:02.0", "0000:2a:02.0 has 8 of 16 lanes" },
        { SEVERITY_FAIL, "hgx01 0000:3a:02.0", "runs at Gen4 of Gen5: reseat" },
        { SEVERITY_FAIL, "hgx01 mlx5_6", "0000:ab:11.0 runs at Gen3 of Gen5" },
        { SEVERITY_FAIL, "hgx01 gpu 3", "0000:5d:10.0 has 8 of 16 lanes" },
        { SEVERITY_WARN, "hgx01 gpu 6", "Gen4 at most, its like Gen5" },
        { SEVERITY_FAIL, "hgx01 mlx5_4",
          "no subnet manager has made it active (init)" },
    };
    struct topology *t = replay("worn");

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(want); i++)
        if (!tree_found(t, want[i].severity, want[i].object, want[i].text))
            fail_msg("%s: %s", want[i].object, want[i].text);
    assert_int_equal(t->n_findings, (int)ARRAY_LEN(want));
    assert_int_equal(t->nodes[0].nvswitches, 4);
    assert_string_equal(t->nodes[0].nics[4].state, "init");
    topology_free(t);
}

static const struct nic *nic_called(const struct node *n, const char *name)
{
    for (int i = 0; i < n->n_nics; i++)
        if (strcmp(n->nics[i].name, name) == 0)
            return &n->nics[i];
    fail_msg("no %s", name);
    return NULL;
}

/* RoCE: the GID that routes; what stands for another device is no compute NIC, and says
 * why. */
static void test_roce(void **state)
{
    static const char *const aside[][2] = {
        { "rocep1v1", "SR-IOV virtual function of rocep1" },
        { "rocep1v2", "SR-IOV virtual function of rocep1" },
        { "eno0", "part of bond0" },
        { "eno1", "part of bond0" },
        { "bond0", "Ethernet beside RDMA devices" },
        { "bond0.100", "VLAN of bond0" },
    };
    struct topology *t = replay("roce");
    const struct node *n = &t->nodes[0];

    (void)state;
    assert_int_equal(nic_called(n, "rocep1")->kind, NIC_COMPUTE);
    assert_string_equal(nic_called(n, "rocep1")->why, "");
    assert_int_equal(nic_called(n, "rocep1")->gid, 3);
    assert_int_equal(nic_called(n, "rocep2")->gid, GID_NONE);
    assert_true(tree_found(t, SEVERITY_WARN, "roce01 rocep2", "no RoCE v2 GID"));
    for (size_t i = 0; i < ARRAY_LEN(aside); i++) {
        assert_string_equal(nic_called(n, aside[i][0])->why, aside[i][1]);
        assert_int_equal(nic_called(n, aside[i][0])->kind, NIC_MANAGEMENT);
    }
    assert_int_equal(n->n_nics, 8);
    assert_string_equal(n->gpus[0].nic_path, "PIX");
    topology_free(t);
}

/* A07: a flat virtual machine.  Unknown stays unknown, never NUMA node 0. */
static void test_flat_vm_a07(void **state)
{
    struct topology *t = replay("vm");
    const struct node *n = &t->nodes[0];

    (void)state;
    assert_int_equal(n->n_gpus, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(n->gpus[i].numa, -1);
        assert_int_equal(n->gpus[i].nic, -1);
        assert_true(n->gpus[i].pcie_gbytes_per_s == -1); /* width 0 */
    }
    assert_int_equal(n->n_nics, 1);
    assert_int_equal(n->nics[0].kind, NIC_UNKNOWN);
    assert_true(tree_found(t, SEVERITY_WARN, "h200-vm", "flat; affinity unknown"));
    topology_free(t);
}

static void test_small(void **state)
{
    struct topology *t = replay("small");
    const struct node *n = &t->nodes[0];

    (void)state;
    assert_int_equal(n->n_gpus, 0);
    assert_int_equal(n->cores, 2);
    assert_int_equal(n->n_nics, 1);
    assert_string_equal(n->nics[0].name, "eth0");
    assert_string_equal(n->nics[0].busid, "0000:00:03.0");
    assert_true(n->nics[0].gbits_per_s == -1);
    assert_true(tree_found(t, SEVERITY_NOTE, "small", "affinity unknown"));
    topology_free(t);
}

static void test_no_tree(void **state)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;

    (void)state;
    assert_err(topology_from_host("/nonexistent", &t, &err), &err, ERR_MISSING,
               "/nonexistent");
    assert_null(t);
}

static void test_this_machine(void **state)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;

    (void)state;
    assert_ok(topology_from_host("", &t, &err), &err);
    assert_int_equal(t->n_nodes, 1);
    assert_true(t->nodes[0].threads <= (int)sysconf(_SC_NPROCESSORS_ONLN));
    assert_true(t->nodes[0].threads > 0 && t->nodes[0].memory_bytes > 0);
    topology_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hgx),          cmocka_unit_test(test_hgx_nics),
        cmocka_unit_test(test_port_down),    cmocka_unit_test(test_flat_vm_a07),
        cmocka_unit_test(test_small),        cmocka_unit_test(test_no_tree),
        cmocka_unit_test(test_this_machine), cmocka_unit_test(test_worn),
        cmocka_unit_test(test_roce),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
