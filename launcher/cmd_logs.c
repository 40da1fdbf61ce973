/* muster logs - the output of a run's ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/js.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/cmd.h"
#include "launcher/logs.h"
#include "launcher/settle.h"
#include "launcher/store.h"
#include "recipes/value.h"

enum { POLL_US = 200000, ASK_MS = 3000 };

struct options {
    const char *run;
    int64_t rank;
    int follow;
};

/* clang-format off */
static const struct argp_option table[] = {
    { "rank", 'r', "R", 0, "of this rank only", 0 },
    { "follow", 'f', NULL, 0, "go on until the run ends", 0 },
    { 0 },
};
/* clang-format on */

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;

    switch (key) {
    case 'r':
        if (value_int64(arg, &o->rank, NULL) < 0 || o->rank < 0 ||
            o->rank > INT32_MAX) {
            argp_error(state, "--rank '%s' is not a rank", arg);
            return EINVAL;
        }
        return 0;
    case 'f':
        o->follow = 1;
        return 0;
    case ARGP_KEY_ARG:
        if (o->run) {
            argp_error(state, "one run at a time; '%s' is a second", arg);
            return EINVAL;
        }
        o->run = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* While it is followed: its row of the store, and now and then what Slurm says. */
struct follow {
    struct store *s;
    const char *id;
    struct js *row;
    char told[200];
    int64_t ask_at;
};

static void tell(struct follow *f)
{
    const char *state = js_str(f->row, "state", "");
    char text[sizeof(f->told)];

    snprintf(text, sizeof(text), "%s", js_str(f->row, "reason", "submitted"));
    if (!str_eq(state, "pending") || str_eq(text, f->told))
        return;
    snprintf(f->told, sizeof(f->told), "%s", text);
    log_info("%s is pending: %s", f->id, text);
}

static int goes_on(struct follow *f)
{
    struct js *row;

    if (clock_ms() >= f->ask_at) {
        settle_one(f->s, f->row);
        f->ask_at = clock_ms() + ASK_MS;
    }
    row = store_run(f->s, f->id, NULL);
    if (row) {
        js_free(f->row);
        f->row = row;
    }
    tell(f);
    return settle_goes_on(f->row);
}

/* Not one line: is that all there is to say? */
static int complain(const struct options *o, const struct js *run, struct err *err)
{
    const char *id = js_str(run, "id", "?"), *dir = js_str(run, "dir", "");
    long long world = js_get_int(run, "world", 1);

    if (str_eq(js_str(run, "state", ""), "pending"))
        return err_set(err, ERR_MISSING, "%s has no output yet, it is pending: %s", id,
                       js_str(run, "reason", "submitted"));
    if (o->rank >= world)
        return err_set(err, ERR_MISSING,
                       "%s has no output of rank %lld: it has ranks 0 "
                       "to %lld",
                       id, (long long)o->rank, world - 1);
    return access(dir, F_OK) < 0 ? err_set(err, ERR_MISSING, "no output: %s: %m", dir)
                                 : 0;
}

static int show(const struct options *o, struct follow *f, struct err *err)
{
    struct logs *l = logs_open(js_str(f->row, "dir", ""), (int)o->rank);
    int more, rc, n;

    do {
        more = o->follow && goes_on(f); /* before reading: nothing is missed */
        rc = logs_write(l, stdout, !more, err) < 0 ? -1 : 0;
        if (more && rc == 0)
            usleep(POLL_US);
    } while (more && rc == 0);
    n = logs_count(l);
    logs_close(l);
    return rc == 0 && n == 0 ? complain(o, f->row, err) : rc;
}

static int show_run(const struct options *o, struct store *s, struct err *err)
{
    struct follow f = { .s = s };
    char *id = NULL;
    int is_climb = 0, rc;

    if (store_find(s, o->run ? o->run : "last", &id, &is_climb, err) < 0)
        return -1;
    if (is_climb)
        rc = err_set(err, ERR_USAGE,
                     "%s is a climb; `muster report %s` names its runs, `muster runs "
                     "--all` lists them",
                     id, id);
    else {
        f.id = id;
        f.row = store_run(s, id, err);
        rc = f.row ? show(o, &f, err) : -1;
    }
    js_free(f.row);
    free(id);
    return rc;
}

static int run(int argc, char **argv, struct err *err)
{
    static const struct argp argp = {
        table,
        parse,
        "[RUN]",
        "Show what the ranks of RUN wrote.  RUN: an id, its beginning, or `last` (the "
        "default).",
        NULL,
        NULL,
        NULL
    };
    struct options o = { .rank = -1 };
    struct store *s = NULL;
    int rc = cmd_parse(&argp, argc, argv, &o, err);

    if (rc != 0)
        return rc < 0 ? -1 : 0;
    if (store_open_to_read(NULL, &s, err) < 0)
        return -1;
    rc = show_run(&o, s, err);
    store_close(s);
    return rc;
}

const struct cmd cmd_logs = { "logs", "show the output of a run", run, 0 };
