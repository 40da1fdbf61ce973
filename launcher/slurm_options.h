/* slurm_options.h - what a recipe says to Slurm's commands.
 *
 * cluster.slurm.args are options as a user would type them; each goes to the commands
 * that take it: some only make sense for the job (--partition), some only for the step
 * (--mpi, --container-image), the others, and those we do not know, for both.  A word
 * without a dash belongs to the option before it ("-p", "long"). */
#ifndef LAUNCHER_SLURM_OPTIONS_H
#define LAUNCHER_SLURM_OPTIONS_H

struct err;
struct recipe;
struct strlist;

/* How many nodes a world takes, and the ranks of each: cluster.gpus_per_node, else the
 * most GPUs that a node of the partition has. */
int slurm_shape(const struct recipe *r, int world, int *nodes, int *per_node,
                struct err *err);

/* The options of an allocation, and of sbatch, appended; muster's part in it lives
 * outside, or on its first node.  ERR_USAGE: cluster.slurm.args holds what
 * muster cannot let through (":", an array, ...). */
int slurm_alloc_options(const struct recipe *r, int world, struct strlist *out,
                        struct err *err);
int slurm_batch_options(const struct recipe *r, int world, struct strlist *out,
                        struct err *err);
/* What the recipe adds to the options of the step, appended: cluster.slurm.args and the
 * container. */
void slurm_step_options(const struct recipe *r, struct strlist *out);

/* Have two lists with commas, such as partitions, a word in common?  NULL is empty. */
int slurm_lists_meet(const char *a, const char *b);

/* Why libslurm cannot be asked for the job: an option of cluster.slurm.args, or a
 * variable that only salloc reads; NULL: it can.  The caller's to free(). */
char *slurm_needs_salloc(const struct recipe *r);

#endif
