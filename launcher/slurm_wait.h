/* slurm_wait.h - how a waiting job stands, and telling it. */
#ifndef LAUNCHER_SLURM_WAIT_H
#define LAUNCHER_SLURM_WAIT_H

#include <stdint.h>

struct err;

struct slurm_wait {
    char job[16]; /* "" until it is known */
    char state[32], reason[256], starts[32];
    int64_t begun, asked, told; /* clock_ms(); 0: never */
    int64_t every;              /* ms between two lines without news */
    int terminal;               /* stderr is one */
    int dirty;                  /* a line stands there without its end */
    int looked;                 /* at the nodes */
};

void slurm_wait_begin(struct slurm_wait *w);
/* Call it every second or so: asks Slurm now and then, tells what is new.  ERR_FAILED
 * when the job can never run, with the reason and the cure. */
int slurm_wait_look(struct slurm_wait *w, struct err *err);
/* The line is done. */
void slurm_wait_end(struct slurm_wait *w);

/* Fill state, reason and starts from what `scontrol show job` prints; 0 or -1. */
int slurm_wait_read(struct slurm_wait *w, const char *text);

#endif
