/* backend_slurm_fault.c - faults of a step that no rank tells of. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/js.h"
#include "base/log.h"
#include "base/mem.h"
#include "launcher/run_state.h"
#include "launcher/slurm_state.h"

enum {
    NAMED = 8,
    OTHERS_MS = 300,     /* after a bad end of a rank: who else? */
    SRUN_ENDS_MS = 3000, /* from TERM to KILL of an srun that waits for a lost node */
    LOOK_MS = 5000,      /* at most, between looks whether a rank met its server */
    SRUN_LEAVES_MS = 500 /* all its tasks are over: it ends by itself */
};

static void hold_verdict(struct run *run, int64_t until)
{
    if (until > run->judge_after)
        run->judge_after = until;
}

static void hold_until_known(struct run *run)
{
    const struct slurm *s = run->backend_data;

    if (slurm_fault_due(s->fault))
        hold_verdict(run, slurm_fault_due(s->fault) + 1);
}

void slurm_wait_for_others(struct run *run)
{
    if (run->phase == RUN_GOING)
        hold_verdict(run, clock_ms() + OTHERS_MS);
}

/* ---- what is seen ---- */

void slurm_lost(struct run *run, int rank)
{
    struct slurm *s = run->backend_data;

    if (run->phase != RUN_GOING) {
        slurm_give_up_rank(run, rank);
        return;
    }
    s->gone[rank] = 1;
    slurm_fault_lost(s->fault, rank, clock_ms());
    hold_until_known(run);
}

static void warn_of_slurmd(const struct run *run, int rank, int is_back)
{
    if (is_back)
        log_info("node %s: slurmd is back", run_host(run, rank));
    else
        log_warn("node %s: slurmd died (killed?); the run goes on, but Slurm can start "
                 "and end nothing there until it is back",
                 run_host(run, rank));
}

void slurm_gone(struct run *run, int rank, const char *bytes, size_t n)
{
    struct slurm *s = run->backend_data;
    struct js *o = NULL;
    const char *what;

    if (js_parse(bytes, n, "gone", &o, NULL) < 0)
        return;
    what = js_str(o, "what", "");
    run_event_note(run, rank, "gone", js_ref(o));
    if (run->phase == RUN_GOING && str_eq(what, "slurmstepd")) {
        slurm_fault_orphan(s->fault, rank, clock_ms());
        hold_until_known(run);
    } else if (run->phase == RUN_GOING && strncmp(what, "slurmd", 6) == 0) {
        warn_of_slurmd(run, rank, !str_eq(what, "slurmd"));
    }
    js_free(o);
}

void slurm_srun_ended(struct run *run)
{
    struct slurm *s = run->backend_data;

    if (!s->srun.signo || s->told || run->phase != RUN_GOING)
        return;
    slurm_fault_srun(s->fault, (int)s->srun.pid, s->srun.signo, clock_ms());
    hold_until_known(run);
}

/* ---- tasks that end before they are there ---- */

static void name_absent(const struct run *run, int over, struct str *text)
{
    const struct slurm *s = run->backend_data;
    int n = 0;

    for (int r = 0; r < run->world; r++) {
        if (s->there[r] || (over && !slurm_fault_is_over(s->fault, r)))
            continue;
        run->result->blamed[r] = 1;
        if (n++ < NAMED)
            str_addf(text, "%srank %d on %s", n > 1 ? ", " : "", r, run_host(run, r));
    }
    if (n > NAMED)
        str_addf(text, " and %d more", n - NAMED);
}

static void look_for_failed_starts(struct run *run)
{
    const struct slurm *s = run->backend_data;
    const char *exec = slurm_fault_exec(s->fault);
    struct str who = STR_INIT, why = STR_INIT;

    name_absent(run, 1, &who);
    if (who.len && *exec)
        str_addf(&why, "%s: muster's agent cannot be started there: %s", who.text,
                 exec);
    else if (who.len)
        str_addf(&why, "%s: the task ended before it reached muster%s%s", who.text,
                 *s->words ? "; srun said: " : "", s->words);
    if (who.len)
        run_end(run, *exec ? ERR_MISSING : ERR_FAILED, "start", -1, why.text);
    str_release(&who);
    str_release(&why);
}

void slurm_line(struct run *run, const char *line)
{
    struct slurm *s = run->backend_data;

    if (run->phase != RUN_GOING)
        return;
    slurm_fault_line(s->fault, line, clock_ms());
    hold_until_known(run);
    if (strstr(line, ": task"))
        look_for_failed_starts(run);
}

/* ---- time passes ---- */

static void judge(struct run *run, int64_t now)
{
    struct slurm *s = run->backend_data;
    struct slurm_verdict v;

    if (run->phase != RUN_GOING || !slurm_fault_judge(s->fault, now, &v))
        return;
    for (int r = 0; r < run->world; r++)
        if (slurm_fault_blames(s->fault, r))
            run->result->blamed[r] = 1;
    run_end(run, v.status, v.cause, v.culprit, v.reason.text);
    str_release(&v.reason);
}

/* After the verdict: those that were waited for are not coming back. */
static void let_go(struct run *run)
{
    struct slurm *s = run->backend_data;

    for (int r = 0; r < run->world && run->phase != RUN_GOING; r++)
        if (s->gone[r]) {
            s->gone[r] = 0;
            slurm_give_up_rank(run, r);
        }
}

static void judge_start(struct run *run, int64_t now)
{
    const struct slurm *s = run->backend_data;
    int64_t limit = run->q->start_timeout_ms;
    struct str who = STR_INIT, why = STR_INIT;

    if (limit <= 0 || run->phase != RUN_GOING || now - s->begun < limit)
        return;
    name_absent(run, 0, &who);
    if (who.len) {
        str_addf(&why, "tasks did not reach muster within %lld s: %s%s%s",
                 (long long)(limit / 1000), who.text, *s->words ? "; srun said: " : "",
                 s->words);
        run_end(run, ERR_TIMEOUT, "timeout", -1, why.text);
    }
    str_release(&who);
    str_release(&why);
}

/* ---- the meeting of programs that do not tell ---- */

int slurm_pmix_look_ms(const struct run *run)
{
    int64_t limit = run->q->start_timeout_ms;

    if (!run->q->command || limit <= 0)
        return 0;
    return limit / 4 > LOOK_MS ? LOOK_MS : (int)(limit / 4);
}

void slurm_pmix(struct run *run, int rank, int met)
{
    struct slurm *s = run->backend_data;

    s->pmix[rank] = met ? PMIX_MET : PMIX_LEFT;
    if (met && !s->met_at)
        s->met_at = clock_ms();
}

/* Some are in PMIx, and some have never been: that is a meeting, until the last has
 * left. */
static int pmix_missing(const struct run *run)
{
    const struct slurm *s = run->backend_data;
    int met = 0, missing = 0;

    for (int r = 0; r < run->world; r++) {
        met += s->pmix[r] == PMIX_MET && !run->rank[r].proc.ended;
        missing += s->pmix[r] == PMIX_UNSEEN && !run->rank[r].proc.ended;
    }
    return met ? missing : 0;
}

static void judge_meeting(struct run *run, int64_t now)
{
    struct slurm *s = run->backend_data;
    int64_t limit = run->q->start_timeout_ms;
    struct str why = STR_INIT;
    int missing, n = 0, one = -1;

    if (!s->met_at || limit <= 0 || run->phase != RUN_GOING)
        return;
    missing = pmix_missing(run);
    if (!missing)
        s->met_at = 0;
    if (!missing || now - s->met_at < limit)
        return;
    str_addf(&why,
             "%d of %d ranks did not arrive at PMIx_Init within %.3g s: ", missing,
             run->world, (double)limit / 1e3);
    for (int r = 0; r < run->world; r++) {
        if (s->pmix[r] != PMIX_UNSEEN || run->rank[r].proc.ended)
            continue;
        run->result->blamed[r] = 1;
        one = r;
        if (n++ < NAMED)
            str_addf(&why, "%srank %d on %s", n > 1 ? ", " : "", r, run_host(run, r));
    }
    if (n > NAMED)
        str_addf(&why, " and %d more", n - NAMED);
    run_end(run, ERR_TIMEOUT, "timeout", n == 1 ? one : -1, why.text);
    str_release(&why);
}

static void ping(struct run *run, int64_t now)
{
    struct slurm *s = run->backend_data;

    if (run->phase == RUN_GOING && slurm_ping_tick(&s->ping, &run->before, now))
        run_follow(run->epoll, s->ping.proc.out, RUN_BACKEND, READY_PING);
}

/* No agent is left, so nothing on the nodes is worth waiting for.  srun waits long for
 * a node that does not answer, and for ever for a controller. */
static void end_srun(struct run *run, int64_t now)
{
    struct slurm *s = run->backend_data;

    if (run->phase == RUN_GOING || s->srun.pid <= 0 || s->srun.ended)
        return;
    if (slurm_any_there(run))
        s->quiet = 0;
    else if (!s->quiet)
        s->quiet = now;
    if (!s->told && s->quiet && now - s->quiet > SRUN_LEAVES_MS)
        slurm_tell_srun(run, SIGTERM);
    else if (s->told && now - s->told > SRUN_ENDS_MS)
        slurm_tell_srun(run, SIGKILL);
}

void slurm_tick(struct run *run, int64_t now)
{
    judge(run, now);
    judge_start(run, now);
    judge_meeting(run, now);
    let_go(run);
    ping(run, now);
    end_srun(run, now);
}
