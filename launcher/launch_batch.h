/* launch_batch.h - `muster launch --detach` outside an allocation: a batch job.
 *
 * The run gets its folder here, with the recipe as it is now (recipe.yaml), what the
 * job needs to know (batch.json) and the script, which is always the same two lines:
 * the words of the job's command are sbatch's arguments and pass no shell.  In the job
 * `muster launch --batch RUN_DIR ...` is the same launch as in the foreground, in that
 * folder.  When the job is requeued it runs again, and goes on from its last
 * checkpoint. */
#ifndef LAUNCHER_LAUNCH_BATCH_H
#define LAUNCHER_LAUNCH_BATCH_H

struct err;
struct js;
struct launch;

/* On `world` ranks; prints the run and the job.  Exit status or -1. */
int launch_submit(struct launch *l, int world, struct err *err);
/* The same without doing it: the command line of sbatch, RUN_DIR for the run's folder,
 * and the script. */
int launch_submit_dry(struct launch *l, int world, struct err *err);

/* In the job: back to the folder and the store of the one who submitted it, and what
 * there is to go on from.  Before the recipe is loaded; afterwards, the second. */
int launch_batch_enter(struct launch *l, struct err *err);
int launch_batch_resume(struct launch *l, struct err *err);

/* It could not be started: that is the run's result. */
void launch_batch_refused(const char *dir, struct js *result);

#endif
