/* Are the PCIe links between a device and the host as wide and fast as they can be? */
#include <stdio.h>
#include <string.h>

#include "topology/inspect.h"
#include "topology/pcie.h"
#include "topology/sysfs.h"
#include "topology/topology.h"

static int read_gen(const struct sysfs *s, const char *busid, const char *file)
{
    char text[64];

    if (sysfs_read(s, text, sizeof(text), "/sys/bus/pci/devices/%s/%s", busid, file) <
        0)
        return -1;
    return pcie_generation(text);
}

static int read_width(const struct sysfs *s, const char *busid, const char *file)
{
    long w = sysfs_number(s, -1, "/sys/bus/pci/devices/%s/%s", busid, file);

    return w > 0 && w <= 64 ? (int)w : -1; /* 0: a virtual machine does not say */
}

static int lesser(int a, int b)
{
    return a > 0 && b > 0 ? (a < b ? a : b) : a > 0 ? a : b;
}

struct pcie_link sysfs_link_above(const struct sysfs *s, const struct pci_path *p,
                                  int i)
{
    const char *dev = p->at[i], *up = i ? p->at[i - 1] : NULL;

    return (struct pcie_link){
        .gen = read_gen(s, dev, "current_link_speed"),
        .max_gen = lesser(read_gen(s, dev, "max_link_speed"),
                          up ? read_gen(s, up, "max_link_speed") : -1),
        .width = read_width(s, dev, "current_link_width"),
        .max_width = lesser(read_width(s, dev, "max_link_width"),
                            up ? read_width(s, up, "max_link_width") : -1),
        .busy = PCIE_NEVER_IDLES,
    };
}

/* Links of switches on the way are told under their own bus id, once for all below.  A
 * switch is two devices, a port above and one below: between them is no link. */
static void inspect_path(const struct sysfs *s, struct topology *t, const char *node,
                         const struct pci_path *p)
{
    for (int i = p->n - 3; i > 0; i -= 2) {
        struct pcie_link l = sysfs_link_above(s, p, i);
        char object[96];

        snprintf(object, sizeof(object), "%.60s %s", node, p->at[i]);
        pcie_inspect(t, object, p->at[i], &l, -1);
    }
}

static int find_path(const struct sysfs *s, const char *busid, struct pci_path *p)
{
    char link[96];

    snprintf(link, sizeof(link), "/sys/bus/pci/devices/%.60s", busid);
    return busid[0] ? pci_path_of(s, link, p) : -1;
}

void sysfs_inspect_pcie(const struct sysfs *s, struct topology *t, const struct node *n)
{
    struct pcie_link gpu[64] = { { .gen = -1 } };
    int gpus = n->n_gpus < 64 ? n->n_gpus : 64, usual;
    struct pci_path p;
    char object[96];

    for (int i = 0; i < gpus; i++) {
        gpu[i] = (struct pcie_link){ -1, -1, -1, -1, -1 };
        if (find_path(s, n->gpus[i].busid, &p) < 0)
            continue;
        gpu[i] = sysfs_link_above(s, &p, p.n - 1);
        gpu[i].gen = -1; /* it saves power while it idles */
        inspect_path(s, t, n->name, &p);
    }
    usual = pcie_usual_gen(gpu, gpus);
    for (int i = 0; i < gpus; i++) {
        inspect_object(n, &n->gpus[i], object);
        pcie_inspect(t, object, n->gpus[i].busid, &gpu[i], usual);
    }
    for (int i = 0; i < n->n_nics; i++) {
        struct pcie_link l;
        if (n->nics[i].kind != NIC_COMPUTE || find_path(s, n->nics[i].busid, &p) < 0)
            continue;
        inspect_path(s, t, n->name, &p);
        l = sysfs_link_above(s, &p, p.n - 1);
        inspect_nic_object(n, &n->nics[i], object);
        pcie_inspect(t, object, n->nics[i].busid, &l, -1);
    }
}
