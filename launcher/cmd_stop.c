/* muster stop - end a run or a climb from another terminal. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/cmd.h"
#include "launcher/process.h"
#include "launcher/settle.h"
#include "launcher/slurm_job.h"
#include "launcher/store.h"
#include "recipes/value.h"

enum { POLL_US = 50000, ASK_MS = 2000 };

struct options {
    const char *run;
    int64_t timeout_s;
};

/* clang-format off */
static const struct argp_option table[] = {
    { "timeout", 't', "TIME", 0, "wait so long for the end (60s)", 0 },
    { 0 },
};
/* clang-format on */

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;

    switch (key) {
    case 't':
        if (value_duration(arg, &o->timeout_s, NULL) < 0) {
            argp_error(state, "--timeout '%s' is not a duration (such as 90s)", arg);
            return EINVAL;
        }
        return 0;
    case ARGP_KEY_ARG:
        if (o->run) {
            argp_error(state, "one run at a time; '%s' is a second", arg);
            return EINVAL;
        }
        o->run = arg;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which run? `muster runs` lists them");
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static struct js *look(struct store *s, const char *id, int is_climb, struct err *err)
{
    return is_climb ? store_climb(s, id, err) : store_run(s, id, err);
}

/* Until the store says how it ended, or its muster is gone. */
static int wait_for_end(struct store *s, const char *id, int is_climb,
                        int64_t timeout_s, struct err *err)
{
    int64_t deadline = clock_ms() + timeout_s * 1000, ask_at = clock_ms() + ASK_MS;

    for (;;) {
        struct js *row = look(s, id, is_climb, err);
        int waits = row && settle_goes_on(row);
        if (row && !waits)
            printf("%s: %s\n", id,
                   str_eq(js_str(row, "state", ""), "running")
                       ? "ended"
                       : js_str(row, "state", "?"));
        if (waits && clock_ms() >= ask_at) {
            settle_one(s, row);
            ask_at = clock_ms() + ASK_MS;
        }
        js_free(row);
        if (!row || !waits)
            return row ? 0 : -1;
        if (clock_ms() >= deadline)
            return err_set(err, ERR_TIMEOUT, "%s has not ended within %lld s", id,
                           (long long)timeout_s);
        usleep(POLL_US);
    }
}

/* A job that waits is taken out of the queue; one that runs hears of it as any muster
 * does, so that its ranks can save. */
static int end_job(struct store *s, const struct js *row, struct err *err)
{
    const char *id = js_str(row, "id", ""), *job = js_str(row, "job", "");
    char *reason;
    int rc;

    if (!str_eq(js_str(row, "state", ""), "pending"))
        return slurm_job_signal(job, SIGTERM, err);
    if (slurm_job_cancel(job, err) < 0)
        return -1;
    reason = xasprintf("muster stop cancelled Slurm's job %s", job);
    rc = store_run_over(s, id, "cancelled", ERR_FAILED, reason, err);
    free(reason);
    return rc;
}

static int end(struct store *s, const struct js *row, struct err *err)
{
    if (js_get_int(row, "batch", 0))
        return end_job(s, row, err);
    return process_signal(js_str(row, "process", ""), SIGTERM, err);
}

static int stop(const struct options *o, struct store *s, struct err *err)
{
    struct js *row = NULL;
    char *id = NULL;
    const char *state;
    int is_climb = 0, rc = -1;

    if (settle(s, err) < 0 || store_find(s, o->run, &id, &is_climb, err) < 0)
        return -1;
    row = look(s, id, is_climb, err);
    if (!row)
        goto out;
    state = js_str(row, "state", "");
    if (!str_eq(state, "running") && !str_eq(state, "pending")) {
        err_set(err, ERR_FAILED, "%s is not running: %s", id, state);
        goto out;
    }
    rc = end(s, row, err);
    rc = rc < 0 ? err_wrap(err, "%s", id)
                : wait_for_end(s, id, is_climb, o->timeout_s, err);
out:
    js_free(row);
    free(id);
    return rc;
}

static int run(int argc, char **argv, struct err *err)
{
    static const struct argp argp = {
        table, parse,
        "RUN", "End RUN, a run or a climb: its ranks get SIGTERM, then SIGKILL.",
        NULL,  NULL,
        NULL
    };
    struct options o = { .timeout_s = 60 };
    struct store *s = NULL;
    int rc = cmd_parse(&argp, argc, argv, &o, err);

    if (rc != 0)
        return rc < 0 ? -1 : 0;
    if (store_open_to_read(NULL, &s, err) < 0)
        return -1;
    rc = stop(&o, s, err);
    store_close(s);
    return rc;
}

const struct cmd cmd_stop = { "stop", "end a run or a climb", run, 0 };
