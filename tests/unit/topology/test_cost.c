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
    assert_string_equal(c.algorithm, "ring");
    assert_string_equal(c.protocol, "Simple");
    assert_string_equal(c.object, "n gpu 0's 18 NVLinks of 370.8 GB/s");
    assert_true(near(c.gbytes_per_s, 18 * 20.6));
    assert_true(near(c.latency_seconds, (8.4 + 7 * 3.4) * 1e-6));
    assert_true(near(c.link_seconds, (1 << 30) * 7.0 / 8 / (18 * 20.6e9)));
    /* a block that is received while nothing is sent */
    assert_true(near(c.seconds - c.latency_seconds - c.link_seconds,
                     (1 << 30) / 8.0 / COST_COPY_FACTOR / (18 * 20.6e9)));
    assert_true(near(c.bytes[COST_NVLINK], 7.0 * (1 << 30)));
    assert_true(c.bytes[COST_NIC] == 0);
    c = cost_collective(COLLECTIVE_ALL_REDUCE, 1 << 30, group, 8, p, t);
    assert_true(near(c.seconds - c.latency_seconds,
                     (1 << 30) * (14.0 / 8 + 1.0 / 16) / (18 * 20.6e9)));
    c = cost_collective(COLLECTIVE_ALL_REDUCE, 1 << 30, group, 1, p, t);
    assert_string_equal(c.tier, "self");
    assert_true(c.seconds == 0);
    placement_free(p);
    topology_free(t);
}

/* A degraded GPU holds the whole ring up (A09: 16 of 18 links). */
static void test_degraded_nvlink(void **state)
{
    struct topology *t = tree_cluster(1, 8, 8);
    struct placement *p;
    int group[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    struct cost c;

    (void)state;
    t->nodes[0].gpus[5].nvlinks[0].count = 16;
    p = place(t, 8);
    c = cost_collective(COLLECTIVE_ALL_GATHER, 1 << 30, group, 8, p, t);
    assert_string_equal(c.object, "n gpu 5's 16 NVLinks of 329.6 GB/s");
    assert_true(near(c.gbytes_per_s, 16 * 20.6));
    placement_free(p);
    topology_free(t);
}

/* NCCL takes a protocol of less latency for little, a tree for little on many nodes. */
static void test_choice(void **state)
{
    struct topology *t = tree_cluster(16, 8, 8);
    struct placement *p = place(t, 128);
    int group[128];
    struct cost small, large;

    (void)state;
    for (int i = 0; i < 128; i++)
        group[i] = i;
    small = cost_collective(COLLECTIVE_ALL_GATHER, 1 << 12, group, 8, p, t);
    assert_string_equal(small.protocol, "LL");
    small = cost_collective(COLLECTIVE_ALL_REDUCE, 1 << 16, group, 128, p, t);
    assert_string_equal(small.algorithm, "tree");
    large = cost_collective(COLLECTIVE_ALL_REDUCE, 1LL << 33, group, 128, p, t);
    assert_string_equal(large.algorithm, "ring");
    assert_string_equal(large.protocol, "Simple");
    assert_true(small.latency_seconds < large.latency_seconds / 4);
    placement_free(p);
    topology_free(t);
}

/* Across nodes a rank of the group leaves by its own NIC; groups of other ranks use
 * others. */
static void test_nics(void **state)
{
    struct topology *t = tree_cluster(2, 8, 8);
    struct placement *p = place(t, 16);
    int all[16], pair[] = { 3, 11 }, pairs[16];
    struct cost_groups eight = { 8, 2, pairs };
    struct cost c;

    (void)state;
    for (int i = 0; i < 16; i++) {
        all[i] = i;
        pairs[i] = i / 2 + i % 2 * 8;
    }
    c = cost_collective(COLLECTIVE_ALL_GATHER, 1 << 30, all, 16, p, t);
    assert_string_equal(c.tier, "nic"); /* 8 x 50 < 370.8 x 8/7 */
    assert_true(near(c.gbytes_per_s, 400));
    c = cost_collective(COLLECTIVE_ALL_REDUCE, 1LL << 30, pair, 2, p, t);
    assert_string_equal(c.tier, "nic");
    assert_string_equal(c.object, "n1 mlx5_3 of 400 Gb/s, shared by 1 group");
    assert_true(near(c.gbytes_per_s, 50));
    assert_int_equal(c.fabric_known, 0);
    assert_string_equal(c.note, "fabric unknown: only the links of nodes are counted");
    c = cost_concurrent(COLLECTIVE_ALL_REDUCE, 1LL << 30, &eight, p, t, NULL);
    assert_true(near(c.gbytes_per_s, 50));
    assert_true(near(c.bytes[COST_NIC], 16.0 * (1 << 30)));
    t->nodes[1].nics[3].up = 0; /* the GPU takes its neighbour's, which two use now */
    c = cost_collective(COLLECTIVE_ALL_REDUCE, 1LL << 30, pair, 2, p, t);
    assert_true(near(c.gbytes_per_s, 50));
    c = cost_concurrent(COLLECTIVE_ALL_REDUCE, 1LL << 30, &eight, p, t, NULL);
    assert_true(near(c.gbytes_per_s, 25));
    assert_string_equal(c.object, "n2 mlx5_0 of 400 Gb/s, shared by 2 groups");
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
    int all[] = { 0, 1, 2, 3 };
    struct cost_groups two = { 2, 2, all };
    struct cost c = cost_collective(COLLECTIVE_REDUCE_SCATTER, 4000000, group, 2, p, t);

    (void)state;
    assert_string_equal(c.tier, "memory");
    assert_true(near(c.gbytes_per_s, COST_MEMORY_GBYTES / 2));
    c = cost_concurrent(COLLECTIVE_REDUCE_SCATTER, 4000000, &two, p, t, NULL);
    assert_true(near(c.gbytes_per_s, COST_MEMORY_GBYTES / 4)); /* all four move */
    assert_string_equal(c.object, "n's memory of 8 GB/s (assumed), shared by 2 groups");
    placement_free(p);
    topology_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_busbw_d01), cmocka_unit_test(test_nvlink),
        cmocka_unit_test(test_nics),      cmocka_unit_test(test_islands_a06),
        cmocka_unit_test(test_memory),    cmocka_unit_test(test_degraded_nvlink),
        cmocka_unit_test(test_choice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
