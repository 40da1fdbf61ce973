#include "launcher/slurm_wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/slurm_ask.h"
#include "launcher/slurm_reason.h"
#include "topology/slurm_record.h"
#include "topology/slurm_state.h"

enum {
    ASK_MS = 5000,        /* deadline of one question */
    FIRST_MS = 700,       /* most jobs start at once */
    SOON_MS = 2000,       /* between two questions, at first */
    LATER_MS = 15000,     /* and after a minute */
    QUIET_MS = 10000,     /* until the first line without news; then twice as long */
    QUIETEST_MS = 600000, /* up to this */
    LOOK_MS = 4000,       /* then look which nodes cannot be used */
    NAMED = 4
};

void slurm_wait_begin(struct slurm_wait *w)
{
    *w = (struct slurm_wait){ .begun = clock_ms(),
                              .every = QUIET_MS,
                              .terminal = isatty(STDERR_FILENO) };
}

/* "Nodes_required_for_job_are_DOWN" */
static void take_reason(struct slurm_wait *w, const char *reason)
{
    snprintf(w->reason, sizeof(w->reason), "%s", reason ? reason : "None");
    for (char *p = w->reason; *p; p++)
        if (*p == '_')
            *p = ' ';
}

int slurm_wait_read(struct slurm_wait *w, const char *text)
{
    struct slurm_records jobs;
    const char *state = NULL, *reason, *starts;

    if (slurm_records_parse(text, strlen(text), "the job", &jobs, NULL) < 0)
        return -1;
    if (jobs.n && (state = slurm_record_get(&jobs.record[0], "JobState"))) {
        reason = slurm_record_get(&jobs.record[0], "Reason");
        starts = slurm_record_get(&jobs.record[0], "StartTime");
        snprintf(w->state, sizeof(w->state), "%s", state);
        take_reason(w, reason);
        snprintf(w->starts, sizeof(w->starts), "%s", starts ? starts : "Unknown");
    }
    slurm_records_release(&jobs);
    return state ? 0 : -1;
}

/* ---- telling ---- */

static void add_span(struct str *s, int64_t ms)
{
    long long sec = (long long)(ms / 1000);

    if (sec < 120)
        str_addf(s, "%lld s", sec);
    else if (sec < 7200)
        str_addf(s, "%lld min", sec / 60);
    else
        str_addf(s, "%lld h %02lld min", sec / 3600, sec / 60 % 60);
}

static void add_state(const struct slurm_wait *w, struct str *s)
{
    struct slurm_reason why = slurm_reason_of(w->reason);

    str_addf(s, "job %s is %s", w->job, *w->state ? w->state : "asked for");
    if (*w->reason && !str_eq(w->reason, "None"))
        str_addf(s, " (%s)%s%s", w->reason, *why.text ? ": " : "", why.text);
    str_adds(s, ", for ");
    add_span(s, clock_ms() - w->begun);
    if (str_eq(w->state, "PENDING") && !str_eq(w->starts, "Unknown") && *w->starts)
        str_addf(s, "; expected to start at %s", w->starts);
}

/* The line may be longer than the terminal is wide, and must not run over. */
static void tell_terminal(struct slurm_wait *w, const struct str *line)
{
    struct winsize size = { 0 };
    int width = 80;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20)
        width = size.ws_col;
    dprintf(STDERR_FILENO, "\r\033[Kmuster: %.*s", width - 9, line->text);
    w->dirty = 1;
}

static void tell(struct slurm_wait *w, int news)
{
    int64_t now = clock_ms();
    struct str line = STR_INIT;

    add_state(w, &line);
    if (w->terminal) {
        tell_terminal(w, &line);
    } else if (news || now - w->told >= w->every) {
        if (!news && w->every < QUIETEST_MS)
            w->every *= 2;
        log_info("%s", line.text);
        w->told = now;
    }
    str_release(&line);
}

void slurm_wait_end(struct slurm_wait *w)
{
    if (w->dirty)
        dprintf(STDERR_FILENO, "\r\033[K");
    w->dirty = 0;
}

/* ---- nodes that cannot be used ---- */

static void add_bad(struct str *s, const struct slurm_record *node, int *n)
{
    const char *state = slurm_record_get(node, "State");
    const char *reason = slurm_record_get(node, "Reason");
    struct slurm_state use;

    slurm_state_parse(state ? state : "", &use);
    if (use.use != SLURM_USE_NO || (*n)++ >= NAMED)
        return;
    str_addf(s, "%s%s is %s", *n > 1 ? "; " : "", slurm_record_get(node, "NodeName"),
             use.why);
    if (reason)
        str_addf(s, " (%s)", reason);
}

/* Drained and dead nodes may be why it waits: said once. */
static void look_at_nodes(struct slurm_wait *w)
{
    struct slurm_records nodes = { 0 };
    struct str text = STR_INIT, bad = STR_INIT;
    int n = 0;

    w->looked = 1;
    if (slurm_ask(SLURM_ASK_NODES, NULL, ASK_MS, &text, NULL) == 0 && text.len &&
        slurm_records_parse(text.text, text.len, "Slurm's nodes", &nodes, NULL) == 0) {
        for (int i = 0; i < nodes.n; i++)
            add_bad(&bad, &nodes.record[i], &n);
        if (n > NAMED)
            str_addf(&bad, "; and %d more", n - NAMED);
        if (n) {
            slurm_wait_end(w);
            log_info("of %d nodes %d cannot be used: %s", nodes.n, n, bad.text);
        }
        slurm_records_release(&nodes);
    }
    str_release(&text);
    str_release(&bad);
}

/* ---- asking ---- */

static int is_never(const struct slurm_wait *w, struct err *err)
{
    struct slurm_reason why = slurm_reason_of(w->reason);

    if (!str_eq(w->state, "PENDING") || why.hope != SLURM_HOPE_NEVER)
        return 0;
    err_set(err, ERR_FAILED, "job %s can never run: Slurm says %s: %s", w->job,
            w->reason, why.text);
    return 1;
}

static int is_time(const struct slurm_wait *w, int64_t now)
{
    int64_t age = now - w->begun, gap = age < 60000 ? SOON_MS : LATER_MS;

    return *w->job && age >= FIRST_MS && (!w->asked || now - w->asked >= gap);
}

int slurm_wait_look(struct slurm_wait *w, struct err *err)
{
    char before[sizeof(w->state) + sizeof(w->reason)];
    struct str text = STR_INIT;
    int64_t now = clock_ms();
    int news;

    if (!is_time(w, now)) {
        if (w->asked)
            tell(w, 0);
        return 0;
    }
    snprintf(before, sizeof(before), "%s%s", w->state, w->reason);
    if (slurm_ask(SLURM_ASK_JOB, w->job, ASK_MS, &text, NULL) < 0 || !text.len ||
        slurm_wait_read(w, text.text) < 0)
        snprintf(w->reason, sizeof(w->reason), "Slurm's controller does not answer");
    str_release(&text);
    w->asked = clock_ms();
    news = strncmp(before, w->state, strlen(w->state)) != 0 ||
           strcmp(before + strlen(w->state), w->reason) != 0;
    if (is_never(w, err))
        return -1;
    tell(w, news);
    if (!w->looked && w->asked - w->begun >= LOOK_MS)
        look_at_nodes(w);
    return 0;
}
