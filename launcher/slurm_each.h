/* slurm_each.h - the srun that starts one of our own tasks on every node of a job. */
#ifndef LAUNCHER_SLURM_EACH_H
#define LAUNCHER_SLURM_EACH_H

struct slurm_place;
struct strlist;
struct topology;

/* "srun --jobid= ... OPTION... SELF agent WHAT" over the nodes of t; `options` ends with
 * NULL. */
void slurm_each_node(const struct slurm_place *p, const struct topology *t,
                     const char *const *options, const char *self, const char *what,
                     struct strlist *argv);

/* item[n] becomes NULL, as exec wants it; nothing is to be added afterwards. */
void slurm_each_end(struct strlist *argv);

#endif
