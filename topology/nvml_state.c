#include "topology/nvml_state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "topology/nvml.h"
#include "topology/nvml_links.h"
#include "topology/topology.h"

enum { MAX_PROCESSES = 64, MAX_GPUS = 64 };

void gpu_state_init(struct gpu_state *s)
{
    memset(s, 0, sizeof(*s));
    for (int i = 0; i < N_GPU_FACTS; i++)
        s->fact[i] = NAN;
}

/* --- one number a call ------------------------------------------------------------ */

typedef int (*get_number)(struct nvml_device *, unsigned *);

static void add_numbers(const struct nvml *n, struct nvml_device *d,
                        struct gpu_state *s)
{
    const struct {
        enum gpu_fact fact;
        get_number get;
        double scale;
    } all[] = {
        { GPU_CORES, n->cores, 1 },
        { GPU_PAGES_PENDING, n->pages_pending, 1 },
        { GPU_PCIE_GEN, n->pcie_generation_now, 1 },
        { GPU_PCIE_GEN_MAX, n->pcie_generation, 1 },
        { GPU_PCIE_GEN_CARD, n->pcie_generation_card, 1 },
        { GPU_PCIE_WIDTH, n->pcie_width, 1 },
        { GPU_PCIE_WIDTH_MAX, n->pcie_width_max, 1 },
        { GPU_PCIE_REPLAYS, n->pcie_replays, 1 },
        { GPU_POWER_LIMIT, n->power_limit, 1e-3 },
        { GPU_POWER_DEFAULT, n->power_default, 1e-3 },
        { GPU_POWER, n->power, 1e-3 },
        { GPU_PERSISTENCE, n->persistence, 1 },
        { GPU_BUS_WIDTH, n->bus_width, 1 },
    };
    unsigned v;

    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (all[i].get && all[i].get(d, &v) == NVML_OK)
            s->fact[all[i].fact] = v * all[i].scale;
    /* virtual machines show no link at all: 0 lanes are not known */
    for (int f = GPU_PCIE_GEN; f <= GPU_PCIE_WIDTH_MAX; f++)
        if (s->fact[f] == 0)
            s->fact[f] = NAN;
}

static void add_clocks(const struct nvml *n, struct nvml_device *d, struct gpu_state *s)
{
    unsigned v;

    if (n->clock && n->clock(d, NVML_CLOCK_SM, &v) == NVML_OK)
        s->fact[GPU_CLOCK] = v;
    if (n->clock_max && n->clock_max(d, NVML_CLOCK_SM, &v) == NVML_OK)
        s->fact[GPU_CLOCK_MAX] = v;
    if (n->clock_max && n->clock_max(d, NVML_CLOCK_MEMORY, &v) == NVML_OK)
        s->fact[GPU_MEMORY_CLOCK_MAX] = v;
    if (n->temperature && n->temperature(d, NVML_TEMPERATURE_GPU, &v) == NVML_OK)
        s->fact[GPU_TEMPERATURE] = v;
    if (n->temperature_limit &&
        n->temperature_limit(d, NVML_TEMPERATURE_SLOWDOWN, &v) == NVML_OK && v > 0)
        s->fact[GPU_SLOWDOWN_AT] = v;
}

/* --- groups of them ----------------------------------------------------------------- */

static void add_memory_errors(const struct nvml *n, struct nvml_device *d,
                              struct gpu_state *s)
{
    unsigned now, next, correctable, uncorrectable, pending, failed;
    unsigned long long errors;

    if (n->ecc_mode && n->ecc_mode(d, &now, &next) == NVML_OK) {
        s->fact[GPU_ECC] = now;
        s->fact[GPU_ECC_PENDING] = next;
    }
    if (n->ecc_errors &&
        n->ecc_errors(d, NVML_ECC_UNCORRECTED, NVML_ECC_VOLATILE, &errors) == NVML_OK)
        s->fact[GPU_ECC_UNCORRECTED] = (double)errors;
    if (n->remapped_rows && n->remapped_rows(d, &correctable, &uncorrectable, &pending,
                                             &failed) == NVML_OK) {
        s->fact[GPU_REMAP_CORRECTABLE] = correctable;
        s->fact[GPU_REMAP_UNCORRECTABLE] = uncorrectable;
        s->fact[GPU_REMAP_PENDING] = pending != 0;
        s->fact[GPU_REMAP_FAILED] = failed != 0;
    }
}

static void add_load(const struct nvml *n, struct nvml_device *d, struct gpu_state *s)
{
    struct nvml_utilization use;
    unsigned long long reasons;

    if (n->throttle && n->throttle(d, &reasons) == NVML_OK)
        s->fact[GPU_THROTTLE] = (double)reasons;
    if (n->utilization && n->utilization(d, &use) == NVML_OK)
        s->fact[GPU_BUSY] = use.gpu;
}

static void add_links(const struct nvml *n, struct nvml_device *d, struct gpu_state *s)
{
    static const struct {
        enum gpu_fact fact;
        int counter;
    } counters[] = { { GPU_LINK_CRC, NVML_LINK_CRC_FLIT },
                     { GPU_LINK_REPLAYS, NVML_LINK_REPLAY },
                     { GPU_LINK_RECOVERIES, NVML_LINK_RECOVERY } };
    unsigned long long errors;
    int active;

    for (unsigned i = 0; n->link_state && i < NVML_MAX_LINKS; i++) {
        enum gpu_fact f;

        if (n->link_state(d, i, &active) != NVML_OK)
            continue;
        f = active ? GPU_LINKS : GPU_LINKS_DOWN;
        s->fact[f] = (isnan(s->fact[f]) ? 0 : s->fact[f]) + 1;
        for (size_t k = 0; active && n->link_errors && k < ARRAY_LEN(counters); k++)
            if (n->link_errors(d, i, counters[k].counter, &errors) == NVML_OK)
                s->fact[counters[k].fact] =
                    (isnan(s->fact[counters[k].fact]) ? 0 : s->fact[counters[k].fact]) +
                    (double)errors;
    }
    if (!isnan(s->fact[GPU_LINKS_DOWN]) && isnan(s->fact[GPU_LINKS]))
        s->fact[GPU_LINKS] = 0;
}

static void name_process(const struct nvml_process *p, struct str *text)
{
    char *path = xasprintf("/proc/%u/comm", p->pid), name[32] = "";
    FILE *fp = fopen(path, "re");

    if (fp && fgets(name, sizeof(name), fp))
        name[strcspn(name, "\n")] = '\0';
    if (fp)
        fclose(fp);
    free(path);
    str_addf(text, "%s%u%s%s", text->len ? ", " : "", p->pid, *name ? " " : "", name);
    if (p->used != ~0ULL)
        str_addf(text, " (%.1f GiB)", (double)p->used / (1 << 30));
}

static void add_processes(const struct nvml *n, struct nvml_device *d,
                          struct gpu_state *s)
{
    struct nvml_process p[MAX_PROCESSES];
    unsigned count = MAX_PROCESSES;
    struct str text = STR_INIT;
    int status;

    if (!n->processes)
        return;
    status = n->processes(d, &count, p);
    if (status != NVML_OK && status != NVML_INSUFFICIENT_SIZE)
        return;
    s->fact[GPU_PROCESSES] = count;
    for (unsigned i = 0; status == NVML_OK && i < count && i < MAX_PROCESSES; i++)
        name_process(&p[i], &text);
    snprintf(s->processes, sizeof(s->processes), "%s", text.len ? text.text : "");
    str_release(&text);
}

static void add_memory(const struct nvml *n, struct nvml_device *d, struct gpu_state *s)
{
    struct nvml_memory_v2 m = { .version = sizeof(m) | 2U << 24 };
    struct nvml_memory old;

    if (n->memory_v2 && n->memory_v2(d, &m) == NVML_OK)
        s->fact[GPU_MEMORY_USED] = (double)m.used;
    else if (n->memory(d, &old) == NVML_OK)
        s->fact[GPU_MEMORY_USED] = (double)old.used;
}

/* MIG and the fabric manager as the topology reads them. */
static void add_partition(const struct nvml *n, struct nvml_device *d,
                          struct gpu_state *s)
{
    struct node node = { 0 };
    struct gpu g = { 0 };
    unsigned now, next;

    nvml_add_fabric(n, d, &node, &g);
    snprintf(s->fabric, sizeof(s->fabric), "%.15s", g.fabric);
    if (*g.fabric)
        s->fact[GPU_FABRIC] = 1;
    if (!n->mig_mode || n->mig_mode(d, &now, &next) != NVML_OK)
        return;
    s->fact[GPU_MIG] = now;
    s->fact[GPU_MIG_PENDING] = next;
    if (now)
        s->fact[GPU_MIG_INSTANCES] = nvml_count_instances(n, d);
}

static void read_device(const struct nvml *n, unsigned index, struct gpu_state *s)
{
    struct nvml_pci pci = { 0 };
    struct nvml_device *d;
    char name[NVML_NAME_BYTES] = "";
    int major, minor, status = n->handle(index, &d);

    gpu_state_init(s);
    s->index = (int)index;
    if (status == NVML_OK)
        status = n->pci(d, &pci);
    if (status != NVML_OK) {
        snprintf(s->lost, sizeof(s->lost), "%s", n->error_text(status));
        return;
    }
    busid_normalise(pci.bus_id[0] ? pci.bus_id : pci.bus_id_legacy, s->busid);
    if (n->name(d, name, sizeof(name)) == NVML_OK)
        snprintf(s->name, sizeof(s->name), "%.63s", name);
    if (n->capability && n->capability(d, &major, &minor) == NVML_OK)
        s->fact[GPU_SM] = 10 * major + minor;
    add_numbers(n, d, s);
    add_clocks(n, d, s);
    add_memory_errors(n, d, s);
    add_load(n, d, s);
    add_links(n, d, s);
    add_memory(n, d, s);
    add_processes(n, d, s);
    add_partition(n, d, s);
}

int nvml_states(const struct nvml *n, struct gpu_state **out, int *count,
                struct err *err)
{
    unsigned shown = 0;
    int status = n->count(&shown);
    struct gpu_state *all;

    if (status != NVML_OK)
        return err_set(err, ERR_SYSTEM, "nvmlDeviceGetCount: %s",
                       n->error_text(status));
    if (shown > MAX_GPUS)
        shown = MAX_GPUS;
    all = xcalloc(shown, sizeof(*all));
    for (unsigned i = 0; i < shown; i++)
        read_device(n, i, &all[i]);
    *out = all;
    *count = (int)shown;
    return 0;
}

/* --- events --------------------------------------------------------------------------- */

struct nvml_event_set *nvml_watch_xids(const struct nvml *n)
{
    struct nvml_event_set *set;
    struct nvml_device *d;
    unsigned count = 0, added = 0;

    if (!n->events_new || !n->events_free || !n->events_add || !n->events_wait ||
        n->count(&count) != NVML_OK || n->events_new(&set) != NVML_OK)
        return NULL;
    for (unsigned i = 0; i < count; i++)
        added += n->handle(i, &d) == NVML_OK &&
                 n->events_add(d, NVML_EVENT_XID, set) == NVML_OK;
    if (added == count)
        return set;
    n->events_free(set);
    return NULL;
}

int nvml_next_xid(const struct nvml *n, struct nvml_event_set *set, char busid[20])
{
    struct nvml_event e = { 0 };
    struct nvml_pci pci = { 0 };

    if (!set || n->events_wait(set, &e, 0) != NVML_OK || e.type != NVML_EVENT_XID)
        return 0;
    busid[0] = '\0';
    if (n->pci(e.device, &pci) == NVML_OK)
        busid_normalise(pci.bus_id[0] ? pci.bus_id : pci.bus_id_legacy, busid);
    return (int)e.data;
}

void nvml_watch_end(const struct nvml *n, struct nvml_event_set *set)
{
    if (set)
        n->events_free(set);
}

void nvml_versions(const struct nvml *n, char driver[32], char cuda[16])
{
    char text[NVML_VERSION_BYTES];
    int v;

    driver[0] = cuda[0] = '\0';
    if (n->driver_version && n->driver_version(text, sizeof(text)) == NVML_OK)
        snprintf(driver, 32, "%.31s", text);
    if (n->cuda_version && n->cuda_version(&v) == NVML_OK)
        snprintf(cuda, 16, "%d.%d", v / 1000, v / 10 % 100);
}
