#include "launcher/run_limit.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/js.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/guard.h"
#include "launcher/run_state.h"
#include "launcher/slurm_job.h"
#include "launcher/slurm_nodes.h"
#include "launcher/store.h"
#include "recipes/recipe.h"
#include "trainer/ckpt.h"

enum {
    ASK_MS = 5000,
    LOOK_MS = 2000,   /* the loop waits for this answer */
    FIRST_MS = 5000,  /* after the start */
    AGAIN_MS = 60000, /* at most: the limit may have been moved */
    CLOSE_MS = 1000,
    PART_OF_REST = 4, /* of a short rest not more than this part is for saving */
};

int run_limit_take(struct run *run, int signo)
{
    char *why;

    if (!run->q->limit || (signo != SIGUSR1 && signo != SIGUSR2))
        return 0;
    if (run->phase != RUN_GOING) /* each agent tells of it */
        return 1;
    why = xasprintf("the time of Slurm's job %s is nearly up (signal %d, %s)",
                    run->q->slurm ? run->q->slurm->job : "?", signo, strsignal(signo));
    run_end(run, ERR_TIMEOUT, "limit", -1, why);
    free(why);
    return 1;
}

/* How long before the end the ranks are to save: of a short time not too much. */
static int64_t lead_of(struct run *run, int64_t left_ms)
{
    if (!run->limit_lead_ms) {
        run->limit_lead_ms = run->q->limit_watch_ms;
        if (run->limit_lead_ms > left_ms / PART_OF_REST)
            run->limit_lead_ms = left_ms / PART_OF_REST;
    }
    return run->limit_lead_ms;
}

/* When it is time to look again, or to save. */
static int64_t look_again(int64_t left, int64_t lead)
{
    return clock_ms() + (left - lead < AGAIN_MS ? left - lead : AGAIN_MS);
}

void run_limit_tick(struct run *run, int64_t now)
{
    struct slurm_job job = { .time_left_s = -1 };
    int64_t left, lead;
    char *why;

    if (!run->q->limit_watch_ms || run->phase != RUN_GOING || now < run->limit_look)
        return;
    if (!run->limit_look) {
        run->limit_look = now + FIRST_MS;
        return;
    }
    run->limit_look = now + AGAIN_MS;
    if (slurm_job_read(run->q->slurm->job, LOOK_MS, &job, NULL) < 0 ||
        job.time_left_s < 0)
        return;
    left = job.time_left_s * 1000;
    lead = lead_of(run, left);
    if (left > lead + CLOSE_MS) {
        run->limit_look = look_again(left, lead);
        return;
    }
    why = xasprintf("the time of Slurm's job %s is nearly up (%lld s left)",
                    run->q->slurm->job, (long long)job.time_left_s);
    run_end(run, ERR_TIMEOUT, "limit", -1, why);
    free(why);
}

__attribute__((format(printf, 4, 5))) static void
become(struct run_result *r, int status, const char *cause, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    free(r->reason);
    r->reason = fmt ? xvasprintf(fmt, ap) : NULL;
    va_end(ap);
    r->status = status;
    snprintf(r->cause, sizeof(r->cause), "%s", cause);
}

static void add_reason(struct run_result *r, const char *why)
{
    char *text = xasprintf("%s; not requeued: %s", r->reason, why);

    free(r->reason);
    r->reason = text;
}

static int is_batch(const struct run *run)
{
    return run->q->part && run->q->part->batch;
}

/* ---- what the signal was about ---- */

static int is_about(const struct slurm_job *job, const char *state, const char *reason)
{
    return str_eq(job->state, state) || str_eq(job->reason, reason);
}

/* TERM comes for many reasons; a job that lost a node may fail in many ways. */
static int is_dubious(const struct run *run)
{
    const struct run_result *r = run->result;

    if (!run->q->slurm || r->status == 0 || str_eq(r->cause, "limit"))
        return 0;
    if (guard_is_gone()) /* that is the cause; the job may go with it */
        return 0;
    return is_batch(run) || (str_eq(r->cause, "stopped") &&
                             (r->status == 128 + SIGTERM || r->status == 128 + SIGHUP));
}

static void explain(struct run *run)
{
    struct run_result *r = run->result;
    struct slurm_job job;
    const char *id;

    if (!is_dubious(run))
        return;
    id = run->q->slurm->job;
    if (slurm_job_read(id, ASK_MS, &job, NULL) < 0)
        return;
    if (is_batch(run) &&
        (job.phase == SLURM_JOB_WAITS || job.restarts > run->q->part->requeues))
        r->requeued = 1; /* by Slurm, or by somebody's scontrol */
    else if (!str_eq(r->cause, "stopped"))
        return;
    else if (is_about(&job, "TIMEOUT", "TimeLimit"))
        become(r, ERR_TIMEOUT, "limit", "the time limit of Slurm's job %s was reached",
               id);
    else if (is_about(&job, "NODE_FAIL", "NodeDown"))
        become(r, ERR_SYSTEM, "node", "a node of Slurm's job %s failed", id);
    else if (job.preempted || is_about(&job, "PREEMPTED", "Preempted"))
        become(r, ERR_TIMEOUT, "limit", "Slurm's job %s has to make room for another",
               id);
    else if (job.phase == SLURM_JOB_ENDS || job.phase == SLURM_JOB_OVER)
        become(r, r->status, "stopped", "Slurm's job %s was cancelled", id);
}

/* ---- what there is to go on from ---- */

int64_t run_checkpoint(const struct recipe *r, const char *dir, char **path)
{
    const char *name = r->checkpoint.folder;
    int64_t *steps = NULL, step = -1;
    char *folder;
    int n;

    if (!*name)
        return -1;
    folder = *name == '/' ? xstrdup(name) : xasprintf("%s/%s", dir, name);
    n = ckpt_dir_list(folder, &steps);
    if (n > 0) {
        step = steps[n - 1];
        *path = ckpt_dir_path(folder, step);
    }
    free(steps);
    free(folder);
    return step;
}

/* ---- going on by itself ---- */

/* NULL: the job may be requeued; else why not, the caller's to free(). */
static char *objection(const struct run *run, int64_t saved)
{
    const struct run_part *b = run->q->part;
    int most = run->q->recipe ? run->q->recipe->cluster.slurm_requeue : 0;

    if (run->q->command)
        return xstrdup("muster does not know how a command goes on");
    if (saved < 0)
        return xstrdup("nothing is saved");
    if (saved <= b->from_step)
        return xasprintf(
            "no step was saved in this allocation (it began at step %lld): "
            "ask for more time, or save more often",
            (long long)b->from_step);
    if (b->requeues >= most)
        return xasprintf("it was requeued %d time%s, cluster.slurm.requeue allows no "
                         "more",
                         b->requeues, str_s(b->requeues));
    return NULL;
}

/* All is said before: Slurm ends this job as soon as it hears. */
static void requeue(struct run *run, int64_t saved)
{
    struct run_result *r = run->result;
    struct err err = ERR_INIT;
    struct js *o = js_object();

    js_put_int(o, "step", saved);
    js_put_int(o, "attempt", run->q->part->attempt);
    js_put_str(o, "reason", r->reason);
    run_event_note(run, -1, "requeue", o);
    fflush(run->events);
    store_note_requeue(r, r->reason);
    r->requeued = 1;
    log_info("run %s goes on from step %lld when Slurm has nodes again (%d of %d): %s",
             r->id, (long long)saved, run->q->part->requeues + 1,
             run->q->recipe->cluster.slurm_requeue, r->reason);
    if (slurm_job_requeue(run->q->slurm->job, &err) < 0) {
        r->requeued = 0;
        add_reason(r, err_text(&err));
    }
    err_release(&err);
}

/* The last step was done when the word came: there is nothing to go on with. */
static int is_done(const struct run *run)
{
    const struct recipe *r = run->q->recipe;

    return r && !run->q->command && run->result->steps >= r->training.steps;
}

/* A lost node ends a batch job anyway, unless the caller wants to try with the rest. */
static int is_to_go_on(const struct run *run)
{
    return str_eq(run->result->cause, "limit") ||
           (str_eq(run->result->cause, "node") && is_batch(run) &&
            run->q->part->retries <= 0);
}

void run_limit_conclude(struct run *run)
{
    struct run_result *r = run->result;
    int64_t saved;
    char *why;

    explain(run);
    if (r->requeued) {
        store_note_requeue(r, r->reason);
        log_info("run %s: Slurm requeued job %s: %s", r->id, run->q->slurm->job,
                 r->reason);
    }
    if (r->requeued || !is_to_go_on(run))
        return;
    if (is_done(run) && str_eq(r->cause, "limit")) {
        become(r, 0, "ok", NULL);
        return;
    }
    saved = run->q->recipe && !run->q->command
                ? run_checkpoint(run->q->recipe, run->dir, &r->go_on)
                : -1;
    if (!is_batch(run))
        return;
    why = objection(run, saved);
    if (!why)
        requeue(run, saved);
    else
        add_reason(r, why);
    free(why);
}
