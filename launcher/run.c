#include "launcher/run.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/js.h"
#include "base/log.h"
#include "base/mem.h"
#include "launcher/backend.h"
#include "launcher/echo.h"
#include "launcher/guard.h"
#include "launcher/output.h"
#include "launcher/run_dir.h"
#include "launcher/run_limit.h"
#include "launcher/run_state.h"
#include "launcher/store.h"
#include "launcher/sweep.h"
#include "recipes/recipe.h"
#include "topology/place.h"

enum { READER_MS = 5000 };

static void end_echo(struct run *run)
{
    long lost = echo_close(run->echo, READER_MS);

    run->echo = NULL;
    if (lost)
        log_warn(
            "%ld lines of output were not shown, the reader was too slow; they are "
            "in %s/ranks",
            lost, run->dir);
}

static void close_outputs(struct run *run)
{
    struct err err = ERR_INIT;

    for (int r = 0; r < run->world; r++) {
        if (output_close(run->rank[r].output, &err) < 0)
            log_warn("output of rank %d is not complete: %s", r, err_text(&err));
        err_release(&err);
        proc_close(&run->rank[r].proc);
        str_release(&run->rank[r].events.held);
    }
}

static void close_fd(int fd)
{
    if (fd > 0)
        close(fd);
}

static void release(struct run *run)
{
    end_echo(run);
    close_outputs(run);
    if (run->backend)
        run->backend->close(run);
    watch_free(run->watch);
    if (run->events)
        fclose(run->events);
    close_fd(run->epoll);
    close_fd(run->outputs);
    if (run->signals > 0)
        proc_restore(&run->before);
    close_fd(run->signals);
    free(run->rank);
    free(run->plan);
    free(run->id);
    free(run->dir);
    free(run->mark);
}

/* The run went well unless something ended it. */
static void conclude(struct run *run, struct run_result *r)
{
    struct err err = ERR_INIT;
    struct js *o;

    if (!*r->cause)
        snprintf(r->cause, sizeof(r->cause), "ok");
    if (run->q->part) {
        fflush(run->events);
        run_result_whole(r);
    }
    run_limit_conclude(run);
    if (r->requeued)
        return;
    o = run_result_json(r);
    if (run_dir_write_json(run->dir, "result.json", o, &err) < 0)
        log_warn("the result is not saved: %s", err_text(&err));
    err_release(&err);
    js_free(o);
    store_note_end(r);
}

int run_is_simulated(const struct run_request *q)
{
    return q->recipe && !q->command && q->recipe->cluster.device == DEVICE_SIM;
}

int run_execute(const struct run_request *q, struct run_result *result, struct err *err)
{
    struct run run = { .q = q, .result = result, .world = q->placement->world };
    int rc;

    sweep_adopt();
    *result = (struct run_result){ 0 };
    run.rank = xcalloc((size_t)run.world, sizeof(*run.rank));
    for (int r = 0; r < run.world; r++)
        run.rank[r].proc = (struct proc){ .out = -1, .err = -1, .event = -1 };
    rc = run_start(&run, err);
    if (rc == 0) {
        run_loop(&run);
        conclude(&run, result);
    } else {
        if (run.dir && !q->part)
            guard_remove_tree(run.dir);
        run_result_release(result);
    }
    release(&run);
    return rc;
}
