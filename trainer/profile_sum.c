#include "trainer/profile_sum.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static const char *const kind_names[] = {
    [PROFILE_DENSE] = "dense products",
    [PROFILE_EXPERTS] = "experts",
    [PROFILE_ATTENTION] = "attention",
    [PROFILE_ROUTER] = "router",
    [PROFILE_ELEMENTWISE] = "norms and elementwise",
    [PROFILE_EMBEDDING] = "embedding",
    [PROFILE_LOSS] = "loss",
    [PROFILE_OPTIMIZER] = "optimizer",
    [PROFILE_MEMORY] = "copies and zeroes",
    [PROFILE_COLLECTIVE] = "collectives",
    [PROFILE_OTHER] = "other",
};

const char *profile_kind_name(enum profile_kind k)
{
    return kind_names[k];
}

/* --- spans ------------------------------------------------------------------------- */
static int by_start(const void *a, const void *b)
{
    const struct span *x = a, *y = b;

    return (x->from > y->from) - (x->from < y->from);
}

int spans_merge(struct span *s, int n)
{
    int kept = 0;

    if (n > 1)
        qsort(s, (size_t)n, sizeof(*s), by_start);
    for (int i = 0; i < n; i++) {
        if (s[i].to <= s[i].from)
            continue;
        if (kept > 0 && s[i].from <= s[kept - 1].to) {
            if (s[i].to > s[kept - 1].to)
                s[kept - 1].to = s[i].to;
        } else {
            s[kept++] = s[i];
        }
    }
    return kept;
}

int64_t spans_length(const struct span *s, int n)
{
    int64_t sum = 0;

    for (int i = 0; i < n; i++)
        sum += s[i].to - s[i].from;
    return sum;
}

int64_t spans_outside(const struct span *a, int na, const struct span *b, int nb)
{
    int64_t both = 0;

    for (int i = 0, j = 0; i < na && j < nb;) {
        int64_t from = a[i].from > b[j].from ? a[i].from : b[j].from;
        int64_t to = a[i].to < b[j].to ? a[i].to : b[j].to;

        if (to > from)
            both += to - from;
        if (a[i].to < b[j].to)
            i++;
        else
            j++;
    }
    return spans_length(a, na) - both;
}

/* --- events without a call ------------------------------------------------------------ */
enum { MAX_TRACKS = 256 };

/* Bit 0: a call's collective was seen on the track, bit 1: another call's event. */
static void note_tracks(const struct profile_event *events, int n, int32_t *track,
                        unsigned *saw, int *tracks)
{
    *tracks = 0;
    for (int i = 0; i < n; i++) {
        int at = 0;

        if (events[i].op < 0)
            continue;
        while (at < *tracks && track[at] != events[i].track)
            at++;
        if (at == MAX_TRACKS)
            continue;
        if (at == *tracks) {
            track[(*tracks)++] = events[i].track;
            saw[at] = 0;
        }
        saw[at] |= events[i].kind == PROFILE_COLLECTIVE ? 1 : 2;
    }
}

void profile_adopt(struct profile_event *events, int n)
{
    int32_t track[MAX_TRACKS];
    unsigned saw[MAX_TRACKS];
    int tracks;

    note_tracks(events, n, track, saw, &tracks);
    for (int i = 0; i < n; i++)
        for (int t = 0; t < tracks && events[i].op < 0; t++)
            if (track[t] == events[i].track && saw[t] == 1)
                events[i].kind = PROFILE_COLLECTIVE;
}

/* --- totals -------------------------------------------------------------------------- */
struct picker {
    const struct profile_event *events;
    int n;
    int64_t from, to;
    struct span *out; /* [n] */
};

/* The merged spans of the kinds whose bits are in `kinds`. */
static int pick(const struct picker *p, unsigned kinds)
{
    int k = 0;

    for (int i = 0; i < p->n; i++) {
        const struct profile_event *e = &p->events[i];

        if (kinds >> e->kind & 1)
            p->out[k++] = (struct span){ e->from > p->from ? e->from : p->from,
                                         e->to < p->to ? e->to : p->to };
    }
    return spans_merge(p->out, k);
}

void profile_sum(const struct profile_event *events, int n, int64_t from, int64_t to,
                 struct profile_totals *out)
{
    const unsigned all = (1U << N_PROFILE_KINDS) - 1, coll = 1U << PROFILE_COLLECTIVE;
    struct span *a = xcalloc((size_t)n + 1, sizeof(*a));
    struct span *b = xcalloc((size_t)n + 1, sizeof(*b));
    struct picker p = { events, n, from, to, a }, q = { events, n, from, to, b };
    int na, nb;

    *out = (struct profile_totals){ .span_ns = to - from };
    for (unsigned k = 0; k < N_PROFILE_KINDS; k++)
        out->kind_ns[k] = spans_length(a, pick(&p, 1U << k));
    for (int i = 0; i < n; i++)
        out->kind_calls[events[i].kind]++;
    out->idle_ns = out->span_ns - spans_length(a, pick(&p, all));
    na = pick(&p, coll);
    nb = pick(&q, all & ~coll);
    out->communication_ns = spans_length(a, na);
    out->compute_ns = spans_length(b, nb);
    out->exposed_ns = spans_outside(a, na, b, nb);
    free(a);
    free(b);
}

/* --- calls of one kind and size --------------------------------------------------------- */
static int by_op(const void *a, const void *b)
{
    const struct profile_event *x = a, *y = b;

    return x->op != y->op ? (x->op > y->op) - (x->op < y->op)
                          : (x->from > y->from) - (x->from < y->from);
}

/* ns[op] = time during which any of its events ran. */
static void time_ops(const struct profile_event *events, int n, int n_ops, int64_t *ns)
{
    struct profile_event *sorted = xcalloc((size_t)n + 1, sizeof(*sorted));
    struct span *s = xcalloc((size_t)n + 1, sizeof(*s));

    memcpy(sorted, events, (size_t)n * sizeof(*sorted));
    qsort(sorted, (size_t)n, sizeof(*sorted), by_op);
    for (int i = 0; i < n;) {
        int op = sorted[i].op, k = 0;

        for (; i < n && sorted[i].op == op; i++)
            s[k++] = (struct span){ sorted[i].from, sorted[i].to };
        if (op >= 0 && op < n_ops)
            ns[op] = spans_length(s, spans_merge(s, k));
    }
    free(sorted);
    free(s);
}

static int same_call(const struct profile_op *a, const struct profile_op *b)
{
    return strcmp(a->name, b->name) == 0 && a->bytes == b->bytes &&
           memcmp(a->size, b->size, sizeof(a->size)) == 0;
}

static int longest_first(const void *a, const void *b)
{
    const struct profile_row *x = a, *y = b;

    return (x->ns < y->ns) - (x->ns > y->ns);
}

int profile_rows(const struct profile_event *events, int n,
                 const struct profile_op *ops, int n_ops, int products,
                 struct profile_row *rows)
{
    int64_t *ns = xcalloc((size_t)n_ops + 1, sizeof(*ns));
    int k = 0;

    time_ops(events, n, n_ops, ns);
    for (int i = 0; i < n_ops; i++) {
        int at = 0;

        if (products ? !(ops[i].flops > 0) : ops[i].kind != PROFILE_COLLECTIVE)
            continue;
        while (at < k && !same_call(rows[at].op, &ops[i]))
            at++;
        if (at == k)
            rows[k++] = (struct profile_row){ .op = &ops[i] };
        rows[at].calls++;
        rows[at].ns += ns[i];
    }
    qsort(rows, (size_t)k, sizeof(*rows), longest_first);
    free(ns);
    return k;
}
