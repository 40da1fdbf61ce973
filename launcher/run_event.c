#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/js.h"
#include "base/str.h"
#include "launcher/pmix_server.h"
#include "launcher/run_state.h"

static void record(struct run *run, const struct js *e)
{
    char *line = js_line(e);

    fprintf(run->events, "%s\n", line);
    free(line);
    if (run->q->event && run->q->event(run->q->event_arg, e) != 0)
        run_end(run, ERR_FAILED, "stopped", -1,
                "stopped by the program that started it");
}

static struct js *own_event(int rank, const char *event)
{
    struct js *o = js_object();

    js_put_int(o, "rank", rank);
    js_put_real(o, "t", clock_wall_s());
    js_put_str(o, "event", event);
    return o;
}

void run_event_note(struct run *run, int rank, const char *event, struct js *fields)
{
    struct js *o = own_event(rank, event), *v;
    const char *key;

    for (size_t i = 0; fields && js_pair(fields, i, &key, &v); i++)
        js_put(o, key, js_ref(v));
    js_free(fields);
    record(run, o);
    js_free(o);
}

/* The pipe says who speaks, whatever the line claims. */
void run_event_line(struct run *run, int rank, const char *bytes, size_t n)
{
    struct js *e = NULL;

    if (js_parse(bytes, n, "event", &e, NULL) < 0 || !js_str(e, "event", NULL)) {
        struct js *o = js_object();
        js_put_int(o, "bytes", (int64_t)n);
        run_event_note(run, rank, "unreadable", o);
        js_free(e);
        return;
    }
    js_put_int(e, "rank", rank);
    watch_event(run->watch, rank, e, clock_ms());
    if (rank == 0)
        run_result_event(run->result, e);
    record(run, e);
    js_free(e);
}

static void note_abort(struct run *run, const struct pmixd_event *e)
{
    struct js *o = js_object();

    js_put_int(o, "status", e->status);
    js_put_str(o, "text", e->text);
    run_event_note(run, e->rank, "abort", o);
    watch_abort(run->watch, e->rank, e->status, e->text);
}

/* All ranks are on this node, so a fence is complete with this node's part, and
 * nobody has data that this server has not. */
void run_event_pmix(struct run *run, struct pmixd_event *e)
{
    switch (e->what) {
    case PMIXD_CONNECTED:
        watch_pmix(run->watch, e->rank, WATCH_CONNECTED, clock_ms());
        run_event_note(run, e->rank, "connected", NULL);
        break;
    case PMIXD_FINALIZED:
        watch_pmix(run->watch, e->rank, WATCH_FINALIZED, clock_ms());
        run_event_note(run, e->rank, "finalized", NULL);
        break;
    case PMIXD_ABORTED:
        note_abort(run, e);
        break;
    case PMIXD_FENCE:
        pmixd_fence_done(e->ticket, 0, e->blob, e->blob_len);
        break;
    case PMIXD_MODEX:
        pmixd_modex_done(e->ticket, pmixd_not_found, NULL, 0);
        break;
    case PMIXD_FETCHED: /* nobody asked */
        break;
    }
    pmixd_event_free(e);
}
