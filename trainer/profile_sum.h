/* profile_sum.h - what recorded intervals add up to.  Pure.
 *
 * An event is something that ran from `from` to `to` (ns, one clock) on one rank's
 * device: a kernel, a copy, a collective; on a CPU an operation.  Events overlap. */
#ifndef TRAINER_PROFILE_SUM_H
#define TRAINER_PROFILE_SUM_H

#include <stdint.h>

enum profile_kind {
    PROFILE_DENSE,     /* products of whole matrices */
    PROFILE_EXPERTS,   /* products by expert, with gather and combine */
    PROFILE_ATTENTION, /* softmax(q k) v */
    PROFILE_ROUTER,
    PROFILE_ELEMENTWISE, /* norms, RoPE, activations, sums */
    PROFILE_EMBEDDING,
    PROFILE_LOSS,
    PROFILE_OPTIMIZER,
    PROFILE_MEMORY, /* copies, zeroes, to and from the host */
    PROFILE_COLLECTIVE,
    PROFILE_OTHER,
    N_PROFILE_KINDS
};

const char *profile_kind_name(enum profile_kind k); /* "dense products" */

/* What the trainer called: one operation, or one collective. */
struct profile_op {
    const char *name; /* "linear_fwd"; a literal */
    enum profile_kind kind;
    int64_t size[3];  /* products: rows, columns, depth; else 0 */
    double flops;     /* 0: not counted */
    int64_t bytes;    /* collectives: of the whole buffer; else 0 */
    double bus;       /* busbw / (bytes / time) of a collective, as nccl-tests counts */
    int64_t from, to; /* of the call on the host, ns */
};

struct profile_event {
    int64_t from, to; /* ns */
    int32_t track;    /* a stream of the device; 0 on a CPU */
    int32_t op;       /* index of the profile_op that queued it; -1: none known */
    enum profile_kind kind;
    const char *name; /* of the kernel, or NULL: the operation's; borrowed */
    int64_t bytes;    /* of a copy; else 0 */
};

struct span {
    int64_t from, to;
};

/* Sort, and merge what touches; returns how many are left. */
int spans_merge(struct span *s, int n);
int64_t spans_length(const struct span *s, int n); /* of merged spans */
/* Length of what lies in a and not in b; both merged. */
int64_t spans_outside(const struct span *a, int na, const struct span *b, int nb);

struct profile_totals {
    int64_t span_ns;                     /* of the profiled steps */
    int64_t kind_ns[N_PROFILE_KINDS];    /* some event of the kind runs */
    int64_t kind_calls[N_PROFILE_KINDS]; /* events */
    int64_t compute_ns;                  /* some event that is no collective runs */
    int64_t communication_ns;            /* some collective runs */
    int64_t exposed_ns;                  /* a collective runs and nothing else does */
    int64_t idle_ns;                     /* nothing runs */
};

/* Events that no call is known of (copies that a library queued from a thread of its own)
 * become collectives where every other event of their track is one. */
void profile_adopt(struct profile_event *events, int n);

/* Over events[n], cut to [from, to). */
void profile_sum(const struct profile_event *events, int n, int64_t from, int64_t to,
                 struct profile_totals *out);

/* Calls of the same operation with the same sizes. */
struct profile_row {
    const struct profile_op *op; /* the first of them */
    int calls;
    int64_t ns; /* of their events: for each call, while any of its events ran */
};

/* rows[n_ops] at most; longest first.  Only operations with flops (`products`), or only
 * collectives.  Returns how many. */
int profile_rows(const struct profile_event *events, int n,
                 const struct profile_op *ops, int n_ops, int products,
                 struct profile_row *rows);

#endif
