/* The PCI side of the sysfs source: where devices hang, and the GPUs among them. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topology/sysfs.h"
#include "topology/topology.h"

int pci_path_of(const struct sysfs *s, const char *link, struct pci_path *out)
{
    char *whole = xasprintf("%s%s", s->root, link), real[PATH_MAX];
    char *found = realpath(whole, real), *part, *rest = real;

    free(whole);
    memset(out, 0, sizeof(*out));
    if (!found)
        return -1;
    while ((part = strsep(&rest, "/"))) {
        if (strncmp(part, "pci", 3) == 0 && strchr(part, ':') && strlen(part) < 20)
            snprintf(out->host, sizeof(out->host), "%.19s", part);
        else if (out->host[0] && strlen(part) < 20 && busid_valid(part) &&
                 out->n < PCI_DEPTH)
            snprintf(out->at[out->n++], sizeof(out->at[0]), "%.19s", part);
    }
    return out->n ? 0 : -1;
}

/* Speed idles down, so the maximum counts; width does not, so the present one does. */
static double link_rate(const struct sysfs *s, const char *busid)
{
    char speed[64];
    long width =
        sysfs_number(s, -1, "/sys/bus/pci/devices/%s/current_link_width", busid);

    if (sysfs_read(s, speed, sizeof(speed), "/sys/bus/pci/devices/%s/max_link_speed",
                   busid) < 0)
        return -1;
    return width > 0 && width <= 64 ? pcie_gbytes_per_s(speed, (int)width) : -1;
}

double pci_rate(const struct sysfs *s, const struct pci_path *p)
{
    double rate = -1;

    for (int i = 0; i < p->n; i++) {
        double here = link_rate(s, p->at[i]);
        if (here > 0 && (rate < 0 || here < rate))
            rate = here;
    }
    return rate;
}

/* What the driver says without NVML: /proc/driver/nvidia/gpus/BUSID/information. */
static void add_driver_words(const struct sysfs *s, struct gpu *g)
{
    sysfs_value(s, "Model", g->name, sizeof(g->name),
                "/proc/driver/nvidia/gpus/%s/information", g->busid);
    sysfs_value(s, "GPU UUID", g->uuid, sizeof(g->uuid),
                "/proc/driver/nvidia/gpus/%s/information", g->busid);
}

/* A class of 0x03.... (display, 3D) from NVIDIA, 0x10de. */
static int is_gpu(const struct sysfs *s, const char *busid)
{
    long class = sysfs_number(s, 0, "/sys/bus/pci/devices/%s/class", busid);

    return class >> 16 == 0x03 &&
           sysfs_number(s, 0, "/sys/bus/pci/devices/%s/vendor", busid) == 0x10de;
}

/* "Other bridge" from NVIDIA. */
static int is_nvswitch(const struct sysfs *s, const char *busid)
{
    return sysfs_number(s, 0, "/sys/bus/pci/devices/%s/class", busid) == 0x068000 &&
           sysfs_number(s, 0, "/sys/bus/pci/devices/%s/vendor", busid) == 0x10de;
}

/* The driver numbers GPUs in the order of bus ids.  They are hexadecimal, the domain
 * may be longer than four digits. */
static int compare_busid(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;

    return strlen(x) != strlen(y) ? (strlen(x) > strlen(y) ? 1 : -1) : strcmp(x, y);
}

void sysfs_add_gpus(const struct sysfs *s, struct node *n)
{
    char **names = sysfs_list(s, "/sys/bus/pci/devices");
    size_t count = 0;

    while (names[count])
        count++;
    qsort(names, count, sizeof(*names), compare_busid);
    n->nvswitches = 0;
    for (char **p = names; *p; p++) {
        struct pci_path path;
        char link[96];
        struct gpu *g;

        n->nvswitches += is_nvswitch(s, *p);
        if (!is_gpu(s, *p))
            continue;
        g = topology_add_gpu(n);
        busid_normalise(*p, g->busid);
        g->numa = (int)sysfs_number(s, -1, "/sys/bus/pci/devices/%s/numa_node", *p);
        snprintf(link, sizeof(link), "/sys/bus/pci/devices/%.60s", *p);
        if (pci_path_of(s, link, &path) == 0)
            g->pcie_gbytes_per_s = pci_rate(s, &path);
        add_driver_words(s, g);
    }
    sysfs_list_free(names);
}
