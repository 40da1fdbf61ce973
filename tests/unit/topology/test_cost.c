/* The cost of a collective: factors against published figures, rates by shape. */
#include "trees.h"

#include "base/str.h"
#include "topology/cost.h"
#include "topology/place.h"

static int find_collective(const char *word)
{
    for (int i = 0; i < N_COLLECTIVES; i++)
        if (str_eq(word, collective_name((enum collective)i)) ||
            (str_eq(word, "alltoall") && i == COLLECTIVE_ALL_TO_ALL))
            return i;
    return -1;
}

/* D01: S, algbw and busbw of every row. */
static void test_busbw_d01(void **state)
{
    FILE *fp = fopen("tests/cases/d01_busbw.tsv", "r");
    char line[256], op[32], dtype[16];
    int ranks, rows = 0;
    double count, us, bytes, algbw, busbw;

    (void)state;
    assert_non_null(fp);
    while (fgets(line, sizeof(line), fp)) {
        int c, width;
        if (line[0] == '#')
            continue;
        assert_int_equal(sscanf(line, "%31s %d %lf %15s %lf %lf %lf %lf", op, &ranks,
                                &count, dtype, &us, &bytes, &algbw, &busbw),
                         8);
        c = find_collective(op);
        assert_true(c >= 0);
        width = str_eq(dtype, "float32") ? 4 : 2;
        /* the buffer that the factor is about is the whole one */
        if (c == COLLECTIVE_ALL_GATHER || c == COLLECTIVE_REDUCE_SCATTER ||
            c == COLLECTIVE_ALL_TO_ALL)
            count *= ranks;
        assert_true(count * width == bytes);
        assert_true(bytes / us / 1e3 - algbw < 0.006 &&
                    algbw - bytes / us / 1e3 < 0.006);
        us = bytes / us / 1e3 * collective_bus_factor((enum collective)c, ranks);
        assert_true(us - busbw < 0.006 && busbw - us < 0.006);
        rows++;
    }
    fclose(fp);
    assert_int_equal(rows, 9);
}

static struct placement *place(const struct topology *t, int world)
{
    struct err err = ERR_INIT;
    struct placement *p = NULL;

    assert_ok(placement_make(NULL, t, world, &p, &err), &err);
    return p;
}

static int near(double a, double b)
{
    return a - b < 1e-9 * (b > 0 ? b : 1) && b - a < 1e-9 * (b > 0 ? b : 1);
}

static void test_nvlink(void **state)
{
    struct topology *t = tree_cluster(1, 8, 8);
    struct placement *p = place(t, 8);
    int group[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    struct cost c = cost_collective(COLLECTIVE_ALL_GATHER, 1 << 30, group, 8, p, t);

    (void)state;
    assert_string_equal(c.tier, "nvlink");
    assert_true(near(c.gbytes_per_s, 18 * 20.6));
    assert_true(near(c.seconds, 7 * 3.4e-6 + (1 << 30) * 7.0 / 8 / (18 * 20.6e9)));
    c = cost_collective(COLLECTIVE_ALL_REDUCE, 1 << 30, group, 8, p, t);
    assert_true(near(c.seconds, 14 * 3.4e-6 + (1 << 30) * 14.0 / 8 / (18 * 20.6e9)));
    c = cost_collective(COLLECTIVE_ALL_REDUCE, 1 << 30, group, 1, p, t);
    assert_string_equal(c.tier, "self");
    assert_true(c.seconds == 0);
    placement_free(p);
    topology_free(t);
}

/* Across nodes the NICs of a node carry the group's share of its ranks. */
static void test_nics(void **state)
{
    struct topology *t = tree_cluster(2, 8, 8);
    struct placement *p = place(t, 16);
    int all[16], pair[] = { 3, 11 };
    struct cost c;

    (void)state;
    for (int i = 0; i < 16; i++)
        all[i] = i;
    c = cost_collective(COLLECTIVE_ALL_GATHER, 1 << 20, all, 16, p, t);
    assert_string_equal(c.tier, "nvlink"); /* 370.8 < 8 x 50 */
    assert_true(
        near(c.seconds, 14e-6 + 14 * 3.4e-6 + (1 << 20) * 15.0 / 16 / (18 * 20.6e9)));
    c = cost_collective(COLLECTIVE_ALL_REDUCE, 1 << 20, pair, 2, p, t);
    assert_string_equal(c.tier, "nic");
    assert_true(near(c.gbytes_per_s, 50));
    assert_true(near(c.seconds, 2 * 14e-6 + (1 << 20) / 50e9));
    t->nodes[1].nics[0].up = 0; /* seven NICs for eight ranks */
    c = cost_collective(COLLECTIVE_ALL_REDUCE, 1 << 20, pair, 2, p, t);
    assert_true(near(c.gbytes_per_s, 43.75));
    placement_free(p);
    topology_free(t);
}

/* A06: an NVLink pair and a GPU beside it: the three go over PCIe. */
static void test_islands_a06(void **state)
{
    struct topology *t = tree_cluster(1, 3, 0);
    struct gpu *g = t->nodes[0].gpus;
    struct placement *p;
    int group[] = { 0, 1, 2 };

    (void)state;
    for (int i = 0; i < 3; i++)
        snprintf(g[i].busid, sizeof(g[i].busid), "0000:%02x:00.0",
                 (unsigned)(i + 1) & 0xff);
    snprintf(g[0].nvlinks[0].peer, 20, "%s", g[1].busid);
    snprintf(g[1].nvlinks[0].peer, 20, "%s", g[0].busid);
    g[2].n_nvlinks = 0;
    g[0].pcie_gbytes_per_s = g[1].pcie_gbytes_per_s = 48;
    g[2].pcie_gbytes_per_s = 24;
    p = place(t, 3);
    assert_string_equal(
        cost_collective(COLLECTIVE_ALL_GATHER, 1024, group, 2, p, t).tier, "nvlink");
    assert_string_equal(
        cost_collective(COLLECTIVE_ALL_GATHER, 1024, group, 3, p, t).tier, "pcie");
    assert_true(near(
        cost_collective(COLLECTIVE_ALL_GATHER, 1024, group, 3, p, t).gbytes_per_s, 24));
    placement_free(p);
    free(g[2].nvlinks);
    g[2].nvlinks = NULL;
    topology_free(t);
}

static void test_memory(void **state)
{
    struct topology *t = tree_cluster(1, 0, 0);
    struct placement *p = place(t, 4);
    int group[] = { 0, 1 };
    struct cost c = cost_collective(COLLECTIVE_REDUCE_SCATTER, 4000000, group, 2, p, t);

    (void)state;
    assert_string_equal(c.tier, "memory");
    assert_true(near(c.gbytes_per_s, COST_MEMORY_GBYTES / 4)); /* all four move */
    placement_free(p);
    topology_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_busbw_d01), cmocka_unit_test(test_nvlink),
        cmocka_unit_test(test_nics),      cmocka_unit_test(test_islands_a06),
        cmocka_unit_test(test_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
