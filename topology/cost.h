/* cost.h - the predicted time of one collective on one group of ranks.
 *
 * alpha-beta: t = sum of alphas + wire_bytes / beta, with beta the slowest link the
 * group crosses, for ring algorithms:
 *   all_gather, reduce_scatter   steps n-1,    wire bytes S (n-1)/n
 *   all_reduce                   steps 2(n-1), wire bytes 2 S (n-1)/n
 *   broadcast, sendrecv          steps n-1, 1; wire bytes S
 *   all_to_all                   steps n-1,    wire bytes S (n-1)/n
 * S: bytes of the whole buffer (nccl-tests' convention), n: ranks in the group.
 * Source of the factors: nccl-tests doc/PERFORMANCE.md.
 *
 * A ring over m nodes crosses nodes in m-1 of its n-1 steps (twice that in an
 * all_reduce); those cost the network's alpha, the others the inner one.
 *
 * beta, GB/s of one rank, one direction:
 *   nvlink  links x what NCCL gets of one by compute capability (graph/topo.h:
 *           sm60 18, sm70-80 20, sm86 12, sm90 20.6, sm100 40.1), else the rate that
 *           the topology states
 *   pcie    the slower end's
 *   nic     rates of a node's compute NICs that are not down (else of its fastest),
 *           shared evenly by the ranks of the placement on that node, times the
 *           group's ranks there: all groups of a kind communicate at once
 *   memory  COST_MEMORY_GBYTES shared by all ranks of the node
 * Where the topology does not know a rate the assumption below stands. */
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
    COLLECTIVE_REDUCE,
};
enum { N_COLLECTIVES = 7 };
const char *collective_name(enum collective c); /* "all_reduce", ... */

/* busbw = algbw x this (nccl-tests); 0 for one rank (cases D01). */
double collective_bus_factor(enum collective c, int ranks);

struct cost {
    double seconds;
    double gbytes_per_s; /* beta used */
    char tier[16];       /* "nvlink", "pcie", "nic", "memory", "self" */
};

/* alphas in microseconds: NCCL's ring, simple protocol (graph/tuning.cc: NVLink 3.4,
 * PCI 5.7, network 14.0); memory: two processes handing over on one machine. */
#define COST_NVLINK_ALPHA_US 3.4
#define COST_PCIE_ALPHA_US   5.7
#define COST_NIC_ALPHA_US    14.0
#define COST_MEMORY_ALPHA_US 20.0
/* Assumed where unknown, GB/s. */
#define COST_PCIE_GBYTES   12.0 /* Gen3 x16 */
#define COST_NIC_GBYTES    1.25 /* 10 Gb/s */
#define COST_MEMORY_GBYTES 8.0  /* of a node, copies between its processes */

/* n: group[0..ranks-1].  One rank: 0 seconds, tier "self". */
struct cost cost_collective(enum collective c, int64_t bytes, const int *group,
                            int ranks, const struct placement *p,
                            const struct topology *t);

#ifdef __cplusplus
}
#endif
#endif
