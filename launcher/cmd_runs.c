/* muster runs - what ran on this machine, newest first. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/cmd.h"
#include "launcher/settle.h"
#include "launcher/store.h"
#include "launcher/table.h"
#include "recipes/value.h"

struct options {
    int json, all;
    int64_t limit;
};

/* clang-format off */
static const struct argp_option table[] = {
    { "json", 'j', NULL, 0, "one object: runs and climbs", 0 },
    { "all", 'a', NULL, 0, "the trials of climbs too", 0 },
    { "limit", 'n', "N", 0, "the newest N of each (20); 0: all", 0 },
    { 0 },
};
/* clang-format on */

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;

    switch (key) {
    case 'j':
        o->json = 1;
        return 0;
    case 'a':
        o->all = 1;
        return 0;
    case 'n':
        if (value_int64(arg, &o->limit, NULL) < 0 || o->limit < 0 ||
            o->limit > 1000000) {
            argp_error(state, "--limit '%s' is not a number of runs", arg);
            return EINVAL;
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void add_when(struct table *t, double at)
{
    time_t seconds = (time_t)at;
    char text[32];
    struct tm tm;

    localtime_r(&seconds, &tm);
    strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
    table_add(t, "%s", text);
}

static void add_duration(struct table *t, const struct js *row)
{
    double end = js_get_real(row, "ended", clock_wall_s());
    int64_t s = (int64_t)(end - js_get_real(row, "started", end));

    table_add(t, "%lld:%02lld:%02lld", (long long)(s / 3600), (long long)(s / 60 % 60),
              (long long)(s % 60));
}

static void add_number(struct table *t, const struct js *o, const char *key,
                       const char *fmt)
{
    double v = js_get_real(o, key, NAN);
    char text[40];

    /* fmt is one of the literals below */
    if (isnan(v))
        snprintf(text, sizeof(text), "-");
    else if (str_eq(fmt, "loss"))
        snprintf(text, sizeof(text), "%.4f", v);
    else
        snprintf(text, sizeof(text), "%.0f", v);
    table_add(t, "%s", text);
}

static const char *simulated(const struct js *row)
{
    return js_get_bool(row, "simulated", 0) ? ", simulated" : "";
}

static void add_run(struct table *t, const struct js *run)
{
    const struct js *result = js_get(run, "result");

    table_add(t, "%s", js_str(run, "id", "?"));
    if (str_eq(js_str(run, "state", ""), "pending"))
        table_add(t, "pending, %s%s", js_str(run, "reason", "submitted"),
                  simulated(run));
    else
        table_add(t, "%s%s", js_str(run, "state", "?"), simulated(run));
    table_add(t, "%lld", (long long)js_get_int(run, "world", 0));
    add_when(t, js_get_real(run, "started", 0));
    add_duration(t, run);
    add_number(t, result, "steps", "count");
    add_number(t, result, "loss_last", "loss");
    add_number(t, result, "tokens_per_s_per_gpu", "count");
    table_end_row(t);
}

static void add_climb(struct table *t, const struct js *climb)
{
    const struct js *rungs = js_get(js_get(climb, "result"), "rungs");
    size_t n = js_len(rungs);

    table_add(t, "%s", js_str(climb, "id", "?"));
    table_add(t, "climb, %s%s", js_str(climb, "state", "?"), simulated(climb));
    if (n)
        table_add(t, "%lld", (long long)js_get_int(js_at(rungs, n - 1), "gpus", 0));
    else
        table_add(t, "-");
    add_when(t, js_get_real(climb, "started", 0));
    add_duration(t, climb);
    table_add(t, "-");
    table_add(t, "-");
    add_number(t, n ? js_at(rungs, n - 1) : NULL, "tokens_per_s_per_gpu", "count");
    table_end_row(t);
}

static void show_text(const struct js *runs, const struct js *climbs)
{
    static const char *const head[] = { "id",   "state", "ranks", "started",
                                        "took", "steps", "loss",  "tokens/s/GPU" };
    struct table t = { 0 };

    if (js_len(runs) + js_len(climbs) == 0) {
        puts("nothing ran yet: `muster launch RECIPE` starts a run");
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(head); i++)
        table_add(&t, "%s", head[i]);
    table_end_row(&t);
    for (size_t i = 0; i < js_len(climbs); i++)
        add_climb(&t, js_at(climbs, i));
    for (size_t i = 0; i < js_len(runs); i++)
        add_run(&t, js_at(runs, i));
    table_print(&t, stdout);
    table_release(&t);
}

static void show_json(struct js *runs, struct js *climbs)
{
    struct js *o = js_document("runs");

    js_put(o, "runs", js_ref(runs));
    js_put(o, "climbs", js_ref(climbs));
    js_print(o, stdout);
    js_free(o);
}

static int show(const struct options *o, struct store *s, struct err *err)
{
    struct js *climbs = store_climbs(s, (int)o->limit, err);
    struct js *runs =
        climbs ? store_runs(s, o->all ? NULL : "", (int)o->limit, err) : NULL;
    int rc = runs ? 0 : -1;

    if (runs && o->json)
        show_json(runs, climbs);
    else if (runs)
        show_text(runs, climbs);
    js_free(climbs);
    js_free(runs);
    return rc;
}

static int run(int argc, char **argv, struct err *err)
{
    static const struct argp argp = {
        table, parse, NULL, "List runs and climbs, newest first.", NULL, NULL, NULL
    };
    struct options o = { .limit = 20 };
    struct store *s = NULL;
    int rc = cmd_parse(&argp, argc, argv, &o, err);

    if (rc != 0)
        return rc < 0 ? -1 : 0;
    if (store_open_to_read(NULL, &s, err) < 0)
        return -1;
    rc = settle(s, err);
    if (rc == 0)
        rc = show(&o, s, err);
    store_close(s);
    return rc;
}

const struct cmd cmd_runs = { "runs", "list runs and climbs", run, 0 };
