/* cost_state.h - inner to cost*.c: resources of a topology, what loads them. */
#ifndef TOPOLOGY_COST_STATE_H
#define TOPOLOGY_COST_STATE_H

#include <stdint.h>

#include "topology/cost.h"

/* A link, one direction. */
struct cost_link {
    double bytes_per_s; /* NaN unknown */
    enum cost_tier tier;
    int node;   /* topology.nodes[]; -1: of the fabric */
    int device; /* gpus[], nics[]; -1 - i: pcis[i]; of the fabric: parts[] */
};

/* Where a device's links stand in links[]. */
struct cost_gpu {
    int nvlink, pcie;
    double nvlink_rate;    /* bytes/s, all its NVLinks; 0 none, NaN unknown */
    int pci, switch_above; /* in node.pcis; -1 not known, none */
    int switched;          /* it reaches whoever else is on the switch */
    int first_nic, n_nics; /* in nics_of[]; none: which is its own is not known */
};

struct cost_node {
    int unit;                 /* nodes of one NVLink domain have one */
    int first_nic;            /* in pci_of_nic[] */
    int pci;                  /* links of its pcis, in links[] */
    int amd;                  /* its CPUs */
    int gpu, nic;             /* the first of its devices, in gpus[] and in links[] */
    int cpu, memory, network; /* in links[]; network: -1 the NICs are known */
};

/* A leaf, or all switches up to some level that are joined among themselves. */
struct cost_part {
    int above;  /* the part that holds it; -1 none */
    int uplink; /* in links[]; -1: it is joined with nothing above on this level */
    int at;     /* a switch of it, the leaf itself on level 0 */
    int level;
    int cables;         /* uplinks: how many, */
    double gbits_per_s; /* each; 0 unlike */
};

struct cost_model {
    const struct topology *t;
    int n_links, first_trunk; /* links of the fabric come last */
    struct cost_link *link;
    struct cost_node *node;
    struct cost_gpu *gpu;
    int *nics_of;
    int *pci_of_nic; /* [cost_node.first_nic + k] in node.pcis; -1 not known */
    int n_parts;
    struct cost_part *part;
    int *part_of; /* [n_switches] the part of level 0; -1 none */
};

int cost_model_add_link(struct cost_model *m, double bytes_per_s, enum cost_tier tier,
                        int node, int device);
/* Links of node.pcis; returns the first. */
int cost_pci_build(struct cost_model *m, int node);
/* Parts and their trunks, after all other links. */
void cost_fabric_build(struct cost_model *m);
/* The name of a part: its leaf's; "SPINE and what it joins". */
void cost_fabric_describe(const struct cost_model *m, int part, int groups, char *out,
                          int size);

/* --- what NCCL chooses ----------------------------------------------------------- */

struct node;

enum cost_algorithm { COST_RING, COST_TREE, COST_PAIRS };
enum cost_protocol { COST_LL, COST_LL128, COST_SIMPLE, COST_NO_PROTOCOL };

/* A group as NCCL's model sees it; bytes/s. */
struct cost_shape {
    int ranks, nodes, sm;
    enum cost_tier inner; /* COST_NVLINK, COST_PCIE, COST_MEMORY */
    double inner_rate;    /* of a GPU */
    double outer_rate;    /* of a GPU's NICs */
    int amd;              /* the CPUs */
};

struct cost_choice {
    enum cost_algorithm algorithm;
    enum cost_protocol protocol;
    double latency_s;
    double idle_s;     /* while it sends nothing */
    double efficiency; /* of every link */
};

struct cost_choice cost_choose(enum collective c, int64_t bytes,
                               const struct cost_shape *s);
const char *cost_algorithm_name(enum cost_algorithm a);
const char *cost_protocol_name(enum cost_protocol p);

/* Bytes over each edge of a ring. */
double cost_ring_bytes(enum collective c, int64_t bytes, int ranks);

/* --- loads -------------------------------------------------------------------------- */

/* Groups of one shape share a choice. */
struct cost_seen {
    struct cost_shape shape;
    struct cost_choice choice;
    long groups;
};

struct cost_load {
    const struct cost_model *m;
    enum collective collective;
    int64_t bytes;
    int on_gpus;
    long ranks;   /* of groups of two and more */
    double *load; /* [n_links] bytes / efficiency */
    int *groups;  /* [n_links] that load it */
    int *stamp;   /* [n_links] the last addition that did */
    int additions;
    double tier_bytes[N_COST_TIERS];
    double no_leaf;  /* bytes between NICs whose leaf is not known */
    double no_trunk; /* bytes between leaves that nothing known joins */
    int no_nic_groups, no_nic_node,
        no_nic_gpu; /* groups with a GPU whose NIC is not known; one */
    int n_seen;
    struct cost_seen *seen;
    /* scratch of one group */
    int room;
    int *member;     /* [room] ranks, unit by unit */
    int *first;      /* [room + 1] where a unit's begin in member[] */
    int *of;         /* [room] the unit of group[i] */
    int *unit_at;    /* [n_nodes] which of the group's units; -1 */
    int *part_count; /* [n_parts] members below */
};

/* One group on its way into (sign 1) or out of (-1) the loads. */
struct cost_flows {
    struct cost_load *l;
    const struct place *rank;
    int n, units, sign;
    double share; /* efficiency of its protocol */
    int no_nic;   /* met a GPU whose NIC is not known */
};

/* cost_link.c: one hop. */
void cost_load_link(struct cost_flows *f, int link, double bytes, int counts);
/* Out of the node of `from` by its NICs, to another. */
void cost_leave(struct cost_flows *f, const struct place *from, const struct place *to,
                double bytes);
/* Inside a node or NVLink domain. */
void cost_pass(struct cost_flows *f, const struct place *a, const struct place *b,
               int unit, double bytes);
/* cost_pci.c: up from a device (node.pcis; -1 not known), its own link first, until
 * device `to` hangs below as well. */
void cost_pci_up(struct cost_flows *f, int node, int device, int to, double bytes);
struct cost_gpu *cost_gpu_of(const struct cost_model *m, const struct place *p);
/* The k-th NIC of the GPU at p, round and round those it has; -1 not known. */
int cost_nic_of(const struct cost_model *m, const struct place *p, int k);
/* The leaf that a NIC hangs on; nic -1: the node. */
int cost_leaf_of(const struct node *n, int nic);
int cost_is_nvlinked(const struct cost_model *m, const struct place *a,
                     const struct place *b);
/* Of the links of the GPU at p, the share that leads to the group: GPUs without a
 * switch use no others. */
double cost_useful_share(struct cost_flows *f, const struct place *p, int unit);
/* The i-th rank of a unit, round and round; how many there are. */
const struct place *cost_member(const struct cost_flows *f, int unit, int i);
int cost_members(const struct cost_flows *f, int unit);

/* cost_flow.c: whole groups. */
void cost_flow_ring(struct cost_flows *f);
void cost_flow_tree(struct cost_flows *f);
void cost_flow_next(struct cost_flows *f);  /* each to the next one */
void cost_flow_pairs(struct cost_flows *f); /* each to every other */

#endif
