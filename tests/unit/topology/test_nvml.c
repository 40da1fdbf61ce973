/* The NVML source against tests/fake/nvml.c, which tells the recorded story of two
 * H200 and others. */
#include "trees.h"

#include <dlfcn.h>

/* A library that is loaded already answers to its soname. */
static void *load_fake(void)
{
    const char *o = getenv("O");
    char *path = xasprintf("%s/tests/fake/libnvidia-ml.so.1", o ? o : "build");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (!library)
        fail_msg("%s", dlerror());
    free(path);
    return library;
}

static void test_without_driver(void **state)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;
    void *real = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

    (void)state;
    if (real) {
        dlclose(real);
        skip(); /* a machine with a driver */
    }
    assert_err(topology_from_nvml(&t, &err), &err, ERR_MISSING, "no NVIDIA driver");
    assert_null(t);
}

static struct topology *tell(const char *story)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;
    void *fake = load_fake();

    setenv("FAKE_NVML", story, 1);
    assert_ok(topology_from_nvml(&t, &err), &err);
    assert_ok(topology_validate(t, &err), &err);
    dlclose(fake);
    return t;
}

static void test_two_h200(void **state)
{
    struct topology *t = tell("");
    const struct gpu *g = t->nodes[0].gpus;

    (void)state;
    assert_int_equal(t->nodes[0].n_gpus, 2);
    assert_string_equal(g[0].name, "NVIDIA H200");
    assert_string_equal(g[1].uuid, "GPU-00000000-0000-0000-0000-000000000002");
    assert_string_equal(g[0].busid, "0000:00:06.0");
    assert_string_equal(g[1].busid, "0000:00:07.0");
    assert_true(g[0].memory_bytes == 143771LL << 20);
    assert_int_equal(g[0].sm, 90);
    assert_int_equal(g[0].mig, 0);
    assert_int_equal(g[0].numa, -1);
    assert_true(g[0].pcie_gbytes_per_s == -1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(g[i].n_nvlinks, 1);
        assert_string_equal(g[i].nvlinks[0].peer, "switch");
        assert_int_equal(g[i].nvlinks[0].count, 18);
        assert_true(g[i].nvlinks[0].gbytes_per_s == 18 * 26562 / 1000.0);
    }
    topology_free(t);
}

static void test_other_stories(void **state)
{
    struct topology *t = tell("pair");

    (void)state;
    assert_string_equal(t->nodes[0].gpus[0].nvlinks[0].peer, "0000:00:07.0");
    assert_string_equal(t->nodes[0].gpus[1].nvlinks[0].peer, "0000:00:06.0");
    topology_free(t);

    t = tell("links"); /* A01, A02: the GPU with fewer links than its like is named */
    assert_int_equal(gpu_nvlink_count(&t->nodes[0].gpus[0]), 18);
    assert_int_equal(gpu_nvlink_count(&t->nodes[0].gpus[1]), 16);
    assert_true(tree_found(t, SEVERITY_FAIL, "gpu 1", "16 NVLinks are up, 18"));
    assert_false(tree_found(t, SEVERITY_FAIL, "gpu 0", "NVLinks"));
    topology_free(t);

    t = tell("mig"); /* A12 */
    assert_int_equal(t->nodes[0].gpus[0].mig, 1);
    assert_int_equal(t->nodes[0].gpus[1].mig, 0);
    assert_true(tree_found(t, SEVERITY_WARN, "gpu 0", "MIG is on"));
    topology_free(t);

    t = tell("old");
    assert_true(t->nodes[0].gpus[0].nvlinks[0].gbytes_per_s == 18 * 26562 / 1000.0);
    topology_free(t);

    t = tell("mute"); /* not supported is unknown, not zero */
    assert_int_equal(t->nodes[0].gpus[0].sm, -1);
    assert_int_equal(t->nodes[0].gpus[0].mig, -1);
    assert_int_equal(t->nodes[0].gpus[0].n_nvlinks, 0);
    topology_free(t);
}

static void test_driver_that_fails(void **state)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;
    void *fake = load_fake();

    (void)state;
    setenv("FAKE_NVML", "unloaded", 1);
    assert_err(topology_from_nvml(&t, &err), &err, ERR_MISSING, "Driver Not Loaded");
    setenv("FAKE_NVML", "mismatch", 1);
    assert_err(topology_from_nvml(&t, &err), &err, ERR_SYSTEM,
               "Driver/library version mismatch");
    assert_null(t);
    dlclose(fake);
}

/* A10: the fabric manager is not ready with one GPU; no NVSwitch, nothing to say. */
static void test_fabric_a10(void **state)
{
    struct topology *t = tell("waits");

    (void)state;
    assert_string_equal(t->nodes[0].gpus[0].fabric, "in progress");
    assert_string_equal(t->nodes[0].gpus[1].fabric, "completed");
    assert_true(tree_found(t, SEVERITY_FAIL, "gpu 0", "0000:00:06.0"));
    assert_true(tree_found(t, SEVERITY_FAIL, "gpu 0", "error 802"));
    assert_int_equal(t->n_findings, 1);
    assert_string_equal(t->nodes[0].nvlink_domain, ""); /* all zero: its own */
    topology_free(t);

    t = tell("");
    assert_string_equal(t->nodes[0].gpus[0].fabric, "none");
    assert_string_equal(t->nodes[0].driver, "580.159.03");
    assert_int_equal(t->n_findings, 0);
    topology_free(t);

    t = tell("mute");
    assert_string_equal(t->nodes[0].gpus[0].fabric, "");
    topology_free(t);
}

/* The NVLink domain is UUID.clique, from either call; its health is told. */
static void test_fabric_domain(void **state)
{
    static const char *const stories[] = { "rack", "oldrack", "hurt" };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(stories); i++) {
        struct topology *t = tell(stories[i]);
        assert_string_equal(t->nodes[0].nvlink_domain,
                            "11111111-1111-1111-1111-111111111111.7");
        assert_int_equal(t->n_findings, i == 2);
        if (i == 2)
            assert_true(tree_found(t, SEVERITY_FAIL, "gpu 1", "reduced bandwidth"));
        topology_free(t);
    }
}

/* All GPUs of the node are short alike: their model tells (H200: 18). */
static void test_links_against_model(void **state)
{
    struct topology *t = tell("short");

    (void)state;
    assert_string_equal(t->nodes[0].gpus[1].links_down, "16-17");
    for (int i = 0; i < 2; i++)
        assert_true(tree_found(t, SEVERITY_FAIL, i ? "gpu 1" : "gpu 0",
                               "16 of 18 NVLinks are up: NVIDIA H200 has 18 (2 short, "
                               "link 16-17 down)"));
    topology_free(t);

    t = tell("dark");
    assert_true(tree_found(t, SEVERITY_FAIL, "gpu 0", "0 of 18 NVLinks are up"));
    topology_free(t);
}

/* A12: on without an instance, and with some. */
static void test_mig_instances_a12(void **state)
{
    struct topology *t = tell("mig");

    (void)state;
    assert_int_equal(t->nodes[0].gpus[0].mig_instances, 0);
    assert_true(tree_found(t, SEVERITY_WARN, "gpu 0", "MIG is on without an instance"));
    assert_int_equal(t->nodes[0].gpus[1].mig_instances, -1);
    topology_free(t);
    t = tell("slices");
    assert_int_equal(t->nodes[0].gpus[0].mig_instances, 2);
    assert_true(tree_found(t, SEVERITY_WARN, "gpu 0", "MIG is on, so no rank"));
    topology_free(t);
}

/* What sysfs found and what NVML shows become one; what NVML does not show goes. */
static void test_joins_sysfs(void **state)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;
    char *dir = tree_make("vm");
    void *fake = load_fake();

    (void)state;
    setenv("FAKE_NVML", "", 1);
    assert_ok(topology_from_sysfs(dir, &t, &err), &err);
    assert_ok(topology_add_nvml(t, &err), &err);
    assert_int_equal(t->nodes[0].n_gpus, 2);
    assert_true(t->nodes[0].gpus[1].memory_bytes == 143771LL << 20);
    assert_int_equal(t->nodes[0].gpus[1].numa, -1);
    topology_free(t);

    setenv("FAKE_NVML", "one", 1);
    assert_ok(topology_from_sysfs(dir, &t, &err), &err);
    assert_ok(topology_add_nvml(t, &err), &err);
    assert_int_equal(t->nodes[0].n_gpus, 1);
    assert_true(tree_found(t, SEVERITY_WARN, "0000:00:07.0", "does not show"));
    topology_free(t);
    dlclose(fake);
    tree_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_driver),
        cmocka_unit_test(test_two_h200),
        cmocka_unit_test(test_other_stories),
        cmocka_unit_test(test_driver_that_fails),
        cmocka_unit_test(test_joins_sysfs),
        cmocka_unit_test(test_fabric_a10),
        cmocka_unit_test(test_fabric_domain),
        cmocka_unit_test(test_links_against_model),
        cmocka_unit_test(test_mig_instances_a12),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
