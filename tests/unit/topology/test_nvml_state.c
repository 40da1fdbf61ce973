/* Readings of GPUs through NVML, against tests/fake/nvml.c. */
#include "trees.h"

#include <dlfcn.h>
#include <math.h>

#include "topology/nvml.h"
#include "topology/nvml_state.h"

static void *fake;

static int load_fake(void **state)
{
    const char *o = getenv("O");
    char *path = xasprintf("%s/tests/fake/libnvidia-ml.so.1", o ? o : "build");

    (void)state;
    fake = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    free(path);
    return fake ? 0 : -1;
}

static void set(const char *story, const char *facts)
{
    setenv("FAKE_NVML", story, 1);
    setenv("FAKE_NVML_SET", facts, 1);
}

/* The caller's to free(). */
static struct gpu_state *look(void)
{
    struct err err = ERR_INIT;
    struct gpu_state *all;
    struct nvml n;
    int count;

    assert_ok(nvml_open(&n, &err), &err);
    assert_ok(nvml_states(&n, &all, &count, &err), &err);
    assert_int_equal(count, 2);
    nvml_close(&n);
    return all;
}

static void test_healthy(void **state)
{
    static const struct {
        enum gpu_fact fact;
        double value;
    } want[] = {
        { GPU_SM, 90 },
        { GPU_CORES, 16896 },
        { GPU_ECC, 1 },
        { GPU_ECC_PENDING, 1 },
        { GPU_ECC_UNCORRECTED, 0 }, /* not the corrected or aggregate count */
        { GPU_REMAP_FAILED, 0 },
        { GPU_THROTTLE, 0 },
        { GPU_BUSY, 99 },
        { GPU_PCIE_GEN, 5 },
        { GPU_LINKS, 18 },
        { GPU_LINK_CRC, 0 },
        { GPU_POWER_LIMIT, 700 },
        { GPU_POWER_DEFAULT, 700 },
        { GPU_TEMPERATURE, 60 },
        { GPU_SLOWDOWN_AT, 87 }, /* not the shutdown's */
        { GPU_MEMORY_USED, 0 },  /* without what the driver reserves */
        { GPU_PROCESSES, 0 },
        { GPU_MIG, 0 },
        { GPU_PERSISTENCE, 1 },
        { GPU_CLOCK, 1755 },
        { GPU_CLOCK_MAX, 1980 },
        { GPU_MEMORY_CLOCK_MAX, 3201 },
        { GPU_BUS_WIDTH, 6144 },
    };
    struct gpu_state *all;

    (void)state;
    set("", "");
    all = look();
    assert_string_equal(all[1].busid, "0000:00:07.0");
    assert_string_equal(all[1].name, "NVIDIA H200");
    assert_string_equal(all[1].fabric, "none");
    for (size_t i = 0; i < ARRAY_LEN(want); i++)
        if (all[1].fact[want[i].fact] != want[i].value)
            fail_msg("fact %d is %g, not %g", (int)want[i].fact,
                     all[1].fact[want[i].fact], want[i].value);
    assert_true(isnan(all[0].fact[GPU_PCIE_WIDTH])); /* 0 lanes: not shown */
    assert_true(isnan(all[0].fact[GPU_LINKS_DOWN]));
    free(all);
}

static void test_each_fact_is_its_own(void **state)
{
    struct gpu_state *all;

    (void)state;
    set("links", "0.ecc_uncorrected=3 1.remap_correctable=1 1.remap_uncorrectable=2 "
                 "1.remap_pending=1 0.remap_failed=1 0.throttle=0x48 1.link_crc=11 "
                 "1.link_replays=12 1.link_recoveries=13 1.pcie_replays=14 "
                 "0.processes=1 0.used=5368709120 0.pages_pending=1");
    all = look();
    assert_true(all[0].fact[GPU_ECC_UNCORRECTED] == 3);
    assert_true(all[1].fact[GPU_REMAP_CORRECTABLE] == 1);
    assert_true(all[1].fact[GPU_REMAP_UNCORRECTABLE] == 2);
    assert_true(all[1].fact[GPU_REMAP_PENDING] == 1);
    assert_true(all[1].fact[GPU_REMAP_FAILED] == 0);
    assert_true(all[0].fact[GPU_REMAP_FAILED] == 1);
    assert_true(all[0].fact[GPU_PAGES_PENDING] == 1);
    assert_true(all[0].fact[GPU_THROTTLE] == 0x48);
    assert_true(all[1].fact[GPU_LINK_CRC] == 11);
    assert_true(all[1].fact[GPU_LINK_REPLAYS] == 12);
    assert_true(all[1].fact[GPU_LINK_RECOVERIES] == 13);
    assert_true(all[1].fact[GPU_PCIE_REPLAYS] == 14);
    assert_true(all[1].fact[GPU_LINKS] == 16 && all[1].fact[GPU_LINKS_DOWN] == 2);
    assert_true(all[0].fact[GPU_PROCESSES] == 1);
    assert_non_null(strstr(all[0].processes, "(3.0 GiB)"));
    assert_true(all[0].fact[GPU_MEMORY_USED] == 5368709120.0);
    free(all);
}

/* What is not supported is not known; it is not 0. */
static void test_mute(void **state)
{
    struct gpu_state *all;

    (void)state;
    set("mute", "");
    all = look();
    for (int f = 0; f < N_GPU_FACTS; f++)
        if (f != GPU_MEMORY_USED && !isnan(all[0].fact[f]))
            fail_msg("fact %d is %g", f, all[0].fact[f]);
    assert_string_equal(all[0].fabric, "");
    assert_string_equal(all[0].name, "NVIDIA H200");
    free(all);
}

static void test_lost(void **state)
{
    struct gpu_state *all;

    (void)state;
    set("", "1.lost=1");
    all = look();
    assert_string_equal(all[0].lost, "");
    assert_string_equal(all[1].lost, "GPU is lost");
    assert_int_equal(all[1].index, 1);
    free(all);
}

static void test_xids(void **state)
{
    struct err err = ERR_INIT;
    struct nvml_event_set *s;
    char busid[20], driver[32], cuda[16];
    struct nvml n;

    (void)state;
    set("", "1.xid=79");
    assert_ok(nvml_open(&n, &err), &err);
    s = nvml_watch_xids(&n);
    assert_non_null(s);
    assert_int_equal(nvml_next_xid(&n, s, busid), 79);
    assert_string_equal(busid, "0000:00:07.0");
    assert_int_equal(nvml_next_xid(&n, s, busid), 0);
    nvml_watch_end(&n, s);
    nvml_versions(&n, driver, cuda);
    assert_string_equal(driver, "580.159.03");
    assert_string_equal(cuda, "13.0");
    set("mute", "");
    assert_null(nvml_watch_xids(&n));
    assert_int_equal(nvml_next_xid(&n, NULL, busid), 0);
    nvml_close(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_healthy), cmocka_unit_test(test_each_fact_is_its_own),
        cmocka_unit_test(test_mute),    cmocka_unit_test(test_lost),
        cmocka_unit_test(test_xids),
    };

    return cmocka_run_group_tests(tests, load_fake, NULL);
}
