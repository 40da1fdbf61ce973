/* slurm_hold.h - nodes of our own, from outside an allocation.
 *
 * A child asks for them and keeps them: `muster agent slurm allocate OPTION...`, which
 * does it through libslurm, or `salloc OPTION... muster agent slurm hold`, which says
 * the same to us, where libslurm is not to be had or salloc alone knows an option.
 * When the child's stdin ends it gives the nodes back, so they are given back however
 * this process ends.
 *
 * While the job waits, its state is said on stderr: on a terminal in one line that
 * goes on, else in a line for each news and, ever more rarely, one for none. */
#ifndef LAUNCHER_SLURM_HOLD_H
#define LAUNCHER_SLURM_HOLD_H

struct err;
struct recipe;
struct slurm_hold;
struct str;

/* Does the recipe want Slurm's nodes, and is this process in no allocation? */
int slurm_hold_is_wanted(const struct recipe *r);
/* How many ranks to ask for: `gpus`, else (0) what the recipe's degrees make, which must
 * be legal; ERR_USAGE. */
int slurm_hold_world(const struct recipe *r, int gpus, int *world, struct err *err);

/* 0: this process is inside a job (SLURM_JOB_ID and the like are set).  -1, and the job
 * is gone: ERR_FAILED, Slurm refused it, or it can never run; *signo is set when a
 * signal ended the wait (else 0). */
int slurm_hold_open(const struct recipe *r, int world, struct slurm_hold **hold,
                    int *signo, struct err *err);
/* Give the nodes back; NULL is fine. */
void slurm_hold_close(struct slurm_hold *h);

/* For --dry-run: the child's command, as a line for sh, and in *why a sentence about
 * the way it goes. */
int slurm_hold_line(const struct recipe *r, int world, struct str *line,
                    struct str *why, struct err *err);

#endif
