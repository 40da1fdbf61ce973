/* coll_mpi.c - the door to MPI: communicators of CPU ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "trainer/coll_mpi_req.h"
#include "trainer/heartbeat.h"
#include "trainer/ops.h"
#include "trainer/wireup.h"

static int mpi_rank(const struct coll *c)
{
    return c->rank;
}

static int mpi_size(const struct coll *c)
{
    return c->size;
}

static size_t elem_of(const struct coll *c, enum coll_type t)
{
    const size_t bytes[] = { c->elem_bytes, 4, 8, 4, 1 };

    return bytes[t];
}

/* --- collectives ---------------------------------------------------------------- */

static int check_count(const struct coll *c, const char *name, int64_t n,
                       struct err *err)
{
    if (n >= 0)
        return 0;
    return err_set(err, ERR_USAGE, "%s of group '%s': %lld elements", name, c->what,
                   (long long)n);
}

static int mpi_all_gather(struct coll *c, struct coll_req **req, void *dst,
                          const void *src, int64_t n, enum coll_type t, struct err *err)
{
    if (check_count(c, "all_gather", n, err))
        return -1;
    return begin_all_gather(c, req, dst, src, n, elem_of(c, t), err);
}

static int mpi_reduce_scatter(struct coll *c, struct coll_req **req, float *dst,
                              const float *src, int64_t n, struct err *err)
{
    if (check_count(c, "reduce_scatter", n, err))
        return -1;
    return begin_reduce_scatter(c, req, dst, src, n, err);
}

static int mpi_all_reduce(struct coll *c, struct coll_req **req, void *buf, int64_t n,
                          enum coll_type t, struct err *err)
{
    if (check_count(c, "all_reduce", n, err))
        return -1;
    if (t != COLL_F32 && t != COLL_F64 && t != COLL_I32)
        return err_set(err, ERR_USAGE,
                       "all_reduce of group '%s': only F32, F64 and I32 "
                       "are summed",
                       c->what);
    return begin_all_reduce(c, req, buf, n, t, elem_of(c, t), err);
}

static int mpi_broadcast(struct coll *c, struct coll_req **req, void *buf, int64_t n,
                         enum coll_type t, int root, struct err *err)
{
    if (check_count(c, "broadcast", n, err))
        return -1;
    if (root < 0 || root >= c->size)
        return err_set(err, ERR_USAGE, "broadcast of group '%s': rank %d of %d",
                       c->what, root, c->size);
    return begin_broadcast(c, req, buf, n, elem_of(c, t), root, err);
}

static int mpi_finish(struct coll *c, struct coll_req **req, struct err *err)
{
    struct coll_req *q = *req;

    (void)c;
    *req = NULL;
    return q ? req_finish(q, err) : 0;
}

/* One message each way with everyone: nobody leaves before all have come. */
static int mpi_barrier(struct coll *c, struct err *err)
{
    int32_t *all = xcalloc((size_t)c->size, sizeof(*all)), mine = c->rank;
    struct coll_req *q;
    int rc = begin_all_gather(c, &q, all, &mine, 1, sizeof(mine), err);

    if (rc == 0)
        rc = req_finish(q, err);
    for (int r = 0; rc == 0 && r < c->size; r++)
        if (all[r] != r)
            rc = err_set(
                err, ERR_FAILED,
                "barrier of group '%s': the message of rank %d came from %d; do "
                "all ranks run the same collectives?",
                c->what, r, all[r]);
    free(all);
    return rc;
}

/* --- communicators ----------------------------------------------------------------- */

static struct coll *coll_new(struct coll_hub *hub, MPI_Comm comm, const char *what,
                             size_t elem_bytes, int timeout_ms)
{
    struct coll *c = xcalloc(1, sizeof(*c));

    c->comm = comm;
    MPI_Comm_rank(comm, &c->rank);
    MPI_Comm_size(comm, &c->size);
    c->elem_bytes = elem_bytes;
    c->timeout_ms = timeout_ms;
    snprintf(c->what, sizeof(c->what), "%s", what);
    c->hub = hub;
    hub->users++;
    return c;
}

static void coll_drop(struct coll *c)
{
    if (--c->hub->users == 0)
        free(c->hub);
    free(c->spare);
    free(c->world_rank);
    free(c);
}

static int start_mpi(struct err *err)
{
    int on = 0, got, rc;

    MPI_Initialized(&on);
    if (on)
        return 0;
    heartbeat_arrive("mpi");
    /* Several ranks a core wait in here; an idle one must give way. */
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &got);
    if (rc != MPI_SUCCESS)
        return coll_mpi_failed(rc, "MPI_Init_thread", err);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    heartbeat_leave("mpi");
    return 0;
}

/* MPI that found no launcher of its own runs every rank alone. */
static int check_world(const struct wireup_self *self, struct err *err)
{
    int rank, size;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == self->rank && size == self->world)
        return 0;
    if (size == 1)
        return err_set(
            err, ERR_USAGE,
            "rank %d of %d: MPI started alone (rank 0 of 1), it knows nothing "
            "of the launcher; start the ranks with `muster launch`, mpirun or "
            "`srun --mpi=pmix`",
            self->rank, self->world);
    return err_set(err, ERR_FAILED,
                   "MPI says rank %d of %d, the wireup (%s) says rank %d of %d: two "
                   "launchers are at work",
                   rank, size, self->method, self->rank, self->world);
}

static int mpi_open(struct coll **out, struct wireup *w, const struct ops *ops,
                    struct dev *d, int timeout_ms, struct err *err)
{
    const struct wireup_self *self = wireup_self(w);
    struct coll_hub *hub;
    struct coll *c;
    MPI_Comm comm;
    int rc;

    (void)d;
    if (start_mpi(err) || check_world(self, err))
        return -1;
    rc = MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (rc != MPI_SUCCESS)
        return coll_mpi_failed(rc, "MPI_Comm_dup", err);
    hub = xcalloc(1, sizeof(*hub));
    hub->wireup = w;
    c = coll_new(hub, comm, "world", ops->elem_bytes, timeout_ms);
    if (mpi_barrier(c, err)) {
        coll_drop(c);
        return -1;
    }
    *out = c;
    return 0;
}

/* The world ranks of our color, in their new order. */
static int *members(const struct coll *world, const int32_t (*said)[2], int color)
{
    int *rank = xcalloc((size_t)world->size, sizeof(*rank)), n = 0;

    for (int r = 0; r < world->size; r++) {
        int at = n;

        if (said[r][0] != color)
            continue;
        while (at > 0 && said[rank[at - 1]][1] > said[r][1]) {
            rank[at] = rank[at - 1];
            at--;
        }
        rank[at] = r;
        n++;
    }
    return rank;
}

static int mpi_split(struct coll *world, int color, int key, int stream,
                     const char *what, struct coll **out, struct err *err)
{
    int32_t(*said)[2] = xcalloc((size_t)world->size, sizeof(*said)); /* color, key */
    int32_t mine[2] = { color, key };
    struct coll_req *q;
    struct coll *c = NULL;
    MPI_Comm comm;
    int rc = -1;

    (void)stream;
    /* The exchange has a deadline, MPI_Comm_split has none. */
    if (begin_all_gather(world, &q, said, mine, 2, sizeof(int32_t), err) ||
        req_finish(q, err))
        goto out;
    rc = MPI_Comm_split(world->comm, color, key, &comm);
    if (rc != MPI_SUCCESS) {
        rc = coll_mpi_failed(rc, "MPI_Comm_split", err);
        goto out;
    }
    c = coll_new(world->hub, comm, what, world->elem_bytes, world->timeout_ms);
    c->world_rank = members(world, said, color);
    rc = mpi_barrier(c, err);
    if (rc == 0)
        *out = c;
    else
        coll_drop(c);
out:
    free(said);
    return rc;
}

/* After a failed wait nothing that MPI does together can end. */
static void mpi_close(struct coll *c)
{
    struct err ignored = ERR_INIT;
    int last, off = 0;

    if (!c)
        return;
    last = c->hub->users == 1;
    if (last && !c->hub->broken)
        (void)mpi_barrier(c, &ignored); /* marks the hub broken when one is gone */
    if (!c->hub->broken) {
        MPI_Comm_free(&c->comm);
        MPI_Finalized(&off);
        if (last && !off)
            MPI_Finalize();
    }
    err_release(&ignored);
    coll_drop(c);
}

/* "Open MPI v4.1.4, package: ..." up to the comma; MPICH writes lines. */
static const char *mpi_version(void)
{
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int n;

    MPI_Get_library_version(text, &n);
    text[strcspn(text, ",\n")] = '\0';
    return text;
}

__attribute__((visibility("default"))) const struct coll_ops coll_mpi = {
    .name = "mpi",
    .open = mpi_open,
    .split = mpi_split,
    .close = mpi_close,
    .rank = mpi_rank,
    .size = mpi_size,
    .all_gather = mpi_all_gather,
    .reduce_scatter = mpi_reduce_scatter,
    .all_reduce = mpi_all_reduce,
    .broadcast = mpi_broadcast,
    .finish = mpi_finish,
    .barrier = mpi_barrier,
    .version = mpi_version,
};
