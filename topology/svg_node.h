/* svg_node.h - the devices of a node as they are drawn: in groups below one PCIe switch,
 * the groups in a panel for each NUMA node.  Private to svg_node*.c. */
#ifndef TOPOLOGY_SVG_NODE_H
#define TOPOLOGY_SVG_NODE_H

#include "topology/svg_topo.h"

#ifdef __cplusplus
extern "C" {
#endif

struct item {
    const struct gpu *g; /* or */
    const struct nic *c;
    int group;
    double x; /* left edge */
};

/* Devices below one PCIe switch; without one, a GPU and its NIC, or what is left. */
struct group {
    int pci, panel; /* pci: node.pcis, -1 no switch */
    double x, w;
};

struct panel {
    int numa;
    double x, y, w, h;
    int flipped; /* the CPU is below */
};

struct node_view {
    struct svg *s;
    const struct topology *t;
    const struct node *n;
    struct item *item;
    struct group *group;
    struct panel *panel;
    int n_items, n_groups, n_panels;
    int bars, roots; /* there are PCIe switches; and switches above switches */
};

/* Devices into groups, groups into panels; node_view_release() frees. */
void node_view_init(struct node_view *v, struct svg *s, const struct topology *t,
                    const struct node *n);
void node_view_release(struct node_view *v);

#ifdef __cplusplus
}
#endif
#endif
