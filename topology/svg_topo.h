/* svg_topo.h - the parts of the picture of a topology.  Private to emit_svg.c. */
#ifndef TOPOLOGY_SVG_TOPO_H
#define TOPOLOGY_SVG_TOPO_H

#include "topology/svg.h"
#include "topology/topology.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The worst finding about an object ("n1", "n1 gpu 3", a switch), or about anything of
 * a node when `whole`; -1 none.  Findings are few: each call looks at all. */
int svg_finding(const struct topology *t, const char *object, int whole);
/* A mark around the box of something that a finding is about. */
void svg_mark(struct svg *s, int severity, double x, double y, double w, double h);

/* NUMA nodes, PCIe switches, GPUs, NVLink, NICs and their rails, from (x, y) on. */
void svg_node(struct svg *s, const struct topology *t, const struct node *n, double x,
              double y);

/* Trunks with fewer or slower cables than most above their level. */
int svg_fabric_thin(const struct topology *t);
/* Switches by level, nodes in groups below their leaves, from (x, y) on; nothing where
 * there is one node and no switch. */
void svg_fabric(struct svg *s, const struct topology *t, double x, double y);

#ifdef __cplusplus
}
#endif
#endif
