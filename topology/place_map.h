/* place_map.h - what the groups of a placement cross, how few of them could, and why
 * the rest does. */
#ifndef TOPOLOGY_PLACE_MAP_H
#define TOPOLOGY_PLACE_MAP_H

#include "topology/place_tiers.h"

#ifdef __cplusplus
extern "C" {
#endif

struct placement;
struct strlist;
struct topology;

struct map_axis {
    int groups, size;
    int on_nodes;                   /* groups on more than one node */
    long crossing[PLACE_TIERS_MAX]; /* groups in more than one unit of a tier */
    /* The least that any choice and order of the nodes allows, by the room of units for
     * whole groups (place_pack.h); -1: not known, hosts came with slots.  Of replicate
     * groups: where no unit has the nodes of all shard groups that do not cross the
     * tier, two of these lie in two units, and a replicate group has a rank of each, so
     * all of them cross while no more shard groups do; else of this axis alone, which
     * may not be reached. */
    long bound[PLACE_TIERS_MAX];
};

struct place_map {
    struct place_tiers *tiers;
    struct map_axis shard, replicate;
    int railed; /* replicate groups whose NICs are of one rail; -1: groups are spread
                   over the GPUs of a node, or rails are not known */
};

void place_map_make(const struct placement *p, const struct topology *t,
                    struct place_map *out);
void place_map_release(struct place_map *m);

/* The same ranks on the nodes as they are listed (Slurm's block order), or sorted by
 * host name, without CPUs: placement_free().  NULL: hosts came with slots. */
struct placement *placement_as(const struct placement *p, const struct topology *t,
                               int by_name);

/* Nodes of the shard groups that do not cross a tier. */
int place_map_whole(const struct place_map *m, const struct placement *p, int tier);
/* Nodes that could serve in the unit of a tier that has most of them. */
int place_map_largest(const struct place_map *m, const struct placement *p, int tier);

/* Sentences: for each tier that shard groups cross, why they must or do; for each such
 * group (GROUPS_TOLD at most) where it lies; nodes that were kept out or taken although
 * findings speak against them. */
enum { GROUPS_TOLD = 16 };
void place_map_explain(const struct place_map *m, const struct placement *p,
                       const struct topology *t, struct strlist *out);

#ifdef __cplusplus
}
#endif
#endif
