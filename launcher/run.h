/* run.h - one run of a program on many ranks: start, watch, collect.
 *
 * A run lives in a folder, MUSTER_HOME/runs/ID (MUSTER_HOME: the variable, else
 * XDG_STATE_HOME/muster, else ~/.local/state/muster), mode 0700:
 *   recipe.yaml  the effective recipe      plan.json     placement, commands
 *   run.json     id, pid, host, times      events.jsonl  what ranks reported
 *   ranks/HOST.RANK.log  whole output      result.json   the outcome, last
 *   batch.json, batch.sh, launch.log       of a batch job (launch_batch.h)
 * (of a rank at most MUSTER_LOG_LIMIT, a size, 1 GiB unless set; see output.h).
 * An ID is NAME-YYYYMMDD-HHMMSS-xxxx. */
#ifndef LAUNCHER_RUN_H
#define LAUNCHER_RUN_H

#include <stdint.h>

struct err;
struct js;
struct nodes;
struct placement;
struct recipe;
struct strlist;
struct slurm_place;
struct topology;

enum { RUN_GRACE_MS = 5000 };

/* An attempt of a run whose folder is there already: a batch job, the first time or
 * again, or a run that was started anew. */
struct run_part {
    const char *dir;
    int attempt;       /* from 0 */
    int64_t from_step; /* of the checkpoint it goes on from; -1 none */
    int batch;         /* in a batch job of muster's, which may be requeued */
    int requeues;      /* how often that was */
    int retries;       /* left to the caller: a lost node is no reason to requeue */
};

/* Step of the newest complete checkpoint of a run in DIR, and its folder into *path,
 * the caller's to free(); -1: none. */
int64_t run_checkpoint(const struct recipe *r, const char *dir, char **path);

struct run_request {
    const struct recipe *recipe; /* NULL for `launch -- COMMAND` */
    const struct topology *topology;
    const struct placement *placement; /* its world is the number of ranks */
    const struct slurm_place *slurm;   /* inside this allocation; NULL: not */
    struct nodes *nodes; /* agents on the topology's nodes (node.h); NULL: all here */
    const struct strlist *net;      /* the same of each topology node; or NULL */
    const struct strlist *net_said; /* and why, a line each; or NULL */
    const struct strlist *defaults; /* NAME=VALUE of the network, before muster's own
                                       defaults of a rank's environment; or NULL */
    char **command;                 /* NULL: muster-train with the recipe */
    const char *program; /* one of muster's own that `command` starts; NULL: another */
    const char *reads;   /* where `command` names the recipe, which hosts get as a
                            file of their own; or NULL */
    const char *parent;  /* climb that started it, or NULL */
    const char *resume;  /* checkpoint folder to continue, or NULL */
    const char *profile; /* steps "A:B" that muster-train records, or NULL */
    int quiet;           /* do not echo the ranks' lines */
    int verbose;         /* say how each rank is bound, and its limits */
    int no_bind;         /* leave ranks on the CPUs that they come with */
    int lines_to_stderr; /* echo all of them there: stdout is for JSON */
    int give_stdin, stdin_rank; /* this rank reads our stdin; others /dev/null */
    int64_t start_timeout_ms;   /* each meeting of all ranks; <= 0 off */
    int64_t silence_timeout_ms; /* no sign of life from a rank; <= 0 off */
    int64_t grace_ms;           /* TERM to KILL; 0: RUN_GRACE_MS */
    int64_t stop_grace_ms; /* the same when the user stops the run, so that ranks can
                              save their work; 0: grace_ms */
    const struct run_part *part; /* NULL: a new run in a new folder */
    int limit;                   /* USR1 or USR2 say that the time is nearly up: save */
    int64_t limit_grace_ms;      /* as stop_grace_ms, then */
    int64_t limit_watch_ms; /* nobody asked Slurm for that: save so long before the end;
                               0: off */
    struct js *attempts;    /* what the result says of those before; or NULL */
    /* Each event; NULL: none.  Not 0 stops the run (cause "stopped").  Besides those
     * of the ranks (heartbeat.h) there are the launcher's own: "start" {run, dir,
     * world}, "connected", "finalized", "abort", "exit" {status}. */
    int (*event)(void *arg, const struct js *event);
    void *event_arg;
};

/* How ranks really run, by their events "task" (task_state.h). */
struct run_tasks {
    int reported;
    int bound;    /* on the CPUs where they were placed */
    int by_slurm; /* srun bound them, muster left that */
    int unbound;
    int elsewhere; /* on other CPUs than those they were bound to */
};

struct run_result {
    char id[96];
    char *dir;      /* owned */
    int status;     /* exit status of design.md; a rank's own status */
    char cause[32]; /* "ok", "rank", "signal", "timeout", "stopped", "start", "limit",
                         "node" */
    int culprit;    /* first rank that failed; -1 none */
    char *reason;   /* owned; names the rank, host and why; NULL when ok */
    int begun;      /* every rank was started */
    struct js *attempts; /* owned; as in the request */
    char *blamed;        /* owned; [world] 1: the failure may be its node's */
    int *rank_status; /* [world] exit status, 128+n for a signal, -1 ended by muster */
    int world;
    int simulated; /* the numbers are: cluster.device sim */
    struct run_tasks tasks;
    /* From rank 0's metrics; -1 / NaN where there are none. */
    int64_t steps;
    double loss_first, loss_last, validation_loss;
    double tokens_per_s_per_gpu; /* median over measured steps */
    double mfu_reference, mfu_causal, memory_percent, step_s;
    struct js *summary; /* rank 0's "done" event; owned; NULL when none */
    char *go_on;        /* owned; the checkpoint to resume from when the time of the
                           allocation was up; NULL none */
    int requeued;       /* the batch job goes on from there by itself */
};

/* Are its ranks such as compute nothing (trainer/sim.h)? */
int run_is_simulated(const struct run_request *q);

/* 0 when the run could be started and ended somehow (see result->status), -1
 * when it could not be tried.  result is filled on 0: run_result_release(). */
int run_execute(const struct run_request *q, struct run_result *result,
                struct err *err);
void run_result_release(struct run_result *r);
struct js *run_result_json(const struct run_result *r); /* the `launch` schema */

/* MUSTER_HOME, made if absent; the caller's to free(). */
char *run_home(struct err *err);

/* The exact commands and environment of each rank, as `--dry-run` prints them. */
char *run_dry(const struct run_request *q, struct err *err);

#endif
