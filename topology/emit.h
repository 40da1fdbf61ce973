/* emit.h - a topology in the formats of other programs.
 *
 * Each writes all of it to fp, or nothing and an err: ERR_FAILED when the topology
 * does not know what the format is about. */
#ifndef TOPOLOGY_EMIT_H
#define TOPOLOGY_EMIT_H

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct err;
struct topology;

/* Slurm's topology.conf and topology.yaml (25.05 and later); what they say is in
 * slurm_fabric.h.  What was read from such a file comes out equal; topology.yaml has
 * no LinkSpeed. */
int topology_emit_slurmconf(const struct topology *t, FILE *fp, struct err *err);
int topology_emit_slurmyaml(const struct topology *t, FILE *fp, struct err *err);

/* NCCL's topology file (NCCL_TOPO_FILE) of one node, as graph/xml.cc of NCCL 2.30 reads
 * it: no prolog, one blank between attributes, at most 16 of them, 640 children, texts
 * below 255 bytes.  What is unknown is left out, and NCCL looks for itself: `rank` of a
 * GPU, `dev`, `maxconn` and `latency` of a network always are; but each device has
 * class, link_speed and link_width ("" and 0 unknown), which NCCL insists on.  Needs the PCI tree
 * (node.pcis) of every GPU: sysfs and ncclxml know it.  ERR_USAGE for several nodes. */
int topology_emit_ncclxml(const struct topology *t, FILE *fp, struct err *err);

/* NCCL_IB_HCA for a job's script, `eval "$(muster topo --format hca)"`: the exact form,
 * =HCA:PORT:RAIL,..., of the compute HCAs, rails as far as they are known; what is left
 * out and why as comments; where nodes differ, a `case` of the host name.  At most the
 * 32 HCAs that NCCL takes; ERR_FAILED where no node has one. */
int topology_emit_hca(const struct topology *t, FILE *fp, struct err *err);

/* A picture, self-contained SVG for light and dark grounds: the fabric (switches by
 * level, trunks, oversubscription of each leaf, nodes in groups below their leaves) and
 * a node of each kind (NUMA nodes, PCIe switches, GPUs, NVLink, NICs, rails); findings
 * are marked and listed.  Large clusters are drawn in part, with what is left out
 * counted.  Never fails. */
int topology_emit_svg(const struct topology *t, FILE *fp, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
