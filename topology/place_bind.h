/* place_bind.h - the CPUs of the ranks of one node.
 *
 * Ranks on GPUs share the CPUs of their GPU's NUMA node, others are spread over the NUMA
 * nodes and share their CPUs evenly.  Shares are whole cores where they can be. */
#ifndef TOPOLOGY_PLACE_BIND_H
#define TOPOLOGY_PLACE_BIND_H

#ifdef __cplusplus
extern "C" {
#endif

struct node;
struct place;

/* Fills rank[count].cpus ("": unbound), and numa of ranks that have no GPU.  On GPUs
 * rank[].numa says where the rank's GPU is. */
void place_bind(struct place *rank, int count, int on_gpus, const struct node *n);

/* What place_bind() needs of this machine, from a few small files below `root` ("" the
 * live one, whose CPUs are those that this process may use): NUMA nodes with their
 * CPUs, cores, threads; GPUs by bus id with NUMA node and, as `index`, the number of
 * their device file (/dev/nvidiaN).  *n is a node of its own, to be released by
 * place_affinity_release(). */
void place_affinity(const char *root, struct node *n);
void place_affinity_release(struct node *n);

#ifdef __cplusplus
}
#endif
#endif
