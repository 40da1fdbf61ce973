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

/* Put apptainer before the command of a rank, whose program was found at *program;
 * both are replaced.  Nothing to do without an image or with pyxis. */
int slurm_container_wrap(const struct recipe *r, struct strlist *argv, char **program,
                         struct err *err);

#endif
