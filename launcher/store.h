/* store.h - what muster remembers: runs, their steps, climbs and their trials.
 *
 * One SQLite file, MUSTER_HOME/store.sqlite.  Every change is one transaction
 * (WAL, synced), so two musters may write at once and either may be killed at any
 * instant: what was committed is whole, the rest never was.  A file of an older
 * muster is brought up to date when it is opened; one of a newer is refused.
 *
 * A run is "running", then "done", "failed" or "stopped"; "timeout" when the time of
 * its allocation was up; "lost" when the muster that watched it died before it could
 * say.  A batch job is "pending" first, and again when it was requeued; "cancelled" or
 * "node_fail" when Slurm says so and muster had no word.  Answers are JSON (js.h),
 * because every reader prints, and columns may come. */
#ifndef LAUNCHER_STORE_H
#define LAUNCHER_STORE_H

#include <stdint.h>

struct err;
struct js;
struct run_request;
struct run_result;
struct store;
struct topology;

/* home: MUSTER_HOME; NULL: run_home(). */
int store_open(const char *home, struct store **out, struct err *err);
/* For those who only show: a store that cannot be written (read-only, disk full) is
 * read as it is. */
int store_open_to_read(const char *home, struct store **out, struct err *err);
void store_close(struct store *s); /* NULL is fine */
/* It was opened to read, and cannot be written. */
int store_cannot_write(const struct store *s);

/* --- for run.c: never fail, a trouble is a warning ------------------------ */

/* The run has its folder and is about to start; called by the process that will
 * watch it.  MUSTER_CLIMB names the climb when the request does not. */
void store_note_start(const char *id, const char *dir, const struct run_request *q);
/* It has ended; reads the steps from DIR/events.jsonl. */
void store_note_end(const struct run_result *r);

/* It waits again, for nodes to go on; likewise. */
void store_note_requeue(const struct run_result *r, const char *reason);

/* --- runs ------------------------------------------------------------------ */

struct store_run {
    const char *id, *dir, *climb; /* climb: the one that started it, or NULL */
    const char *name, *recipe;    /* YAML; NULL for `launch -- COMMAND` */
    const char *command;          /* JSON array, or NULL */
    const char *fingerprint, *topology, *placement; /* JSON, or NULL */
    const char *job;                                /* of Slurm, or NULL */
    int batch; /* the job is a batch job that muster made for this run */
    int again; /* it ran before: "started" stays */
    int world;
};

/* A run that is in the store goes on as "running" when it is a batch job or `again`. */
int store_run_start(struct store *s, const struct store_run *r, struct err *err);
/* result: the `launch` object (status, cause, reason, steps, ...). */
int store_run_end(struct store *s, const char *id, const struct js *result,
                  struct err *err);
/* "step" events of rank 0 in an events.jsonl; those already there stay.  A line
 * cut short by a kill is passed over. */
int store_steps_load(struct store *s, const char *id, const char *path,
                     struct err *err);

/* Runs marked running whose muster is gone: ended from their result.json, else
 * "lost"; climbs likewise: "stopped".  Call before showing anything.  Nothing
 * changes in a store that cannot be written. */
int store_settle(struct store *s, struct err *err);

/* --- batch jobs (store_job.c) ------------------------------------------------- */

/* "pending": its job was submitted.  Not when the job was faster and runs already. */
int store_run_submit(struct store *s, const struct store_run *r, struct err *err);
/* It waits (again), for this reason; not when it has ended meanwhile. */
int store_run_waits(struct store *s, const char *id, const char *reason,
                    struct err *err);
/* How a job ended whose muster cannot say it; not when that has said it. */
int store_run_over(struct store *s, const char *id, const char *state, int status,
                   const char *reason, struct err *err);
/* What Slurm knows more about than the store: pending or running batch jobs, and
 * running ones in a job on another host.  As store_runs(). */
struct js *store_open_jobs(struct store *s, struct err *err);

/* Newest first: id, climb, name, state, status, cause, reason, world, started,
 * ended, dir, process, job, batch, result.  climb: those it started; "": those no climb
 * started; NULL: all.  limit <= 0: all. */
struct js *store_runs(struct store *s, const char *climb, int limit, struct err *err);
/* One run with recipe, placement and topology too; NULL and ERR_MISSING. */
struct js *store_run(struct store *s, const char *id, struct err *err);
struct js *store_steps(struct store *s, const char *id, struct err *err);

/* The run or climb that `word` means: its id, the only id that begins so, or
 * "last" (no trial of a climb).  *is_climb tells which.  *id is the caller's. */
int store_find(struct store *s, const char *word, char **id, int *is_climb,
               struct err *err);

/* --- climbs ---------------------------------------------------------------- */

struct store_climb {
    const char *id, *name, *recipe, *fingerprint, *topology;
    const char *options; /* JSON object: what a resume must not change */
};

/* States of a climb: "running", "done", "failed", "stopped". */
int store_climb_start(struct store *s, const struct store_climb *c, struct err *err);
/* Take a climb over (it was interrupted): ERR_FAILED while its muster lives. */
int store_climb_resume(struct store *s, const char *id, struct err *err);
int store_climb_end(struct store *s, const char *id, const char *state,
                    const struct js *result, struct err *err);
/* id, name, state, started, ended, recipe, fingerprint, options, result. */
struct js *store_climb(struct store *s, const char *id, struct err *err);
struct js *store_climbs(struct store *s, int limit, struct err *err);

struct store_trial {
    int64_t gpus, candidate, attempt; /* with the climb, the key */
    const char *settings;             /* JSON object */
    const char *state;  /* "refused", "running", "measured", "over", "failed" */
    const char *reason; /* or NULL */
    const char *run;    /* or NULL */
    double predicted, tokens_per_s_per_gpu, memory_percent; /* NaN: none */
    const struct js *result;                                /* or NULL */
};

/* Write or overwrite. */
int store_trial_put(struct store *s, const char *climb, const struct store_trial *t,
                    struct err *err);
/* In order of gpus, candidate, attempt. */
struct js *store_trials(struct store *s, const char *climb, struct err *err);

#endif
