/* This host from /sys and /proc below a root, live or recorded. */
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "topology/cpulist.h"
#include "topology/source.h"
#include "topology/sysfs.h"
#include "topology/topology.h"

/* CPUs that may be used: online, and in the live case allowed to this process. */
static void usable_cpus(const struct sysfs *s, struct cpulist *out)
{
    char text[1024];
    cpu_set_t *allowed;

    sysfs_read(s, text, sizeof(text), "/sys/devices/system/cpu/online");
    if (cpulist_parse(text, out) < 0)
        memset(out, 0, sizeof(*out));
    if (s->root[0])
        return;
    allowed = CPU_ALLOC(CPULIST_MAX);
    if (allowed && sched_getaffinity(0, CPU_ALLOC_SIZE(CPULIST_MAX), allowed) == 0) {
        struct cpulist mask = { { 0 } };
        for (int c = 0; c < CPULIST_MAX; c++)
            if (CPU_ISSET_S((size_t)c, CPU_ALLOC_SIZE(CPULIST_MAX), allowed))
                cpulist_add(&mask, c);
        cpulist_and(out, &mask);
    }
    CPU_FREE(allowed);
}

struct core {
    long socket, core;
};

static struct core core_of(const struct sysfs *s, int cpu)
{
    return (struct core){
        sysfs_number(s, -1,
                     "/sys/devices/system/cpu/cpu%d/topology/physical_package_id", cpu),
        sysfs_number(s, -1, "/sys/devices/system/cpu/cpu%d/topology/core_id", cpu),
    };
}

static int compare_core(const void *a, const void *b)
{
    const struct core *x = a, *y = b;

    if (x->socket != y->socket)
        return x->socket < y->socket ? -1 : 1;
    return (x->core > y->core) - (x->core < y->core);
}

/* Core ids repeat on each socket, so a core is the pair. */
static void count_cores(const struct sysfs *s, const struct cpulist *cpus,
                        struct node *n)
{
    int count = cpulist_count(cpus), known = 0, cores = 0, sockets = 0;
    struct core *core = xcalloc((size_t)count + 1, sizeof(*core));

    for (int c = 0; c < CPULIST_MAX; c++) {
        if (!cpulist_has(cpus, c))
            continue;
        core[known] = core_of(s, c);
        known += core[known].socket >= 0 && core[known].core >= 0;
    }
    qsort(core, (size_t)known, sizeof(*core), compare_core);
    for (int i = 0; i < known; i++) {
        cores += i == 0 || compare_core(&core[i], &core[i - 1]) != 0;
        sockets += i == 0 || core[i].socket != core[i - 1].socket;
    }
    n->threads = count ? count : -1;
    n->cores = cores ? cores : -1;
    n->sockets = sockets ? sockets : -1;
    free(core);
}

static int64_t kilobytes(const char *text)
{
    char *end;
    long long kb = strtoll(text, &end, 10);

    return end == text || kb <= 0 ? -1 : kb * 1024;
}

static void add_numas(const struct sysfs *s, const struct cpulist *cpus, struct node *n)
{
    char text[1024], key[64];
    struct cpulist ids, mine;

    sysfs_read(s, text, sizeof(text), "/sys/devices/system/node/online");
    if (cpulist_parse(text, &ids) < 0)
        return;
    for (int i = 0; i < CPULIST_MAX; i++) {
        struct numa *m;

        if (!cpulist_has(&ids, i))
            continue;
        m = topology_add_numa(n);
        m->id = i;
        sysfs_read(s, text, sizeof(text), "/sys/devices/system/node/node%d/cpulist", i);
        if (cpulist_parse(text, &mine) == 0) {
            cpulist_and(&mine, cpus);
            cpulist_format(&mine, m->cpus, sizeof(m->cpus));
        }
        snprintf(key, sizeof(key), "Node %d MemTotal", i);
        if (sysfs_value(s, key, text, sizeof(text),
                        "/sys/devices/system/node/node%d/meminfo", i) == 0)
            m->memory_bytes = kilobytes(text);
    }
}

/* The words NCCL asks CPUID for; only x86 has vendor_id. */
static void add_cpu_kind(const struct sysfs *s, struct node *n)
{
    char text[64];

    if (sysfs_value(s, "vendor_id", n->cpu_vendor, sizeof(n->cpu_vendor),
                    "/proc/cpuinfo") == 0) {
        snprintf(n->arch, sizeof(n->arch), "x86_64");
        if (sysfs_value(s, "cpu family", text, sizeof(text), "/proc/cpuinfo") == 0)
            n->cpu_family = (int)strtol(text, NULL, 10);
        if (sysfs_value(s, "model", text, sizeof(text), "/proc/cpuinfo") == 0)
            n->cpu_version = (int)strtol(text, NULL, 10);
    } else if (sysfs_value(s, "CPU implementer", text, sizeof(text), "/proc/cpuinfo") ==
               0)
        snprintf(n->arch, sizeof(n->arch), "arm64");
}

static void add_cpus(const struct sysfs *s, struct node *n)
{
    struct cpulist cpus;
    char text[64];

    usable_cpus(s, &cpus);
    count_cores(s, &cpus, n);
    add_numas(s, &cpus, n);
    add_cpu_kind(s, n);
    sysfs_value(s, "model name", n->cpu_model, sizeof(n->cpu_model), "/proc/cpuinfo");
    if (sysfs_value(s, "MemTotal", text, sizeof(text), "/proc/meminfo") == 0)
        n->memory_bytes = kilobytes(text);
}

static void add_identity(const struct sysfs *s, struct node *n)
{
    if (sysfs_read(s, n->name, sizeof(n->name), "/proc/sys/kernel/hostname") < 0)
        snprintf(n->name, sizeof(n->name), "localhost");
    sysfs_read(s, n->boot_id, sizeof(n->boot_id), "/proc/sys/kernel/random/boot_id");
}

/* The driver's view of a live machine.  GPUs that it cannot show are a finding:
 * the machine without them is still worth describing. */
static void add_driver(struct topology *t)
{
    struct err e = ERR_INIT;

    if (topology_add_nvml(t, &e) == 0) {
        snprintf(t->source, sizeof(t->source), "sysfs+nvml");
        return;
    }
    if (t->nodes[0].n_gpus || e.code != ERR_MISSING)
        topology_find(t, SEVERITY_WARN, t->nodes[0].name,
                      "%d GPUs are on the PCI bus, NVML does not show them: %s",
                      t->nodes[0].n_gpus, err_text(&e));
    err_release(&e);
}

int topology_from_sysfs(const char *root, struct topology **out, struct err *err)
{
    struct sysfs s = { root && strcmp(root, "/") != 0 ? root : "" };
    struct topology *t;

    if (!sysfs_exists(&s, "/sys/devices/system/cpu"))
        return err_set(err, ERR_MISSING,
                       "%s/sys/devices/system/cpu: no machine here (a recorded tree "
                       "holds /sys and /proc)",
                       s.root);
    t = topology_new("sysfs", 1);
    add_identity(&s, &t->nodes[0]);
    add_cpus(&s, &t->nodes[0]);
    sysfs_add_gpus(&s, &t->nodes[0]);
    sysfs_add_nics(&s, &t->nodes[0]);
    sysfs_add_pcis(&s, &t->nodes[0]);
    sysfs_join(&s, &t->nodes[0]);
    sysfs_inspect_pcie(&s, t, &t->nodes[0]);
    *out = t;
    return 0;
}

int topology_from_host(const char *root, struct topology **out, struct err *err)
{
    struct topology *t;

    if (topology_from_sysfs(root, &t, err) < 0)
        return -1;
    if (!root || !root[0] || str_eq(root, "/"))
        add_driver(t);
    topology_inspect(t);
    topology_inspect_affinity(t);
    if (topology_validate(t, err) < 0) {
        topology_free(t);
        return -1;
    }
    *out = t;
    return 0;
}
