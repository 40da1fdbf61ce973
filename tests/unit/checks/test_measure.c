#include "test.h"

#include <math.h>

#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "checks/judge.h"
#include "checks/measure.h"
#include "checks/target.h"
#include "topology/cost.h"
#include "topology/place.h"
#include "topology/source.h"
#include "topology/topology.h"

#define near(a, b, within) assert_true(fabs((a) - (b)) <= (within))

static int elem_bytes(const char *dtype)
{
    return strcmp(dtype, "bfloat16") == 0 ? 2 : 4;
}

static void test_d01_busbw(void **state)
{
    char line[256], op[32], dtype[16];
    FILE *fp = fopen("tests/cases/d01_busbw.tsv", "re");
    int rows = 0;

    (void)state;
    assert_non_null(fp);
    while (fgets(line, sizeof(line), fp)) {
        long long count, total;
        double us, alg, bus;
        int ranks;

        if (*line == '#')
            continue;
        assert_int_equal(sscanf(line, "%31s %d %lld %15s %lf %lld %lf %lf", op, &ranks,
                                &count, dtype, &us, &total, &alg, &bus),
                         8);
        assert_int_equal(measure_total_bytes(op, ranks, count, elem_bytes(dtype)),
                         total);
        near(measure_algbw(total, us * 1e-6), alg, 0.005);
        near(measure_busbw(op, ranks, total, us * 1e-6), bus, 0.005);
        rows++;
    }
    fclose(fp);
    assert_int_equal(rows, 9);
    assert_true(isnan(measure_busbw("all_magic", 2, 1, 1)));
    assert_int_equal(measure_total_bytes("all_magic", 2, 1, 1), -1);
    assert_true(isnan(measure_algbw(1, 0)));
}

static void test_d02_ceiling(void **state)
{
    (void)state;
    near(target_ceiling("all_reduce", 8, 450, 1), 700, 1e-9);
    near(target_ceiling("all_reduce", 8, 450, 0), 450, 1e-9);
    near(target_ceiling("all_gather", 8, 450, 1), 450, 1e-9);
}

static void test_d05_units(void **state)
{
    (void)state;
    near(measure_gbytes(400, "Gb/s"), 50, 1e-9);
    near(measure_gbytes(46.57, "GiB/s"), 50, 0.005);
    near(measure_gbytes(800, "Gb/s"), 100, 1e-9);
    near(100 * measure_gbytes(47, "GB/s") / 50, 94, 1e-9);
    near(100 * measure_gbytes(47, "GiB/s") / 50, 100.9, 0.05);
    assert_true(isnan(measure_gbytes(1, "furlongs")));
}

static void test_d13_first_iteration(void **state)
{
    double all[] = { 812, 45.1, 44.9, 45.0, 45.2 };
    struct measure m = { .times_ms = all, .n_times = 5 };

    (void)state;
    near(measure_median_ms(&m), 45.05, 1e-9);
    near(measure_best_ms(&m), 44.9, 1e-9);
    m.n_times = 1;
    assert_true(isnan(measure_median_ms(&m)));
    assert_true(isnan(measure_best_ms(&m)));
}

static void test_json_round_trip(void **state)
{
    struct measures l = { 0 }, back = { 0 };
    struct measure *m = measures_add(&l, "all_reduce", "shard group", "n1");
    struct err err = ERR_INIT;
    struct js *o;

    (void)state;
    snprintf(m->device, sizeof(m->device), "cpu");
    snprintf(m->group, sizeof(m->group), "shard");
    snprintf(m->op, sizeof(m->op), "sendrecv");
    snprintf(m->peer, sizeof(m->peer), "n2");
    snprintf(m->peer_nic, sizeof(m->peer_nic), "mlx5_3");
    m->rail = 0;
    m->first = 4;
    m->ranks = 2;
    m->bytes = 1 << 20;
    m->n_times = 2;
    m->times_ms = xcalloc(2, sizeof(double));
    m->times_ms[1] = 1.5;
    measure_set(m, INFINITY, 3, "B");
    measure_say(m, "text %d", 1);
    o = measure_json(m);
    assert_ok(measures_add_json(&back, o, &err), &err);
    js_free(o);
    m = &back.item[0];
    assert_string_equal(m->name, "all_reduce");
    assert_string_equal(m->node, "n1");
    assert_string_equal(m->op, "sendrecv");
    assert_string_equal(m->peer, "n2");
    assert_string_equal(m->nic, "");
    assert_string_equal(m->peer_nic, "mlx5_3");
    assert_int_equal(m->rail, 0);
    assert_int_equal(m->round, -1);
    assert_int_equal(m->first, 4);
    assert_int_equal(m->bytes, 1 << 20);
    assert_true(isinf(m->value));
    assert_true(m->need == 3);
    assert_true(m->n_times == 2 && m->times_ms[1] == 1.5);
    assert_string_equal(m->text, "text 1");
    o = js_object();
    assert_err(measures_add_json(&back, o, &err), &err, ERR_USAGE, "without a name");
    js_free(o);
    measures_release(&l);
    measures_release(&back);
}

/* The formulas of target.h, by hand, for 10 GB/s of copies. */
static void test_target_memory(void **state)
{
    (void)state;
    near(target_memory("all_gather", 2, 10).expected, 0.5 * 10 / 1.0, 1e-9);
    near(target_memory("reduce_scatter", 2, 10).expected, 0.5 * 10 / 1.75, 1e-9);
    near(target_memory("all_reduce", 4, 10).expected, 1.5 * 10 / (3 + 0.625), 1e-9);
    assert_true(isnan(target_memory("all_gather", 1, 10).expected));
    assert_true(isnan(target_memory("all_gather", 2, NAN).expected));
    assert_true(isnan(target_memory("sendrecv", 2, 10).expected));
}

/* The groups of an axis that are measured together, by the cost model. */
static void test_target_model(void **state)
{
    static const char spec[] =
        "nodes: {count: 2, prefix: n}\ncpu: {cores: 16, numa_nodes: 2}\n"
        "gpus: {per_node: 8, name: NVIDIA H200, sm: 90, nvlinks: 18, "
        "nvlink_gbytes_per_s: 450}\nnics: {per_node: 4, gbits_per_s: 400}\n";
    struct err err = ERR_INIT;
    struct topology *t = NULL;
    struct placement *p = NULL;
    struct cost_groups g;
    struct target x;
    int *rank;

    (void)state;
    assert_ok(topology_from_spec_text(spec, strlen(spec), "spec", &t, &err), &err);
    assert_ok(placement_make(NULL, t, 16, &p, &err), &err);
    p->shard_degree = 8;
    p->replicate_degree = 2;
    g = cost_replicate_groups(p, &rank);
    x = target_model("all_gather", &g, 1LL << 32, 0, p, t);
    near(x.expected, 25, 1); /* two of the eight groups share a NIC of 50 */
    near(x.ceiling, 25 * 1.03, 1e-6);
    assert_string_equal(
        x.from, "computed from n1 mlx5_0 of 400 Gb/s, shared by 2 groups; fabric "
                "unknown: only the links of nodes are counted");
    x = target_model("all_reduce", &g, 1LL << 32, 0, p, t);
    near(x.ceiling, 50 * 1.03, 1e-6); /* a tree sends half of what a ring does */
    t->nodes[1].gpus[5].nic = -1;
    x = target_model("all_gather", &g, 1LL << 32, 0, p, t);
    assert_true(isnan(x.expected) && isnan(x.ceiling));
    assert_true(isnan(target_model("all_magic", &g, 1, 0, p, t).expected));
    free(rank);
    placement_free(p);
    topology_free(t);
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(test_d01_busbw),
        cmocka_unit_test(test_d02_ceiling),
        cmocka_unit_test(test_d05_units),
        cmocka_unit_test(test_d13_first_iteration),
        cmocka_unit_test(test_json_round_trip),
        cmocka_unit_test(test_target_memory),
        cmocka_unit_test(test_target_model),
    };

    return cmocka_run_group_tests(t, NULL, NULL);
}
