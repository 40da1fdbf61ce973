#include "checks/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "topology/cost.h"

struct measure *measures_add(struct measures *l, const char *name, const char *object,
                             const char *node)
{
    struct measure *m;

    l->item = xrealloc(l->item, (size_t)l->n + 1, sizeof(*l->item));
    m = &l->item[l->n++];
    memset(m, 0, sizeof(*m));
    snprintf(m->name, sizeof(m->name), "%s", name);
    snprintf(m->object, sizeof(m->object), "%s", object);
    snprintf(m->node, sizeof(m->node), "%s", node);
    m->value = m->need = m->seconds = NAN;
    m->rail = m->round = -1;
    return m;
}

void measures_release(struct measures *l)
{
    for (int i = 0; i < l->n; i++) {
        free(l->item[i].times_ms);
        free(l->item[i].text);
    }
    free(l->item);
    memset(l, 0, sizeof(*l));
}

void measure_say(struct measure *m, const char *fmt, ...)
{
    va_list ap;

    free(m->text);
    va_start(ap, fmt);
    m->text = xvasprintf(fmt, ap);
    va_end(ap);
}

void measure_none(struct measure *m, const char *fmt, ...)
{
    va_list ap;

    m->value = NAN;
    free(m->text);
    va_start(ap, fmt);
    m->text = xvasprintf(fmt, ap);
    va_end(ap);
}

void measure_set(struct measure *m, double value, double need, const char *unit)
{
    m->value = value;
    m->need = need;
    snprintf(m->unit, sizeof(m->unit), "%s", unit);
}

/* --- JSON ------------------------------------------------------------------------ */

static void put_text(struct js *o, const char *key, const char *text)
{
    if (text && *text)
        js_put_str(o, key, text);
}

static void put_number(struct js *o, const char *key, double v)
{
    if (isinf(v))
        js_put_str(o, key, "unlimited");
    else if (!isnan(v))
        js_put_real(o, key, v);
}

static void put_pair(struct js *o, const struct measure *m)
{
    put_text(o, "peer", m->peer);
    put_text(o, "nic", m->nic);
    put_text(o, "peer_nic", m->peer_nic);
    put_text(o, "busid", m->busid);
    put_text(o, "peer_busid", m->peer_busid);
    if (m->rail >= 0)
        js_put_int(o, "rail", m->rail);
    if (m->round >= 0)
        js_put_int(o, "round", m->round);
}

struct js *measure_json(const struct measure *m)
{
    struct js *o = js_object(), *times;

    js_put_str(o, "name", m->name);
    js_put_str(o, "object", m->object);
    put_text(o, "node", m->node);
    put_text(o, "kind", m->kind);
    put_text(o, "device", m->device);
    put_text(o, "group", m->group);
    put_text(o, "op", m->op);
    put_text(o, "tier", m->tier);
    put_pair(o, m);
    if (m->ranks > 0) {
        js_put_int(o, "first", m->first);
        js_put_int(o, "ranks", m->ranks);
    }
    if (m->bytes > 0)
        js_put_int(o, "bytes", m->bytes);
    put_number(o, "value", m->value);
    put_number(o, "need", m->need);
    put_text(o, "unit", m->unit);
    put_number(o, "seconds", m->seconds);
    put_text(o, "text", m->text);
    if (m->n_times == 0)
        return o;
    times = js_array();
    for (int i = 0; i < m->n_times; i++)
        js_push(times, js_real(m->times_ms[i]));
    js_put(o, "times_ms", times);
    return o;
}

static double get_number(const struct js *o, const char *key)
{
    return str_eq(js_str(o, key, NULL), "unlimited") ? INFINITY
                                                     : js_get_real(o, key, NAN);
}

static void copy_text(char *to, size_t size, const struct js *o, const char *key)
{
    snprintf(to, size, "%s", js_str(o, key, ""));
}

static void get_pair(struct measure *m, const struct js *o)
{
    copy_text(m->peer, sizeof(m->peer), o, "peer");
    copy_text(m->nic, sizeof(m->nic), o, "nic");
    copy_text(m->peer_nic, sizeof(m->peer_nic), o, "peer_nic");
    copy_text(m->busid, sizeof(m->busid), o, "busid");
    copy_text(m->peer_busid, sizeof(m->peer_busid), o, "peer_busid");
    m->rail = (int)js_get_int(o, "rail", -1);
    m->round = (int)js_get_int(o, "round", -1);
}

int measures_add_json(struct measures *l, const struct js *o, struct err *err)
{
    const char *name = js_str(o, "name", NULL);
    struct js *times = js_get(o, "times_ms");
    struct measure *m;

    if (!name)
        return err_set(err, ERR_USAGE, "a measurement without a name");
    m = measures_add(l, name, js_str(o, "object", ""), js_str(o, "node", ""));
    copy_text(m->kind, sizeof(m->kind), o, "kind");
    copy_text(m->device, sizeof(m->device), o, "device");
    copy_text(m->group, sizeof(m->group), o, "group");
    copy_text(m->op, sizeof(m->op), o, "op");
    copy_text(m->tier, sizeof(m->tier), o, "tier");
    get_pair(m, o);
    copy_text(m->unit, sizeof(m->unit), o, "unit");
    m->first = (int)js_get_int(o, "first", 0);
    m->ranks = (int)js_get_int(o, "ranks", 0);
    m->bytes = js_get_int(o, "bytes", 0);
    m->value = get_number(o, "value");
    m->need = get_number(o, "need");
    m->seconds = get_number(o, "seconds");
    m->text = xstrdup(js_str(o, "text", NULL));
    m->n_times = (int)js_len(times);
    m->times_ms = xcalloc((size_t)m->n_times, sizeof(*m->times_ms));
    for (int i = 0; i < m->n_times; i++)
        m->times_ms[i] = js_as_real(js_at(times, (size_t)i), NAN);
    return 0;
}

/* --- statistics --------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double measure_median_ms(const struct measure *m)
{
    int n = m->n_times - 1;
    double *sorted, mid;

    if (n < 1)
        return NAN;
    sorted = xcalloc((size_t)n, sizeof(*sorted));
    memcpy(sorted, m->times_ms + 1, (size_t)n * sizeof(*sorted));
    qsort(sorted, (size_t)n, sizeof(*sorted), by_value);
    mid = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
    free(sorted);
    return mid;
}

double measure_best_ms(const struct measure *m)
{
    double best = NAN;

    for (int i = 1; i < m->n_times; i++)
        if (!(m->times_ms[i] >= best))
            best = m->times_ms[i];
    return best;
}

/* --- bandwidth ------------------------------------------------------------------------ */

/* Operations by nccl-tests' names and ours.  total: S counts every rank's part. */
static const struct {
    const char *name;
    enum collective c;
    int total;
} ops[] = {
    { "all_reduce", COLLECTIVE_ALL_REDUCE, 0 },
    { "all_gather", COLLECTIVE_ALL_GATHER, 1 },
    { "reduce_scatter", COLLECTIVE_REDUCE_SCATTER, 1 },
    { "broadcast", COLLECTIVE_BROADCAST, 0 },
    { "reduce", COLLECTIVE_REDUCE, 0 },
    { "alltoall", COLLECTIVE_ALL_TO_ALL, 1 },
    { "all_to_all", COLLECTIVE_ALL_TO_ALL, 1 },
    { "sendrecv", COLLECTIVE_SENDRECV, 0 },
};

static int find_op(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(ops); i++)
        if (str_eq(name, ops[i].name))
            return (int)i;
    return -1;
}

int64_t measure_total_bytes(const char *op, int ranks, int64_t count, int elem_bytes)
{
    int i = find_op(op);

    return i < 0 ? -1 : count * elem_bytes * (ops[i].total ? ranks : 1);
}

double measure_algbw(int64_t bytes, double seconds)
{
    return seconds > 0 ? (double)bytes / seconds / 1e9 : NAN;
}

double measure_busbw(const char *op, int ranks, int64_t bytes, double seconds)
{
    int i = find_op(op);

    if (i < 0)
        return NAN;
    return measure_algbw(bytes, seconds) * collective_bus_factor(ops[i].c, ranks);
}

double measure_gbytes(double value, const char *unit)
{
    static const struct {
        const char *unit;
        double gbytes;
    } units[] = {
        { "GB/s", 1 },         { "GiB/s", 1073741824e-9 }, { "Gb/s", 1.0 / 8 },
        { "Gbit/s", 1.0 / 8 }, { "MB/s", 1e-3 },           { "MiB/s", 1048576e-9 },
    };

    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (str_eq(unit, units[i].unit))
            return value * units[i].gbytes;
    return NAN;
}
