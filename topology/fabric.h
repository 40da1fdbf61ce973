/* fabric.h - questions about the network between nodes, and what is worth saying
 * about it. */
#ifndef TOPOLOGY_FABRIC_H
#define TOPOLOGY_FABRIC_H

#ifdef __cplusplus
extern "C" {
#endif

struct err;
struct topology;

/* May one job span these nodes (indices)?  ERR_FAILED, naming two of them, when their
 * switches are joined by no link: Slurm refuses such a job (case B09).  Nodes that hang
 * on no known switch are not held against it, nor are leaves of which no link is known. */
int fabric_check_span(const struct topology *t, const int *node, int n,
                      struct err *err);

/* component[t->n_nodes]: 0, 1, ... for nodes that links (or nodes with NICs on several
 * switches) join, by their first node; -1 where that is not known.  Returns how many. */
int fabric_components(const struct topology *t, int *component);

/* Are nodes a and b one NVLink domain?  1, 0; -1 when the domain of one is unknown.
 * The same cluster UUID with another clique is another domain (case B10). */
int fabric_same_nvlink(const struct topology *t, int a, int b);

/* May a group of ranks that needs NVLink between nodes (tensor or expert parallel) use
 * these?  ERR_FAILED names two that are not one domain. */
int fabric_check_nvlink(const struct topology *t, const int *node, int n,
                        struct err *err);

/* Findings that need all nodes and sources: a block that is not one NVLink domain, a
 * leaf of a rail-optimised fabric with a NIC of another rail (by majority, so without a
 * cabling plan), a leaf with fewer trunks than the others, an oversubscribed tier, a port
 * slower than its like, nodes that differ from the rest.  NICs of rail leaves whose rail
 * was unknown get it, and their plane where a node hangs on several fabrics. */
void fabric_inspect(struct topology *t);

#ifdef __cplusplus
}
#endif
#endif
