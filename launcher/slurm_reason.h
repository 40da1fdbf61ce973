/* slurm_reason.h - why a job waits, in words that help. */
#ifndef LAUNCHER_SLURM_REASON_H
#define LAUNCHER_SLURM_REASON_H

enum slurm_hope {
    SLURM_HOPE_WAITS, /* by itself, in time */
    SLURM_HOPE_HELP,  /* when somebody acts */
    SLURM_HOPE_NEVER  /* not as it was asked for */
};

struct slurm_reason {
    enum slurm_hope hope;
    const char *text; /* what it means and what to do; "" when it says it itself */
};

/* Of a Reason= of a pending job ("Resources", "PartitionTimeLimit", "ReqNodeNotAvail,
 * UnavailableNodes:n1"); a word we do not know waits. */
struct slurm_reason slurm_reason_of(const char *reason);

/* The cure for words with which Slurm refused a job; "" when we know none. */
const char *slurm_refusal_cure(const char *words);

#endif
