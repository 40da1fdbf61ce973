/* slurm_signal.h - the grammar of sbatch --signal: [{R|B}:]SIGNAL[@SECONDS]. */
#ifndef RECIPES_SLURM_SIGNAL_H
#define RECIPES_SLURM_SIGNAL_H

#ifdef __cplusplus
extern "C" {
#endif

struct err;
struct str;

struct slurm_signal {
    int number;
    int before_s;    /* before the time limit; Slurm's own default is 60 */
    int batch_shell; /* B: only the batch shell gets it, no rank */
    int reservation; /* R: the job may overlap a reservation */
};

/* A number (1 to 64) or a name with or without SIG; seconds 0 to 65535.  ERR_USAGE. */
int slurm_signal_parse(const char *text, struct slurm_signal *out, struct err *err);
/* The same in the words of Slurm, appended: "B:USR1@120". */
void slurm_signal_add(struct str *out, const struct slurm_signal *s);

#ifdef __cplusplus
}
#endif
#endif
