/* Slurm's topology files: cases B09 and B10, both spellings, writing, and what the
 * fabric is asked. */
#include "slurm_cases.h"
#include "topology/emit.h"
#include "topology/fabric.h"
#include "topology/source.h"
#include "topology/topology.h"

static struct topology *load(const char *file)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;
    char path[128];

    snprintf(path, sizeof(path), "tests/cases/%s", file);
    assert_ok(topology_from_slurmconf(path, &t, &err), &err);
    return t;
}

static struct topology *parse(const char *text, const char *where)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;

    assert_ok(topology_from_slurmconf_text(text, strlen(text), where, &t, &err), &err);
    return t;
}

static void refused(const char *text, const char *part)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;

    assert_err(topology_from_slurmconf_text(text, strlen(text), "t.conf", &t, &err),
               &err, ERR_USAGE, part);
    assert_null(t);
}

/* Names of the nodes at a switch, folded. */
static void nodes_at(const struct topology *t, const char *name, const char *want)
{
    struct strlist names = { 0 };
    char *folded;

    for (int i = 0; i < t->n_nodes; i++)
        if (t->nodes[i].leaf >= 0 &&
            strcmp(t->switches[t->nodes[i].leaf].name, name) == 0)
            strlist_add(&names, t->nodes[i].name);
    folded = hostlist_fold(&names);
    assert_string_equal(folded, want);
    free(folded);
    strlist_release(&names);
}

static int node_named(const struct topology *t, const char *name)
{
    for (int i = 0; i < t->n_nodes; i++)
        if (strcmp(t->nodes[i].name, name) == 0)
            return i;
    fail_msg("no node %s", name);
    return -1;
}

static int found(const struct topology *t, const char *object, const char *part)
{
    for (int i = 0; i < t->n_findings; i++)
        if (strcmp(t->findings[i].object, object) == 0 &&
            strstr(t->findings[i].text, part))
            return 1;
    return 0;
}

static int span(const struct topology *t, const char *a, const char *b, struct err *err)
{
    const int pair[] = { node_named(t, a), node_named(t, b) };

    return fabric_check_span(t, pair, 2, err);
}

/* --- B09 ------------------------------------------------------------------------------- */

static void test_b09_good(void **state)
{
    struct topology *t = load("b09_topology_good.conf");
    struct err err = ERR_INIT;

    (void)state;
    assert_int_equal(t->n_switches, 3);
    nodes_at(t, "leaf1", "gn[01-04]");
    nodes_at(t, "leaf2", "gn[05-06,08]");
    assert_string_equal(t->switches[2].name, "spine");
    assert_int_equal(t->switches[2].level, 1);
    assert_int_equal(t->switches[1].link_speed, 400);
    assert_int_equal(t->switches[0].link_speed, 0);
    assert_int_equal(t->n_links, 2);
    assert_int_equal(t->links[1].from, 1);
    assert_int_equal(t->links[1].to, 2);
    assert_int_equal(t->n_findings, 0);
    assert_ok(span(t, "gn01", "gn08", &err), &err);
    topology_free(t);
}

static void test_b09_bad(void **state)
{
    static const struct {
        const char *file, *part;
    } bad[] = {
        { "b09_topology_bad_child.conf",
          "bad_child.conf:2: switch spine names switch leaf2" },
        { "b09_topology_bad_dup_node.conf",
          "bad_dup_node.conf:2: node gn04 is in switch leaf1 and in switch leaf2" },
        { "b09_topology_bad_cycle.conf", "form a cycle: b over a over b" },
        { "b09_topology_bad_dup_switch.conf",
          "bad_dup_switch.conf:2: switch leaf1 is defined again (first on line 1)" },
        { "b09_topology_empty.conf", "empty.conf: it defines no switch" },
    };
    struct err err = ERR_INIT;
    char path[128];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct topology *t = NULL;
        snprintf(path, sizeof(path), "tests/cases/%s", bad[i].file);
        assert_err(topology_from_slurmconf(path, &t, &err), &err, ERR_USAGE,
                   bad[i].part);
        assert_null(t);
    }
}

static void test_b09_two_roots(void **state)
{
    struct topology *t = load("b09_topology_two_roots.conf");
    struct err err = ERR_INIT;

    (void)state;
    assert_true(found(t, "tests/cases/b09_topology_two_roots.conf",
                      "2 unconnected switches at the top (fabA,fabB)"));
    assert_ok(span(t, "gn01", "gn02", &err), &err);
    assert_err(span(t, "gn01", "gn03", &err), &err, ERR_FAILED,
               "no link joins the switches of gn01 and gn03");
    topology_free(t);
}

/* --- B10 ------------------------------------------------------------------------------- */

static void test_b10_blocks(void **state)
{
    struct topology *t = load("b10_block.conf");
    struct err err = ERR_INIT;

    (void)state;
    nodes_at(t, "r01", "gb[001-018]");
    nodes_at(t, "r02", "gb[019-036]");
    nodes_at(t, "r03", "gb[037-050]");
    assert_string_equal(t->switches[0].kind, "block");
    assert_int_equal(t->n_block_sizes, 2);
    assert_int_equal(t->block_sizes[1], 36);
    assert_int_equal(t->n_findings, 1);
    assert_true(found(t, "r03", "14 nodes, short of the base size 18"));
    assert_ok(span(t, "gb001", "gb050", &err), &err);
    topology_free(t);
}

static int nvlink(const struct topology *t, const char *a, const char *b,
                  struct err *err)
{
    const int pair[] = { node_named(t, a), node_named(t, b) };

    return fabric_check_nvlink(t, pair, 2, err);
}

static void test_b10_cliques(void **state)
{
    struct topology *t = load("b10_block.conf"), *more = NULL;
    struct err err = ERR_INIT;

    (void)state;
    assert_ok(topology_from_cliques("tests/cases/b10_cliques.tsv", &more, &err), &err);
    assert_int_equal(more->n_nodes, 10);
    assert_ok(topology_merge(t, more, &err), &err);
    assert_int_equal(t->n_nodes, 50);
    assert_ok(nvlink(t, "gb015", "gb018", &err), &err);
    assert_ok(nvlink(t, "gb019", "gb020", &err), &err);
    assert_ok(nvlink(t, "gb021", "gb024", &err), &err);
    assert_err(nvlink(t, "gb018", "gb019", &err), &err, ERR_FAILED,
               "gb018 and gb019 are not NVLink: their domains differ");
    assert_err(nvlink(t, "gb020", "gb021", &err), &err, ERR_FAILED, "domains differ");
    assert_err(nvlink(t, "gb001", "gb015", &err), &err, ERR_FAILED, "unknown");
    fabric_inspect(t);
    fabric_inspect(t); /* says nothing twice */
    assert_int_equal(t->n_findings, 2);
    assert_true(found(t, "r02", "no single NVLink domain: gb[019-020]; gb[021-024]"));
    topology_free(t);
    topology_free(more);
}

static void test_cliques_refused(void **state)
{
    static const struct {
        const char *text, *part;
    } bad[] = {
        { "gn1\tN/A\n", "c:1: node gn1: 'N/A' is no ClusterUUID.CliqueId" },
        { "gn1\tN/A.1\n", "no ClusterUUID" },
        { "gn1 00000000-0000-0000-0000-000000000000.0\n", "no ClusterUUID" },
        { "gn1 11111111-2222.1\ngn1 11111111-2222.2\n", "c:2: node gn1 is in another" },
        { "gn1 11111111-2222.1 x\n", "must stand here" },
        { "gn1\n", "no ClusterUUID" },
        { "gn;1 11111111-2222.1\n", "must stand here" },
        { "# nothing\n", "c names no node" },
    };
    static const char same[] = "b AAAAAAAA-1.1\r\na 11111111-2222.1\nb aaaaaaaa-1.1\n";
    struct err err = ERR_INIT;
    struct topology *t = NULL;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_err(
            topology_from_cliques_text(bad[i].text, strlen(bad[i].text), "c", &t, &err),
            &err, ERR_USAGE, bad[i].part);
    assert_ok(topology_from_cliques_text(same, strlen(same), "c", &t, &err), &err);
    assert_int_equal(t->n_nodes, 2);
    assert_string_equal(t->nodes[0].name, "b");
    assert_string_equal(t->nodes[0].nvlink_domain, "aaaaaaaa-1.1");
    topology_free(t);
}

/* --- the text --------------------------------------------------------------------------- */

static void test_conf_forms(void **state)
{
    struct topology *t = parse("# c\r\nSWITCHNAME=s1 \\\r\n  Nodes=\"n[1-2]\"\r\n\r\n"
                               "switchname=s2 nodes=n3,n4 # x\n"
                               "SwitchName=s3 Switches=s[1-2] LinkSpeed=100\n"
                               "SwitchName=s4 Switches=s[1-2]\n"
                               "SwitchName=top Switches=s3,s4",
                               "t.conf");
    struct err err = ERR_INIT;

    (void)state;
    nodes_at(t, "s1", "n[1-2]");
    assert_int_equal(t->switches[4].level, 2);
    assert_int_equal(t->n_links, 6); /* two switches above one are no cycle */
    assert_int_equal(t->n_findings, 0);
    assert_ok(span(t, "n1", "n4", &err), &err);
    topology_free(t);
    t = parse("SwitchName=s1 Nodes=n[1-3,2-4],n1\n", "t.conf");
    assert_int_equal(t->n_nodes, 4);
    assert_true(found(t, "s1", "line 1 names n[2-3,1] more than once")); /* B04 */
    topology_free(t);
}

static void test_conf_refused(void **state)
{
    static const struct {
        const char *text, *part;
    } bad[] = {
        { "", "t.conf: it defines no switch" },
        { "SwichName=a Nodes=n1\n",
          "t.conf:1: 'SwichName' is no key of topology.conf (did "
          "you mean SwitchName?)" },
        { "Include other.conf\n", "t.conf:1: 'Include other.conf' is no KEY=VALUE" },
        { "SwitchName=a\n", "t.conf:1: switch a has no Nodes= and no Switches=" },
        { "\nNodes=n1\n", "t.conf:2: no SwitchName=" },
        { "SwitchName=a Nodes=n[1-\n", "t.conf:1: host list 'n[1-'" },
        { "SwitchName=a Nodes=\n", "Nodes= is empty" },
        { "SwitchName=a Nodes=n1 Nodes=n2\n", "Nodes= stands twice" },
        { "SwitchName=a Nodes=n1 Switches=a\n", "has Nodes= and Switches=" },
        { "SwitchName=a Nodes=n1 LinkSpeed=fast\n", "LinkSpeed 'fast'" },
        { "SwitchName=a[1-2] Nodes=n1\n", "switch name 'a[1-2]'" },
        { "SwitchName=a Switches=a\n", "form a cycle: a over a" },
        { "SwitchName=a Nodes=\"n1\n", "a quote is not closed" },
        { "SwitchName=a Nodes=n1\nBlockName=b Nodes=n2\n",
          "block b stands beside a switch" },
        { "SwitchName=a BlockName=b Nodes=n1\n", "two names on one line" },
        { "BlockName=b Switches=a Nodes=n1\n", "Switches= belongs to a SwitchName=" },
        { "BlockName=b Nodes=n1\nBlockSizes=18,20\n", "BlockSizes '18,20'" },
        { "BlockName=b Nodes=n1\nBlockSizes=18,54\n", "power of two" },
        { "BlockName=b Nodes=n1\nBlockSizes=0\n", "BlockSizes '0'" },
        { "BlockSizes=18\n", "it defines no switch" },
        { "SwitchName=a Nodes=n1,"
          "n123456789012345678901234567890123456789012345678901234567890123\n"
          "SwitchName=b Nodes=n[1-9]\n",
          "is longer than 63 bytes" },
        { "RingName=r Nodes=n[1-17]\n", "ring r has 17 nodes, 16 are allowed" },
        { "SwitchName=a Nodes=n[1-65536]\nSwitchName=b Nodes=m[1-65536]\nSwitchName=c "
          "Nodes=k1\n",
          "t.conf:3: more than 131072 nodes" },
    };
    struct str many = STR_INIT;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        refused(bad[i].text, bad[i].part);
    str_adds(&many, "SwitchName=s Nodes=n1\n");
    for (int i = 0; i < 50; i++)
        str_addf(&many, "SwitchName=s%d Switches=x%d\n", i, i);
    refused(many.text, "t.conf:21: switch s19 names switch x19");
    str_clear(&many);
    str_adds(&many, "SwitchName=s0 Nodes=n1\n");
    for (int i = 1; i < 60; i++)
        str_addf(&many, "SwitchName=s%d Switches=s%d\n", i, i - 1);
    refused(many.text, "more than 32 levels");
    str_release(&many);
}

static void test_scontrol_topology(void **state)
{
    struct topology *t =
        parse("SwitchName=leaf0 Level=0 LinkSpeed=1 Nodes=n[1-2] \n"
              "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[3-4] \n"
              "SwitchName=spine Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=leaf[0-1] \n",
              "scontrol");

    (void)state;
    nodes_at(t, "leaf1", "n[3-4]");
    assert_int_equal(t->switches[2].level, 1);
    assert_int_equal(t->switches[0].link_speed, 0);
    topology_free(t);
    t = parse("BlockName=b1 BlockIndex=0 Nodes=n[1-4] BlockSize=4\n"
              "BlockName=b2 BlockIndex=1 Nodes=n[5-8] BlockSize=4\n"
              "AggregatedBlock=b[1-2] BlockIndex=2 Nodes=n[1-8] BlockSize=8\n",
              "scontrol");
    assert_int_equal(t->n_switches, 2);
    assert_int_equal(t->n_block_sizes, 2);
    assert_int_equal(t->block_sizes[1], 8);
    topology_free(t);
}

/* --- topology.yaml ------------------------------------------------------------------------ */

static void test_yaml(void **state)
{
    static const char text[] = "- topology: a\n"
                               "  flat: true\n"
                               "- topology: b\n"
                               "  cluster_default: true\n"
                               "  tree:\n"
                               "    switches:\n"
                               "    - switch: s1\n"
                               "      nodes: n[1-2]\n"
                               "    - {switch: s2, nodes: 'n[3-4]'}\n"
                               "    - {switch: top, children: 's[1-2]'}\n"
                               "- topology: c\n"
                               "  cluster_default: true\n"
                               "  block:\n"
                               "    block_sizes: [4, 16]\n"
                               "    blocks:\n"
                               "    - {block: b1, nodes: 'n[1-4]'}\n";
    struct topology *t = parse(text, "topology.yaml");

    (void)state;
    assert_int_equal(t->n_switches, 3);
    nodes_at(t, "s2", "n[3-4]");
    assert_int_equal(t->switches[2].level, 1);
    assert_true(found(t, "topology.yaml", "topology b of the 3"));
    topology_free(t);
    t = parse("# one\n- topology: c\n  ring: {rings: [{ring: r, nodes: 'n[3,1,2]'}]}\n",
              "x");
    assert_string_equal(t->switches[0].kind, "ring");
    assert_string_equal(t->nodes[0].name, "n3"); /* order is the ring's */
    topology_free(t);
}

static void test_yaml_refused(void **state)
{
    static const struct {
        const char *text, *part;
    } bad[] = {
        { "- topology: a\n  flat: true\n", "t.conf:2: a flat topology" },
        { "- topology: a\n  torus3d: {}\n", "torus3d is not read" },
        { "- topology: a\n", "t.conf:1: exactly one of tree" },
        { "- topology: a\n  flat: true\n  tree: {switches: []}\n", "exactly one of" },
        { "- tree: {switches: []}\n", "t.conf:1: topology is missing" },
        { "- topology: a\n  tre: {switches: []}\n",
          "t.conf:2: there is no key 'tre' here (did you mean 'tree'?)" },
        { "- topology: a\n  tree: {switches: []}\n", "t.conf: it defines no switch" },
        { "- topology: a\n  tree: [1]\n", "t.conf:2: a mapping must stand here" },
        { "- topology: a\n  tree: {switches: 3}\n",
          "t.conf:2: switches must be a list" },
        { "- topology: a\n  tree: {switches: [{nodes: n1}]}\n", "switch is missing" },
        { "- topology: a\n  tree: {switches: [{switch: s, nodes: [n1]}]}\n",
          "nodes must be a text" },
        { "- topology: a\n  block: {blocks: [{block: b}]}\n", "nodes is missing" },
        { "- topology: a\n  block: {block_sizes: [4, 5], blocks: [{block: b, nodes: "
          "n1}]}"
          "\n",
          "block_sizes: sizes like" },
        { "- topology: a\n  cluster_default: maybe\n  flat: true\n",
          "t.conf:2: cluster_default" },
        { "- 3\n", "a mapping must stand here" },
        { "- topology: a\n  tree:\n    switches:\n    - {switch: s, nodes: n1}\n"
          "    - {switch: s, nodes: n2}\n",
          "t.conf:5: switch s is defined again (first on line 4)" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        refused(bad[i].text, bad[i].part);
}

/* --- writing ------------------------------------------------------------------------------- */

static char *emit(const struct topology *t,
                  int (*write)(const struct topology *, FILE *, struct err *))
{
    struct err err = ERR_INIT;
    char *text = NULL;
    size_t size = 0;
    FILE *fp = open_memstream(&text, &size);

    assert_ok(write(t, fp, &err), &err);
    fclose(fp);
    return text;
}

static void same_fabric(const struct topology *a, const struct topology *b)
{
    assert_int_equal(a->n_switches, b->n_switches);
    assert_int_equal(a->n_links, b->n_links);
    assert_int_equal(a->n_nodes, b->n_nodes);
    assert_int_equal(a->n_block_sizes, b->n_block_sizes);
    for (int i = 0; i < a->n_switches; i++) {
        assert_string_equal(a->switches[i].name, b->switches[i].name);
        assert_string_equal(a->switches[i].kind, b->switches[i].kind);
        assert_int_equal(a->switches[i].level, b->switches[i].level);
    }
    for (int i = 0; i < a->n_links; i++)
        assert_true(a->links[i].from == b->links[i].from &&
                    a->links[i].to == b->links[i].to);
    for (int i = 0; i < a->n_nodes; i++) {
        assert_string_equal(a->nodes[i].name, b->nodes[i].name);
        assert_int_equal(a->nodes[i].leaf, b->nodes[i].leaf);
    }
    for (int i = 0; i < a->n_block_sizes; i++)
        assert_int_equal(a->block_sizes[i], b->block_sizes[i]);
}

/* Both formats load back as what was written, also when written again. */
static void round_trip(const struct topology *t)
{
    char *conf = emit(t, topology_emit_slurmconf);
    char *yaml = emit(t, topology_emit_slurmyaml), *again;
    struct topology *a = parse(conf, "t.conf"), *b = parse(yaml, "t.yaml"), *c;

    same_fabric(a, b);
    again = emit(a, topology_emit_slurmconf);
    c = parse(again, "t.conf");
    same_fabric(a, c);
    free(again);
    free(conf);
    free(yaml);
    topology_free(a);
    topology_free(b);
    topology_free(c);
}

static void test_round_trip(void **state)
{
    static const char *const files[] = { "b09_topology_good.conf",
                                         "b09_topology_two_roots.conf",
                                         "b10_block.conf" };
    struct topology *t;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        struct topology *back;
        char *conf;
        t = load(files[i]);
        round_trip(t);
        conf = emit(t, topology_emit_slurmconf);
        back = parse(conf, "t.conf");
        same_fabric(t, back);
        assert_int_equal(t->switches[1].link_speed, back->switches[1].link_speed);
        free(conf);
        topology_free(back);
        topology_free(t);
    }
    t = parse("RingName=r0 Nodes=n[3,1-2]\nRingName=r1 Nodes=m[8-9]\n", "t.conf");
    round_trip(t);
    topology_free(t);
    t = parse("SwitchName=top Switches=a,b\nSwitchName=top2 Switches=a,b\n"
              "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\n",
              "t.conf");
    round_trip(t);
    topology_free(t);
}

static struct topology *load_spec(const char *name)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;
    char path[128];

    snprintf(path, sizeof(path), "recipes/clusters/%s.yaml", name);
    assert_ok(topology_from_spec(path, &t, &err), &err);
    return t;
}

/* 64 nodes on eight rails: two sets of eight leaves; eight spines that join them are
 * one switch for Slurm. */
static void test_emit_rails(void **state)
{
    struct topology *t = load_spec("b200-64x8"), *back;
    char *conf = emit(t, topology_emit_slurmconf);
    struct err err = ERR_INIT;

    (void)state;
    assert_non_null(strstr(conf, "(simulated: described, not looked at)\n"));
    assert_non_null(strstr(conf,
                           "# leafset0 stands for leaf0-rail[0-7]\nSwitchName=leafset0 "
                           "Nodes=b200-[01-32]\n"));
    assert_non_null(strstr(conf, "# spine0 stands for spine[0-7]\n"
                                 "SwitchName=spine0 Switches=leafset[0-1]\n"));
    back = parse(conf, "t.conf");
    assert_int_equal(back->n_nodes, 64);
    assert_int_equal(back->n_switches, 3);
    assert_ok(span(back, "b200-01", "b200-64", &err), &err);
    assert_ok(span(t, "b200-01", "b200-64", &err), &err);
    topology_free(back);
    free(conf);
    round_trip(t);
    topology_free(t);
    t = load_spec("laptop");
    assert_err(topology_emit_slurmconf(t, stdout, &err), &err, ERR_FAILED,
               "knows no switch");
    topology_free(t);
}

/* --- rails ----------------------------------------------------------------------------------- */

static void test_miswire(void **state)
{
    struct topology *t = load_spec("b200-64x8");
    struct nic *a = &t->nodes[4].nics[2], *b = &t->nodes[4].nics[5];
    int leaf = a->leaf;

    (void)state;
    fabric_inspect(t);
    assert_int_equal(t->n_findings, 0);
    a->leaf = b->leaf; /* two cables changed places */
    b->leaf = leaf;
    for (int i = 0; i < t->n_nodes; i++)
        for (int k = 0; k < t->nodes[i].n_nics; k++)
            t->nodes[i].nics[k].rail = -1; /* no cabling plan */
    fabric_inspect(t);
    assert_int_equal(t->n_findings, 2);
    assert_true(
        found(t, "b200-05 mlx5_2", "rail 2, but leaf leaf0-rail5 carries rail 5"));
    assert_true(
        found(t, "b200-05 mlx5_5", "rail 5, but leaf leaf0-rail2 carries rail 2"));
    assert_int_equal(t->nodes[63].nics[7].rail, 7); /* found */
    assert_int_equal(t->nodes[4].nics[2].rail, -1);
    topology_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_b09_good),
        cmocka_unit_test(test_b09_bad),
        cmocka_unit_test(test_b09_two_roots),
        cmocka_unit_test(test_b10_blocks),
        cmocka_unit_test(test_b10_cliques),
        cmocka_unit_test(test_cliques_refused),
        cmocka_unit_test(test_conf_forms),
        cmocka_unit_test(test_conf_refused),
        cmocka_unit_test(test_scontrol_topology),
        cmocka_unit_test(test_yaml),
        cmocka_unit_test(test_yaml_refused),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_emit_rails),
        cmocka_unit_test(test_miswire),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
