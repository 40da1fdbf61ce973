/* nearest.h - from where devices hang in the PCI tree: which NICs train, and which is
 * nearest to each GPU. */
#ifndef TOPOLOGY_NEAREST_H
#define TOPOLOGY_NEAREST_H

#ifdef __cplusplus
extern "C" {
#endif

struct node;

/* Where a PCI device hangs: the bridges above it.
 *   pci0000:17 / 0000:17:01.0 / 0000:18:00.0 / ... / the device itself */
enum { PCI_DEPTH = 16 };
struct pci_path {
    char host[20];          /* the host bridge, "pci0000:17" */
    char at[PCI_DEPTH][20]; /* bridges from above, the device last */
    int n;                  /* 0: not known */
};

/* Bridges that both hang below; 0 when they share at most the host bridge. */
int pci_shared_bridges(const struct pci_path *a, const struct pci_path *b);

/* Set nics[].kind and .why, gpus[].nic and .nic_path of n; gpu[] and nic[] are the paths of its devices.
 *
 * RDMA devices (those with a GUID, or of the InfiniBand class): those that share a PCI
 * switch with a GPU train, the others serve storage.  Without such pairs the fastest
 * ones train.  Where RDMA is, plain Ethernet manages; where it is not, Ethernet is all
 * there is and stays unknown.
 * A GPU's NIC: most shared bridges, else the same NUMA node, else none; among equals
 * the one that fewest GPUs have. */
void nearest_join(struct node *n, const struct pci_path *gpu,
                  const struct pci_path *nic);

/* nics[] index among the nearest for the next GPU: near[k] > 0 for candidates, the
 * larger the nearer; ties go to the least taken.  -1: none. */
int nearest_pick(const struct node *n, const int *near);

#ifdef __cplusplus
}
#endif
#endif
