#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/process.h"
#include "launcher/store_db.h"

/* `conflict`: what becomes of the row of the same run; "": there must be none. */
static int put(struct store *s, const struct store_run *r, const char *state,
               const char *conflict, struct err *err)
{
    char *self = process_self();
    char *sql = xasprintf(
        "INSERT INTO runs (id, climb, name, dir, state, process, world, started, "
        "recipe, command, fingerprint, placement, versions, job, batch) VALUES (?1, "
        "?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15) "
        "%s%s",
        *conflict ? "ON CONFLICT (id) DO " : "", conflict);
    int rc = store_run_sql(s, err, sql, "ttttttidttttttii", r->id, r->climb, r->name,
                           r->dir, state, self, (int64_t)r->world, clock_wall_s(),
                           r->recipe, r->command, r->fingerprint, r->placement,
                           "{\"muster\": \"" MUSTER_VERSION "\"}", r->job,
                           (int64_t)r->batch, (int64_t)r->again);

    free(sql);
    free(self);
    return rc < 0 ? -1 : 0;
}

int store_run_start(struct store *s, const struct store_run *r, struct err *err)
{
    static const char over[] =
        "UPDATE SET state = ?5, process = ?6, world = ?7, started = iif(?16, started, "
        "?8), ended = NULL, status = NULL, cause = NULL, reason = NULL, recipe = ?9, "
        "command = ?10, fingerprint = ?11, placement = ?12, versions = ?13, job = ?14";
    int rc;

    if (store_begin(s, err) < 0)
        return -1;
    rc = r->fingerprint
             ? store_run_sql(s, err, "INSERT OR IGNORE INTO topologies VALUES (?, ?)",
                             "tt", r->fingerprint, r->topology)
             : 0;
    if (rc >= 0)
        rc = put(s, r, "running", r->batch || r->again ? over : "", err);
    return store_end(s, rc, err);
}

int store_run_submit(struct store *s, const struct store_run *r, struct err *err)
{
    return put(s, r, "pending", "NOTHING", err);
}

static const char *end_state(const struct js *result)
{
    if (js_get_int(result, "status", 4) == 0)
        return "done";
    if (str_eq(js_str(result, "cause", ""), "limit"))
        return "timeout";
    return str_eq(js_str(result, "cause", ""), "stopped") ? "stopped" : "failed";
}

int store_run_end(struct store *s, const char *id, const struct js *result,
                  struct err *err)
{
    char *line = js_line(result);
    int n = store_run_sql(s, err,
                          "UPDATE runs SET state = ?, status = ?, cause = ?, "
                          "reason = ?, ended = ?, result = ? WHERE id = ?",
                          "tittdtt", end_state(result), js_get_int(result, "status", 4),
                          js_str(result, "cause", NULL), js_str(result, "reason", NULL),
                          clock_wall_s(), line, id);

    free(line);
    if (n == 0)
        return err_set(err, ERR_MISSING, "no run '%s' in the store", id);
    return n < 0 ? -1 : 0;
}

/* One line of events.jsonl. */
static int add_event(struct store *s, const char *id, const char *line, size_t len,
                     struct err *err)
{
    struct js *e = NULL;
    char *text;
    int rc = 0;

    if (!memmem(line, len, "\"step\"", 6) || js_parse(line, len, "event", &e, NULL) < 0)
        return 0;
    if (str_eq(js_str(e, "event", ""), "step") && js_get_int(e, "rank", -1) == 0 &&
        js_get_int(e, "step", -1) >= 0) {
        text = js_line(e);
        rc = store_run_sql(s, err, "INSERT OR IGNORE INTO steps VALUES (?, ?, ?)",
                           "tit", id, js_get_int(e, "step", 0), text);
        free(text);
    }
    js_free(e);
    return rc < 0 ? -1 : 0;
}

int store_steps_load(struct store *s, const char *id, const char *path, struct err *err)
{
    FILE *fp = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    int rc = 0;

    if (!fp)
        return errno == ENOENT ? 0 : err_set(err, ERR_SYSTEM, "%s: %m", path);
    if (store_begin(s, err) < 0) {
        fclose(fp);
        return -1;
    }
    while (rc == 0 && (n = getline(&line, &room, fp)) > 0)
        if (line[n - 1] == '\n')
            rc = add_event(s, id, line, (size_t)n, err);
    free(line);
    fclose(fp);
    return store_end(s, rc, err);
}

struct js *store_runs(struct store *s, const char *climb, int limit, struct err *err)
{
    return store_rows(s, err,
                      "SELECT " STORE_RUN_COLUMNS
                      " FROM runs WHERE ?1 IS NULL OR ifnull(climb, '') = ?1 "
                      "ORDER BY started DESC, id DESC LIMIT ?2",
                      "ti", climb, (int64_t)(limit > 0 ? limit : -1));
}

struct js *store_run(struct store *s, const char *id, struct err *err)
{
    struct js *rows =
        store_rows(s, err,
                   "SELECT " STORE_RUN_COLUMNS
                   ", recipe, command AS command_json, runs.fingerprint, "
                   "placement AS placement_json, versions AS versions_json, "
                   "topology AS topology_json FROM runs LEFT JOIN topologies "
                   "ON runs.fingerprint = topologies.fingerprint WHERE id = ?",
                   "t", id);
    struct js *run = NULL;

    if (rows && js_len(rows) == 0)
        err_set(err, ERR_MISSING, "no run '%s': `muster runs` lists them", id);
    else if (rows)
        run = js_ref(js_at(rows, 0));
    js_free(rows);
    return run;
}

struct js *store_steps(struct store *s, const char *id, struct err *err)
{
    return store_rows(s, err,
                      "SELECT step, metrics AS metrics_json FROM steps WHERE run = ? "
                      "ORDER BY step",
                      "t", id);
}

/* A run whose muster is gone. */
static int settle_one(struct store *s, const struct js *run, struct err *err)
{
    const char *id = js_str(run, "id", ""), *dir = js_str(run, "dir", "");
    char *events = xasprintf("%s/events.jsonl", dir);
    char *path = xasprintf("%s/result.json", dir);
    struct js *result = NULL;
    int rc = store_steps_load(s, id, events, err);

    if (rc == 0 && js_load(path, &result, NULL) == 0)
        rc = store_run_end(s, id, result, err);
    else if (rc == 0)
        rc = store_run_sql(s, err,
                           "UPDATE runs SET state = 'lost', ended = ?, cause = 'lost', "
                           "reason = 'the muster that watched it ended without a word' "
                           "WHERE id = ? AND state = 'running'",
                           "dt", clock_wall_s(), id);
    js_free(result);
    free(events);
    free(path);
    return rc < 0 ? -1 : 0;
}

static int settle_climbs(struct store *s, struct err *err)
{
    struct js *rows = store_rows(
        s, err, "SELECT id, process FROM climbs WHERE state = 'running'", "");
    int rc = rows ? 0 : -1;

    for (size_t i = 0; rc >= 0 && i < js_len(rows); i++) {
        const struct js *climb = js_at(rows, i);
        const char *process = js_str(climb, "process", "");
        if (process_find(process) == PROCESS_GONE) /* unless it was resumed since */
            rc = store_run_sql(s, err,
                               "UPDATE climbs SET state = 'stopped', ended = ? "
                               "WHERE id = ? AND process = ? AND state = 'running'",
                               "dtt", clock_wall_s(), js_str(climb, "id", ""), process);
    }
    js_free(rows);
    return rc < 0 ? -1 : 0;
}

int store_settle(struct store *s, struct err *err)
{
    struct js *rows;
    int rc;

    if (store_cannot_write(s))
        return 0;
    rows = store_rows(s, err,
                      "SELECT id, dir, process FROM runs WHERE state = 'running' AND "
                      "NOT batch",
                      "");
    rc = rows ? 0 : -1;

    for (size_t i = 0; rc == 0 && i < js_len(rows); i++) {
        const struct js *run = js_at(rows, i);
        if (process_find(js_str(run, "process", "")) == PROCESS_GONE)
            rc = settle_one(s, run, err);
    }
    js_free(rows);
    return rc < 0 ? -1 : settle_climbs(s, err);
}

int store_find(struct store *s, const char *word, char **id, int *is_climb,
               struct err *err)
{
    struct js *rows = store_rows(
        s, err,
        "SELECT id, climb FROM (SELECT id, 0 AS climb, started, climb IS NOT NULL AS "
        "trial FROM runs UNION ALL SELECT id, 1, started, 0 FROM climbs) "
        "WHERE (?1 = 'last' AND NOT trial) OR id = ?1 OR "
        "substr(id, 1, length(?1)) = ?1 ORDER BY id = ?1 DESC, started DESC LIMIT 2",
        "t", word);
    int exact, rc = -1;

    if (!rows)
        return -1;
    exact = str_eq(word, "last") || str_eq(js_str(js_at(rows, 0), "id", ""), word);
    if (js_len(rows) == 0 && str_eq(word, "last"))
        err_set(err, ERR_MISSING,
                "nothing ran yet: `muster launch RECIPE` starts a run");
    else if (js_len(rows) == 0)
        err_set(err, ERR_MISSING, "no run or climb '%s': `muster runs` lists them",
                word);
    else if (js_len(rows) > 1 && !exact)
        err_set(err, ERR_USAGE, "'%s' begins %s, %s and maybe more: write more of it",
                word, js_str(js_at(rows, 0), "id", ""),
                js_str(js_at(rows, 1), "id", ""));
    else
        rc = 0;
    if (rc == 0) {
        *id = xstrdup(js_str(js_at(rows, 0), "id", ""));
        *is_climb = (int)js_get_int(js_at(rows, 0), "climb", 0);
    }
    js_free(rows);
    return rc;
}
