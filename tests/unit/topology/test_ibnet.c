/* ibnetdiscover: records, levels, what joins by GUID, case B12. */
#include "slurm_cases.h"
#include "topology/emit.h"
#include "topology/fabric.h"
#include "topology/ibnet.h"
#include "topology/source.h"
#include "topology/topology.h"

enum { NODES = 6, RAILS = 2, LEAF = 0x1000, SPINE = 0x2000, HCA = 0x9000 };

/* Six nodes on two rails, two spines with four cables from each leaf, one management
 * host, one aggregation node a leaf.  Node 3 has its cables crossed; node 5's adapters
 * do not say who they are; port 1 of leaf 0 runs at half the rate. */
static int leaf_of_cable(int node, int rail)
{
    return node == 3 ? 1 - rail : rail;
}

static void add_name(struct str *s, int node, int rail)
{
    if (node == 5)
        str_adds(s, "\"MT4129 ConnectX7   Mellanox Technologies\"");
    else
        str_addf(s, "\"gn%d mlx5_%d\"", node, rail);
}

static void add_leaf(struct str *s, int leaf)
{
    str_addf(
        s,
        "vendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0x%x\nswitchguid=0x%x(%x)\n"
        "Switch\t65 \"S-%016x\"\t\t# \"MF0;leaf%d:MQM9701/U1\" enhanced port 0 lid 7 "
        "lmc 0\n",
        LEAF + leaf, LEAF + leaf, LEAF + leaf, LEAF + leaf, leaf);
    for (int n = 0; n < NODES; n++)
        for (int r = 0; r < RAILS; r++) {
            int guid = HCA + n * 16 + r;
            if (leaf_of_cable(n, r) != leaf)
                continue;
            str_addf(s, "[%d]\t\"H-%016x\"[1](%x) \t\t# ", n + 1, guid, guid);
            add_name(s, n, r);
            str_addf(s, " lid %d %s\n", 100 + n,
                     n == 0 && leaf == 0 ? "2xNDR" : "4xNDR");
        }
    for (int k = 0; k < 8; k++)
        str_addf(s,
                 "[%d][ext 9]\t\"S-%016x\"[%d]\t\t# \"spine:x\" lid 5 4xNDR s=1 w=4\n",
                 33 + k, SPINE + k / 4, leaf * 8 + k + 1);
    str_addf(s,
             "[65]\t\"H-%016x\"[1](%x) \t\t# \"Mellanox Technologies Aggregation "
             "Node\" lid 9 4xHDR\n\n",
             0x7000 + leaf, 0x7000 + leaf);
}

static void add_spine(struct str *s, int spine)
{
    str_addf(s,
             "switchguid=0x%x\nSwitch\t65 \"S-%016x\"\t\t# \"spine:x\" base port 0\n",
             SPINE + spine, SPINE + spine);
    for (int leaf = 0; leaf < RAILS; leaf++)
        for (int k = 4 * spine; k < 4 * spine + 4; k++)
            str_addf(
                s, "[%d]\t\"S-%016x\"[%d]\t\t# \"MF0;leaf%d:MQM9701/U1\" lid 7 4xNDR\n",
                leaf * 8 + k + 1, LEAF + leaf, 33 + k, leaf);
    if (spine == 0)
        str_adds(s, "[64]\t\"H-0000000000008000\"[1](8000) \t\t# \"ufm mlx5_0\" lid 1 "
                    "4xNDR\n");
    str_adds(s, "\n");
}

static void add_adapters(struct str *s)
{
    for (int n = 0; n < NODES; n++)
        for (int r = 0; r < RAILS; r++) {
            int guid = HCA + n * 16 + r;
            str_addf(s, "vendid=0x2c9\ncaguid=0x%x\nCa\t1 \"H-%016x\"\t\t# ", guid,
                     guid);
            add_name(s, n, r);
            str_addf(
                s,
                "\n[1](%x) \t\"S-%016x\"[%d]\t\t# lid 9 lmc 0 \"MF0;leaf%d:x\" lid 7 "
                "%s\n\n",
                guid, LEAF + leaf_of_cable(n, r), n + 1, leaf_of_cable(n, r),
                n == 0 && r == 0 ? "2xNDR" : "4xNDR");
        }
}

static char *fabric_text(void)
{
    struct str s = STR_INIT;

    str_adds(&s, "#\n# Topology file: generated on Fri Jan  9 06:33:24 2026\n#\n\n");
    for (int i = 0; i < RAILS; i++)
        add_leaf(&s, i);
    for (int i = 0; i < 2; i++)
        add_spine(&s, i);
    add_adapters(&s);
    return str_take(&s);
}

static struct topology *parse(const char *text)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;

    assert_ok(topology_from_ibnet_text(text, strlen(text), "fab", &t, &err), &err);
    return t;
}

static struct topology *fabric(void)
{
    char *text = fabric_text();
    struct topology *t = parse(text);

    free(text);
    return t;
}

static int found(const struct topology *t, const char *object, const char *part)
{
    for (int i = 0; i < t->n_findings; i++)
        if (strcmp(t->findings[i].object, object) == 0 &&
            strstr(t->findings[i].text, part))
            return 1;
    return 0;
}

static const struct nic *nic_of(const struct topology *t, const char *node,
                                const char *nic)
{
    for (int i = 0; i < t->n_nodes; i++)
        for (int k = 0; k < t->nodes[i].n_nics; k++)
            if (strcmp(t->nodes[i].name, node) == 0 &&
                strcmp(t->nodes[i].nics[k].name, nic) == 0)
                return &t->nodes[i].nics[k];
    fail_msg("no %s %s", node, nic);
    return NULL;
}

static void test_b12_no_switch(void **state)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;

    (void)state;
    assert_err(
        topology_from_ibnet("tests/cases/b12_ibnetdiscover_ca_only.txt", &t, &err),
        &err, ERR_MISSING, "b12_ibnetdiscover_ca_only.txt: no switches found");
    assert_null(t);
}

static void test_fabric(void **state)
{
    struct topology *t = fabric();

    (void)state;
    assert_int_equal(t->by_guid, 1);
    assert_int_equal(t->n_switches, 4);
    assert_string_equal(t->switches[0].name, "leaf0");
    assert_string_equal(t->switches[0].guid, "0x0000000000001000");
    assert_int_equal(t->switches[1].level, 0);
    assert_string_equal(t->switches[2].name,
                        "S-0000000000002000"); /* two are "spine" */
    assert_int_equal(t->switches[2].level, 1); /* in spite of the management host */
    assert_int_equal(t->n_links, 4);
    assert_int_equal(t->links[0].count, 4); /* listed by both ends */
    assert_true(t->links[0].gbits_per_s == 400);
    assert_int_equal(nic_of(t, "gn1", "mlx5_1")->leaf, 1);
    assert_true(nic_of(t, "gn0", "mlx5_0")->gbits_per_s == 200);
    assert_string_equal(nic_of(t, "gn4", "mlx5_0")->guid, "0x0000000000009040");
    assert_int_equal(nic_of(t, "ca-0000000000009051", "ca")->leaf, 1);
    assert_int_equal(t->n_findings, 1);
    assert_true(
        found(t, "MF0;leaf0:MQM9701/U1",
              "port 1 to port 1 of gn0 mlx5_0 runs at 200 Gb/s, its like at 400"));
    topology_free(t);
}

static void test_miswire(void **state)
{
    struct topology *t = fabric();

    (void)state;
    fabric_inspect(t);
    assert_int_equal(t->n_findings, 3);
    assert_true(
        found(t, "gn3 mlx5_0", "miswired: rail 0, but leaf leaf1 carries rail 1"));
    assert_true(
        found(t, "gn3 mlx5_1", "miswired: rail 1, but leaf leaf0 carries rail 0"));
    topology_free(t);
}

/* Three of the nodes, as another source knows them: other names, the same GUIDs. */
static struct topology *hosts(void)
{
    struct topology *t = topology_new("hosts", 3);

    for (int i = 0; i < 3; i++) {
        snprintf(t->nodes[i].name, sizeof(t->nodes[i].name), "compute-%d", i);
        for (int r = 0; r < RAILS; r++) {
            struct nic *c = topology_add_nic(&t->nodes[i]);
            snprintf(c->name, sizeof(c->name), "ibp%d", r);
            snprintf(c->guid, sizeof(c->guid), "0x%016x", HCA + (i + 3) * 16 + r);
            c->kind = NIC_COMPUTE;
            c->gbits_per_s = 399;
        }
    }
    return t;
}

static void check_joined(const struct topology *t)
{
    assert_int_equal(t->n_nodes, 3);
    assert_int_equal(t->by_guid, 0);
    assert_int_equal(t->n_switches, 4);
    assert_string_equal(t->switches[nic_of(t, "compute-1", "ibp1")->leaf].name,
                        "leaf1");
    assert_string_equal(t->switches[nic_of(t, "compute-2", "ibp0")->leaf].name,
                        "leaf0");
    assert_true(nic_of(t, "compute-1", "ibp1")->gbits_per_s == 399); /* it knew */
    assert_int_equal(nic_of(t, "compute-1", "ibp1")->rail, -1);
    assert_true(found(t, "ibnet:fab", "7 adapters of the fabric are in no node"));
}

static void test_join(void **state)
{
    struct topology *t = hosts(), *net = fabric(), *u = fabric(), *more = hosts();
    struct err err = ERR_INIT;

    (void)state;
    assert_ok(topology_merge(t, net, &err), &err);
    check_joined(t);
    assert_string_equal(t->source, "hosts+ibnet:fab");
    assert_ok(topology_merge(u, more, &err), &err); /* the other way round */
    check_joined(u);
    topology_free(t);
    topology_free(net);
    topology_free(u);
    topology_free(more);
}

static void test_emit(void **state)
{
    struct topology *t = fabric();
    struct err err = ERR_INIT;
    char *text = NULL;
    size_t size = 0;
    FILE *fp = open_memstream(&text, &size);

    (void)state;
    assert_ok(topology_emit_slurmconf(t, fp, &err), &err);
    fclose(fp);
    assert_non_null(strstr(text, "which proves nothing"));
    assert_non_null(strstr(text, "SwitchName=leafset0 Nodes=gn[0-4]\n"));
    assert_null(strstr(text, "ca-"));
    free(text);
    topology_free(t);
}

static void test_refused(void **state)
{
    static const struct {
        const char *text, *part;
    } bad[] = {
        { "", "fab: no Switch and no Ca" },
        { "hello\n", "no Switch and no Ca" },
        { "Switch\t65 \"X-12\"\n", "fab:1: a record without its" },
        { "Switch\t65\n", "fab:1: a record without its" },
        { "Switch\t65 \"S-0\"\n", "without its" },
        { "Switch\t65 \"S-12345678123456781\"\n", "without its" },
        { "[1]\t\"S-12\"[1]\n", "fab:1: a port that belongs to no Switch" },
        { "Switch\t2 \"S-1\"\n[1]\t\"H-2\"\n", "fab:2: a port is written" },
        { "Switch\t2 \"S-1\"\n[x]\t\"H-2\"[1]\n", "fab:2: a port is written" },
        { "Switch\t2 \"S-1\"\n[1](12\n", "fab:2: a port is written" },
        { "Switch\t2 \"S-1\"\n\nCa\t1 \"H-1\"\n",
          "a switch here and an adapter there" },
        { "SW  73  1 0x1 4x NDR - CA 64 1 0x2\n", "run it without -p" },
    };
    struct err err = ERR_INIT;
    struct topology *t = NULL;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_err(
            topology_from_ibnet_text(bad[i].text, strlen(bad[i].text), "fab", &t, &err),
            &err, ERR_USAGE, bad[i].part);
        assert_null(t);
    }
}

static void test_rates(void **state)
{
    static const struct {
        const char *text;
        double gbits;
    } rates[] = { { "4xSDR", 10 },   { "4xQDR", 40 },  { "4xFDR10", 40 },
                  { "4xFDR", 56 },   { "4xEDR", 100 }, { "4xHDR", 200 },
                  { "2xHDR", 100 },  { "4xXDR", 800 }, { "12xQDR", 120 },
                  { "x4 14xx", -1 }, { "", -1 },       { "4xNDR s=8 w=4", 400 } };
    struct err err = ERR_INIT;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rates); i++) {
        struct ibnet n;
        char *text =
            xasprintf("Switch 2 \"S-1\" # \"a\"\n[1]\t\"S-2\"[1]\t# \"b\" lid 3 %s\n",
                      rates[i].text);
        assert_ok(ibnet_parse(text, strlen(text), "fab", &n, &err), &err);
        assert_int_equal(n.n_cables, 1);
        if (n.cable[0].gbits_per_s != rates[i].gbits)
            fail_msg("%s: %g", rates[i].text, n.cable[0].gbits_per_s);
        assert_string_equal(n.device[1].name, "b");
        ibnet_release(&n);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_b12_no_switch), cmocka_unit_test(test_fabric),
        cmocka_unit_test(test_miswire),       cmocka_unit_test(test_join),
        cmocka_unit_test(test_emit),          cmocka_unit_test(test_refused),
        cmocka_unit_test(test_rates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
