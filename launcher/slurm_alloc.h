/* slurm_alloc.h - is a launch one for Slurm, and where does it get its nodes? */
#ifndef LAUNCHER_SLURM_ALLOC_H
#define LAUNCHER_SLURM_ALLOC_H

struct err;
struct recipe;
struct slurm_place;
struct topology;

/* cluster.backend slurm; or auto (or no recipe) inside an allocation with srun in PATH,
 * unless a cluster file describes other machines. */
int slurm_is_wanted(const struct recipe *r, const char *cluster_file);

/* The machines of this allocation, where Slurm is wanted: 1, and *place (its
 * slurm_place_release()) and *t are set; 0: it is not; -1. */
int slurm_machines(const struct recipe *r, const char *cluster_file,
                   struct slurm_place *place, struct topology **t, struct err *err);

/* Outside an allocation: become `salloc ... muster launch ...` (argv, with argv[0] the
 * program's path), which waits with a line for each state of the job, runs the launch
 * inside, ends with its status and releases the nodes.  Returns only on failure.
 * `world`: ranks, one a GPU; cluster.gpus_per_node, or else what most GPUs a node of
 * `sinfo` has, says how many nodes that are. */
int slurm_allocate(const struct recipe *r, int world, char *const *argv,
                   struct err *err);

/* After a launch that slurm_allocate() started: release the nodes if salloc is gone
 * (killed), which would have done it. */
void slurm_release(void);

#endif
