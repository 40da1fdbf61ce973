/* The PCI tree of the sysfs source, as NCCL draws it (graph/xml.cc): from a device two
 * steps up, over the downstream port of a switch to its upstream port, until the root. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology/sysfs.h"
#include "topology/topology.h"

static void read_word(const struct sysfs *s, const char *busid, const char *file,
                      char *out, size_t n)
{
    char text[64];

    if (sysfs_read(s, text, sizeof(text), "/sys/bus/pci/devices/%s/%s", busid, file) <
            0 ||
        strlen(text) >= n)
        text[0] = '\0';
    snprintf(out, n, "%.*s", (int)n - 1, text);
}

/* The slower of the device and the port that it is plugged into ("" none above). */
static void read_speed(const struct sysfs *s, const char *busid, const char *port,
                       char *out, size_t n)
{
    char above[24] = "";
    double mine, its;

    read_word(s, busid, "max_link_speed", out, n);
    if (*port)
        read_word(s, port, "max_link_speed", above, sizeof(above));
    mine = pcie_gbytes_per_s(out, 1);
    its = pcie_gbytes_per_s(above, 1);
    if (its > 0 && (mine < 0 || its < mine))
        snprintf(out, n, "%s", above);
    if (pcie_gbytes_per_s(out, 1) < 0) /* "Unknown" */
        out[0] = '\0';
}

/* The index of path->at[i], which is added with all above it where it is missing. */
static int add_pci(const struct sysfs *s, struct node *n, const struct pci_path *path,
                   int i)
{
    const char *busid = path->at[i], *port = i > 0 ? path->at[i - 1] : "";
    int found = node_pci(n, busid), above;
    struct pci *p;
    long width;

    if (found >= 0)
        return found;
    above = i >= 2 ? add_pci(s, n, path, i - 2) : -1;
    p = topology_add_pci(n);
    snprintf(p->busid, sizeof(p->busid), "%s", busid);
    p->above = above;
    p->numa = (int)sysfs_number(s, -1, "/sys/bus/pci/devices/%s/numa_node", busid);
    read_word(s, busid, "class", p->class, sizeof(p->class));
    read_word(s, busid, "vendor", p->vendor, sizeof(p->vendor));
    read_word(s, busid, "device", p->device, sizeof(p->device));
    read_word(s, busid, "subsystem_vendor", p->subsystem_vendor,
              sizeof(p->subsystem_vendor));
    read_word(s, busid, "subsystem_device", p->subsystem_device,
              sizeof(p->subsystem_device));
    read_speed(s, busid, port, p->link_speed, sizeof(p->link_speed));
    width = sysfs_number(s, -1, "/sys/bus/pci/devices/%s/current_link_width", busid);
    p->link_width = width > 0 && width <= 64 ? (int)width : -1;
    return n->n_pcis - 1;
}

static void add_device(const struct sysfs *s, struct node *n, const char *busid)
{
    struct pci_path path;
    char link[64];

    snprintf(link, sizeof(link), "/sys/bus/pci/devices/%s", busid);
    if (busid[0] && pci_path_of(s, link, &path) == 0)
        add_pci(s, n, &path, path.n - 1);
}

void sysfs_add_pcis(const struct sysfs *s, struct node *n)
{
    for (int i = 0; i < n->n_gpus; i++)
        add_device(s, n, n->gpus[i].busid);
    for (int i = 0; i < n->n_nics; i++)
        add_device(s, n, n->nics[i].busid);
}
