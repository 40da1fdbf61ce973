#include "launcher/settle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/js.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/process.h"
#include "launcher/slurm_job.h"
#include "launcher/store.h"

enum { ASK_MS = 10000, LAST_BYTES = 4096 };

/* The last line that muster, the shell or Slurm wrote; "" none. */
static void last_words(const char *dir, char *out, size_t size)
{
    char *path = xasprintf("%s/launch.log", dir), text[LAST_BYTES + 1], *line;
    FILE *fp = fopen(path, "re");
    size_t n = 0;

    *out = '\0';
    free(path);
    if (!fp)
        return;
    if (fseek(fp, -LAST_BYTES, SEEK_END) < 0)
        rewind(fp);
    n = fread(text, 1, LAST_BYTES, fp);
    fclose(fp);
    while (n && (text[n - 1] == '\n' || text[n - 1] == ' '))
        n--;
    text[n] = '\0';
    line = strrchr(text, '\n');
    snprintf(out, size, "%.500s", line ? line + 1 : text);
}

static int over(struct store *s, const struct js *run, const struct slurm_job *job,
                struct err *err)
{
    static const struct {
        const char *slurm, *state, *text;
        int status;
    } ends[] = {
        { "CANCELLED", "cancelled", "was cancelled", ERR_FAILED },
        { "TIMEOUT", "timeout", "reached its time limit", ERR_TIMEOUT },
        { "NODE_FAIL", "node_fail", "lost a node", ERR_SYSTEM },
    };
    const char *id = js_str(run, "id", ""), *n = js_str(run, "job", "?");
    char *reason = NULL, words[512];
    int rc;

    for (size_t i = 0; i < ARRAY_LEN(ends); i++)
        if (strncmp(job->state, ends[i].slurm, strlen(ends[i].slurm)) == 0) {
            reason = xasprintf("Slurm's job %s %s%s", n, ends[i].text,
                               str_eq(js_str(run, "state", ""), "pending")
                                   ? " before it started"
                                   : "");
            rc = store_run_over(s, id, ends[i].state, ends[i].status, reason, err);
            free(reason);
            return rc;
        }
    last_words(js_str(run, "dir", ""), words, sizeof(words));
    if (job->phase == SLURM_JOB_UNKNOWN)
        reason = xasprintf("Slurm does not know job %s any more, and muster left no "
                           "result%s%s",
                           n, *words ? "; its last words: " : "", words);
    else
        reason = xasprintf("Slurm's job %s ended, %s%s%s%s%s", n, job->state,
                           str_eq(job->reason, "None") ? "" : ", ",
                           str_eq(job->reason, "None") ? "" : job->reason,
                           *words ? "; its last words: " : "", words);
    rc = store_run_over(s, id, job->phase == SLURM_JOB_UNKNOWN ? "lost" : "failed",
                        ERR_FAILED, reason, err);
    free(reason);
    return rc;
}

/* 1: muster's own result was there. */
static int take_result(struct store *s, const struct js *run, struct err *err)
{
    const char *id = js_str(run, "id", ""), *dir = js_str(run, "dir", "");
    char *path = xasprintf("%s/result.json", dir);
    char *events = xasprintf("%s/events.jsonl", dir);
    struct js *result = NULL;
    int rc = 0;

    if (js_load(path, &result, NULL) == 0)
        rc = store_steps_load(s, id, events, err) == 0 &&
                     store_run_end(s, id, result, err) == 0
                 ? 1
                 : -1;
    js_free(result);
    free(path);
    free(events);
    return rc;
}

static int judge(struct store *s, const struct js *run, const struct slurm_job *job,
                 struct err *err)
{
    const char *id = js_str(run, "id", "");
    int pending = str_eq(js_str(run, "state", ""), "pending"), rc = 0;
    char *reason = NULL;

    if (job->phase == SLURM_JOB_WAITS)
        reason = xasprintf("%s%s", job->restarts ? "requeued, " : "", job->reason);
    else if (job->phase == SLURM_JOB_RUNS && pending)
        reason = xstrdup("its job has started");
    if (reason)
        rc = store_run_waits(s, id, reason, err);
    free(reason);
    if (job->phase == SLURM_JOB_OVER || job->phase == SLURM_JOB_UNKNOWN) {
        rc = take_result(s, run, err); /* it may have come since we looked */
        if (rc == 0)
            rc = over(s, run, job, err);
    }
    return rc < 0 ? -1 : 0;
}

/* 0; -1: Slurm was not to be asked. */
static int ask(struct store *s, const struct js *run, struct err *err)
{
    struct slurm_job job;
    int rc = take_result(s, run, err);

    if (rc != 0)
        return rc < 0 ? -1 : 0;
    if (slurm_job_read(js_str(run, "job", ""), ASK_MS, &job, err) < 0)
        return -1;
    return judge(s, run, &job, err);
}

int settle(struct store *s, struct err *err)
{
    struct err why = ERR_INIT;
    struct js *jobs;
    int rc = store_settle(s, err);

    if (rc < 0 || store_cannot_write(s))
        return rc;
    jobs = store_open_jobs(s, err);
    for (size_t i = 0; i < js_len(jobs); i++)
        if (ask(s, js_at(jobs, i), &why) < 0) {
            log_warn("how the runs in Slurm's jobs stand is not known: %s",
                     err_text(&why));
            break;
        }
    err_release(&why);
    rc = jobs ? 0 : -1;
    js_free(jobs);
    return rc;
}

void settle_one(struct store *s, const struct js *row)
{
    if (js_str(row, "job", NULL) && settle_goes_on(row) && !store_cannot_write(s) &&
        (js_get_int(row, "batch", 0) ||
         process_find(js_str(row, "process", "")) == PROCESS_REMOTE))
        ask(s, row, NULL);
}

int settle_goes_on(const struct js *row)
{
    const char *state = js_str(row, "state", "");

    if (str_eq(state, "pending"))
        return 1;
    return str_eq(state, "running") &&
           (js_str(row, "job", NULL)
                ? process_find(js_str(row, "process", "")) != PROCESS_GONE ||
                      js_get_int(row, "batch", 0)
                : process_find(js_str(row, "process", "")) == PROCESS_ALIVE);
}
