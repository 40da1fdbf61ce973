/* sysfs.h - what source_sysfs.c is made of: small files below a root, the PCI
 * tree, the network devices.  Private to that source. */
#ifndef TOPOLOGY_SYSFS_H
#define TOPOLOGY_SYSFS_H

#include <stddef.h>
#include <stdint.h>

#include "topology/nearest.h"
#include "topology/pcie.h"

#ifdef __cplusplus
extern "C" {
#endif

struct nic;
struct node;
struct topology;

struct sysfs {
    const char *root; /* "" is the live machine */
};

/* The file's first line, without blanks around it, cut to n-1 bytes.
 * 0, or -1 (out is "") when it is not there or cannot be read. */
int sysfs_read(const struct sysfs *s, char *out, size_t n, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* A whole number, decimal or 0x; `unknown` when there is none. */
long sysfs_number(const struct sysfs *s, long unknown, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int sysfs_exists(const struct sysfs *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Names in a folder, sorted so that mlx5_10 follows mlx5_9; NULL-terminated, the
 * caller's: sysfs_list_free().  An absent folder has none. */
char **sysfs_list(const struct sysfs *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void sysfs_list_free(char **names);
/* The value of `key` in a file of "key : value" or "key=value" lines. */
int sysfs_value(const struct sysfs *s, const char *key, char *out, size_t n,
                const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* The path of a device link ("/sys/bus/pci/devices/0000:18:00.0"); 0 or -1. */
int pci_path_of(const struct sysfs *s, const char *link, struct pci_path *out);
/* One direction from the device to the host: the narrowest step; -1 unknown. */
double pci_rate(const struct sysfs *s, const struct pci_path *p);
/* The link above p->at[i]: what both its ends can, and what it does.  A switch is two
 * devices on the path, a port above and one below, without a link between them. */
struct pcie_link sysfs_link_above(const struct sysfs *s, const struct pci_path *p,
                                  int i);

/* Add what is there. */
void sysfs_add_gpus(const struct sysfs *s, struct node *n);
void sysfs_add_nics(const struct sysfs *s, struct node *n);
/* Parts of them: nic.gid of an RoCE port; nic.why of what stands for another device: an
 * SR-IOV virtual function beside its physical one, a part of a bond, a VLAN. */
void sysfs_set_gid(const struct sysfs *s, struct nic *c);
void sysfs_set_virtual(const struct sysfs *s, struct nic *c, const char *class_link);
/* Findings: PCIe links on the way to GPUs and NICs that are below what both their ends
 * can, switches included. */
void sysfs_inspect_pcie(const struct sysfs *s, struct topology *t,
                        const struct node *n);
/* node.pcis: the devices above and the switches on their way. */
void sysfs_add_pcis(const struct sysfs *s, struct node *n);
/* Each NIC's kind, then each GPU's nearest compute NIC. */
void sysfs_join(const struct sysfs *s, struct node *n);

#ifdef __cplusplus
}
#endif
#endif
