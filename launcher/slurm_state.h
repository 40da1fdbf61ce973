/* slurm_state.h - a run as one Slurm step while it runs.  Inner to backend_slurm*.c. */
#ifndef LAUNCHER_SLURM_STATE_H
#define LAUNCHER_SLURM_STATE_H

#include <stdint.h>

#include "launcher/line.h"
#include "launcher/proc.h"
#include "launcher/rank_env.h"
#include "launcher/slurm_fault.h"
#include "launcher/slurm_master.h"
#include "launcher/slurm_ping.h"
#include "launcher/task_server.h"

struct js;
struct run;

/* The ids of run_follow(). */
enum { READY_AGENTS, READY_OUT, READY_ERR, READY_PING };

/* Of a rank and its PMIx server, as its agent sees it. */
enum slurm_pmix { PMIX_UNSEEN, PMIX_MET, PMIX_LEFT };

struct slurm {
    struct task_server *agents;
    struct rank_env_start start;
    struct slurm_master master; /* when rank 0 is there */
    struct task_start what;     /* the same for all ranks; env is made for each */
    char *hostfile, *log;
    struct proc srun; /* pid 0: not started */
    int logged;       /* descriptor of srun.log */
    struct line_buffer line;
    char words[400];   /* the last that srun complained of; "" */
    char *there;       /* [world] said HELLO */
    char *gone;        /* [world] its agent was lost, and nobody knows why yet */
    char *pmix;        /* [world] enum slurm_pmix */
    int64_t met_at;    /* the first rank met its PMIx server; 0: none */
    const char **host; /* [world] */
    struct slurm_fault *fault;
    struct slurm_ping ping; /* of the controller */
    int64_t begun;
    int64_t quiet; /* no agent is connected since then, as the run ends; 0: one is */
    int64_t told;  /* when srun was told to end the step; 0: not */
};

/* ---- backend_slurm.c ---- */

/* A rank of which nothing more will be heard. */
void slurm_give_up_rank(struct run *run, int rank);
/* Is an agent connected? */
int slurm_any_there(const struct run *run);
void slurm_tell_srun(struct run *run, int signo);

/* ---- backend_slurm_begin.c ---- */

/* Rank 0's node says where the others meet it: nobody starts before that. */
void slurm_take_master(struct run *run, const struct js *about);
/* The agent of this rank is there: start it, or all that wait for rank 0. */
void slurm_begin(struct run *run, int rank);

/* ---- backend_slurm_fault.c: what went wrong, outside the ranks' own words ---- */

/* The connection of an agent ended before its last word. */
void slurm_lost(struct run *run, int rank);
/* A GONE frame. */
void slurm_gone(struct run *run, int rank, const char *bytes, size_t n);
/* How often agents shall look whether their rank has met its PMIx server: a program
 * that is not ours does not tell when it hangs before.  0: not at all. */
int slurm_pmix_look_ms(const struct run *run);
void slurm_pmix(struct run *run, int rank, int met);
/* A line that srun printed. */
void slurm_line(struct run *run, const char *line);
/* srun ended. */
void slurm_srun_ended(struct run *run);
/* A rank's task ended badly: others may say why, so the verdict waits a moment. */
void slurm_wait_for_others(struct run *run);
void slurm_tick(struct run *run, int64_t now);

#endif
