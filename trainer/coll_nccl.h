/* coll_nccl.h - inside the NCCL collectives: communicators, what is in flight, and the
 * thread that watches it.  Only coll_nccl*.c include it. */
#ifndef TRAINER_COLL_NCCL_H
#define TRAINER_COLL_NCCL_H

#include <nccl.h>
#include <pthread.h>

#include "base/err.h"
#include "trainer/coll.h"
#include "trainer/cuda_dev.h"

struct wireup;

enum {
    MAX_COMMS = 16,
    MAX_WINDOWS = 4,
    MAX_FLIGHT = 64, /* collectives of one communicator in flight */
    WARM_FLOATS = 1024,
};

struct coll_req {
    cudaEvent_t done;
    const char *name;
    int64_t number;   /* of this communicator's collectives */
    int64_t since_ms; /* when it was queued */
    int open;         /* begun, not finished by the caller */
};

struct window {
    uintptr_t base;
    size_t bytes;
    ncclWindow_t win;
};

struct coll {
    struct hub *hub;
    ncclComm_t comm;
    cudaStream_t stream;
    cudaEvent_t ready;
    int rank, size;
    char what[48];
    struct coll_req req[MAX_FLIGHT];
    struct window window[MAX_WINDOWS]; /* memory that NCCL knows in this group */
    int windows;
    int64_t begun, seen; /* req[seen % MAX_FLIGHT] is the oldest not known to be done */
};

/* What the communicators of a process share. */
struct hub {
    struct dev *dev;
    struct wireup *wireup;
    int timeout_ms, users;
    void *warm; /* device memory for barriers */
    pthread_mutex_t lock;
    pthread_t watcher;
    int want_windows; /* MUSTER_NCCL_WINDOWS=0: plain buffers */
    int watching;
    _Atomic int stop, failed;
    int n;
    struct coll *coll[MAX_COMMS];
};

/* Record what NCCL said. */
int coll_nccl_failed(ncclResult_t r, ncclComm_t comm, const char *what,
                     struct err *err);
/* -1 once the communicators were aborted: why. */
int coll_nccl_check(const struct coll *c, struct err *err);
/* Making a communicator, in a thread of its own: when the deadline passes, the thread
 * and this are left behind (the rank is about to end). */
struct coll_nccl_making {
    int device;
    ncclComm_t parent; /* NULL: the world */
    ncclUniqueId id;
    int color, key;   /* world: size and rank */
    int copy_engines; /* gathers need no multiprocessor */
    int channels;     /* blocks of a collective; 0: as NCCL likes */
    ncclComm_t comm;
    ncclResult_t result;
    _Atomic int done;
};

/* Make a communicator within the hub's deadline.  Takes m over. */
int coll_nccl_make(struct hub *h, struct coll_nccl_making *m, const char *what,
                   ncclComm_t *out, struct err *err);

/* Start the watcher of a hub; it ends when h->stop or h->failed is set. */
void coll_nccl_watch(struct hub *h);

#endif
