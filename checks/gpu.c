#include "checks/gpu.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "checks/measure.h"
#include "topology/gpu_model.h"

enum {
    LEFT_MOST = 512 << 20, /* NVIDIA resiliency-ext's bound for memory left over */
    BUSY_FROM = 50         /* percent: under it a reading is of an idle GPU */
};

void gpu_object(const struct gpu_state *s, const char *host, char object[96])
{
    if (*host)
        snprintf(object, 96, "%.70s gpu %d", host, s->index);
    else if (*s->busid)
        snprintf(object, 96, "gpu %s", s->busid);
    else
        snprintf(object, 96, "gpu %d", s->index);
}

static struct measure *add(const struct gpu_state *s, const char *name,
                           const char *host, struct measures *out)
{
    char object[96];
    struct measure *m;

    gpu_object(s, host, object);
    m = measures_add(out, name, object, host);
    snprintf(m->kind, sizeof(m->kind), "%s", s->name);
    return m;
}

static int known(const struct gpu_state *s, enum gpu_fact f)
{
    return !isnan(s->fact[f]);
}

static int is_set(const struct gpu_state *s, enum gpu_fact f)
{
    return known(s, f) && s->fact[f] != 0;
}

/* --- at rest ---------------------------------------------------------------------- */

static void ecc_mode(const struct gpu_state *s, struct measure *m)
{
    int change =
        known(s, GPU_ECC_PENDING) && s->fact[GPU_ECC_PENDING] != s->fact[GPU_ECC];

    measure_set(m, 0, NAN, "faults");
    if (!known(s, GPU_ECC)) {
        measure_say(m, "this card has no ECC, or its driver does not show it");
    } else if (!s->fact[GPU_ECC] || change) {
        m->value = 1;
        measure_say(m, "ECC is %s%s", s->fact[GPU_ECC] ? "on" : "off",
                    change ? ", and changes at the next reset" : "");
    }
}

static void ecc_errors(const struct gpu_state *s, struct measure *m)
{
    if (!known(s, GPU_ECC_UNCORRECTED)) {
        measure_set(m, 0, NAN, "errors");
        measure_say(m, "not counted on this card");
        return;
    }
    measure_set(m, s->fact[GPU_ECC_UNCORRECTED], NAN, "errors");
    if (m->value > 0)
        measure_say(m,
                    "%.0f uncorrectable memory errors since the driver was "
                    "loaded",
                    m->value);
}

/* Case D08. */
static void remap(const struct gpu_state *s, struct measure *m)
{
    double bad = s->fact[GPU_REMAP_UNCORRECTABLE], ok = s->fact[GPU_REMAP_CORRECTABLE];

    measure_set(m, 0, NAN, "faults");
    if (is_set(s, GPU_REMAP_FAILED)) {
        m->value = 1;
        measure_say(m,
                    "a row could not be remapped (%.0f uncorrectable): no spare is "
                    "left; drain the node and have the GPU replaced (RMA)",
                    bad);
    } else if (is_set(s, GPU_REMAP_PENDING) || is_set(s, GPU_PAGES_PENDING)) {
        m->value = 1;
        measure_say(m,
                    "a %s waits for a reset: nvidia-smi --gpu-reset -i %s, or reboot",
                    is_set(s, GPU_REMAP_PENDING) ? "row remap" : "page retirement",
                    *s->busid ? s->busid : "INDEX");
    } else if (known(s, GPU_REMAP_FAILED) && bad + ok > 0) {
        measure_say(m,
                    "%.0f rows were remapped for uncorrectable errors, %.0f for "
                    "correctable ones; they are in use",
                    bad, ok);
    } else if (!known(s, GPU_REMAP_FAILED)) {
        measure_say(m, "this card has no row remapping");
    }
}

/* Case A12. */
static void mig(const struct gpu_state *s, struct measure *m)
{
    double n = s->fact[GPU_MIG_INSTANCES];

    measure_set(m, 0, NAN, "faults");
    if (!known(s, GPU_MIG) && !(n > 0)) {
        measure_say(m, n == 0 ? "no MIG device" : "this card has no MIG");
    } else if (is_set(s, GPU_MIG) || n > 0) {
        m->value = 1;
        if (n > 0)
            measure_say(m, "MIG is on, with %.0f instances: a rank needs the whole GPU",
                        n);
        else
            measure_say(m, "MIG is on%s: a rank needs the whole GPU",
                        n == 0 ? ", no instances" : "");
    } else if (is_set(s, GPU_MIG_PENDING)) {
        m->value = 1;
        measure_say(m, "MIG comes on at the next reset");
    }
}

/* Case A10. */
static void fabric(const struct gpu_state *s, struct measure *m)
{
    measure_set(m, 0, NAN, "faults");
    if (str_eq(s->fabric, "") || str_eq(s->fabric, "none")) {
        measure_say(m, "no NVSwitch fabric that needs a manager");
    } else if (!str_eq(s->fabric, "completed")) {
        m->value = 1;
        measure_say(m,
                    "%s %s: fabric state '%s', so CUDA ends with error 802 or NVLink "
                    "runs with less",
                    s->name, s->busid, s->fabric);
    }
}

static void links(const struct gpu_state *s, struct measure *m)
{
    const struct gpu_model *model = gpu_model_find(s->name);
    double n = s->fact[GPU_LINKS];

    measure_set(m, isnan(n) ? 0 : n,
                model && !(model->bridged && !(n > 0)) ? (double)model->nvlinks
                                                       : (double)NAN,
                "links");
    if (s->fact[GPU_LINKS_DOWN] > 0)
        measure_say(m, "%.0f of its NVLinks are down", s->fact[GPU_LINKS_DOWN]);
}

static void power_cap(const struct gpu_state *s, struct measure *m)
{
    if (known(s, GPU_POWER_LIMIT))
        measure_set(m, s->fact[GPU_POWER_LIMIT], s->fact[GPU_POWER_DEFAULT], "W");
    else
        measure_none(m, "the driver does not show the power limit");
}

static void persistence(const struct gpu_state *s, struct measure *m)
{
    if (!known(s, GPU_PERSISTENCE)) {
        measure_none(m, "the driver does not show the persistence mode");
        return;
    }
    measure_set(m, s->fact[GPU_PERSISTENCE] == 0, NAN, "faults");
    if (m->value > 0)
        measure_say(m, "persistence mode is off: the driver forgets the GPU's state "
                       "between jobs, and every start waits for it");
}

static void memory_used(const struct gpu_state *s, struct measure *m)
{
    if (known(s, GPU_MEMORY_USED))
        measure_set(m, s->fact[GPU_MEMORY_USED], LEFT_MOST, "B");
    else
        measure_none(m, "the driver does not show the memory in use");
    if (m->value > LEFT_MOST)
        measure_say(m, "in use before a rank of ours opened the GPU%s%s",
                    *s->processes ? ", by " : "", s->processes);
}

static void processes(const struct gpu_state *s, struct measure *m)
{
    if (!known(s, GPU_PROCESSES)) {
        measure_none(m, "the driver does not list processes");
        return;
    }
    measure_set(m, s->fact[GPU_PROCESSES], NAN, "processes");
    if (m->value > 0)
        measure_say(m, "others compute on it: %s",
                    *s->processes ? s->processes : "not named");
}

/* --- under load ---------------------------------------------------------------------- */

static void say_busy(const struct gpu_state *s, struct measure *m)
{
    if (known(s, GPU_BUSY))
        snprintf(m->group, sizeof(m->group), "%s",
                 s->fact[GPU_BUSY] >= BUSY_FROM ? "busy" : "idle");
}

static void throttle(const struct gpu_state *s, struct measure *m)
{
    say_busy(s, m);
    if (known(s, GPU_THROTTLE))
        measure_set(m, s->fact[GPU_THROTTLE], NAN, "bits");
    else
        measure_none(m, "the driver does not show why clocks are low");
}

static void pcie_gen(const struct gpu_state *s, struct measure *m)
{
    say_busy(s, m);
    if (known(s, GPU_PCIE_GEN) && known(s, GPU_PCIE_GEN_MAX))
        measure_set(m, s->fact[GPU_PCIE_GEN], s->fact[GPU_PCIE_GEN_MAX], "gen");
    else
        measure_none(m, "the driver does not show the PCIe generation (a virtual "
                        "machine often hides it)");
    if (s->fact[GPU_PCIE_GEN_CARD] > m->need)
        measure_say(m, "the slot allows Gen%.0f, the card Gen%.0f", m->need,
                    s->fact[GPU_PCIE_GEN_CARD]);
}

static void pcie_width(const struct gpu_state *s, struct measure *m)
{
    if (known(s, GPU_PCIE_WIDTH) && known(s, GPU_PCIE_WIDTH_MAX))
        measure_set(m, s->fact[GPU_PCIE_WIDTH], s->fact[GPU_PCIE_WIDTH_MAX], "lanes");
    else
        measure_none(m, "the driver does not show the PCIe width (a virtual machine "
                        "often hides it)");
}

static void sm_clock(const struct gpu_state *s, struct measure *m)
{
    say_busy(s, m);
    if (known(s, GPU_CLOCK))
        measure_set(m, s->fact[GPU_CLOCK], s->fact[GPU_CLOCK_MAX], "MHz");
    else
        measure_none(m, "the driver does not show the clock");
}

static void temperature(const struct gpu_state *s, struct measure *m)
{
    if (known(s, GPU_TEMPERATURE))
        measure_set(m, s->fact[GPU_TEMPERATURE], s->fact[GPU_SLOWDOWN_AT], "C");
    else
        measure_none(m, "the driver does not show the temperature");
}

/* --- all ------------------------------------------------------------------------------- */

struct row {
    const char *name;
    enum gpu_fact fact;
    void (*measure)(const struct gpu_state *s, struct measure *m);
};

static const struct row at_rest[] = {
    { "gpu_ecc_mode", GPU_ECC, ecc_mode },
    { "gpu_ecc_errors", GPU_ECC_UNCORRECTED, ecc_errors },
    { "gpu_remap", GPU_REMAP_FAILED, remap },
    { "gpu_mig", GPU_MIG, mig },
    { "gpu_fabric", GPU_FABRIC, fabric },
    { "gpu_nvlinks", GPU_LINKS, links },
    { "gpu_power_cap", GPU_POWER_LIMIT, power_cap },
    { "gpu_persistence", GPU_PERSISTENCE, persistence },
    { "gpu_memory_used", GPU_MEMORY_USED, memory_used },
    { "gpu_processes", GPU_PROCESSES, processes },
};

static const struct row under_load[] = {
    { "gpu_throttle", GPU_THROTTLE, throttle },
    { "gpu_pcie_gen", GPU_PCIE_GEN, pcie_gen },
    { "gpu_pcie_width", GPU_PCIE_WIDTH, pcie_width },
    { "gpu_clock", GPU_CLOCK, sm_clock },
    { "gpu_temperature", GPU_TEMPERATURE, temperature },
};

static void add_rows(const struct row *rows, size_t n, const struct gpu_state *s,
                     uint64_t asked, const char *host, struct measures *out)
{
    for (size_t i = 0; i < n; i++)
        if (asked & GPU_ASKED(rows[i].fact))
            rows[i].measure(s, add(s, rows[i].name, host, out));
}

void gpu_measure_rest(const struct gpu_state *s, uint64_t asked, const char *host,
                      struct measures *out)
{
    add_rows(at_rest, ARRAY_LEN(at_rest), s, asked, host, out);
}

void gpu_measure_load(const struct gpu_state *s, uint64_t asked, const char *host,
                      struct measures *out)
{
    add_rows(under_load, ARRAY_LEN(under_load), s, asked, host, out);
}

void gpu_measure_over(const struct gpu_state *before, const struct gpu_state *after,
                      double seconds, const char *host, struct measures *out)
{
    static const struct {
        const char *name, *what;
        enum gpu_fact fact[2]; /* added up; the same twice: one */
        double need;           /* an hour */
    } all[] = {
        { "gpu_nvlink_errors",
          "NVLink replays and recoveries",
          { GPU_LINK_REPLAYS, GPU_LINK_RECOVERIES },
          0 },
        { "gpu_nvlink_crc",
          "NVLink flits with a wrong checksum",
          { GPU_LINK_CRC, GPU_LINK_CRC },
          100.0 * 3600 },
        { "gpu_pcie_replays",
          "PCIe replays",
          { GPU_PCIE_REPLAYS, GPU_PCIE_REPLAYS },
          8.0 * 60 },
        { "gpu_ecc_new",
          "uncorrectable memory errors",
          { GPU_ECC_UNCORRECTED, GPU_ECC_UNCORRECTED },
          0 },
    };

    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        struct measure *m = add(after, all[i].name, host, out);
        int a = all[i].fact[0], b = all[i].fact[1];
        double more = after->fact[a] - before->fact[a];

        if (b != a)
            more += after->fact[b] - before->fact[b];
        if (isnan(more))
            measure_none(m, "the driver does not count it on this card");
        else if (more < 0)
            measure_none(m, "the counter was set back during the test");
        else
            measure_set(m, more, all[i].need, "errors");
        m->seconds = seconds;
        if (more > 0)
            measure_say(m, "%s", all[i].what);
    }
}

void gpu_measure_count(const struct gpu_state *all, int n, int ranks, const char *host,
                       struct measures *out)
{
    struct measure *m = measures_add(out, "gpu_count", host, host);
    struct str lost = STR_INIT;
    int good = 0;

    for (int i = 0; i < n; i++) {
        good += !*all[i].lost;
        if (*all[i].lost)
            str_addf(&lost, "%sGPU %d: %s", lost.len ? ", " : "", all[i].index,
                     all[i].lost);
    }
    measure_set(m, good, ranks, "GPUs");
    if (lost.len)
        measure_say(m, "%s", lost.text);
    str_release(&lost);
}
