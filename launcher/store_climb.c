#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/js.h"
#include "base/str.h"
#include "launcher/process.h"
#include "launcher/store_db.h"

#define CLIMB_COLUMNS                                                        \
    "id, name, state, process, started, ended, recipe, climbs.fingerprint, " \
    "options AS options_json, result AS result_json, " STORE_SIMULATED

int store_climb_start(struct store *s, const struct store_climb *c, struct err *err)
{
    char *self = process_self();
    int rc = store_begin(s, err);

    if (rc == 0) {
        rc = store_run_sql(s, err, "INSERT OR IGNORE INTO topologies VALUES (?, ?)",
                           "tt", c->fingerprint, c->topology);
        if (rc >= 0)
            rc = store_run_sql(
                s, err,
                "INSERT INTO climbs (id, name, state, process, started, recipe, "
                "fingerprint, options, versions) VALUES (?, ?, 'running', ?, ?, ?, ?, "
                "?, "
                "?)",
                "tttdtttt", c->id, c->name, self, clock_wall_s(), c->recipe,
                c->fingerprint, c->options, "{\"muster\": \"" MUSTER_VERSION "\"}");
        rc = store_end(s, rc < 0 ? -1 : 0, err);
    }
    free(self);
    return rc;
}

/* Look and take in one transaction, so that of two resumes one wins. */
static int take_over(struct store *s, const char *id, const char *self, struct err *err)
{
    struct js *climb = store_climb(s, id, err);
    int rc = climb ? 0 : -1;

    if (rc == 0 && str_eq(js_str(climb, "state", ""), "running") &&
        process_find(js_str(climb, "process", "")) != PROCESS_GONE)
        rc = err_set(err, ERR_FAILED,
                     "climb %s is still running: `muster stop %s` ends it", id, id);
    if (rc == 0)
        rc = store_run_sql(s, err,
                           "UPDATE climbs SET state = 'running', process = ?, "
                           "ended = NULL WHERE id = ?",
                           "tt", self, id);
    js_free(climb);
    return rc < 0 ? -1 : 0;
}

int store_climb_resume(struct store *s, const char *id, struct err *err)
{
    char *self = process_self();
    int rc = store_begin(s, err);

    if (rc == 0)
        rc = store_end(s, take_over(s, id, self, err), err);
    free(self);
    return rc;
}

int store_climb_end(struct store *s, const char *id, const char *state,
                    const struct js *result, struct err *err)
{
    char *line = result ? js_line(result) : NULL;
    int n = store_run_sql(s, err,
                          "UPDATE climbs SET state = ?, ended = ?, result = ? "
                          "WHERE id = ?",
                          "tdtt", state, clock_wall_s(), line, id);

    free(line);
    return n < 0 ? -1 : 0;
}

struct js *store_climb(struct store *s, const char *id, struct err *err)
{
    struct js *rows = store_rows(
        s, err, "SELECT " CLIMB_COLUMNS " FROM climbs WHERE id = ?", "t", id);
    struct js *climb = NULL;

    if (rows && js_len(rows) == 0)
        err_set(err, ERR_MISSING, "no climb '%s': `muster runs` lists them", id);
    else if (rows)
        climb = js_ref(js_at(rows, 0));
    js_free(rows);
    return climb;
}

struct js *store_climbs(struct store *s, int limit, struct err *err)
{
    return store_rows(s, err,
                      "SELECT " CLIMB_COLUMNS " FROM climbs ORDER BY started DESC, id "
                      "DESC LIMIT ?",
                      "i", (int64_t)(limit > 0 ? limit : -1));
}

int store_trial_put(struct store *s, const char *climb, const struct store_trial *t,
                    struct err *err)
{
    char *line = t->result ? js_line(t->result) : NULL;
    int n = store_run_sql(
        s, err, "INSERT OR REPLACE INTO trials VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)",
        "tiiittttdddtd", climb, t->gpus, t->candidate, t->attempt, t->settings,
        t->state, t->reason, t->run, t->predicted, t->tokens_per_s_per_gpu,
        t->memory_percent, line, clock_wall_s());

    free(line);
    return n < 0 ? -1 : 0;
}

struct js *store_trials(struct store *s, const char *climb, struct err *err)
{
    return store_rows(s, err,
                      "SELECT gpus, candidate, attempt, settings AS settings_json, "
                      "state, reason, run, predicted, tokens_per_s_per_gpu, "
                      "memory_percent, result AS result_json FROM trials "
                      "WHERE climb = ? ORDER BY gpus, candidate, attempt",
                      "t", climb);
}
