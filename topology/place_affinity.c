/* The part of a machine that binding needs, quickly: every task of a step reads it. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topology/cpulist.h"
#include "topology/place_bind.h"
#include "topology/sysfs.h"
#include "topology/topology.h"

static void list(const struct sysfs *s, struct cpulist *out, const char *path)
{
    char text[1024];

    sysfs_read(s, text, sizeof(text), "%s", path);
    if (cpulist_parse(text, out) < 0)
        memset(out, 0, sizeof(*out));
}

/* Online, and for the live machine allowed to this process. */
static void usable(const struct sysfs *s, struct cpulist *out)
{
    struct cpulist mask;

    list(s, out, "/sys/devices/system/cpu/online");
    if (!*s->root && cpulist_of_process(0, &mask) == 0)
        cpulist_and(out, &mask);
}

/* Threads of a core, by the first CPU: of those that may be used. */
static int threads_of_core(const struct sysfs *s, const struct cpulist *cpus)
{
    struct cpulist core = { { 0 } };
    char path[96];
    int first = 0;

    while (first < CPULIST_MAX && !cpulist_has(cpus, first))
        first++;
    snprintf(path, sizeof(path),
             "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", first);
    list(s, &core, path);
    cpulist_and(&core, cpus);
    return cpulist_count(&core) > 0 ? cpulist_count(&core) : 1;
}

static void add_numas(const struct sysfs *s, const struct cpulist *cpus, struct node *n)
{
    struct cpulist ids, mine;
    char path[64];

    list(s, &ids, "/sys/devices/system/node/online");
    for (int i = 0; i < CPULIST_MAX; i++) {
        struct numa *m;
        if (!cpulist_has(&ids, i))
            continue;
        m = topology_add_numa(n);
        m->id = i;
        snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpulist", i);
        list(s, &mine, path);
        cpulist_and(&mine, cpus);
        cpulist_format(&mine, m->cpus, sizeof(m->cpus));
    }
}

static void add_gpus(const struct sysfs *s, struct node *n)
{
    char **names = sysfs_list(s, "/proc/driver/nvidia/gpus"), text[32];

    for (char **p = names; *p; p++) {
        struct gpu *g = topology_add_gpu(n);
        busid_normalise(*p, g->busid);
        g->numa = (int)sysfs_number(s, -1, "/sys/bus/pci/devices/%s/numa_node", *p);
        if (sysfs_value(s, "Device Minor", text, sizeof(text),
                        "/proc/driver/nvidia/gpus/%s/information", *p) == 0)
            g->index = (int)strtol(text, NULL, 10);
    }
    sysfs_list_free(names);
}

void place_affinity(const char *root, struct node *n)
{
    const struct sysfs s = { root };
    struct cpulist cpus;

    memset(n, 0, sizeof(*n));
    usable(&s, &cpus);
    n->threads = cpulist_count(&cpus);
    n->cores = n->threads / threads_of_core(&s, &cpus);
    add_numas(&s, &cpus, n);
    add_gpus(&s, n);
}

void place_affinity_release(struct node *n)
{
    free(n->numas);
    free(n->gpus);
    memset(n, 0, sizeof(*n));
}
