/* cost.h - the predicted time of a collective on the groups of ranks that run it at
 * the same time.
 *
 * Every link is a resource with a capacity: NVLinks of a GPU, PCIe of a GPU, the way
 * between the CPUs of a node, a NIC, the uplinks ("trunk") of a leaf and of each part
 * of the fabric above it.  A group loads those that its flows cross; the loads of all
 * groups add up (equal shares of what limits), and
 *     t = latency + idle + max over resources of load / (capacity x efficiency).
 *
 * Flows of a group of n ranks on m nodes, c = n/m of them on a node, S bytes in the
 * whole buffer (nccl-tests' convention, doc/PERFORMANCE.md), W = bytes over each edge:
 *   ring   all_gather, reduce_scatter W = S (n-1)/n; all_reduce 2 S (n-1)/n; broadcast,
 *          reduce W = S.  NCCL turns the ring from channel to channel, so that a GPU
 *          sends W (c-1)/c inside its node and W/c through its own NICs; m = 1: W.
 *   tree   all_reduce: two binary trees of nodes (trees.cc, ncclGetDtree) of S/2 each,
 *          up and down; inside a node a chain: 2 S (c-1)/c a GPU.
 *   all_to_all   S/n from every rank to every other, through its own NICs (no PXN)
 *   sendrecv     S from every rank to the next one
 * An exit goes from the j-th rank of the group on one node to the j-th on the next, so
 * rails meet rails.  Flows between NICs of two leaves load the uplinks of both, further
 * up until one part of the fabric holds both; inside a part the spread over its switches
 * is taken to be even (adaptive routing).  Nodes of one NVLink domain count as one.
 *
 * Algorithm and protocol are chosen as NCCL 2.30 does, by its own model of latency and
 * efficiency (tuning.cc, ncclTopoTuneModel; see cost_algo.c) from the node's links
 * alone: NCCL does not know the fabric.  NVLS and CollNet are never assumed.  The last
 * step of a ring of protocol Simple is taken to receive only: a block S/n is copied out
 * of a buffer, COST_COPY_FACTOR times as fast as the GPU's links, and nothing sent (what
 * fits the two-GPU figures; not traced in NCCL's kernels).
 * Errors against measurements: tests/bench/RESULTS.md.
 *
 * Capacity of one direction:
 *   nvlink  links x what NCCL gets of one by compute capability (topo.h: sm60 18,
 *           sm70-80 20, sm86 12, sm90 20.6, sm100 40.1 GB/s), else what the topology
 *           states; GPUs that are linked directly use their links to ranks of the group
 *   pcie    of the GPU, as the topology states it, also on the way to its NICs; where the
 *           PCIe tree is known, uplinks of switches and links of NICs as well
 *   cpu     between CPUs: only for NICs (and PCIe peers) on another NUMA node than the
 *           GPU; NCCL's figure by CPU (topo.h), COST_CPU_GBYTES where it is not known
 *   nic     port rate.  A GPU has its nearest NIC, and those that are nearest to no GPU
 *           of its NUMA node; when its NIC is down another of its node, then shared
 *   leaf    rates of all cables from a leaf upwards; spine: from a part above it
 *   memory  CPU ranks: COST_MEMORY_GBYTES of a node for all its ranks
 * What is not known is not guessed: an unknown device of a GPU (its NIC in a flat
 * virtual machine) makes the whole unknown (seconds NaN), an unknown fabric leaves the
 * tiers of the node and says so in `note`. */
#ifndef TOPOLOGY_COST_H
#define TOPOLOGY_COST_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct place;
struct placement;
struct topology;

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

enum cost_tier {
    COST_SELF, /* groups of one */
    COST_MEMORY,
    COST_NVLINK,
    COST_PCIE,
    COST_CPU,
    COST_NIC,
    COST_LEAF,  /* out of a leaf */
    COST_SPINE, /* out of a part above the leaves */
    COST_UNKNOWN,
};
enum { N_COST_TIERS = 9 };
const char *cost_tier_name(enum cost_tier t); /* "self", "memory", "nvlink", ... */

struct cost {
    double seconds;         /* of the slowest group; NaN unknown */
    double latency_seconds; /* of it, what does not grow with the bytes */
    double link_seconds;    /* of it, the most loaded link */
    double gbytes_per_s;    /* bus bandwidth that the limit allows, were the protocol
                               free; NaN unknown */
    enum cost_tier limit;   /* the tier that limits */
    char tier[16];          /* its name */
    char object[192];       /* what limits: "leaf3's 2 trunks of 400 Gb/s, shared by 8
                               groups"; unknown: what is missing, and the cure */
    const char *algorithm;  /* "ring", "tree", "pairs"; of the slowest group */
    const char *protocol;   /* "Simple", "LL128", "LL"; "" */
    double bytes[N_COST_TIERS]; /* that cross links of this tier, all groups together */
    int fabric_known; /* 0: NICs are used and what lies behind them is not known */
    char note[160];   /* what was not known or was assumed; "" nothing */
};

/* The capacities of a topology, made once; it borrows t. */
struct cost_model;
struct cost_model *cost_model_new(const struct topology *t);
void cost_model_free(struct cost_model *m); /* NULL is fine */

/* All groups of one mesh axis at once: groups x size ranks, group after group (ranks
 * of one node need not be neighbours).  rank[] is placement.rank. */
struct cost_groups {
    int groups, size;
    const int *rank;
};
/* For searches: groups are added and taken away, O(size) each, and the cost asked for
 * as often as one likes.  Taking away needs the places that were added. */
struct cost_load;
struct cost_load *cost_load_new(const struct cost_model *m, enum collective c,
                                int64_t bytes, int on_gpus);
void cost_load_free(struct cost_load *l); /* NULL is fine */
void cost_load_add(struct cost_load *l, const struct place *rank, const int *group,
                   int n);
void cost_load_remove(struct cost_load *l, const struct place *rank, const int *group,
                      int n);
/* O(links of the topology). */
struct cost cost_load_cost(const struct cost_load *l);
/* Only the trunks: O(switches), no text.  Seconds of the most loaded one; the bytes out
 * of leaves and of parts above them. */
struct cost_trunks {
    double seconds, leaf_bytes, spine_bytes;
};
struct cost_trunks cost_load_trunks(const struct cost_load *l);

/* The same in one call.  m may be NULL: it is made from t. */
struct cost cost_concurrent(enum collective c, int64_t bytes,
                            const struct cost_groups *g, const struct placement *p,
                            const struct topology *t, const struct cost_model *m);

/* One group alone: group[0..ranks-1].  One rank: 0 seconds, tier "self". */
struct cost cost_collective(enum collective c, int64_t bytes, const int *group,
                            int ranks, const struct placement *p,
                            const struct topology *t);

/* The groups of both axes of a placement; rank[] is the caller's to free(). */
struct cost_groups cost_shard_groups(const struct placement *p, int **rank);
struct cost_groups cost_replicate_groups(const struct placement *p, int **rank);

/* The one figure that was chosen with measurements in sight (two H200). */
#define COST_COPY_FACTOR 2.0
/* Assumed where unknown, GB/s. */
#define COST_CPU_GBYTES    10.0 /* NCCL's SKL_QPI_BW */
#define COST_NIC_GBYTES    1.25 /* 10 Gb/s; nodes of CPU ranks only */
#define COST_MEMORY_GBYTES 8.0  /* of a node, copies between its processes */
/* Microseconds of one step between two processes of a machine. */
#define COST_MEMORY_ALPHA_US 20.0

#ifdef __cplusplus
}
#endif
#endif
