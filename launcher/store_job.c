#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/js.h"
#include "launcher/process.h"
#include "launcher/store_db.h"

int store_run_waits(struct store *s, const char *id, const char *reason,
                    struct err *err)
{
    return store_run_sql(s, err,
                         "UPDATE runs SET state = 'pending', reason = ? WHERE id = ? "
                         "AND state IN ('pending', 'running')",
                         "tt", reason, id) < 0
               ? -1
               : 0;
}

int store_run_over(struct store *s, const char *id, const char *state, int status,
                   const char *reason, struct err *err)
{
    return store_run_sql(s, err,
                         "UPDATE runs SET state = ?, status = ?, cause = ?, reason = "
                         "?, ended = ? WHERE id = ? AND state IN ('pending', "
                         "'running')",
                         "tittdt", state, (int64_t)status, state, reason,
                         clock_wall_s(), id) < 0
               ? -1
               : 0;
}

struct js *store_open_jobs(struct store *s, struct err *err)
{
    struct js *rows = store_rows(s, err,
                                 "SELECT " STORE_RUN_COLUMNS
                                 " FROM runs WHERE job IS NOT NULL AND state IN "
                                 "('pending', 'running')",
                                 "");
    struct js *open = rows ? js_array() : NULL;

    for (size_t i = 0; i < js_len(rows); i++) {
        struct js *run = js_at(rows, i);
        if (js_get_int(run, "batch", 0) ||
            process_find(js_str(run, "process", "")) == PROCESS_REMOTE)
            js_push(open, js_ref(run));
    }
    js_free(rows);
    return open;
}
