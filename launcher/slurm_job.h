/* slurm_job.h - what Slurm says of a job, and what it is told to do with it.
 *
 * By Slurm's commands, each within a deadline: ERR_TIMEOUT when the controller does
 * not answer, ERR_MISSING when the command is not there. */
#ifndef LAUNCHER_SLURM_JOB_H
#define LAUNCHER_SLURM_JOB_H

#include <stdint.h>

struct err;

enum slurm_job_phase {
    SLURM_JOB_UNKNOWN, /* ended longer ago than Slurm remembers, or never was */
    SLURM_JOB_WAITS,   /* PENDING, also after it was requeued; SUSPENDED */
    SLURM_JOB_RUNS,    /* also while it starts */
    SLURM_JOB_ENDS,    /* COMPLETING: it is being ended, or just ended */
    SLURM_JOB_OVER,
};

struct slurm_job {
    enum slurm_job_phase phase;
    char state[32];  /* as Slurm writes it: "NODE_FAIL" */
    char reason[96]; /* "Resources", "TimeLimit", "None" */
    int restarts;
    int preempted;       /* it is to make room for another job */
    int64_t time_left_s; /* until its time limit; -1: none, or not running */
};

/* Wait at most timeout_ms.  A job that Slurm does not know is no error. */
int slurm_job_read(const char *id, int timeout_ms, struct slurm_job *out,
                   struct err *err);
/* One line of squeue's, as slurm_job_read() asks for it; 0 or -1. */
int slurm_job_line(const char *line, struct slurm_job *out);

/* Kill it, and let it wait for nodes again.  For a batch job, also from inside. */
int slurm_job_requeue(const char *id, struct err *err);
int slurm_job_cancel(const char *id, struct err *err);
/* To the batch shell alone, here: muster itself. */
int slurm_job_signal(const char *id, int signo, struct err *err);

#endif
