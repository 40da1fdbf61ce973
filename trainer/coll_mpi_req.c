#include "trainer/coll_mpi_req.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "trainer/wireup.h"

/* A piece stays below INT_MAX bytes, MPI's count. */
enum { PIECE = 1 << 30, TAGS = 30000 };
enum { SPINS = 64, YIELD_US = 200, NAP_MIN_US = 20, NAP_MAX_US = 1000 };

int coll_mpi_failed(int rc, const char *call, struct err *err)
{
    char text[MPI_MAX_ERROR_STRING];
    int n = 0;

    if (MPI_Error_string(rc, text, &n) != MPI_SUCCESS)
        snprintf(text, sizeof(text), "error %d", rc);
    return err_set(err, ERR_FAILED, "%s: %s", call, text);
}

struct coll_req *req_new(struct coll *c, const char *name)
{
    struct coll_req *q = xcalloc(1, sizeof(*q));

    q->c = c;
    q->name = name;
    q->tag = (int)(c->begun++ % TAGS);
    return q;
}

int req_scratch(struct coll_req *q, size_t bytes, struct err *err)
{
    struct coll *c = q->c;

    if (c->spare && c->spare_bytes >= bytes) {
        q->scratch = c->spare;
        q->scratch_bytes = c->spare_bytes;
        c->spare = NULL;
        return 0;
    }
    q->scratch = malloc(bytes ? bytes : 1);
    if (!q->scratch)
        return err_set(err, ERR_SYSTEM, "%s: no memory for %zu bytes of scratch",
                       q->name, bytes);
    q->scratch_bytes = bytes;
    return 0;
}

static void give_back_scratch(struct coll_req *q)
{
    struct coll *c = q->c;

    if (!q->scratch)
        return;
    free(c->spare);
    c->spare = q->scratch;
    c->spare_bytes = q->scratch_bytes;
    q->scratch = NULL;
}

static MPI_Request *new_message(struct coll_req *q, int peer)
{
    if (q->n == q->room) {
        q->room = q->room ? 2 * q->room : 2 * q->c->size;
        q->mpi = xrealloc(q->mpi, (size_t)q->room, sizeof(MPI_Request));
        q->peer = xrealloc(q->peer, (size_t)q->room, sizeof(*q->peer));
    }
    q->peer[q->n] = peer;
    return &q->mpi[q->n++];
}

int req_send(struct coll_req *q, int to, const void *bytes, size_t n, struct err *err)
{
    const char *p = bytes;

    while (n > 0) {
        size_t k = n < PIECE ? n : PIECE;
        int rc = MPI_Isend(p, (int)k, MPI_BYTE, to, q->tag, q->c->comm,
                           new_message(q, -(to + 1)));

        if (rc != MPI_SUCCESS) {
            q->n--;
            return coll_mpi_failed(rc, "MPI_Isend", err);
        }
        p += k;
        n -= k;
    }
    return 0;
}

int req_receive(struct coll_req *q, int from, void *bytes, size_t n, struct err *err)
{
    char *p = bytes;

    while (n > 0) {
        size_t k = n < PIECE ? n : PIECE;
        int rc = MPI_Irecv(p, (int)k, MPI_BYTE, from, q->tag, q->c->comm,
                           new_message(q, from + 1));

        if (rc != MPI_SUCCESS) {
            q->n--;
            return coll_mpi_failed(rc, "MPI_Irecv", err);
        }
        p += k;
        n -= k;
    }
    return 0;
}

/* Move one request on as far as it goes without waiting. */
static void advance(struct coll_req *q)
{
    while (!q->finished) {
        int done = 0, rc = MPI_Testall(q->n, q->mpi, &done, MPI_STATUSES_IGNORE);

        if (rc != MPI_SUCCESS) {
            coll_mpi_failed(rc, q->name, &q->err);
            q->finished = 1;
            return;
        }
        if (!done)
            return;
        q->n = 0;
        rc = q->step(q, &q->err);
        q->finished = rc != 0;
    }
}

int req_begin(struct coll_req *q, struct coll_req **out, struct err *err)
{
    struct coll_req **end = &q->c->hub->active;

    while (*end)
        end = &(*end)->next;
    *end = q;
    advance(q);
    if (q->err.code) {
        req_finish(q, err);
        *out = NULL;
        return -1;
    }
    *out = q;
    return 0;
}

static void add_rank(const struct coll *c, int rank, struct str *to)
{
    int world = c->world_rank ? c->world_rank[rank] : rank;
    const char *host = wireup_host(c->hub->wireup, world);

    str_addf(to, "%s%d%s%s%s", to->len ? ", " : "", world, *host ? " (" : "", host,
             *host ? ")" : "");
}

/* The ranks a round still waits for, receives first: who has not sent did not
 * come; who only has not taken may be busy. */
static int pending(struct coll_req *q, int sign, struct str *who)
{
    char *seen = xcalloc((size_t)q->c->size, 1);
    int count = 0;

    for (int i = 0; i < q->n; i++) {
        int rank = abs(q->peer[i]) - 1, done = 1;

        if (q->peer[i] * sign < 0 || seen[rank])
            continue;
        if (q->mpi[i] != MPI_REQUEST_NULL)
            MPI_Test(&q->mpi[i], &done, MPI_STATUS_IGNORE);
        if (done)
            continue;
        seen[rank] = 1;
        count++;
        add_rank(q->c, rank, who);
    }
    free(seen);
    return count;
}

static void report_late(struct coll_req *q, double waited_s, struct err *err)
{
    const char *how = "not heard from";
    struct str who = STR_INIT;
    int n = pending(q, 1, &who);

    if (n == 0) {
        how = "has not taken what was sent";
        n = pending(q, -1, &who);
    }
    err_set(err, ERR_TIMEOUT,
            "%s of group '%s' (%d ranks): %s within %.1f s: rank%s %s", q->name,
            q->c->what, q->c->size, how, waited_s, n == 1 ? "" : "s",
            who.text ? who.text : "?");
    str_release(&who);
    q->c->hub->broken = 1;
}

/* Spin briefly, then yield, then sleep for an eighth of the time waited. */
static void rest(int spins, double waited_s)
{
    double us = waited_s * 1e6 / 8;

    if (spins < SPINS)
        return;
    if (waited_s * 1e6 < YIELD_US) {
        sched_yield();
        return;
    }
    us = us < NAP_MIN_US ? NAP_MIN_US : us > NAP_MAX_US ? NAP_MAX_US : us;
    clock_nap_us((int64_t)us);
}

/* Receives are withdrawn; a send that MPI still holds cannot be. */
static void abandon(struct coll_req *q)
{
    for (int i = 0; i < q->n; i++) {
        if (q->mpi[i] == MPI_REQUEST_NULL)
            continue;
        if (q->peer[i] > 0)
            MPI_Cancel(&q->mpi[i]);
        MPI_Request_free(&q->mpi[i]);
    }
    q->c->hub->broken = 1;
}

static void req_free(struct coll_req *q)
{
    struct coll_req **at = &q->c->hub->active;

    while (*at && *at != q)
        at = &(*at)->next;
    if (*at)
        *at = q->next;
    give_back_scratch(q);
    err_release(&q->err);
    free(q->mpi);
    free(q->peer);
    free(q);
}

int req_finish(struct coll_req *q, struct err *err)
{
    double begun = clock_s(), waited = 0;
    int rc = 0;

    for (int spins = 0; !q->finished; spins++) {
        for (struct coll_req *a = q->c->hub->active; a; a = a->next)
            advance(a);
        waited = clock_s() - begun;
        if (q->finished)
            break;
        if (waited * 1000 > q->c->timeout_ms) {
            report_late(q, waited, &q->err);
            break;
        }
        rest(spins, waited);
    }
    if (q->err.code) {
        rc = err_set(err, q->err.code, "%s", err_text(&q->err));
        abandon(q);
    }
    req_free(q);
    return rc;
}

#define DEFINE_SUM(name, type)                                          \
    static void name(type *dst, const type *const *x, int p, int64_t n) \
    {                                                                   \
        type acc[1024];                                                 \
                                                                        \
        for (int64_t at = 0; at < n; at += 1024) {                      \
            int64_t k = n - at < 1024 ? n - at : 1024;                  \
                                                                        \
            memcpy(acc, x[0] + at, (size_t)k * sizeof(type));           \
            for (int r = 1; r < p; r++)                                 \
                for (int64_t i = 0; i < k; i++)                         \
                    acc[i] += x[r][at + i];                             \
            memcpy(dst + at, acc, (size_t)k * sizeof(type));            \
        }                                                               \
    }

DEFINE_SUM(sum_f32, float)
DEFINE_SUM(sum_f64, double)
DEFINE_SUM(sum_i32, int32_t)

void coll_sum(enum coll_type t, void *dst, const void *const *x, int p, int64_t n)
{
    if (t == COLL_F64)
        sum_f64(dst, (const double *const *)x, p, n);
    else if (t == COLL_I32)
        sum_i32(dst, (const int32_t *const *)x, p, n);
    else
        sum_f32(dst, (const float *const *)x, p, n);
}
