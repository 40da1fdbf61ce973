/* The model: what must hold, saving and loading, merging; lists of CPUs. */
#include <sched.h>
#include <unistd.h>

#include "trees.h"

#include "topology/cpulist.h"

static void test_busid(void **state)
{
    static const char *const forms[][2] = {
        { "00000000:18:00.0", "0000:18:00.0" }, { "0000:18:00.0", "0000:18:00.0" },
        { "18:00.0", "0000:18:00.0" },          { "0000:AB:1F.7", "0000:ab:1f.7" },
        { "10000:01:00.0", "10000:01:00.0" },   { "odd", "odd" },
    };
    char out[20];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        busid_normalise(forms[i][0], out);
        assert_string_equal(out, forms[i][1]);
    }
}

static void test_pcie_rates(void **state)
{
    (void)state;
    assert_true(pcie_gbytes_per_s("32.0 GT/s PCIe", 16) == 48);
    assert_true(pcie_gbytes_per_s("16.0 GT/s", 16) == 24);
    assert_true(pcie_gbytes_per_s("2.5 GT/s PCIe", 1) == 15 / 80.0);
    assert_true(pcie_gbytes_per_s("32.0 GT/s PCIe", 0) == -1);
    assert_true(pcie_gbytes_per_s("Unknown", 16) == -1);
    assert_true(pcie_gbytes_per_s("3.0 GT/s", 16) == -1);
}

static void test_cpulist(void **state)
{
    static const char *const good[] = { "", "0", "0-3", "0-3,8", "1,3,5-7,8191" };
    static const char *const bad[] = { "x",  "3-1", "1,",
                                       ",1", "1-",  "8192",
                                       "-1", "1 2", "99999999999999999999" };
    struct cpulist l;
    char text[256], small[4];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_int_equal(cpulist_parse(good[i], &l), 0);
        assert_int_equal(cpulist_format(&l, text, sizeof(text)), 0);
        assert_string_equal(text, good[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(cpulist_parse(bad[i], &l), -1);
    cpulist_parse("10-12", &l);
    assert_int_equal(cpulist_format(&l, small, sizeof(small)), -1);
    assert_string_equal(small, "");
}

/* Bound to one CPU, that one alone; of a process that is none, nothing. */
static void test_cpulist_of_process(void **state)
{
    struct cpulist all, l;
    cpu_set_t mine, one;
    int cpu = 0;

    (void)state;
    assert_int_equal(cpulist_of_process(0, &all), 0);
    assert_int_equal(sched_getaffinity(0, sizeof(mine), &mine), 0);
    assert_int_equal(cpulist_count(&all), CPU_COUNT(&mine));
    while (!CPU_ISSET((size_t)cpu, &mine))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET((size_t)cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_int_equal(cpulist_of_process(getpid(), &l), 0);
    sched_setaffinity(0, sizeof(mine), &mine);
    assert_true(cpulist_count(&l) == 1 && cpulist_has(&l, cpu));
    assert_int_equal(cpulist_of_process(-1, &l), -1);
    assert_int_equal(cpulist_count(&l), 0);
}

/* Parts are disjoint, together the whole, and even. */
static void test_cpulist_split(void **state)
{
    static const char *const lists[] = { "0-7", "0-7,16-23", "0,2,4,6,8,10,12", "5" };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        for (int smt = 1; smt <= 2; smt++) {
            struct cpulist whole;
            cpulist_parse(lists[i], &whole);
            for (int parts = 1; parts <= cpulist_count(&whole); parts++) {
                struct cpulist sum = { { 0 } }, part;
                int total = 0, least = CPULIST_MAX, most = 0;
                for (int k = 0; k < parts; k++) {
                    int n;
                    cpulist_split(&whole, parts, k, smt, &part);
                    n = cpulist_count(&part);
                    total += n;
                    least = n < least ? n : least;
                    most = n > most ? n : most;
                    for (int c = 0; c < CPULIST_MAX; c++)
                        if (cpulist_has(&part, c))
                            cpulist_add(&sum, c);
                }
                assert_int_equal(total, cpulist_count(&whole));
                assert_memory_equal(&sum, &whole, sizeof(sum));
                assert_true(least >= 1 && most - least <= smt);
            }
        }
}

/* With two threads a core, a part holds both of each of its cores. */
static void test_cpulist_split_keeps_cores(void **state)
{
    struct cpulist whole, part;
    char text[64];

    (void)state;
    cpulist_parse("0-7,16-23", &whole);
    cpulist_split(&whole, 4, 1, 2, &part);
    cpulist_format(&part, text, sizeof(text));
    assert_string_equal(text, "2-3,18-19");
}

static struct topology *whole_topology(void)
{
    struct topology *t = tree_cluster(2, 2, 2);
    struct node *n = &t->nodes[1];

    snprintf(n->boot_id, sizeof(n->boot_id), "1-2-3");
    snprintf(n->gpus[0].busid, sizeof(n->gpus[0].busid), "0000:18:00.0");
    snprintf(n->gpus[0].uuid, sizeof(n->gpus[0].uuid), "GPU-1");
    n->gpus[0].mig = 1;
    n->gpus[1].numa = -1;
    n->nics[0].kind = NIC_STORAGE;
    n->nics[1].layer = LINK_ETHERNET;
    snprintf(topology_add_switch(t)->name, 8, "leaf");
    snprintf(topology_add_switch(t)->name, 8, "spine");
    t->switches[1].level = 1;
    n->nics[0].leaf = 0;
    topology_add_link(t)->to = 1;
    t->links[0].count = 4;
    t->links[0].gbits_per_s = 400.5;
    n->gpus[0].nvlinks[0].gbytes_per_s = 18 * 26562 / 1000.0;
    topology_find(t, SEVERITY_FAIL, "n1", "it is %d", 1);
    return t;
}

static void test_json_loads_back_equal(void **state)
{
    struct err err = ERR_INIT;
    struct topology *t = whole_topology(), *back = NULL;
    struct js *o = topology_json(t);
    char *dir = tree_dir(), *path = xasprintf("%s/t.json", dir), *a, *b;
    FILE *fp = fopen(path, "w");

    (void)state;
    assert_non_null(fp);
    js_print(o, fp);
    fclose(fp);
    assert_ok(topology_from_json(path, &back, &err), &err);
    a = tree_json(t);
    b = tree_json(back);
    assert_string_equal(a, b);
    assert_int_equal(back->simulated, 1);
    assert_int_equal(back->nodes[1].nics[0].kind, NIC_STORAGE);
    assert_int_equal(back->nodes[1].gpus[1].numa, -1);
    assert_true(back->links[0].gbits_per_s == 400.5);
    assert_true(back->nodes[1].gpus[0].nvlinks[0].gbytes_per_s ==
                t->nodes[1].gpus[0].nvlinks[0].gbytes_per_s);
    free(a);
    free(b);
    free(path);
    js_free(o);
    topology_free(t);
    topology_free(back);
    tree_remove(dir);
}

static void test_json_refuses(void **state)
{
    static const struct {
        const char *text, *part;
    } bad[] = {
        { "{}", "schema" },
        { "{\"schema\": \"muster/plan/1\"}", "schema" },
        { "{\"schema\": \"muster/topo/1\", \"nodes\": []}", "at least one node" },
        { "{\"schema\": \"muster/topo/1\", \"nodes\": [{\"name\": 3}]}",
          "nodes[0].name" },
        { "{\"schema\": \"muster/topo/1\", \"nodes\": [{\"name\": \"a\", \"gpus\": "
          "[{\"index\": 99999999999}]}]}",
          "nodes[0].gpus[0].index" },
        { "{\"schema\": \"muster/topo/1\", \"nodes\": [{\"name\": \"a\", \"nics\": "
          "[{\"kind\": \"computer\"}]}]}",
          "nodes[0].nics[0].kind" },
        { "{\"schema\": \"muster/topo/1\", \"nodes\": [{\"name\": \"a\"}, {\"name\": "
          "\"a\"}]}",
          "two nodes are called a" },
        { "{\"schema\": \"muster/topo/1\", \"nodes\": [{\"name\": \"a\"}], "
          "\"findings\": [{\"severity\": \"bad\"}]}",
          "severity" },
        { "{\"schema\"", "not valid JSON" },
    };
    struct err err = ERR_INIT;
    char *dir = tree_dir(), *path = xasprintf("%s/t.json", dir);

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct topology *t = NULL;
        FILE *fp = fopen(path, "w");
        assert_non_null(fp);
        fputs(bad[i].text, fp);
        fclose(fp);
        assert_err(topology_from_json(path, &t, &err), &err, ERR_USAGE, bad[i].part);
        assert_null(t);
    }
    {
        struct topology *t = NULL;
        assert_err(topology_from_json("/nonexistent.json", &t, &err), &err, ERR_MISSING,
                   "/nonexistent.json");
    }
    free(path);
    tree_remove(dir);
}

/* Each damage is named; all of them at once. */
static void test_validate(void **state)
{
    struct err err = ERR_INIT;
    struct topology *t = tree_cluster(2, 2, 2);
    struct node *n = &t->nodes[0];

    (void)state;
    assert_ok(topology_validate(t, &err), &err);
    n->gpus[1].index = 0;
    n->gpus[0].nic = 2;
    n->gpus[1].numa = 7;
    n->gpus[0].memory_bytes = 0;
    n->gpus[0].nvlinks[0].count = 0;
    n->nics[0].leaf = 0;
    snprintf(n->nics[1].name, sizeof(n->nics[1].name), "%s", n->nics[0].name);
    snprintf(t->nodes[0].boot_id, 4, "b");
    snprintf(t->nodes[1].boot_id, 4, "b");
    topology_add_link(t);
    assert_int_equal(topology_validate(t, &err), -1);
    assert_non_null(strstr(err_text(&err), "two gpus have index 0"));
    assert_non_null(strstr(err_text(&err), "names nic 2, there are 2"));
    assert_non_null(strstr(err_text(&err), "NUMA node 7"));
    assert_non_null(strstr(err_text(&err), "0 bytes of memory"));
    assert_non_null(strstr(err_text(&err), "0 NVLinks"));
    assert_non_null(strstr(err_text(&err), "names switch 0"));
    assert_non_null(strstr(err_text(&err), "two nics are called mlx5_0"));
    assert_non_null(strstr(err_text(&err), "one machine is listed twice"));
    assert_non_null(strstr(err_text(&err), "link 0"));
    err_release(&err);
    topology_free(t);
}

static void test_merge(void **state)
{
    struct err err = ERR_INIT;
    struct topology *t = tree_cluster(1, 2, 0), *more = tree_cluster(2, 2, 2);

    (void)state;
    snprintf(t->nodes[0].name, 8, "n1");
    t->nodes[0].gpus[0].memory_bytes = -1;
    t->nodes[0].gpus[0].nic = -1;
    t->nodes[0].gpus[1].memory_bytes = 5;
    snprintf(topology_add_switch(t)->name, 8, "mine");
    snprintf(topology_add_switch(more)->name, 8, "leaf");
    more->nodes[0].nics[1].leaf = 0;
    assert_ok(topology_merge(t, more, &err), &err);
    assert_int_equal(t->n_nodes, 2);
    assert_string_equal(t->nodes[1].name, "n2");
    assert_true(t->nodes[0].gpus[0].memory_bytes == 141LL << 30);
    assert_true(t->nodes[0].gpus[1].memory_bytes == 5);
    assert_int_equal(t->nodes[0].n_gpus, 2);
    assert_int_equal(t->nodes[0].n_nics, 2);
    assert_int_equal(t->nodes[0].gpus[0].nic, 0);
    assert_int_equal(t->nodes[0].nics[1].leaf, 1);
    assert_int_equal(t->n_switches, 2);
    topology_free(t);
    topology_free(more);
}

static void test_source_names(void **state)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;

    (void)state;
    assert_err(topology_from_source("sysf", &t, &err), &err, ERR_USAGE,
               "did you mean 'sysfs'?");
    assert_err(topology_from_source("spec", &t, &err), &err, ERR_USAGE, "spec:FILE");
    assert_err(topology_from_source("nvml:x", &t, &err), &err, ERR_USAGE, "no file");
    assert_err(topology_from_source("spec:/none.yaml", &t, &err), &err, ERR_MISSING,
               "/none.yaml");
    assert_null(t);
}

static void test_print_folds_equal_nodes(void **state)
{
    struct topology *t = tree_cluster(3, 2, 2);
    char *text = NULL;
    size_t size;
    FILE *fp = open_memstream(&text, &size);

    (void)state;
    t->nodes[2].gpus[1].mig = 1;
    topology_print(t, fp);
    fclose(fp);
    assert_non_null(strstr(text, "node n[1-2] (2 alike)"));
    assert_non_null(strstr(text, "node n3\n"));
    assert_non_null(strstr(text, "MIG on"));
    assert_non_null(strstr(text, "simulated"));
    free(text);
    topology_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_busid),
        cmocka_unit_test(test_pcie_rates),
        cmocka_unit_test(test_cpulist),
        cmocka_unit_test(test_cpulist_of_process),
        cmocka_unit_test(test_cpulist_split),
        cmocka_unit_test(test_cpulist_split_keeps_cores),
        cmocka_unit_test(test_json_loads_back_equal),
        cmocka_unit_test(test_json_refuses),
        cmocka_unit_test(test_validate),
        cmocka_unit_test(test_merge),
        cmocka_unit_test(test_source_names),
        cmocka_unit_test(test_print_folds_equal_nodes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
