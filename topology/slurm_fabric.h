/* slurm_fabric.h - switches, blocks and rings that Slurm's files define, before and
 * after they are a topology.
 *
 * A reader (topology.conf, topology.yaml, scontrol show topology) adds one entry a
 * definition, in the order of the text; slurm_fabric_build() checks them all and makes
 * the topology.  slurm_fabric_of() goes the other way, for the writers. */
#ifndef TOPOLOGY_SLURM_FABRIC_H
#define TOPOLOGY_SLURM_FABRIC_H

#include "base/str.h"

#ifdef __cplusplus
extern "C" {
#endif

struct err;
struct topology;

enum {
    SLURM_ENTRIES_MAX = 16384,
    SLURM_NODES_MAX = 131072, /* of all entries together */
    SLURM_LINKS_MAX = 262144,
    SLURM_RING_MAX = 16, /* nodes of a ring */
    SLURM_SIZES_MAX = 16 /* block sizes */
};

enum slurm_kind { SLURM_SWITCH, SLURM_BLOCK, SLURM_RING };

struct slurm_entry {
    enum slurm_kind kind;
    int line;      /* where it stands; 0 nowhere */
    char *name;    /* owned, as the others */
    char *nodes;   /* host lists; NULL none */
    char *below;   /* Switches= */
    int speed;     /* LinkSpeed; 0 none */
    char *comment; /* for writers; NULL none */
};

struct slurm_fabric {
    int n, room;
    struct slurm_entry *entry; /* of one kind */
    int n_sizes;
    int size[SLURM_SIZES_MAX];
};

/* A new entry, zeroed but for its kind and line; NULL: more than SLURM_ENTRIES_MAX.
 * It lasts until the next one. */
struct slurm_entry *slurm_fabric_add(struct slurm_fabric *f, enum slurm_kind kind,
                                     int line);
/* "18,36": 0, or -1 when it is no ascending list of sizes, each later one the first
 * times a power of two. */
int slurm_fabric_sizes(struct slurm_fabric *f, const char *text);
void slurm_fabric_release(struct slurm_fabric *f);

/* What must hold (all that does not is listed, `where`:LINE: ...): names that are
 * defined once, children that are, no cycle, no node in two places, no empty
 * definition, one kind, at least one node.  Leaves get level 0, others one more than
 * their highest child.  What is worth a warning becomes a finding: several roots, a
 * node named twice in one place, a block that is short of the base size. */
int slurm_fabric_build(const struct slurm_fabric *f, const char *source,
                       const char *where, struct topology **out, struct err *err);

/* The entries that say what t knows.  Where Slurm placed the nodes (node.leaf), those;
 * else from the leaves of the compute NICs: nodes with the same set of leaves become
 * one entry, for in Slurm's tree a node has one leaf, and switches above that join the
 * same entries are one.  ERR_FAILED when t knows no switch. */
int slurm_fabric_of(const struct topology *t, struct slurm_fabric *out,
                    struct err *err);

#ifdef __cplusplus
}
#endif
#endif
