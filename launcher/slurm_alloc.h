/* slurm_alloc.h - is a command one for Slurm, and on which of its nodes? */
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

#endif
