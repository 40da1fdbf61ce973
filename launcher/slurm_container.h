/* slurm_container.h - ranks in a container image, by Pyxis or by Apptainer.
 *
 *   pyxis       options of srun: agent and rank run inside, and what muster needs of its
 *               own there is mounted (its programs, the folder we are in, MUSTER_HOME);
 *               the image has the shared libraries of muster-agent and muster-train
 *   apptainer   the agent runs on the node and starts `apptainer exec IMAGE PROGRAM ...`
 *               as its rank, with the same mounts; apptainer or singularity is in PATH */
#ifndef LAUNCHER_SLURM_CONTAINER_H
#define LAUNCHER_SLURM_CONTAINER_H

struct err;
struct recipe;
struct strlist;

/* The options of srun, appended; none without an image or with apptainer. */
void slurm_container_options(const struct recipe *r, struct strlist *out);

/* Does the recipe name an image? */
int slurm_container_is_used(const struct recipe *r);

/* The program of a user's command that an image holds, which this host may not have:
 * nobody looks for it here.  The caller's to free(); *argv (empty) may get a word that
 * goes before the command's. */
char *slurm_container_program(const struct recipe *r, const char *name,
                              struct strlist *argv);

/* Put apptainer before the command of a rank, whose program was found at *program;
 * both are replaced.  Nothing to do without an image or with pyxis. */
int slurm_container_wrap(const struct recipe *r, struct strlist *argv, char **program,
                         struct err *err);

#endif
