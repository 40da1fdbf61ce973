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
#include "launcher/store.h"
#include "recipes/value.h"

enum { POLL_US = 50000 };

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
    int64_t deadline = clock_ms() + timeout_s * 1000;

    for (;;) {
        struct js *row = look(s, id, is_climb, err);
        int running = row && str_eq(js_str(row, "state", ""), "running");
        int alive = row && process_find(js_str(row, "process", "")) == PROCESS_ALIVE;
        if (row && !(running && alive))
            printf("%s: %s\n", id, running ? "ended" : js_str(row, "state", "?"));
        js_free(row);
        if (!row || !(running && alive))
            return row ? 0 : -1;
        if (clock_ms() >= deadline)
            return err_set(err, ERR_TIMEOUT, "%s has not ended within %lld s", id,
                           (long long)timeout_s);
        usleep(POLL_US);
    }
}

static int stop(const struct options *o, struct store *s, struct err *err)
{
    struct js *row = NULL;
    char *id = NULL;
    int is_climb = 0, rc = -1;

    if (store_settle(s, err) < 0 || store_find(s, o->run, &id, &is_climb, err) < 0)
        return -1;
    row = look(s, id, is_climb, err);
    if (!row)
        goto out;
    if (!str_eq(js_str(row, "state", ""), "running")) {
        err_set(err, ERR_FAILED, "%s is not running: %s", id,
                js_str(row, "state", "?"));
        goto out;
    }
    rc = process_signal(js_str(row, "process", ""), SIGTERM, err);
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
