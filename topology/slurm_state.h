/* slurm_state.h - Slurm's words for the state of a node, of scontrol ("IDLE+DRAIN",
 * "DOWN*+DRAIN") and of sinfo ("drng", "idle~", "mix-").
 *
 * Several words are joined by +, and each may carry suffixes: * not responding,
 * ~ powered off, # powering up, ! and % powering down, $ maintenance, @ and ^ reboot,
 * - planned by backfill.  The worst of them decides.  An unknown word is not
 * schedulable, and is named in `why`. */
#ifndef TOPOLOGY_SLURM_STATE_H
#define TOPOLOGY_SLURM_STATE_H

#ifdef __cplusplus
extern "C" {
#endif

enum slurm_use {
    SLURM_USE_YES,     /* idle */
    SLURM_USE_PARTIAL, /* some of it is free, or backfill has plans for it */
    SLURM_USE_LATER,   /* in use, powered off, powering up: by itself, in time */
    SLURM_USE_INSIDE,  /* only inside the reservation that holds it */
    SLURM_USE_NO       /* until somebody acts */
};

struct slurm_state {
    enum slurm_use use;
    char why[160]; /* "drained, still running jobs" */
};

void slurm_state_parse(const char *text, struct slurm_state *out);

/* May a new job start there now? */
int slurm_state_usable(const struct slurm_state *s);

#ifdef __cplusplus
}
#endif
#endif
