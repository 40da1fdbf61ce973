/* host_kernel.c - how the kernel of this machine is set, and what it had to do. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "checks/host.h"
#include "checks/kmsg.h"
#include "checks/measure.h"
#include "topology/sysfs.h"
#include "topology/topology.h"

enum { OOM_HOURS = 24, NAMED = 4 };

static struct measure *add(struct measures *out, const char *name, const struct host *h)
{
    return measures_add(out, name, h->name, h->name);
}

/* --- clock source --------------------------------------------------------------------- */

/* Read in user space; the others cost a system call, or a read of a slow device. */
static int is_fast_clock(const char *name)
{
    static const char *const fast[] = { "tsc", "arch_sys_counter", "kvm-clock",
                                        "hyperv_clocksource_tsc_page", "timebase" };

    for (size_t i = 0; i < ARRAY_LEN(fast); i++)
        if (str_eq(name, fast[i]))
            return 1;
    return 0;
}

static void measure_clocksource(const struct host *h, struct measures *out)
{
    static const char path[] =
        "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    struct measure *m = add(out, "clocksource", h);
    struct sysfs s = { h->root };
    char name[64];

    if (sysfs_read(&s, name, sizeof(name), "%s", path) < 0) {
        measure_none(m, "%s%s cannot be read", h->root, path);
        return;
    }
    measure_set(m, !is_fast_clock(name), NAN, "faults");
    measure_say(m, "%s", name);
}

/* --- memory --------------------------------------------------------------------------- */

static void measure_numa_balancing(const struct host *h, struct measures *out)
{
    struct measure *m = add(out, "numa_balancing", h);
    struct sysfs s = { h->root };
    long on = sysfs_number(&s, -1, "/proc/sys/kernel/numa_balancing");

    measure_set(m, 0, NAN, "faults");
    if (on < 0)
        measure_say(m, "the kernel has none");
    else if (!sysfs_exists(&s, "/sys/devices/system/node/node1"))
        measure_say(m, "one NUMA node");
    else if (on > 0)
        m->value = 1;
}

struct killed {
    int n;
    struct str who;
};

/* "Out of memory: Killed process 4242 (python3) total-vm:..." and "Memory cgroup out of
 * memory: Killed process ..." */
static void see_kill(void *arg, double age_s, const char *text)
{
    struct killed *k = arg;
    const char *name = strstr(text, "Killed process "), *end;

    if (!name || !(strstr(text, "ut of memory")))
        return;
    name += strlen("Killed process ");
    end = strchr(name, ')');
    if (k->n++ < NAMED)
        str_addf(&k->who, "%s%.*s %.1f h ago", k->n > 1 ? ", " : "",
                 end ? (int)(end + 1 - name) : (int)strcspn(name, ","), name,
                 age_s / 3600);
}

static void measure_oom(const struct host *h, struct measures *out)
{
    struct measure *m = add(out, "oom_kills", h);
    struct killed k = { 0, STR_INIT };
    struct err err = ERR_INIT;

    if (kmsg_read(h->root, OOM_HOURS, see_kill, &k, &err) < 0)
        measure_none(m, "%s", err_text(&err));
    else
        measure_set(m, k.n, NAN, "processes");
    if (k.n)
        measure_say(m, "killed for want of memory: %s%s", k.who.text,
                    k.n > NAMED ? ", ..." : "");
    str_release(&k.who);
    err_release(&err);
}

/* --- IOMMU ------------------------------------------------------------------------------ */

/* The group's type: "identity" is passed through, "DMA" and "DMA-FQ" are translated.
 * Kernels before 5.11 do not say; then the command line does. */
static int is_translated(const struct sysfs *s, const char *busid)
{
    char type[32], line[4096];

    if (!sysfs_exists(s, "/sys/bus/pci/devices/%s/iommu_group", busid))
        return 0; /* no IOMMU above it */
    if (sysfs_read(s, type, sizeof(type), "/sys/bus/pci/devices/%s/iommu_group/type",
                   busid) == 0)
        return strncmp(type, "DMA", 3) == 0;
    if (sysfs_read(s, line, sizeof(line), "/proc/cmdline") < 0)
        return -1;
    return !strstr(line, "iommu=pt") && !strstr(line, "iommu.passthrough=1");
}

struct tally {
    int devices, bad, unknown;
    struct str who;
};

static void ask_iommu(const struct sysfs *s, const char *busid, const char *name,
                      struct tally *t)
{
    int is = *busid ? is_translated(s, busid) : -1;

    t->devices++;
    t->unknown += is < 0;
    if (is <= 0)
        return;
    if (t->bad++ < NAMED)
        str_addf(&t->who, "%s%s (%s)", t->bad > 1 ? ", " : "", name, busid);
    else if (t->bad == NAMED + 1)
        str_adds(&t->who, ", ...");
}

static void measure_iommu(const struct host *h, struct measures *out)
{
    struct measure *m = add(out, "iommu", h);
    const struct node *n = h->topology ? &h->topology->nodes[0] : NULL;
    struct tally t = { 0 };
    struct sysfs s = { h->root };

    for (int i = 0; n && i < n->n_gpus; i++) {
        char name[24];

        snprintf(name, sizeof(name), "GPU %d", n->gpus[i].index);
        ask_iommu(&s, n->gpus[i].busid, name, &t);
    }
    for (int i = 0; n && i < n->n_nics; i++)
        if (n->nics[i].kind == NIC_COMPUTE)
            ask_iommu(&s, n->nics[i].busid, n->nics[i].name, &t);
    measure_set(m, t.bad, NAN, "devices");
    if (!n)
        measure_none(m, "the machine's devices could not be listed");
    else if (!t.devices)
        measure_say(m, "no GPU and no RDMA device");
    else if (t.bad)
        measure_say(m, "addresses are translated for %s", t.who.text);
    else if (t.unknown)
        measure_none(m, "the kernel does not show it");
    else
        measure_say(m, "off, or passed through");
    str_release(&t.who);
}

void host_measure_kernel(const struct host *h, struct measures *out)
{
    measure_clocksource(h, out);
    measure_numa_balancing(h, out);
    measure_oom(h, out);
    measure_iommu(h, out);
}
