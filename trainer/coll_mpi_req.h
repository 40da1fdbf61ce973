/* coll_mpi_req.h - internal: collectives over MPI as rounds of nonblocking
 * messages.
 *
 * A request posts a round of sends and receives; when all are done its step()
 * works on what came and posts the next round, until it says it is finished.
 * Whoever waits moves every request of the process on, so ranks may finish
 * requests in any order.  Messages of one request carry its own tag. */
#ifndef TRAINER_COLL_MPI_REQ_H
#define TRAINER_COLL_MPI_REQ_H

#include <mpi.h>
#include <stdint.h>

#include "base/err.h"
#include "trainer/coll.h"

/* What all communicators of the process share. */
struct coll_hub {
    struct coll_req *active; /* begun and not finished */
    const struct wireup *wireup;
    int users;
    int broken; /* a wait failed: no orderly end is possible */
};

struct coll {
    MPI_Comm comm;
    int rank, size;
    size_t elem_bytes;
    int timeout_ms;
    char what[48];
    int *world_rank; /* [size] */
    unsigned begun;  /* collectives so far: the tag */
    struct coll_hub *hub;
    void *spare; /* scratch of the last request, kept for the next */
    size_t spare_bytes;
};

struct coll_req {
    struct coll_req *next;
    struct coll *c;
    const char *name;
    int tag, finished;
    struct err err;                                   /* a step failed */
    int (*step)(struct coll_req *q, struct err *err); /* 1 finished, 0 posted, -1 */
    MPI_Request *mpi;
    int *peer; /* of mpi[i]: rank + 1 to receive from, -(rank + 1) sent to */
    int n, room;
    /* What the algorithms remember between rounds. */
    int round, phase, root;
    char *dst;
    const char *src;
    int64_t count, at, chunk; /* elements */
    size_t elem;              /* bytes of one */
    enum coll_type type;
    void *scratch;
    size_t scratch_bytes;
};

/* A request of the collective `name`, not yet posted. */
struct coll_req *req_new(struct coll *c, const char *name);
/* Scratch of at least this many bytes; ERR_SYSTEM when there is no memory. */
int req_scratch(struct coll_req *q, size_t bytes, struct err *err);
int req_send(struct coll_req *q, int to, const void *bytes, size_t n, struct err *err);
int req_receive(struct coll_req *q, int from, void *bytes, size_t n, struct err *err);
/* Run the first step; the request is active, or on failure gone. */
int req_begin(struct coll_req *q, struct coll_req **out, struct err *err);
/* Wait with the communicator's deadline; frees. */
int req_finish(struct coll_req *q, struct err *err);

/* MPI's own words. */
int coll_mpi_failed(int rc, const char *call, struct err *err);

/* dst[n] = x[0] + x[1] + ... + x[p-1], in that order; dst may be one of them. */
void coll_sum(enum coll_type t, void *dst, const void *const *x, int p, int64_t n);

/* --- coll_mpi_rounds.c --- */
enum { COLL_SMALL = 16 << 10 };
int begin_all_gather(struct coll *c, struct coll_req **req, void *dst, const void *src,
                     int64_t n, size_t elem, struct err *err);
int begin_broadcast(struct coll *c, struct coll_req **req, void *buf, int64_t n,
                    size_t elem, int root, struct err *err);
int begin_reduce_scatter(struct coll *c, struct coll_req **req, float *dst,
                         const float *src, int64_t n, struct err *err);
int begin_all_reduce(struct coll *c, struct coll_req **req, void *buf, int64_t n,
                     enum coll_type t, size_t elem, struct err *err);

#endif
