/* emit.h - a topology in the formats of other programs.
 *
 * Each writes all of it to fp, or nothing and an err: ERR_FAILED when the topology
 * does not know what the format is about. */
#ifndef TOPOLOGY_EMIT_H
#define TOPOLOGY_EMIT_H

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct err;
struct topology;

/* Slurm's topology.conf and topology.yaml (25.05 and later); what they say is in
 * slurm_fabric.h.  What was read from such a file comes out equal; topology.yaml has
 * no LinkSpeed. */
int topology_emit_slurmconf(const struct topology *t, FILE *fp, struct err *err);
int topology_emit_slurmyaml(const struct topology *t, FILE *fp, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
