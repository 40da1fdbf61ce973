/* coll_mpi_rounds.c - the rounds of each collective.  Partners are visited from
 * the own rank upwards, so that not everyone talks to rank 0 first. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "trainer/coll_mpi_req.h"

static int partner(const struct coll *c, int i)
{
    return (c->rank + i) % c->size;
}

/* --- all_gather: one round, everyone to everyone ----------------------------- */

static int step_all_gather(struct coll_req *q, struct err *err)
{
    const struct coll *c = q->c;
    size_t bytes = (size_t)q->count * q->elem;

    if (q->round++ > 0)
        return 1;
    for (int i = 1; i < c->size; i++)
        if (req_receive(q, partner(c, c->size - i),
                        q->dst + bytes * (size_t)partner(c, c->size - i), bytes, err) ||
            req_send(q, partner(c, i), q->src, bytes, err))
            return -1;
    if (bytes > 0 && q->src != q->dst + bytes * (size_t)c->rank)
        memcpy(q->dst + bytes * (size_t)c->rank, q->src, bytes);
    return 0;
}

int begin_all_gather(struct coll *c, struct coll_req **req, void *dst, const void *src,
                     int64_t n, size_t elem, struct err *err)
{
    struct coll_req *q = req_new(c, "all_gather");

    q->step = step_all_gather;
    q->dst = dst;
    q->src = src;
    q->count = n;
    q->elem = elem;
    return req_begin(q, req, err);
}

/* --- broadcast: binomial tree -------------------------------------------------- */

/* Position v (0 the root) hears from v without its highest bit, and sends to
 * v + 2^k for every 2^k above that bit. */
static int step_broadcast(struct coll_req *q, struct err *err)
{
    const struct coll *c = q->c;
    size_t bytes = (size_t)q->count * q->elem;
    int v = (c->rank - q->root + c->size) % c->size, high = 1;

    while (high <= v)
        high *= 2;
    if (q->round++ == 0 && v > 0)
        return req_receive(q, (v - high / 2 + q->root) % c->size, q->dst, bytes, err);
    if (q->phase++ > 0)
        return 1;
    for (; v + high < c->size; high *= 2)
        if (req_send(q, (v + high + q->root) % c->size, q->dst, bytes, err))
            return -1;
    return 0;
}

int begin_broadcast(struct coll *c, struct coll_req **req, void *buf, int64_t n,
                    size_t elem, int root, struct err *err)
{
    struct coll_req *q = req_new(c, "broadcast");

    q->step = step_broadcast;
    q->dst = buf;
    q->count = n;
    q->elem = elem;
    q->root = root;
    return req_begin(q, req, err);
}

/* --- sums: rank j sums block j, a chunk a round ---------------------------------- */

static int64_t block_at(const struct coll_req *q, int j)
{
    return q->phase < 0 ? q->count * j : q->count * j / q->c->size;
}

static int64_t block_len(const struct coll_req *q, int j)
{
    return block_at(q, j + 1) - block_at(q, j);
}

static int64_t chunk_len(const struct coll_req *q, int j, int64_t at)
{
    int64_t left = block_len(q, j) - at;

    return left < 0 ? 0 : left < q->chunk ? left : q->chunk;
}

/* Where the chunk of rank r is received: slots in order of rank, own left out. */
static char *slot(const struct coll_req *q, int r)
{
    return (char *)q->scratch +
           (size_t)(r - (r > q->c->rank)) * (size_t)q->chunk * q->elem;
}

static int post_chunk(struct coll_req *q, struct err *err)
{
    const struct coll *c = q->c;
    size_t mine = (size_t)chunk_len(q, c->rank, q->at) * q->elem;

    for (int i = 1; i < c->size; i++) {
        int from = partner(c, c->size - i), to = partner(c, i);

        if (req_receive(q, from, slot(q, from), mine, err) ||
            req_send(q, to, q->src + (size_t)(block_at(q, to) + q->at) * q->elem,
                     (size_t)chunk_len(q, to, q->at) * q->elem, err))
            return -1;
    }
    return 0;
}

static void sum_chunk(struct coll_req *q, char *dst, const char *own, int64_t n)
{
    const struct coll *c = q->c;
    const void **x = xcalloc((size_t)c->size, sizeof(*x));

    for (int r = 0; r < c->size; r++)
        x[r] = r == c->rank ? own : slot(q, r);
    coll_sum(q->type, dst, x, c->size, n);
    free(x);
}

/* The longest block of any rank: all post the same number of rounds. */
static int64_t longest(const struct coll_req *q)
{
    return q->phase < 0 ? q->count : (q->count + q->c->size - 1) / q->c->size;
}

/* 1 when the last chunk is summed. */
static int step_chunks(struct coll_req *q, struct err *err)
{
    const struct coll *c = q->c;

    if (q->round++ > 0) {
        int64_t n = chunk_len(q, c->rank, q->at);
        int64_t place = block_at(q, c->rank) + q->at;

        sum_chunk(q, q->dst + (size_t)(q->phase < 0 ? q->at : place) * q->elem,
                  q->src + (size_t)place * q->elem, n);
        q->at += q->chunk;
    }
    if (q->at >= longest(q))
        return 1;
    return post_chunk(q, err);
}

static int prepare_chunks(struct coll_req *q, struct err *err)
{
    int64_t others = q->c->size - 1;
    int64_t most = COLL_SCRATCH / (int64_t)q->elem / (others ? others : 1);

    q->chunk = longest(q) < most ? longest(q) : most;
    if (q->chunk < 1)
        q->chunk = 1;
    return req_scratch(q, (size_t)(others * q->chunk) * q->elem, err);
}

static int begin_or_free(struct coll_req *q, int rc, struct coll_req **req,
                         struct err *err)
{
    if (rc == 0)
        return req_begin(q, req, err);
    free(q);
    return -1;
}

int begin_reduce_scatter(struct coll *c, struct coll_req **req, float *dst,
                         const float *src, int64_t n, struct err *err)
{
    struct coll_req *q = req_new(c, "reduce_scatter");

    q->step = step_chunks;
    q->phase = -1; /* blocks of n each; dst holds one */
    q->dst = (char *)dst;
    q->src = (const char *)src;
    q->count = n;
    q->elem = sizeof(float);
    q->type = COLL_F32;
    return begin_or_free(q, prepare_chunks(q, err), req, err);
}

/* --- all_reduce: small, everything to everyone; else sum blocks, then gather --- */

static int step_small(struct coll_req *q, struct err *err)
{
    const struct coll *c = q->c;
    size_t bytes = (size_t)q->count * q->elem;

    if (q->round++ > 0) {
        sum_chunk(q, q->dst, q->dst, q->count);
        return 1;
    }
    for (int i = 1; i < c->size; i++) {
        int from = partner(c, c->size - i);

        if (req_receive(q, from, slot(q, from), bytes, err) ||
            req_send(q, partner(c, i), q->dst, bytes, err))
            return -1;
    }
    return 0;
}

static int post_gather(struct coll_req *q, struct err *err)
{
    const struct coll *c = q->c;

    for (int i = 1; i < c->size; i++) {
        int from = partner(c, c->size - i);

        if (req_receive(q, from, q->dst + (size_t)block_at(q, from) * q->elem,
                        (size_t)block_len(q, from) * q->elem, err) ||
            req_send(q, partner(c, i), q->dst + (size_t)block_at(q, c->rank) * q->elem,
                     (size_t)block_len(q, c->rank) * q->elem, err))
            return -1;
    }
    return 0;
}

static int step_all_reduce(struct coll_req *q, struct err *err)
{
    int rc;

    if (q->phase == 1)
        return 1;
    rc = step_chunks(q, err);
    if (rc <= 0)
        return rc;
    q->phase = 1;
    return post_gather(q, err);
}

int begin_all_reduce(struct coll *c, struct coll_req **req, void *buf, int64_t n,
                     enum coll_type t, size_t elem, struct err *err)
{
    struct coll_req *q = req_new(c, "all_reduce");
    int small = n * (int64_t)elem * (c->size - 1) <= COLL_SMALL;
    int rc;

    q->step = small ? step_small : step_all_reduce;
    q->dst = buf;
    q->src = buf;
    q->count = n;
    q->elem = elem;
    q->type = t;
    if (small) {
        q->chunk = n;
        rc = req_scratch(q, (size_t)n * elem * (size_t)(c->size - 1), err);
    } else {
        rc = prepare_chunks(q, err);
    }
    return begin_or_free(q, rc, req, err);
}
