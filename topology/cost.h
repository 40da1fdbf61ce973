/* cost.h - the predicted time of one collective on one group of ranks.
 *
 * alpha-beta: t = steps x alpha + wire_bytes / beta, with beta the slowest
 * link the group crosses (NVLink inside a node, PCIe without it, NIC between
 * nodes, memory bandwidth between CPU ranks), for ring algorithms:
 *   all_gather, reduce_scatter   steps n-1,   wire bytes S (n-1)/n
 *   all_reduce                   steps 2(n-1), wire bytes 2 S (n-1)/n
 * S: bytes of the whole buffer (nccl-tests' convention), n: ranks in the group.
 * Source: nccl-tests doc/PERFORMANCE.md for the factors. */
#ifndef TOPOLOGY_COST_H
#define TOPOLOGY_COST_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct topology;
struct placement;

enum collective {
    COLLECTIVE_ALL_REDUCE,
    COLLECTIVE_ALL_GATHER,
    COLLECTIVE_REDUCE_SCATTER,
    COLLECTIVE_BROADCAST,
    COLLECTIVE_ALL_TO_ALL,
    COLLECTIVE_SENDRECV,
};
enum { N_COLLECTIVES = 6 };
const char *collective_name(enum collective c); /* "all_reduce", ... */

/* busbw = algbw x this (nccl-tests); 0 for one rank (cases D01). */
double collective_bus_factor(enum collective c, int ranks);

struct cost {
    double seconds;
    double gbytes_per_s; /* beta used */
    char tier[16];       /* "nvlink", "pcie", "nic", "memory", "self" */
};

struct cost cost_collective(enum collective c, int64_t bytes, const int *group,
                            int ranks, const struct placement *p,
                            const struct topology *t);

#ifdef __cplusplus
}
#endif
#endif
