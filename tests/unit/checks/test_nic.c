/* RDMA devices: trees with one fault each, and counters before and after. */
#include "topology/trees.h"

#include <math.h>
#include <stdlib.h>

#include "checks/host.h"
#include "checks/judge.h"
#include "checks/measure.h"
#include "checks/nic.h"
#include "checks/verdict.h"

#define GDR_DIR "sys/kernel/mm/memory_peers/nv_mem"

struct machine {
    char *root;
    struct topology *topology;
};

static struct machine open_machine(const char *shape)
{
    struct err err = ERR_INIT;
    struct machine m = { .root = tree_make(shape) };

    assert_ok(topology_from_sysfs(m.root, &m.topology, &err), &err);
    return m;
}

static void close_machine(struct machine *m)
{
    topology_free(m->topology);
    tree_remove(m->root);
}

static void put(const struct machine *m, const char *path, const char *text)
{
    tree_run("mkdir -p $(dirname %s/%s) && printf '%s\\n' >%s/%s", m->root, path, text,
             m->root, path);
}

static struct host host_of(const struct machine *m, const char *name)
{
    return (struct host){
        .root = m->root, .name = name, .machines = 2, .cuda = 1, .topology = m->topology
    };
}

static const struct verdict *find(const struct verdicts *v, const char *name,
                                  const char *object)
{
    for (int i = 0; i < v->n; i++)
        if (strcmp(v->item[i].name, name) == 0 &&
            strcmp(v->item[i].object, object) == 0)
            return &v->item[i];
    fail_msg("no verdict on %s of %s", name, object);
    return NULL;
}

static void expect(const struct verdicts *v, const char *name, const char *object,
                   enum verdict_result r, const char *part)
{
    const struct verdict *one = find(v, name, object);

    if (one->result != r)
        fail_msg("%s %s is %s: %s", name, object, verdict_result_name(one->result),
                 one->reason);
    if (part && (!one->reason || !strstr(one->reason, part)))
        fail_msg("%s %s: no '%s' in '%s'", name, object, part,
                 one->reason ? one->reason : "");
}

static int count_bad(const struct verdicts *v)
{
    int n = 0;

    for (int i = 0; i < v->n; i++)
        n += v->item[i].result != VERDICT_PASS;
    return n;
}

static struct verdicts judge(struct measures *l)
{
    const struct judge plain = { 0 };
    struct verdicts v = { 0 };

    judge_all(&plain, l, &v);
    measures_release(l);
    return v;
}

/* Two machines as they are in `a` and `b`. */
static struct verdicts look(const struct machine *a, const struct machine *b)
{
    struct host one = host_of(a, "n01"), two = host_of(b, "n02");
    struct measures l = { 0 };

    nic_measure(&one, &l);
    nic_measure(&two, &l);
    return judge(&l);
}

static void put_all(const struct machine *m, const char *file, const char *text)
{
    for (int i = 0; i < 8; i++) {
        char path[128];

        snprintf(path, sizeof(path), "sys/class/infiniband/mlx5_%d/%s", i, file);
        put(m, path, text);
    }
}

static void test_ports(void **state)
{
    struct machine good = open_machine("hgx"), down = open_machine("down");
    struct verdicts v;

    (void)state;
    put_all(&good, "fw_ver", "28.43.2026");
    put_all(&down, "fw_ver", "28.43.2026");
    v = look(&good, &good);
    assert_int_equal(count_bad(&v), 0);
    expect(&v, "nic_state", "n01 mlx5_2", VERDICT_PASS, NULL);
    expect(&v, "nic_rate", "n02 mlx5_7", VERDICT_PASS, "400 Gb/sec");
    for (int i = 0; i < v.n; i++) /* storage is none of ours */
        assert_null(strstr(v.item[i].object, "mlx5_8"));
    verdicts_release(&v);

    put(&down, "sys/class/infiniband/mlx5_2/ports/1/phys_state", "2: Polling");
    put(&down, "sys/class/infiniband/mlx5_3/fw_ver", "28.39.1002");
    v = look(&good, &down);
    expect(&v, "nic_state", "n02 mlx5_2", VERDICT_FAIL, "no signal: cable");
    assert_string_equal(find(&v, "nic_state", "n02 mlx5_2")->node, "n02");
    expect(&v, "nic_firmware", "n02 mlx5_3", VERDICT_PASS,
           "28.39.1002 here, 28.43.2026 on 15 of 16");
    assert_true(find(&v, "nic_firmware", "n02 mlx5_3")->warn);
    assert_int_equal(count_bad(&v), 1);
    verdicts_release(&v);
    close_machine(&good);
    close_machine(&down);
}

static void test_rate(void **state)
{
    struct machine good = open_machine("hgx"), slow = open_machine("hgx");
    struct verdicts v;

    (void)state;
    put(&slow, "sys/class/infiniband/mlx5_5/ports/1/rate", "200 Gb/sec (2X NDR)");
    topology_free(slow.topology);
    assert_int_equal(topology_from_sysfs(slow.root, &slow.topology, NULL), 0);
    v = look(&good, &slow);
    expect(&v, "nic_rate", "n02 mlx5_5", VERDICT_FAIL, "15 of 16 like it have 400");
    expect(&v, "nic_rate", "n01 mlx5_5", VERDICT_PASS, NULL);
    verdicts_release(&v);
    close_machine(&good);
    close_machine(&slow);
}

/* 16 lanes of Gen5 carry 504 Gb/s, of Gen4 252, of Gen3 126. */
static void test_pcie(void **state)
{
    struct machine worn = open_machine("worn");
    struct verdicts v = look(&worn, &worn);

    (void)state;
    expect(&v, "nic_pcie", "n01 mlx5_0", VERDICT_PASS, "Gen5 x16");
    expect(&v, "nic_pcie", "n01 mlx5_6", VERDICT_FAIL, "Gen3 x16");
    expect(&v, "nic_pcie", "n01 mlx5_2", VERDICT_FAIL, "Gen4 x16");
    expect(&v, "nic_pcie", "n01 mlx5_1", VERDICT_FAIL, "Gen5 x8");
    assert_true(fabs(find(&v, "nic_pcie", "n01 mlx5_6")->measured - 126.03) < 0.1);
    assert_true(find(&v, "nic_pcie", "n01 mlx5_6")->expected == 400);
    expect(&v, "nic_state", "n01 mlx5_4", VERDICT_FAIL, "init");
    verdicts_release(&v);
    close_machine(&worn);
}

static void test_roce(void **state)
{
    struct machine m = open_machine("roce");
    struct host alone = host_of(&m, "n01");
    struct measures l = { 0 };
    struct verdicts v;

    (void)state;
    put(&m, "sys/class/infiniband/rocep1/device/net/ib_rocep1/mtu", "9000");
    put(&m, "sys/class/infiniband/rocep2/device/net/ib_rocep2/mtu", "1500");
    v = look(&m, &m);
    expect(&v, "nic_gid", "n01 rocep1", VERDICT_PASS, "index 3");
    expect(&v, "nic_gid", "n01 rocep2", VERDICT_FAIL, "no RoCE v2 GID");
    expect(&v, "nic_mtu", "n01 rocep2", VERDICT_PASS, "no value has a majority");
    verdicts_release(&v);

    put(&m, "sys/class/infiniband/rocep2/device/net/ib_rocep2/mtu", "9000");
    setenv("NCCL_IB_GID_INDEX", "1", 1);
    v = look(&m, &m);
    unsetenv("NCCL_IB_GID_INDEX");
    expect(&v, "nic_gid", "n01 rocep1", VERDICT_FAIL, "NCCL_IB_GID_INDEX is 1");
    expect(&v, "nic_mtu", "n01 rocep2", VERDICT_PASS, NULL);
    assert_false(find(&v, "nic_mtu", "n01 rocep2")->warn);
    verdicts_release(&v);

    alone.machines = 1; /* one machine needs none */
    nic_measure(&alone, &l);
    v = judge(&l);
    expect(&v, "nic_gid", "n01 rocep2", VERDICT_PASS, NULL);
    verdicts_release(&v);
    close_machine(&m);
}

/* Ports whose addresses stand at different places in their tables. */
static void test_gid_differs(void **state)
{
    struct measures l = { 0 };
    struct verdicts v;

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct measure *m = nic_add(&l, "nic_gid_same", "n01", i == 2 ? "odd" : "port");

        m->value = 0;
        measure_say(m, "index %d", i == 2 ? 5 : 3);
    }
    v = judge(&l);
    expect(&v, "nic_gid_same", "n01 odd", VERDICT_PASS,
           "index 5 here, index 3 on 3 of 4");
    assert_true(find(&v, "nic_gid_same", "n01 odd")->warn);
    verdicts_release(&v);
}

static void test_none(void **state)
{
    struct machine m = open_machine("small");
    struct host h = host_of(&m, "n01");
    struct measures l = { 0 };
    struct verdicts v;

    (void)state;
    nic_measure(&h, &l);
    nic_measure_gdr(&h, &l);
    h.topology = NULL; /* nothing could be read: that is another answer */
    h.name = "n02";
    nic_measure(&h, &l);
    v = judge(&l);
    assert_int_equal(v.n, 3);
    expect(&v, "nic_state", "n01 no device", VERDICT_PASS, "no RDMA device");
    expect(&v, "nic_gdr", "n01", VERDICT_PASS, "not used");
    expect(&v, "nic_state", "n02 no device", VERDICT_UNMEASURED, "could not be listed");
    verdicts_release(&v);
    close_machine(&m);
}

/* --- GPUDirect RDMA (case D12) ---------------------------------------------------------- */

static void expect_gdr(const struct machine *m, enum verdict_result r, const char *part)
{
    struct host h = host_of(m, "n01");
    struct measures l = { 0 };
    struct verdicts v;

    nic_measure_gdr(&h, &l);
    v = judge(&l);
    expect(&v, "nic_gdr", "n01", r, part);
    verdicts_release(&v);
}

static void test_gdr(void **state)
{
    static const char open_driver[] =
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release";
    struct machine m = open_machine("hgx");

    (void)state;
    expect_gdr(&m, VERDICT_FAIL, "no peer memory module is loaded");
    put(&m, "sys/module/nv_peer_mem/version", "1.3");
    expect_gdr(&m, VERDICT_PASS, "peer memory");
    tree_run("rm -r %s/sys/module/nv_peer_mem", m.root);

    put(&m, "sys/module/nvidia_peermem/refcnt", "0");
    expect_gdr(&m, VERDICT_FAIL, "did not register");
    put(&m, GDR_DIR "/version", "1.3");
    expect_gdr(&m, VERDICT_PASS, "peer memory");
    setenv("NCCL_NET_GDR_LEVEL", "LOC", 1);
    expect_gdr(&m, VERDICT_FAIL, "NCCL_NET_GDR_LEVEL=LOC");
    unsetenv("NCCL_NET_GDR_LEVEL");
    tree_run("rm -r %s/sys/module/nvidia_peermem %s/" GDR_DIR, m.root, m.root);

    put(&m, "proc/driver/nvidia/version", open_driver);
    put(&m, "proc/sys/kernel/osrelease", "5.15.0-130-generic");
    expect_gdr(&m, VERDICT_PASS, "DMA-BUF");
    put(&m, "proc/sys/kernel/osrelease", "5.4.0-generic");
    expect_gdr(&m, VERDICT_FAIL, "no DMA-BUF");
    put(&m, "proc/sys/kernel/osrelease", "6.8.0");
    put(&m, "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19");
    expect_gdr(&m, VERDICT_FAIL, "no DMA-BUF");
    close_machine(&m);
}

/* --- counters --------------------------------------------------------------------------- */

static void put_counter(const struct machine *m, const char *name, const char *value)
{
    char path[128];

    snprintf(path, sizeof(path), "sys/class/infiniband/mlx5_3/ports/1/%s", name);
    put(m, path, value);
}

static struct verdicts count(const struct machine *m, struct nic_counters *before,
                             double seconds)
{
    struct nic_counters *after = nic_counters_read(m->root, m->topology);
    struct measures l = { 0 };

    nic_counters_measure(before, after, seconds, "n01", &l);
    nic_counters_free(before);
    nic_counters_free(after);
    return judge(&l);
}

static void test_counters(void **state)
{
    struct machine m = open_machine("hgx");
    struct verdicts v;
    struct nic_counters *before;

    (void)state;
    put_counter(&m, "counters/link_downed", "7"); /* since boot: nothing to us */
    put_counter(&m, "counters/symbol_error", "40000");
    put_counter(&m, "hw_counters/packet_seq_err", "10");
    before = nic_counters_read(m.root, m.topology);
    v = count(&m, before, 30);
    expect(&v, "nic_link_downed", "n01 mlx5_3", VERDICT_PASS, NULL);
    expect(&v, "nic_symbol_errors", "n01 mlx5_3", VERDICT_PASS, NULL);
    expect(&v, "nic_rnr", "n01 mlx5_3", VERDICT_PASS, "not counted by this driver");
    assert_int_equal(count_bad(&v), 0);
    verdicts_release(&v);

    before = nic_counters_read(m.root, m.topology);
    put_counter(&m, "counters/link_downed", "8");
    put_counter(&m, "counters/symbol_error",
                "40010"); /* 12 allowed in 30 s at 400 Gb/s */
    put_counter(&m, "hw_counters/packet_seq_err", "13");
    put_counter(&m, "hw_counters/np_cnp_sent", "5");
    v = count(&m, before, 30);
    expect(&v, "nic_link_downed", "n01 mlx5_3", VERDICT_FAIL, "link_downed +1");
    assert_string_equal(find(&v, "nic_link_downed", "n01 mlx5_3")->node, "n01");
    expect(&v, "nic_symbol_errors", "n01 mlx5_3", VERDICT_PASS, NULL);
    assert_false(find(&v, "nic_symbol_errors", "n01 mlx5_3")->warn);
    expect(&v, "nic_retransmits", "n01 mlx5_3", VERDICT_PASS, "packet_seq_err +3");
    assert_true(find(&v, "nic_retransmits", "n01 mlx5_3")->warn);
    expect(&v, "nic_link_downed", "n01 mlx5_4", VERDICT_PASS, NULL);
    verdicts_release(&v);

    before = nic_counters_read(m.root, m.topology);
    put_counter(&m, "counters/symbol_error", "42000");
    v = count(&m, before, 30);
    assert_true(find(&v, "nic_symbol_errors", "n01 mlx5_3")->warn);
    verdicts_release(&v);
    close_machine(&m);
}

/* Narrow counters stop at their end; and someone may set them back. */
static void test_counters_blind(void **state)
{
    struct machine m = open_machine("hgx");
    struct nic_counters *before;
    struct verdicts v;

    (void)state;
    put_counter(&m, "counters/link_downed", "255");
    put_counter(&m, "counters/symbol_error", "500");
    put_counter(&m, "counters/port_xmit_discards", "12x");
    before = nic_counters_read(m.root, m.topology);
    put_counter(&m, "counters/symbol_error", "3");
    v = count(&m, before, 30);
    expect(&v, "nic_link_downed", "n01 mlx5_3", VERDICT_UNMEASURED,
           "link_downed stands at its highest value");
    expect(&v, "nic_symbol_errors", "n01 mlx5_3", VERDICT_UNMEASURED, "set back");
    expect(&v, "nic_discards", "n01 mlx5_3", VERDICT_PASS, "not counted");
    verdicts_release(&v);
    close_machine(&m);
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(test_ports),
        cmocka_unit_test(test_rate),
        cmocka_unit_test(test_pcie),
        cmocka_unit_test(test_roce),
        cmocka_unit_test(test_gid_differs),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_gdr),
        cmocka_unit_test(test_counters),
        cmocka_unit_test(test_counters_blind),
    };

    return cmocka_run_group_tests(t, NULL, NULL);
}
