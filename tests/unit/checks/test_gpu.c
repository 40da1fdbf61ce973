/* What a driver says about GPUs, from recorded texts (cases A10, A12, D06-D08) and made-up
 * readings; and how devices are held beside the others of their kind. */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "checks/gpu.h"
#include "checks/judge.h"
#include "checks/judge_peers.h"
#include "checks/replay.h"
#include "checks/replay_smi.h"
#include "checks/work.h"
#include "checks/xid.h"
#include "recipes/yaml.h"

static const struct judge plain;

static const struct verdict *find(const struct verdicts *l, const char *name,
                                  const char *object)
{
    for (int i = 0; i < l->n; i++)
        if (str_eq(l->item[i].name, name) && str_eq(l->item[i].object, object))
            return &l->item[i];
    fail_msg("no verdict %s about '%s'", name, object);
    return NULL;
}

static void expect(const struct verdicts *l, const char *name, const char *object,
                   enum verdict_result result, int warn, const char *reason)
{
    const struct verdict *v = find(l, name, object);

    if (v->result != result || v->warn != warn || !strstr(v->reason, reason))
        fail_msg("%s of %s: %s%s, '%s' (wanted '%s')", name, object,
                 verdict_result_name(v->result), v->warn ? " (!)" : "", v->reason,
                 reason);
}

static void judge_file(const char *path, struct verdicts *out)
{
    struct measures m = { 0 };
    struct err err = ERR_INIT;

    assert_ok(replay_load(path, &m, &err), &err);
    judge_all(&plain, &m, out);
    measures_release(&m);
}

static void test_d06_throttle(void **state)
{
    static const struct {
        enum verdict_result result;
        int warn;
        const char *reason;
    } want[] = {
        { VERDICT_PASS, 0, "none" },
        { VERDICT_PASS, 0, "idle" },
        { VERDICT_PASS, 1, "the load is not on this GPU" },
        { VERDICT_PASS, 1, "application clocks" },
        { VERDICT_PASS, 0, "software power cap" },
        { VERDICT_FAIL, 0, "hardware slowdown;" },
        { VERDICT_PASS, 1, "software thermal slowdown" },
        { VERDICT_FAIL, 0, "hardware thermal slowdown" },
        { VERDICT_FAIL, 0, "power brake" },
        { VERDICT_FAIL, 0, "hardware slowdown + hardware thermal slowdown" },
        { VERDICT_PASS, 0, "display clocks" },
        { VERDICT_PASS, 0, "sync boost" },
        { VERDICT_UNMEASURED, 0, "does not show" },
    };
    struct verdicts v = { 0 };

    (void)state;
    judge_file("tests/cases/d06_throttle.tsv", &v);
    assert_int_equal(v.n, ARRAY_LEN(want));
    for (int i = 0; i < v.n; i++) {
        char object[32];

        snprintf(object, sizeof(object), "gpu %d", i);
        expect(&v, "gpu_throttle", object, want[i].result, want[i].warn,
               want[i].reason);
    }
    assert_true(find(&v, "gpu_throttle", "gpu 12")->required);
    verdicts_release(&v);
}

static void test_d07_pcie(void **state)
{
    struct verdicts v = { 0 };

    (void)state;
    judge_file("tests/cases/d07_pcie.csv", &v);
    assert_int_equal(v.n, 12);
    expect(&v, "gpu_pcie_gen", "gpu 0", VERDICT_PASS, 0, "");
    expect(&v, "gpu_pcie_gen", "gpu 1", VERDICT_UNMEASURED, 0, "under load");
    expect(&v, "gpu_pcie_gen", "gpu 2", VERDICT_PASS, 0, "");
    expect(&v, "gpu_pcie_width", "gpu 2", VERDICT_FAIL, 0, "x8 of x16");
    expect(&v, "gpu_pcie_gen", "gpu 3", VERDICT_FAIL, 0, "Gen3 under load, Gen5");
    expect(&v, "gpu_pcie_gen", "gpu 4", VERDICT_PASS, 1, "Gen4, that of others");
    expect(&v, "gpu_pcie_gen", "gpu 5", VERDICT_UNMEASURED, 0, "does not show");
    expect(&v, "gpu_pcie_width", "gpu 5", VERDICT_UNMEASURED, 0, "does not show");
    assert_false(find(&v, "gpu_pcie_gen", "gpu 5")->required); /* blocks nobody */
    verdicts_release(&v);
}

static void test_d08_remap(void **state)
{
    struct verdicts v = { 0 };

    (void)state;
    judge_file("tests/cases/d08_remap.txt", &v);
    assert_int_equal(v.n, 5);
    expect(&v, "gpu_remap", "gpu 0000:18:00.0", VERDICT_PASS, 0, "");
    expect(&v, "gpu_remap", "gpu 0000:2a:00.0", VERDICT_FAIL, 0, "-i 0000:2a:00.0");
    expect(&v, "gpu_remap", "gpu 0000:3a:00.0", VERDICT_PASS, 0,
           "3 rows were remapped");
    expect(&v, "gpu_remap", "gpu 0000:5d:00.0", VERDICT_FAIL, 0, "RMA");
    expect(&v, "gpu_remap", "gpu 0000:9a:00.0", VERDICT_PASS, 0, "no row remapping");
    verdicts_release(&v);
}

static void test_a10_fabric(void **state)
{
    struct verdicts v = { 0 };

    (void)state;
    judge_file("tests/cases/a10_fabric_inprogress.txt", &v);
    expect(&v, "gpu_fabric", "gpu 0000:18:00.0", VERDICT_FAIL, 0, "802");
    expect(&v, "gpu_fabric", "gpu 0000:18:00.0", VERDICT_FAIL, 0, "fabricmanager");
    expect(&v, "gpu_fabric", "gpu 0000:2a:00.0", VERDICT_PASS, 0, "");
    verdicts_release(&v);
    judge_file("tests/cases/a10_fabric_none.txt", &v);
    expect(&v, "gpu_fabric", "gpu 0000:01:00.0", VERDICT_PASS, 0, "no NVSwitch");
    verdicts_release(&v);
}

static void read_also(struct smi *s, const char *path)
{
    struct err err = ERR_INIT;
    char *text;
    size_t n;

    assert_ok(yaml_read_file(path, 1 << 20, &text, &n, &err), &err);
    assert_ok(smi_read(s, text, path, &err), &err);
    free(text);
}

/* Both texts together: one card is on without an instance. */
static void test_a12_mig(void **state)
{
    struct smi s = { 0 };
    struct measures m = { 0 };
    struct verdicts v = { 0 };

    (void)state;
    read_also(&s, "tests/cases/a12_mig_L.txt");
    read_also(&s, "tests/cases/a12_mig_mode.csv");
    assert_int_equal(s.n, 4);
    smi_measure(&s, &m);
    judge_all(&plain, &m, &v);
    assert_int_equal(v.n, 4);
    expect(&v, "gpu_mig", "gpu 0", VERDICT_FAIL, 0, "with 2 instances");
    expect(&v, "gpu_mig", "gpu 1", VERDICT_PASS, 0, "");
    expect(&v, "gpu_mig", "gpu 2", VERDICT_FAIL, 0, "MIG is on, no instances");
    expect(&v, "gpu_mig", "gpu 3", VERDICT_PASS, 0, "");
    measures_release(&m);
    verdicts_release(&v);
    smi_release(&s);
}

static void test_bad_texts(void **state)
{
    static const char *const bad[][2] = {
        { "index, pcie.link.gen.current\n0, 5, 6\n", "x:2: 3 cells under 2 columns" },
        { "GPU 0: H100 (UUID: x)\nwhat\n", "x:2: not a line of nvidia-smi -L" },
    };
    struct err err = ERR_INIT;

    (void)state;
    assert_false(smi_fits("hello, world\n"));
    assert_false(smi_fits(""));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct smi s = { 0 };

        assert_true(smi_fits(bad[i][0]));
        assert_err(smi_read(&s, bad[i][0], "x", &err), &err, ERR_USAGE, bad[i][1]);
        smi_release(&s);
    }
}

/* --- readings ---------------------------------------------------------------------- */

static struct gpu_state h200(int index)
{
    struct gpu_state s;

    gpu_state_init(&s);
    s.index = index;
    snprintf(s.name, sizeof(s.name), "NVIDIA H200");
    s.fact[GPU_SM] = 90;
    s.fact[GPU_CORES] = 132 * 128;
    s.fact[GPU_CLOCK] = 1700;
    s.fact[GPU_CLOCK_MAX] = 1980;
    s.fact[GPU_MEMORY_CLOCK_MAX] = 3201;
    s.fact[GPU_BUS_WIDTH] = 6144;
    s.fact[GPU_BUSY] = 99;
    s.fact[GPU_THROTTLE] = 0;
    s.fact[GPU_TEMPERATURE] = 60;
    s.fact[GPU_SLOWDOWN_AT] = 87;
    s.fact[GPU_LINKS] = 18;
    s.fact[GPU_LINK_CRC] = s.fact[GPU_LINK_REPLAYS] = s.fact[GPU_LINK_RECOVERIES] = 7;
    s.fact[GPU_PCIE_REPLAYS] = s.fact[GPU_ECC_UNCORRECTED] = 0;
    return s;
}

static void test_peaks(void **state)
{
    struct gpu_state s = h200(0);

    (void)state;
    /* the data sheet's 989 TFLOP/s are at 1830 MHz, its 4.8 TB/s at 3125 MHz */
    s.fact[GPU_CLOCK_MAX] = 1830;
    s.fact[GPU_MEMORY_CLOCK_MAX] = 3125;
    assert_true(fabs(gpu_peak_flops(&s) / 989.4e12 - 1) < 1e-3);
    assert_true(fabs(gpu_peak_bytes(&s) / 4.8e12 - 1) < 1e-3);
    s.fact[GPU_SM] = 75;
    assert_true(isnan(gpu_peak_flops(&s)));
    s.fact[GPU_PCIE_GEN_MAX] = 5;
    s.fact[GPU_PCIE_WIDTH] = 16;
    assert_true(fabs(gpu_pcie_bytes(&s) / 63.0e9 - 1) < 1e-3);
    s.fact[GPU_PCIE_WIDTH] = NAN;
    assert_true(isnan(gpu_pcie_bytes(&s)));
}

/* Four GPUs under load; change[i] is what GPU i has otherwise. */
struct change {
    int gpu;
    enum gpu_fact fact;
    double value;
};

static void judge_load(const struct change *c, int n, struct verdicts *out)
{
    struct measures m = { 0 };

    for (int i = 0; i < 4; i++) {
        struct gpu_state s = h200(i);

        for (int k = 0; k < n; k++)
            if (c[k].gpu == i)
                s.fact[c[k].fact] = c[k].value;
        gpu_measure_load(&s, GPU_ASKED_ALL, "n1", &m);
        gpu_measure_rest(&s, GPU_ASKED(GPU_LINKS), "n1", &m);
    }
    judge_all(&plain, &m, out);
    measures_release(&m);
}

static void test_load(void **state)
{
    static const struct change c[] = {
        { 1, GPU_CLOCK, 1400 },     { 1, GPU_THROTTLE, 0x4 },
        { 2, GPU_TEMPERATURE, 80 }, { 3, GPU_LINKS, 17 },
        { 3, GPU_LINKS_DOWN, 1 },   { 0, GPU_THROTTLE, 0x4 },
        { 3, GPU_TEMPERATURE, 86 },
    };
    struct verdicts v = { 0 };

    (void)state;
    judge_load(c, ARRAY_LEN(c), &v);
    expect(&v, "gpu_throttle", "n1 gpu 0", VERDICT_PASS, 0, "software power cap");
    expect(&v, "gpu_throttle", "n1 gpu 1", VERDICT_PASS, 1, "10 % under the others");
    expect(&v, "gpu_clock", "n1 gpu 0", VERDICT_PASS, 0, "at most 1980");
    expect(&v, "gpu_clock", "n1 gpu 1", VERDICT_PASS, 1, "82 % of the median");
    expect(&v, "gpu_temperature", "n1 gpu 2", VERDICT_PASS, 0, "");
    expect(&v, "gpu_temperature", "n1 gpu 3", VERDICT_PASS, 1, "slows down at 87 C");
    expect(&v, "gpu_nvlinks", "n1 gpu 0", VERDICT_PASS, 0, "");
    expect(&v, "gpu_nvlinks", "n1 gpu 3", VERDICT_FAIL, 0, "17 of 18 NVLinks are up");
    verdicts_release(&v);
}

/* One H200 of eight in a virtual machine has no NVLink, and needs none; two do. */
static void test_links_alone(void **state)
{
    (void)state;
    for (int n = 1; n <= 2; n++) {
        struct measures m = { 0 };
        struct verdicts v = { 0 };

        for (int i = 0; i < n; i++) {
            struct gpu_state s = h200(i);

            s.fact[GPU_LINKS] = 0;
            s.fact[GPU_LINKS_DOWN] = 18;
            gpu_measure_rest(&s, GPU_ASKED(GPU_LINKS), "n1", &m);
            gpu_measure_rest(&s, GPU_ASKED(GPU_LINKS), i ? "n3" : "n2", &m);
        }
        judge_all(&plain, &m, &v);
        expect(&v, "gpu_nvlinks", "n1 gpu 0", n == 1 ? VERDICT_PASS : VERDICT_FAIL, 0,
               n == 1 ? "no other GPU is here" : "0 of 18 NVLinks are up");
        expect(&v, "gpu_nvlinks", "n2 gpu 0", VERDICT_PASS, 0, "no other GPU is here");
        measures_release(&m);
        verdicts_release(&v);
    }
}

static void test_load_alike(void **state)
{
    struct change c[4], hot = { 2, GPU_TEMPERATURE, 80 };
    struct verdicts v = { 0 };

    (void)state;
    for (int i = 0; i < 4; i++) /* all locked alike: the median shows nothing */
        c[i] = (struct change){ i, GPU_CLOCK, 1200 };
    judge_load(c, 4, &v);
    expect(&v, "gpu_clock", "n1 gpu 3", VERDICT_PASS, 1, "locked low");
    verdicts_release(&v);
    judge_load(&hot, 1, &v);
    expect(&v, "gpu_temperature", "n1 gpu 2", VERDICT_PASS, 1, "20 C over the others");
    expect(&v, "gpu_temperature", "n1 gpu 1", VERDICT_PASS, 0, "");
    verdicts_release(&v);
}

/* Links of a model that is not known: as many as its like. */
static void test_links_unknown_model(void **state)
{
    struct measures m = { 0 };
    struct verdicts v = { 0 };

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct gpu_state s = h200(i);

        snprintf(s.name, sizeof(s.name), "NVIDIA X900");
        s.fact[GPU_LINKS] = i == 2 ? 10 : 12;
        gpu_measure_rest(&s, GPU_ASKED(GPU_LINKS), "n1", &m);
    }
    judge_all(&plain, &m, &v);
    expect(&v, "gpu_nvlinks", "n1 gpu 1", VERDICT_PASS, 0, "");
    expect(&v, "gpu_nvlinks", "n1 gpu 2", VERDICT_FAIL, 0, "10 of 12");
    measures_release(&m);
    verdicts_release(&v);
}

/* Totals since a reset say nothing; what came during the test does. */
static void test_counters_are_rates(void **state)
{
    struct gpu_state before = h200(0), after = h200(0);
    struct measures m = { 0 };
    struct verdicts v = { 0 };

    (void)state;
    gpu_measure_over(&before, &after, 10, "n1", &m);
    after.index = 1;
    after.fact[GPU_LINK_RECOVERIES] += 1;
    after.fact[GPU_LINK_CRC] += 900;
    after.fact[GPU_PCIE_REPLAYS] += 30;
    gpu_measure_over(&before, &after, 10, "n1", &m);
    after.index = 2;
    after.fact[GPU_LINK_CRC] += 900;
    after.fact[GPU_ECC_UNCORRECTED] = after.fact[GPU_LINK_REPLAYS] = NAN;
    gpu_measure_over(&before, &after, 10, "n1", &m);
    judge_all(&plain, &m, &v);
    expect(&v, "gpu_nvlink_errors", "n1 gpu 0", VERDICT_PASS, 0, "");
    expect(&v, "gpu_nvlink_errors", "n1 gpu 1", VERDICT_FAIL, 0, "recoveries");
    expect(&v, "gpu_nvlink_errors", "n1 gpu 2", VERDICT_UNMEASURED, 0,
           "does not count");
    assert_false(find(&v, "gpu_nvlink_errors", "n1 gpu 2")->required);
    expect(&v, "gpu_nvlink_crc", "n1 gpu 1", VERDICT_PASS, 0, "checksum"); /* 90/s */
    expect(&v, "gpu_nvlink_crc", "n1 gpu 2", VERDICT_PASS, 1, "checksum"); /* 180/s */
    expect(&v, "gpu_pcie_replays", "n1 gpu 1", VERDICT_PASS, 1, "PCIe replays");
    expect(&v, "gpu_ecc_new", "n1 gpu 0", VERDICT_PASS, 0, "");
    expect(&v, "gpu_ecc_new", "n1 gpu 2", VERDICT_UNMEASURED, 0, "does not count");
    measures_release(&m);
    verdicts_release(&v);
}

static void test_count(void **state)
{
    struct gpu_state all[2] = { h200(0), h200(1) };
    struct measures m = { 0 };
    struct verdicts v = { 0 };

    (void)state;
    gpu_measure_count(all, 2, 2, "n1", &m);
    snprintf(all[1].lost, sizeof(all[1].lost), "GPU is lost");
    gpu_measure_count(all, 2, 2, "n2", &m);
    judge_all(&plain, &m, &v);
    expect(&v, "gpu_count", "n1", VERDICT_PASS, 0, "");
    expect(&v, "gpu_count", "n2", VERDICT_FAIL, 0, "GPU 1: GPU is lost");
    measures_release(&m);
    verdicts_release(&v);
}

/* --- beside the others ---------------------------------------------------------------- */

static void judge_gemm(const double *rate, int n, const char *device, double card,
                       struct verdicts *out)
{
    struct measures m = { 0 };

    for (int i = 0; i < n; i++) {
        char object[32];
        struct measure *one;

        snprintf(object, sizeof(object), "n%d gpu 0", i);
        one = measures_add(&m, "gemm", object, "");
        snprintf(one->device, sizeof(one->device), "%s", device);
        measure_set(one, rate[i], card, "TFLOP/s");
    }
    judge_all(&plain, &m, out);
    measures_release(&m);
}

static void test_rates(void **state)
{
    static const double healthy[] = { 740, 745, 700, 752 };
    static const double slow[] = { 740, 745, 500, 752 };
    static const double torn[] = { 740, 745, 500, 510 };
    static const double two[] = { 740, 500 }, close_two[] = { 740, 700 };
    static const double low[] = { 300, 301, 302, 303 };
    struct verdicts v = { 0 };

    (void)state;
    judge_gemm(healthy, 4, "cuda", 1070, &v);
    expect(&v, "gemm", "n2 gpu 0", VERDICT_PASS, 0, "65 % of the 1070");
    verdicts_release(&v);
    judge_gemm(slow, 4, "cuda", NAN, &v);
    expect(&v, "gemm", "n2 gpu 0", VERDICT_FAIL, 0, "67.3 % of the median of 4");
    expect(&v, "gemm", "n0 gpu 0", VERDICT_PASS, 0, "");
    verdicts_release(&v);
    judge_gemm(slow, 4, "cpu", NAN, &v); /* CPU ranks share cores */
    expect(&v, "gemm", "n2 gpu 0", VERDICT_PASS, 0, "");
    verdicts_release(&v);
    judge_gemm(torn, 4, "cuda", NAN, &v); /* half against half */
    expect(&v, "gemm", "n2 gpu 0", VERDICT_UNDECIDED, 0, "median of 4");
    verdicts_release(&v);
    judge_gemm(two, 2, "cuda", NAN, &v);
    expect(&v, "gemm", "n1 gpu 0", VERDICT_UNDECIDED, 0, "median of 2");
    expect(&v, "gemm", "n0 gpu 0", VERDICT_PASS, 0, "");
    verdicts_release(&v);
    judge_gemm(close_two, 2, "cuda", NAN, &v);
    expect(&v, "gemm", "n1 gpu 0", VERDICT_PASS, 0, "");
    verdicts_release(&v);
    judge_gemm(low, 4, "cuda", 1070, &v); /* all alike, and all too slow */
    for (int i = 0; i < 4; i++)
        assert_int_equal(v.item[i].result, VERDICT_FAIL);
    verdicts_release(&v);
    judge_gemm(healthy, 1, "cuda", NAN, &v); /* one alone, of a card not known */
    expect(&v, "gemm", "n0 gpu 0", VERDICT_PASS, 0, "");
    verdicts_release(&v);
}

static void vote(const char *bits, const char *models, int flaky, struct verdicts *out)
{
    struct measures m = { 0 };

    for (int i = 0; bits[i]; i++) {
        char object[32];
        struct measure *one;

        snprintf(object, sizeof(object), "%d", i);
        one = measures_add(&m, "gemm_bits", object, object);
        snprintf(one->kind, sizeof(one->kind), "%c", models[i]);
        measure_set(one, i == flaky, NAN, "repeats");
        measure_say(one, "bits %c", bits[i]);
    }
    judge_all(&plain, &m, out);
    measures_release(&m);
}

/* "p" pass, "f" fail, "u" undecided, in order of the devices. */
static void expect_votes(const char *bits, const char *models, int flaky,
                         const char *want)
{
    struct verdicts v = { 0 };
    char got[16] = "";

    vote(bits, models, flaky, &v);
    for (int i = 0; i < v.n; i++)
        got[i] = "pf-u"[v.item[i].result];
    if (!str_eq(got, want))
        fail_msg("%s on %s: %s instead of %s", bits, models, got, want);
    verdicts_release(&v);
}

static void test_bits(void **state)
{
    (void)state;
    expect_votes("aaaa", "xxxx", -1, "pppp");
    expect_votes("aaba", "xxxx", -1, "ppfp");
    expect_votes("ab", "xx", -1, "uu");    /* two cannot say who is wrong */
    expect_votes("aab", "xxx", -1, "uuu"); /* two alike are not enough */
    expect_votes("aabb", "xxxx", -1, "uuuu");
    expect_votes("aaabbb", "xxxxxx", -1, "uuuuuu");
    expect_votes("aaabb", "xxxxx", -1, "pppff");
    expect_votes("aab", "xxy", -1, "ppp"); /* another model computes otherwise */
    expect_votes("ab", "xx", 1, "pf");     /* one that contradicts itself is named */
    expect_votes("a", "x", -1, "p");
}

static void test_fault_texts(void **state)
{
    enum work_fault f;
    struct err err = ERR_INIT;

    (void)state;
    assert_ok(work_fault_of("", 0, &f, &err), &err);
    assert_int_equal(f, WORK_SOUND);
    assert_ok(work_fault_of("slow 3", 3, &f, &err), &err);
    assert_int_equal(f, WORK_SLOW);
    assert_ok(work_fault_of("wrong 3", 2, &f, &err), &err);
    assert_int_equal(f, WORK_SOUND);
    assert_err(work_fault_of("wrong", 2, &f, &err), &err, ERR_USAGE, "check_fault");
    assert_err(work_fault_of("wrong 2 3", 2, &f, &err), &err, ERR_USAGE, "check_fault");
}

static void test_xids(void **state)
{
    char busid[20];

    (void)state;
    assert_int_equal(xid_in_line("[ 12.3] NVRM: Xid (PCI:0000:18:00): 79, pid=1, GPU "
                                 "has fallen off the bus.",
                                 busid),
                     79);
    assert_string_equal(busid, "0000:18:00.0");
    assert_int_equal(xid_in_line("NVRM: Xid (PCI:0000:2A:00.0): 31, x", busid), 31);
    assert_string_equal(busid, "0000:2a:00.0");
    assert_int_equal(xid_in_line("NVRM: loading NVIDIA UNIX Open", busid), 0);
    assert_int_equal(xid_in_line("NVRM: Xid (PCI:", busid), 0);
    assert_true(xid_is_fatal(79) && xid_is_fatal(48) && xid_is_fatal(62));
    assert_false(xid_is_fatal(31) || xid_is_fatal(13) || xid_is_fatal(45));
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(test_d06_throttle),
        cmocka_unit_test(test_d07_pcie),
        cmocka_unit_test(test_d08_remap),
        cmocka_unit_test(test_a10_fabric),
        cmocka_unit_test(test_a12_mig),
        cmocka_unit_test(test_bad_texts),
        cmocka_unit_test(test_peaks),
        cmocka_unit_test(test_load),
        cmocka_unit_test(test_links_alone),
        cmocka_unit_test(test_links_alone),
        cmocka_unit_test(test_load_alike),
        cmocka_unit_test(test_links_unknown_model),
        cmocka_unit_test(test_counters_are_rates),
        cmocka_unit_test(test_count),
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_fault_texts),
        cmocka_unit_test(test_xids),
    };

    return cmocka_run_group_tests(t, NULL, NULL);
}
