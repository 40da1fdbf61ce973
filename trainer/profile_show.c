/* A profile as a trace and as a table. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "trainer/profile.h"

enum { HOST_TRACK = -1, MOST_ROWS = 24 };

/* --- the trace ------------------------------------------------------------------------- */
static void put(FILE *fp, struct js *o, int *first)
{
    char *line = js_line(o);

    fprintf(fp, "%s%s", *first ? "" : ",\n", line);
    *first = 0;
    free(line);
    js_free(o);
}

static struct js *record(const char *ph, const char *name, int pid, int tid)
{
    struct js *o = js_object();

    js_put_str(o, "ph", ph);
    js_put_str(o, "name", name);
    js_put_int(o, "pid", pid);
    js_put_int(o, "tid", tid);
    return o;
}

static void put_name(FILE *fp, const char *what, int pid, int tid, const char *name,
                     int *first)
{
    struct js *o = record("M", what, pid, tid), *args = js_object();

    js_put_str(args, "name", name);
    js_put(o, "args", args);
    put(fp, o, first);
}

/* ts and dur are microseconds. */
static struct js *complete(const char *name, int pid, int tid, int64_t from, int64_t to)
{
    struct js *o = record("X", name, pid, tid);

    js_put_real(o, "ts", (double)from / 1e3);
    js_put_real(o, "dur", (double)(to - from) / 1e3);
    return o;
}

static struct js *op_args(const struct profile_op *op, int64_t ns)
{
    struct js *a = js_object();

    if (op->flops > 0) {
        js_put_int(a, "rows", op->size[0]);
        js_put_int(a, "columns", op->size[1]);
        js_put_int(a, "depth", op->size[2]);
        js_put_real(a, "gflop", op->flops / 1e9);
    }
    if (op->bytes > 0) {
        js_put_int(a, "bytes", op->bytes);
        js_put_real(a, "busbw_gb_s",
                    ns > 0 ? (double)op->bytes * op->bus / (double)ns : NAN);
    }
    return a;
}

static void put_event(FILE *fp, const struct profile_data *d,
                      const struct profile_event *e, int *first)
{
    const struct profile_op *op = e->op >= 0 ? &d->op[e->op] : NULL;
    struct js *o = complete(op ? op->name : e->name, d->rank, e->track,
                            e->from - d->from, e->to - d->from);
    struct js *args = op ? op_args(op, e->to - e->from) : js_object();

    js_put_str(o, "cat", profile_kind_name(e->kind));
    if (e->name)
        js_put_str(args, "kernel", e->name);
    if (e->bytes > 0)
        js_put_int(args, "copied", e->bytes);
    js_put(o, "args", args);
    put(fp, o, first);
}

static void put_host(FILE *fp, const struct profile_data *d, int *first)
{
    struct js *o;
    char *steps = xasprintf("steps %lld to %lld", (long long)d->first_step,
                            (long long)d->last_step);

    put_name(fp, "thread_name", d->rank, HOST_TRACK, "host", first);
    o = complete(steps, d->rank, HOST_TRACK, 0, d->to - d->from);
    put(fp, o, first);
    for (int i = 0; i < d->n_ops && !d->host_only; i++)
        if (d->op[i].to > 0)
            put(fp,
                complete(d->op[i].name, d->rank, HOST_TRACK, d->op[i].from - d->from,
                         d->op[i].to - d->from),
                first);
    free(steps);
}

static void put_tracks(FILE *fp, const struct profile_data *d, int *first)
{
    int tracks[64], n = 0;

    for (int i = 0; i < d->n_events; i++) {
        int at = 0;
        char *name;

        while (at < n && tracks[at] != d->event[i].track)
            at++;
        if (at < n || n == 64)
            continue;
        tracks[n++] = d->event[i].track;
        name = d->host_only ? xstrdup("operations")
                            : xasprintf("stream %d", d->event[i].track);
        put_name(fp, "thread_name", d->rank, d->event[i].track, name, first);
        free(name);
    }
}

int profile_write_trace(const struct profile_data *d, const char *path, struct err *err)
{
    FILE *fp = fopen(path, "we");
    char *name = xasprintf("rank %d (%s)", d->rank, d->device);
    int first = 1, bad;

    if (!fp) {
        free(name);
        return err_set(err, ERR_SYSTEM, "%s: cannot be written: %s", path,
                       strerror(errno));
    }
    fputs("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n", fp);
    put_name(fp, "process_name", d->rank, 0, name, &first);
    put_tracks(fp, d, &first);
    put_host(fp, d, &first);
    for (int i = 0; i < d->n_events; i++)
        put_event(fp, d, &d->event[i], &first);
    fputs("\n]}\n", fp);
    free(name);
    bad = ferror(fp);
    if (fclose(fp) != 0 || bad)
        return err_set(err, ERR_SYSTEM, "%s: cannot be written: %s", path,
                       strerror(errno));
    return 0;
}

/* --- the table -------------------------------------------------------------------------- */
static void add_kinds(struct str *s, const struct profile_totals *t, double steps)
{
    double span = (double)t->span_ns;

    str_addf(s, "  %-24s %10s %8s %10s\n", "kind", "ms a step", "% of it", "events");
    for (int k = 0; k < N_PROFILE_KINDS; k++)
        if (t->kind_calls[k])
            str_addf(s, "  %-24s %10.3f %8.1f %10.0f\n",
                     profile_kind_name((enum profile_kind)k),
                     (double)t->kind_ns[k] / 1e6 / steps,
                     100 * (double)t->kind_ns[k] / span,
                     (double)t->kind_calls[k] / steps);
    str_addf(
        s,
        "  computing %.3f ms a step; communicating %.3f, of it exposed %.3f (%.1f %% "
        "of the step); idle %.3f (%.1f %%)\n",
        (double)t->compute_ns / 1e6 / steps, (double)t->communication_ns / 1e6 / steps,
        (double)t->exposed_ns / 1e6 / steps, 100 * (double)t->exposed_ns / span,
        (double)t->idle_ns / 1e6 / steps, 100 * (double)t->idle_ns / span);
}

static void add_products(struct str *s, const struct profile_data *d,
                         struct profile_row *rows, double steps)
{
    int n = profile_rows(d->event, d->n_events, d->op, d->n_ops, 1, rows);

    str_addf(s, "  %-16s %22s %9s %10s %9s\n", "products", "rows x columns x depth",
             "a step", "ms each", "TFLOP/s");
    for (int i = 0; i < n && i < MOST_ROWS; i++) {
        const struct profile_op *op = rows[i].op;
        char *size = xasprintf("%lld x %lld x %lld", (long long)op->size[0],
                               (long long)op->size[1], (long long)op->size[2]);

        str_addf(s, "  %-16s %22s %9.1f %10.4f %9.2f\n", op->name, size,
                 rows[i].calls / steps, (double)rows[i].ns / 1e6 / rows[i].calls,
                 rows[i].ns ? op->flops * rows[i].calls / ((double)rows[i].ns * 1e3)
                            : 0);
        free(size);
    }
}

static void add_collectives(struct str *s, const struct profile_data *d,
                            struct profile_row *rows, double steps)
{
    int n = profile_rows(d->event, d->n_events, d->op, d->n_ops, 0, rows);

    if (n > 0)
        str_addf(s, "  %-16s %22s %9s %10s %9s\n", "collectives", "MiB", "a step",
                 "ms each", "busbw GB/s");
    for (int i = 0; i < n && i < MOST_ROWS; i++) {
        const struct profile_op *op = rows[i].op;

        str_addf(s, "  %-16s %22.3f %9.1f %10.4f %9.2f\n", op->name,
                 (double)op->bytes / 1048576, rows[i].calls / steps,
                 (double)rows[i].ns / 1e6 / rows[i].calls,
                 rows[i].ns
                     ? (double)op->bytes * op->bus * rows[i].calls / (double)rows[i].ns
                     : 0);
    }
}

char *profile_text(const struct profile_data *d)
{
    double steps = (double)(d->last_step - d->first_step + 1);
    double each = (double)(d->to - d->from) / 1e6 / steps;
    struct profile_row *rows = xcalloc((size_t)d->n_ops + 1, sizeof(*rows));
    struct profile_totals t;
    struct str s = STR_INIT;

    profile_sum(d->event, d->n_events, d->from, d->to, &t);
    str_addf(&s, "profile of rank %d (%s), steps %lld to %lld: %.3f ms a step\n",
             d->rank, d->device, (long long)d->first_step, (long long)d->last_step,
             each);
    add_kinds(&s, &t, steps);
    add_products(&s, d, rows, steps);
    add_collectives(&s, d, rows, steps);
    if (isnan(d->others_s))
        str_adds(&s, "  overhead: not known, every step was profiled\n");
    else
        str_addf(&s, "  overhead: %.1f %% (other steps take %.3f ms)\n",
                 100 * (each / (d->others_s * 1e3) - 1), d->others_s * 1e3);
    if (d->host_only)
        str_adds(&s,
                 "  a CPU has no kernels to record: these are the calls themselves\n");
    if (d->dropped)
        str_addf(&s, "  %lld records found no room: profile fewer steps\n",
                 (long long)d->dropped);
    free(rows);
    return str_take(&s);
}
