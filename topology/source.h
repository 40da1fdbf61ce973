/* source.h - the sources one by one, for topology_from_source() and each other. */
#ifndef TOPOLOGY_SOURCE_H
#define TOPOLOGY_SOURCE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct err;
struct topology;

/* How the finding of topology_inspect_affinity() is recognised. */
#define AFFINITY_UNKNOWN "affinity unknown"

/* As topology_from_host(), without NVML and without findings of inspection. */
int topology_from_sysfs(const char *root, struct topology **out, struct err *err);

/* Only what NVML shows, on a node named after this host. */
int topology_from_nvml(struct topology **out, struct err *err);

/* A specification from memory; `where` names it in messages. */
int topology_from_spec_text(const char *text, size_t len, const char *where,
                            struct topology **out, struct err *err);

/* NCCL's topology XML; one node a host hash.  Devices whose NUMA node is -1 stay
 * unknown (A07).  GPU and NIC below one bridge are a pair, with or without <gpu> and
 * <nic>. */
int topology_from_ncclxml(const char *path, struct topology **out, struct err *err);
int topology_from_ncclxml_text(const char *text, size_t len, const char *where,
                               struct topology **out, struct err *err);

/* `nvidia-smi topo -m` (the four spellings of case A03), or `nvidia-smi nvlink
 * --status`: which of them the text is shows by itself. */
int topology_from_smi(const char *path, struct topology **out, struct err *err);
int topology_from_smi_text(const char *text, size_t len, const char *where,
                           struct topology **out, struct err *err);

/* Slurm's topology.conf, topology.yaml (a list; by name *.yaml too) or what `scontrol
 * show topology` prints: switches with levels and links, or blocks, or rings; nodes
 * that have a name and a leaf. */
int topology_from_slurmconf(const char *path, struct topology **out, struct err *err);
int topology_from_slurmconf_text(const char *text, size_t len, const char *where,
                                 struct topology **out, struct err *err);
int topology_from_slurmyaml_text(const char *text, size_t len, const char *where,
                                 struct topology **out, struct err *err);

/* ibnetdiscover's output: switches by level (leaves have adapters), cables, and the
 * adapters with their leaves.  by_guid is set.  A fabric without a switch is
 * ERR_MISSING (case B12): the run had no rights on it. */
int topology_from_ibnet(const char *path, struct topology **out, struct err *err);
int topology_from_ibnet_text(const char *text, size_t len, const char *where,
                             struct topology **out, struct err *err);

/* Lines "NODE CLUSTERUUID.CLIQUEID" (blank or tab between, # comments): the NVLink
 * domain of each node.  N/A is refused: it says that nothing is known. */
int topology_from_cliques(const char *path, struct topology **out, struct err *err);
int topology_from_cliques_text(const char *text, size_t len, const char *where,
                               struct topology **out, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
