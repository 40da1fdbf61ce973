/* coll_nccl.c - the door to NCCL: communicators of GPU ranks.
 *
 * A collective waits for what the compute stream holds, runs on its communicator's
 * stream, and leaves an event that finish() makes the compute stream wait for; the
 * host waits for none of it.  Communicators are made in a thread, so that making one
 * has a deadline.  Another thread watches what is in flight: when a collective takes
 * longer than the deadline, or NCCL reports an error, every communicator is aborted
 * (the kernels end, the host wakes up) and the device's sticky error says which group,
 * which collective, and which ranks did not come to the roll call after it.
 *
 * Users: the environment may set any NCCL_ variable.  Unless it does, NVLS is off (it
 * needs multicast, which not every node has in order), and a deterministic device
 * pins ring, simple protocol and the number of channels. */
#include "trainer/coll_nccl.h"

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "trainer/heartbeat.h"
#include "trainer/wireup.h"

/* The program that loaded this module has these (it is linked with -rdynamic). */
#pragma weak wireup_self
#pragma weak wireup_put
#pragma weak wireup_get
#pragma weak wireup_fence
#pragma weak heartbeat_arrive
#pragma weak heartbeat_leave

enum { WINDOW_FROM = 1 << 20 /* bytes of a part; smaller ones gain nothing */ };

/* --- collectives -------------------------------------------------------------------- */

static const ncclDataType_t types[] = { ncclBfloat16, ncclFloat32, ncclFloat64,
                                        ncclInt32, ncclUint8 };

static struct coll_req *begin(struct coll *c, const char *name, struct err *err)
{
    struct coll_req *q = &c->req[c->begun % MAX_FLIGHT];

    if (coll_nccl_check(c, err))
        return NULL;
    if (q->open) {
        err_set(err, ERR_FAILED, "%s of the %s: more than %d collectives in flight",
                name, c->what, MAX_FLIGHT);
        return NULL;
    }
    cudaEventRecord(c->ready, dev_stream(c->hub->dev));
    cudaStreamWaitEvent(c->stream, c->ready, 0);
    return q;
}

/* The allocation around p, registered as a window of this group at its first use: every
 * rank comes here with the same allocation at the same call, so registering, which all
 * do together, is in order.  Memory that is no window is moved the plain way. */
static void use_window(struct coll *c, const void *p, int64_t bytes)
{
    struct window *w = &c->window[c->windows];
    CUdeviceptr base = 0;
    size_t size = 0;

    if (!c->hub->want_windows || bytes < WINDOW_FROM)
        return;
    for (int i = 0; i < c->windows; i++)
        if ((uintptr_t)p - c->window[i].base < c->window[i].bytes)
            return;
    if (c->windows == MAX_WINDOWS ||
        cuMemGetAddressRange(&base, &size, (CUdeviceptr)(uintptr_t)p) != CUDA_SUCCESS)
        return;
    c->windows++;
    w->base = (uintptr_t)base;
    w->bytes = size;
    w->win = NULL;
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): the driver's type */
    ncclCommWindowRegister(c->comm, (void *)w->base, size, &w->win,
                           NCCL_WIN_COLL_SYMMETRIC);
}

/* r: what NCCL said to the call between begin() and here. */
static int queued(struct coll *c, struct coll_req **req, struct coll_req *q,
                  const char *name, ncclResult_t r, struct err *err)
{
    struct hub *h = c->hub;

    if (r != ncclSuccess)
        return coll_nccl_check(c, err) ? -1
                                       : coll_nccl_failed(r, c->comm, c->what, err);
    pthread_mutex_lock(&h->lock);
    if (c->seen + MAX_FLIGHT <= c->begun)
        c->seen = c->begun - MAX_FLIGHT + 1;
    cudaEventRecord(q->done, c->stream);
    q->name = name;
    q->number = c->begun++;
    q->since_ms = clock_ms();
    q->open = 1;
    pthread_mutex_unlock(&h->lock);
    *req = q;
    return 0;
}

static int nccl_all_gather(struct coll *c, struct coll_req **req, void *dst,
                           const void *src, int64_t n, enum coll_type t,
                           struct err *err)
{
    static const int64_t size[] = { 2, 4, 8, 4, 1 };
    struct coll_req *q = begin(c, "all_gather", err);

    if (!q)
        return -1;
    use_window(c, src, n * size[t]);
    use_window(c, dst, n * size[t]);
    return queued(c, req, q, "all_gather",
                  ncclAllGather(src, dst, (size_t)n, types[t], c->comm, c->stream),
                  err);
}

static int nccl_reduce_scatter(struct coll *c, struct coll_req **req, float *dst,
                               const float *src, int64_t n, struct err *err)
{
    struct coll_req *q = begin(c, "reduce_scatter", err);

    if (!q)
        return -1;
    use_window(c, src, n * (int64_t)sizeof(float));
    use_window(c, dst, n * (int64_t)sizeof(float));
    return queued(c, req, q, "reduce_scatter",
                  ncclReduceScatter(src, dst, (size_t)n, ncclFloat32, ncclSum, c->comm,
                                    c->stream),
                  err);
}

static int nccl_all_reduce(struct coll *c, struct coll_req **req, void *buf, int64_t n,
                           enum coll_type t, struct err *err)
{
    struct coll_req *q = begin(c, "all_reduce", err);

    if (!q)
        return -1;
    return queued(
        c, req, q, "all_reduce",
        ncclAllReduce(buf, buf, (size_t)n, types[t], ncclSum, c->comm, c->stream), err);
}

static int nccl_broadcast(struct coll *c, struct coll_req **req, void *buf, int64_t n,
                          enum coll_type t, int root, struct err *err)
{
    struct coll_req *q = begin(c, "broadcast", err);

    if (!q)
        return -1;
    return queued(
        c, req, q, "broadcast",
        ncclBroadcast(buf, buf, (size_t)n, types[t], root, c->comm, c->stream), err);
}

static int nccl_finish(struct coll *c, struct coll_req **req, struct err *err)
{
    struct coll_req *q = *req;

    *req = NULL;
    if (!q)
        return 0;
    cudaStreamWaitEvent(dev_stream(c->hub->dev), q->done, 0);
    q->open = 0;
    return coll_nccl_check(c, err);
}

/* A sum of ones that the host waits for. */
static int nccl_barrier(struct coll *c, struct err *err)
{
    struct coll_req *q = NULL;

    if (nccl_all_reduce(c, &q, c->hub->warm, 1, COLL_F32, err))
        return -1;
    while (q && cudaEventQuery(q->done) == cudaErrorNotReady)
        clock_nap_us(100);
    return nccl_finish(c, &q, err);
}

static int nccl_rank(const struct coll *c)
{
    return c->rank;
}

static int nccl_size(const struct coll *c)
{
    return c->size;
}

/* --- communicators --------------------------------------------------------------------- */

static void coll_drop(struct coll *c)
{
    for (int i = 0; i < MAX_FLIGHT; i++)
        if (c->req[i].done)
            cudaEventDestroy(c->req[i].done);
    if (c->ready)
        cudaEventDestroy(c->ready);
    free(c);
}

static void hub_drop(struct hub *h)
{
    if (h->watching) {
        pthread_mutex_lock(&h->lock);
        h->stop = 1;
        pthread_mutex_unlock(&h->lock);
        pthread_join(h->watcher, NULL);
    }
    cudaFree(h->warm);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

/* Ring and tree connections are made, and their buffers allocated, before the arena
 * takes what is left of the memory. */
static int warm_up(struct coll *c, struct err *err)
{
    struct coll_req *q = NULL;
    float *at = c->hub->warm;
    int64_t n = WARM_FLOATS / c->size;

    if (n == 0)
        n = 1;
    if (nccl_all_gather(c, &q, at, at + c->rank * n, n, COLL_F32, err) ||
        nccl_finish(c, &q, err) ||
        nccl_reduce_scatter(c, &q, at + c->rank * n, at, n, err) ||
        nccl_finish(c, &q, err))
        return -1;
    return nccl_barrier(c, err);
}

static int join_hub(struct hub *h, struct coll *c, struct err *err)
{
    cudaError_t e = cudaEventCreateWithFlags(&c->ready, cudaEventDisableTiming);

    for (int i = 0; i < MAX_FLIGHT && e == cudaSuccess; i++)
        e = cudaEventCreateWithFlags(&c->req[i].done, cudaEventDisableTiming);
    if (e != cudaSuccess)
        return err_set(err, ERR_SYSTEM, "events of the %s: %s", c->what,
                       cudaGetErrorString(e));
    if (h->n == MAX_COMMS)
        return err_set(err, ERR_FAILED, "more than %d communicators", MAX_COMMS);
    ncclCommUserRank(c->comm, &c->rank);
    ncclCommCount(c->comm, &c->size);
    pthread_mutex_lock(&h->lock);
    h->coll[h->n++] = c;
    pthread_mutex_unlock(&h->lock);
    return warm_up(c, err);
}

static struct coll *coll_new(struct hub *h, const char *what, cudaStream_t stream)
{
    struct coll *c = xcalloc(1, sizeof(*c));

    c->hub = h;
    h->users++;
    c->stream = stream;
    snprintf(c->what, sizeof(c->what), "%s", what);
    return c;
}

/* Out of the hub; the last one takes the hub along. */
static void coll_leave(struct coll *c)
{
    struct hub *h = c->hub;

    pthread_mutex_lock(&h->lock);
    for (int i = 0; i < h->n; i++)
        if (h->coll[i] == c)
            h->coll[i] = h->coll[--h->n];
    pthread_mutex_unlock(&h->lock);
    coll_drop(c);
    if (--h->users == 0)
        hub_drop(h);
}

/* One that could not be made. */
static void coll_discard(struct coll *c)
{
    if (c->comm && !c->hub->failed)
        ncclCommAbort(c->comm);
    coll_leave(c);
}

static void nccl_close(struct coll *c)
{
    if (!c)
        return;
    if (c->comm && !c->hub->failed) {
        cudaStreamSynchronize(c->stream);
        for (int i = 0; i < c->windows; i++)
            if (c->window[i].win)
                ncclCommWindowDeregister(c->comm, c->window[i].win);
        ncclCommDestroy(c->comm);
    }
    coll_leave(c);
}

static void set_default(const char *name, const char *value)
{
    setenv(name, value, 0);
}

/* Rank 0's id, to everyone; the fence names whoever does not come. */
static int share_id(struct wireup *w, ncclUniqueId *id, int timeout_ms, struct err *err)
{
    const struct wireup_self *self = wireup_self(w);
    void *bytes = NULL;
    size_t n = 0;
    ncclResult_t r;

    if (self->rank == 0) {
        r = ncclGetUniqueId(id);
        if (r != ncclSuccess)
            return coll_nccl_failed(r, NULL, "making the communicator's id", err);
        if (wireup_put(w, "muster.nccl", id, sizeof(*id), err))
            return -1;
    }
    if (wireup_fence(w, "nccl", timeout_ms, err) ||
        wireup_get(w, 0, "muster.nccl", &bytes, &n, err))
        return -1;
    if (n == sizeof(*id))
        memcpy(id, bytes, n);
    free(bytes);
    if (n != sizeof(*id))
        return err_set(err, ERR_FAILED,
                       "rank 0 sent an NCCL id of %zu bytes, this NCCL has %zu: the "
                       "ranks run different builds",
                       n, sizeof(*id));
    return 0;
}

static struct hub *hub_new(struct wireup *w, struct dev *d, int timeout_ms,
                           struct err *err)
{
    const char *no_windows = getenv("MUSTER_NCCL_WINDOWS");
    struct hub *h = xcalloc(1, sizeof(*h));
    size_t floats = (size_t)WARM_FLOATS + (size_t)wireup_self(w)->world;
    cudaError_t e = cudaMalloc(&h->warm, floats * sizeof(float));

    h->dev = d;
    h->wireup = w;
    h->timeout_ms = timeout_ms > 0 ? timeout_ms : INT32_MAX;
    h->want_windows = !no_windows || strcmp(no_windows, "0") != 0;
    pthread_mutex_init(&h->lock, NULL);
    if (e == cudaSuccess)
        e = cudaMemset(h->warm, 0, floats * sizeof(float));
    if (e == cudaSuccess)
        return h;
    err_set(err, ERR_SYSTEM, "memory of the communicators: %s", cudaGetErrorString(e));
    hub_drop(h);
    return NULL;
}

static int connect_world(struct coll *c, struct wireup *w, int timeout_ms,
                         struct err *err)
{
    const struct wireup_self *self = wireup_self(w);
    struct coll_nccl_making *m = xcalloc(1, sizeof(*m));

    if (share_id(w, &m->id, timeout_ms, err)) {
        free(m);
        return -1;
    }
    if (heartbeat_arrive)
        heartbeat_arrive("nccl");
    m->color = self->world;
    m->key = self->rank;
    if (coll_nccl_make(c->hub, m, "the world communicator", &c->comm, err))
        return -1;
    if (heartbeat_leave)
        heartbeat_leave("nccl");
    return 0;
}

static int nccl_open(struct coll **out, struct wireup *w, const struct ops *ops,
                     struct dev *d, int timeout_ms, struct err *err)
{
    struct hub *h;
    struct coll *c;

    (void)ops;
    if (!wireup_self || !wireup_put || !wireup_get || !wireup_fence)
        return err_set(err, ERR_MISSING,
                       "this program does not lend its wireup to the CUDA module; link "
                       "it with -rdynamic");
    set_default("NCCL_NVLS_ENABLE", "0");
    if (d->deterministic) {
        set_default("NCCL_ALGO", "Ring");
        set_default("NCCL_PROTO", "Simple");
    }
    h = hub_new(w, d, timeout_ms, err);
    if (!h)
        return -1;
    c = coll_new(h, "world", dev_stream(d));
    if (connect_world(c, w, timeout_ms, err) || join_hub(h, c, err)) {
        coll_discard(c);
        return -1;
    }
    coll_nccl_watch(h);
    *out = c;
    return 0;
}

static int nccl_split(struct coll *world, int color, int key, int stream,
                      const char *what, struct coll **out, struct err *err)
{
    struct hub *h = world->hub;
    struct coll *c = coll_new(h, what, h->dev->stream[stream]);
    struct coll_nccl_making *m = xcalloc(1, sizeof(*m));

    m->parent = world->comm;
    m->color = color;
    m->key = key;
    m->copy_engines = stream == STREAM_GATHER && h->want_windows;
    if (coll_nccl_check(world, err) ||
        wireup_fence(h->wireup, what, h->timeout_ms, err)) {
        free(m);
        goto fail;
    }
    if (coll_nccl_make(h, m, what, &c->comm, err) || join_hub(h, c, err))
        goto fail;
    *out = c;
    return 0;
fail:
    coll_discard(c);
    return -1;
}

static const char *nccl_version(void)
{
    static char text[32];
    int v = 0;

    ncclGetVersion(&v);
    snprintf(text, sizeof(text), "NCCL %d.%d.%d", v / 10000, v / 100 % 100, v % 100);
    return text;
}

extern const struct coll_ops coll_nccl;
__attribute__((visibility("default"))) const struct coll_ops coll_nccl = {
    .name = "nccl",
    .open = nccl_open,
    .split = nccl_split,
    .close = nccl_close,
    .rank = nccl_rank,
    .size = nccl_size,
    .all_gather = nccl_all_gather,
    .reduce_scatter = nccl_reduce_scatter,
    .all_reduce = nccl_all_reduce,
    .broadcast = nccl_broadcast,
    .finish = nccl_finish,
    .barrier = nccl_barrier,
    .version = nccl_version,
};
