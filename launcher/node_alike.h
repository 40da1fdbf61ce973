/* node_alike.h - hosts that one job runs on must be of one kind. */
#ifndef LAUNCHER_NODE_ALIKE_H
#define LAUNCHER_NODE_ALIKE_H

struct err;
struct placement;
struct topology;

/* Where ranks get GPUs: do the nodes of the placement have as many, of one model and
 * memory, with as many NICs of one speed?  ERR_FAILED names each that differs from the
 * most, and in what; a GPU that fell off the bus shows here.  Ranks on CPUs: always. */
int nodes_alike(const struct topology *t, const struct placement *p, struct err *err);

#endif
