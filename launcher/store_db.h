/* store_db.h - the only door to SQLite: open, migrate, run a statement.
 * Inside launcher/store* only. */
#ifndef LAUNCHER_STORE_DB_H
#define LAUNCHER_STORE_DB_H

#include "launcher/store.h"

struct err;
struct js;

/* Of a row of runs, as readers get it. */
/* Of ranks that compute nothing, by a line of recipe_text(): 'true' or 'false'. */
#define STORE_SIMULATED                                                          \
    "CASE WHEN instr(recipe, char(10) || '  device: sim' || char(10)) > 0 THEN " \
    "'true' ELSE 'false' END AS simulated_json"
#define STORE_RUN_COLUMNS                                                         \
    "id, climb, name, state, status, cause, reason, world, started, ended, dir, " \
    "process, job, batch, result AS result_json, " STORE_SIMULATED

/* Run one statement.  `types` has a letter for each ? of it: t (const char *, NULL
 * is null), i (int64_t), d (double, NaN is null).  Rows are thrown away.
 * The value is the number of rows changed, or -1. */
int store_run_sql(struct store *s, struct err *err, const char *sql, const char *types,
                  ...);

/* The rows, as an array of objects; js_free().  A column called x_json is parsed
 * and becomes x.  NULL on failure. */
struct js *store_rows(struct store *s, struct err *err, const char *sql,
                      const char *types, ...);

/* Between the two, all or nothing; store_end() rolls back when rc is not 0 and
 * returns rc, or -1 when the commit fails. */
int store_begin(struct store *s, struct err *err);
int store_end(struct store *s, int rc, struct err *err);

#endif
