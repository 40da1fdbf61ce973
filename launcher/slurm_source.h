/* slurm_source.h - the source "slurm": what Slurm itself knows of the cluster, asked
 * through slurm_ask.h. */
#ifndef LAUNCHER_SLURM_SOURCE_H
#define LAUNCHER_SLURM_SOURCE_H

#include <stddef.h>

struct err;
struct topology;

/* Nodes with their GPUs, CPUs and memory, those of one partition ("" or NULL: all), and
 * the switches.  A node that cannot be used is a finding, with Slurm's reason; it stays
 * in.  ERR_FAILED: no such nodes. */
int topology_from_slurm(const char *partition, struct topology **out, struct err *err);

/* The nodes of what `scontrol show node -d` prints; for tests. */
int topology_from_slurm_nodes(const char *text, size_t len, const char *partition,
                              struct topology **out, struct err *err);

#endif
