/* coll.h - collectives of the trainer: mpi (CPU) and nccl (CUDA), one seam.
 *
 * begin/finish: begin() takes buffers whose contents are ready once the work
 * queued so far on STREAM_COMPUTE is done; work queued on STREAM_COMPUTE after
 * finish() sees the result.  Between the two the buffers belong to the
 * collective.  NCCL: an event before and one after, on the communicator's own
 * stream.  MPI: nonblocking sends and receives, sleeping waits in finish(), and
 * sums in rank order, so results repeat bit for bit.
 *
 * Every rank of a communicator calls in the same order.  A wait has the
 * communicator's deadline; when it passes the message names the group and the
 * ranks not heard from, code ERR_TIMEOUT. */
#ifndef TRAINER_COLL_H
#define TRAINER_COLL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct err;
struct dev;
struct ops;
struct wireup;
struct coll;     /* one communicator */
struct coll_req; /* one collective in flight */

enum coll_type {
    COLL_ELEM /* ops->elem_bytes */,
    COLL_F32,
    COLL_F64,
    COLL_I32,
    COLL_BYTE
};

struct coll_ops {
    const char *name; /* "mpi", "nccl" */

    /* The world communicator.  timeout_ms: deadline of each wait. */
    int (*open)(struct coll **out, struct wireup *w, const struct ops *ops,
                struct dev *d, int timeout_ms, struct err *err);
    /* Ranks with the same color, ordered by key.  `stream`: enum stream. */
    int (*split)(struct coll *world, int color, int key, int stream, const char *what,
                 struct coll **out, struct err *err);
    void (*close)(struct coll *c);
    int (*rank)(const struct coll *c);
    int (*size)(const struct coll *c);

    /* dst[n * size] = every rank's src[n], in rank order; src may be its own
     * place in dst. */
    int (*all_gather)(struct coll *c, struct coll_req **req, void *dst, const void *src,
                      int64_t n, enum coll_type t, struct err *err);
    /* dst[n] = sum over ranks of their src[n * size] at this rank's place; dst
     * may be that place in src.  src is undefined afterwards. */
    int (*reduce_scatter)(struct coll *c, struct coll_req **req, float *dst,
                          const float *src, int64_t n, struct err *err);
    int (*all_reduce)(struct coll *c, struct coll_req **req, void *buf, int64_t n,
                      enum coll_type t, struct err *err); /* sum; F32, F64, I32 */
    int (*broadcast)(struct coll *c, struct coll_req **req, void *buf, int64_t n,
                     enum coll_type t, int root, struct err *err);
    /* Always frees *req and sets it to NULL. */
    int (*finish)(struct coll *c, struct coll_req **req, struct err *err);
    int (*barrier)(struct coll *c, struct err *err);

    /* The library that is loaded, "NCCL 2.28.3"; borrowed. */
    const char *(*version)(void);
};

/* The collectives that go with an ops table.  A world of one rank needs none:
 * the built-in "self" is returned for it, on any device. */
int coll_find(const struct ops *ops, int world, const struct coll_ops **out,
              struct err *err);

extern const struct coll_ops coll_self;

/* Host bytes one collective of the table `name` may hold beside the caller's
 * buffers, in a communicator of `ranks`: for the memory plan. */
enum { COLL_SCRATCH = 4 << 20 /* of MPI's */ };
int64_t coll_scratch_bytes(const char *name, int ranks);

#ifdef __cplusplus
}
#endif
#endif
