#include "launcher/slurm_job.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/slurm_cmd.h"
#include "recipes/value.h"

#define FIELDS "State:|,Reason:|,RestartCnt:|,PreemptTime:|,TimeLeft:|"
enum { N_FIELDS = 5 };

static const struct {
    const char *state;
    enum slurm_job_phase phase;
} phases[] = {
    { "PENDING", SLURM_JOB_WAITS },       { "REQUEUED", SLURM_JOB_WAITS },
    { "REQUEUE_HOLD", SLURM_JOB_WAITS },  { "REQUEUE_FED", SLURM_JOB_WAITS },
    { "SPECIAL_EXIT", SLURM_JOB_WAITS },  { "SUSPENDED", SLURM_JOB_WAITS },
    { "RESV_DEL_HOLD", SLURM_JOB_WAITS }, { "CONFIGURING", SLURM_JOB_RUNS },
    { "RUNNING", SLURM_JOB_RUNS },        { "RESIZING", SLURM_JOB_RUNS },
    { "SIGNALING", SLURM_JOB_RUNS },      { "STAGE_OUT", SLURM_JOB_RUNS },
    { "STOPPED", SLURM_JOB_RUNS },        { "COMPLETING", SLURM_JOB_ENDS },
};

static enum slurm_job_phase phase_of(const char *state)
{
    for (size_t i = 0; i < ARRAY_LEN(phases); i++)
        if (str_eq(phases[i].state, state))
            return phases[i].phase;
    return SLURM_JOB_OVER;
}

/* "1-02:03:04", "3:04", "0:00"; UNLIMITED, NOT_SET, INVALID are none.  Slurm writes
 * the shortest form, whose last number is always seconds. */
static int64_t seconds_of(const char *text)
{
    int64_t s = 0, days = 0;
    char *end;

    if (*text < '0' || *text > '9')
        return -1;
    if (strchr(text, '-')) {
        days = strtol(text, &end, 10);
        text = end + 1;
    }
    for (;; text = end + 1) {
        s = s * 60 + strtol(text, &end, 10);
        if (*end != ':')
            break;
    }
    return days * 86400 + s;
}

int slurm_job_line(const char *line, struct slurm_job *out)
{
    char field[N_FIELDS][128];

    for (int i = 0; i < N_FIELDS; i++) {
        size_t n = strcspn(line, "|\n");
        if (line[n] != '|')
            return -1;
        snprintf(field[i], sizeof(field[i]), "%.*s", (int)n, line);
        line += n + 1;
    }
    *out = (struct slurm_job){ .phase = phase_of(field[0]),
                               .restarts = (int)strtol(field[2], NULL, 10),
                               .preempted = *field[3] && !str_eq(field[3], "N/A") &&
                                            !str_eq(field[3], "None"),
                               .time_left_s = seconds_of(field[4]) };
    snprintf(out->state, sizeof(out->state), "%.31s", field[0]);
    snprintf(out->reason, sizeof(out->reason), "%.95s", field[1]);
    return 0;
}

/* No such job: squeue fails when it was asked for one alone. */
static int is_unknown(const struct err *err)
{
    return err->code == ERR_FAILED && strstr(err_text(err), "nvalid job id");
}

int slurm_job_read(const char *id, int timeout_ms, struct slurm_job *out,
                   struct err *err)
{
    char *argv[] = { (char *)"squeue",
                     (char *)"--noheader",
                     (char *)"--states=all",
                     (char *)"--jobs",
                     (char *)id,
                     (char *)"--Format",
                     (char *)FIELDS,
                     NULL };
    struct str text = STR_INIT;
    struct err why = ERR_INIT;
    int rc = slurm_cmd_read(argv, timeout_ms, &text, &why);

    if (rc < 0 && is_unknown(&why)) {
        *out = (struct slurm_job){ .time_left_s = -1 };
        rc = 0;
    } else if (rc < 0) {
        err_set(err, why.code, "%s", err_text(&why));
    } else if (!text.len) {
        *out = (struct slurm_job){ .time_left_s = -1 };
    } else if (slurm_job_line(text.text, out) < 0) {
        rc = err_set(err, ERR_SYSTEM, "squeue says of job %s: '%.100s'", id, text.text);
    }
    err_release(&why);
    str_release(&text);
    return rc;
}

static int tell(char *const argv[], struct err *err)
{
    struct str out = STR_INIT;
    int rc = slurm_cmd_read(argv, SLURM_CMD_MS, &out, err);

    str_release(&out);
    return rc;
}

int slurm_job_requeue(const char *id, struct err *err)
{
    char *argv[] = { (char *)"scontrol", (char *)"requeue", (char *)id, NULL };

    return tell(argv, err);
}

int slurm_job_cancel(const char *id, struct err *err)
{
    char *argv[] = { (char *)"scancel", (char *)id, NULL };

    return tell(argv, err);
}

int slurm_job_signal(const char *id, int signo, struct err *err)
{
    char option[32];
    char *argv[] = { (char *)"scancel", (char *)"--batch", option, (char *)id, NULL };

    snprintf(option, sizeof(option), "--signal=%d", signo);
    return tell(argv, err);
}
