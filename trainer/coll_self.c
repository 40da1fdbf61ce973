/* coll_self.c - the collectives of a world of one rank, on any device. */
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "trainer/coll.h"
#include "trainer/ops.h"
#include "trainer/wireup.h"

struct coll {
    const struct ops *ops;
    struct dev *dev;
};

static int self_open(struct coll **out, struct wireup *w, const struct ops *ops,
                     struct dev *d, int timeout_ms, struct err *err)
{
    struct coll *c;

    (void)timeout_ms;
    if (w && wireup_self(w)->world != 1)
        return err_set(err, ERR_USAGE, "the collectives of one rank cannot serve %d",
                       wireup_self(w)->world);
    c = xcalloc(1, sizeof(*c));
    c->ops = ops;
    c->dev = d;
    *out = c;
    return 0;
}

static int self_split(struct coll *world, int color, int key, int stream,
                      const char *what, struct coll **out, struct err *err)
{
    (void)color, (void)key, (void)stream, (void)what;
    return self_open(out, NULL, world->ops, world->dev, 0, err);
}

static void self_close(struct coll *c)
{
    free(c);
}

static int self_rank(const struct coll *c)
{
    (void)c;
    return 0;
}

static int self_size(const struct coll *c)
{
    (void)c;
    return 1;
}

static size_t bytes_of(const struct coll *c, int64_t n, enum coll_type t)
{
    const size_t size[] = { c->ops->elem_bytes, 4, 8, 4, 1 };

    return (size_t)n * size[t];
}

static void self_copy(struct coll *c, void *dst, const void *src, size_t bytes)
{
    if (dst != src && bytes > 0)
        c->ops->copy(c->dev, dst, src, bytes);
}

static int self_all_gather(struct coll *c, struct coll_req **req, void *dst,
                           const void *src, int64_t n, enum coll_type t,
                           struct err *err)
{
    (void)err;
    *req = NULL;
    self_copy(c, dst, src, bytes_of(c, n, t));
    return 0;
}

static int self_reduce_scatter(struct coll *c, struct coll_req **req, float *dst,
                               const float *src, int64_t n, struct err *err)
{
    return self_all_gather(c, req, dst, src, n, COLL_F32, err);
}

static int self_all_reduce(struct coll *c, struct coll_req **req, void *buf, int64_t n,
                           enum coll_type t, struct err *err)
{
    (void)c, (void)buf, (void)n, (void)t, (void)err;
    *req = NULL;
    return 0;
}

static int self_broadcast(struct coll *c, struct coll_req **req, void *buf, int64_t n,
                          enum coll_type t, int root, struct err *err)
{
    if (root != 0)
        return err_set(err, ERR_USAGE, "broadcast from rank %d of one rank", root);
    return self_all_reduce(c, req, buf, n, t, err);
}

static int self_finish(struct coll *c, struct coll_req **req, struct err *err)
{
    (void)c, (void)err;
    *req = NULL;
    return 0;
}

static int self_barrier(struct coll *c, struct err *err)
{
    (void)c, (void)err;
    return 0;
}

static const char *self_version(void)
{
    return "none, one rank";
}

const struct coll_ops coll_self = {
    .name = "self",
    .open = self_open,
    .split = self_split,
    .close = self_close,
    .rank = self_rank,
    .size = self_size,
    .all_gather = self_all_gather,
    .reduce_scatter = self_reduce_scatter,
    .all_reduce = self_all_reduce,
    .broadcast = self_broadcast,
    .finish = self_finish,
    .barrier = self_barrier,
    .version = self_version,
};
