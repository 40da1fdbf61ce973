/* inspect.h - the findings, by what they are about.  Private to topology_inspect() and
 * fabric_inspect(). */
#ifndef TOPOLOGY_INSPECT_H
#define TOPOLOGY_INSPECT_H

#ifdef __cplusplus
extern "C" {
#endif

struct gpu;
struct nic;
struct node;
struct topology;

/* "n07 gpu 3", "n07 mlx5_2" */
void inspect_object(const struct node *n, const struct gpu *g, char out[96]);
void inspect_nic_object(const struct node *n, const struct nic *c, char out[96]);

void inspect_gpus(struct topology *t, const struct node *n);

/* Ports of compute NICs that are slower than most compute ports of all nodes.  Where all
 * of a node are, inspect_differ() says so. */
void inspect_slow_nics(struct topology *t);

/* Nodes that are not like most others: one finding for each respect (GPUs, their model,
 * memory, driver, NICs, CPUs ...), with the odd ones as a host list. */
void inspect_differ(struct topology *t);

/* Leaves with fewer cables upward than the other leaves; tiers with less bandwidth upward
 * than downward.  Both only where cables and rates are known. */
void inspect_trunks(struct topology *t);
void inspect_oversubscription(struct topology *t);

/* NICs get their plane where each node hangs on several fabrics that no link joins. */
void inspect_planes(struct topology *t);

#ifdef __cplusplus
}
#endif
#endif
