#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/js.h"
#include "base/str.h"
#include "launcher/run_state.h"

static void hand_on(struct run *run, const struct js *e)
{
    if (run->q->event && run->q->event(run->q->event_arg, e) != 0)
        run_end(run, ERR_FAILED, "stopped", -1,
                "stopped by the program that started it");
}

static void record(struct run *run, const struct js *e)
{
    char *line = js_line(e);

    fprintf(run->events, "%s\n", line);
    free(line);
    hand_on(run, e);
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
    if (str_eq(event, "task"))
        run_task_seen(run, rank, o);
    record(run, o);
    js_free(o);
}

/* Does the line begin with this rank, as our own programs write it? */
static int says_rank(const char *bytes, size_t n, int rank)
{
    char want[32];
    int len = snprintf(want, sizeof(want), "{\"rank\":%d,", rank);

    return (size_t)len < n && memcmp(bytes, want, (size_t)len) == 0;
}

/* The pipe says who speaks, whatever the line claims.  A line that claims the same is kept
 * as it came: to print it anew costs as much as to read it. */
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
    if (str_eq(js_str(e, "event", ""), "task"))
        run_task_seen(run, rank, e);
    if (rank == 0)
        run_result_event(run->result, e);
    if (says_rank(bytes, n, rank)) {
        while (n && (bytes[n - 1] == '\n' || bytes[n - 1] == '\r'))
            n--;
        fwrite(bytes, 1, n, run->events);
        fputc('\n', run->events);
        hand_on(run, e);
    } else {
        record(run, e);
    }
    js_free(e);
}
