/* Watches the collectives in flight; aborts them when they are overdue. */
#include "trainer/coll_nccl.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/js.h"
#include "trainer/heartbeat.h"
#include "trainer/wireup.h"

#pragma weak wireup_fence /* of the program that loaded this module */
#pragma weak heartbeat_send

enum {
    WATCH_US = 100000,    /* between two looks */
    ROLL_CALL_MS = 10000, /* after a failure: who still answers? */
};

int coll_nccl_failed(ncclResult_t r, ncclComm_t comm, const char *what, struct err *err)
{
    const char *more = comm ? ncclGetLastError(comm) : NULL;

    return err_set(err, r == ncclInvalidUsage ? ERR_USAGE : ERR_SYSTEM,
                   "%s: NCCL: %s%s%s", what, ncclGetErrorString(r),
                   more && *more ? ": " : "", more ? more : "");
}

/* The lock is held.  The kernels of aborted communicators end. */
static void abort_all(struct hub *h)
{
    h->failed = 1;
    for (int i = 0; i < h->n; i++)
        if (h->coll[i]->comm) {
            ncclCommAbort(h->coll[i]->comm);
            h->coll[i]->comm = NULL;
        }
}

/* Ranks that still answer all come here, each from its own watcher. */
static void roll_call(struct hub *h, const char *sentence)
{
    struct err e = ERR_INIT;

    if (wireup_fence(h->wireup, "roll call after a collective that did not end",
                     ROLL_CALL_MS, &e) == 0)
        dev_fail(h->dev, ERR_TIMEOUT,
                 "%s; every rank still answers: look for ranks that ran different "
                 "collectives, and at the fabric",
                 sentence);
    else
        dev_fail(h->dev, ERR_TIMEOUT, "%s; %s", sentence, err_text(&e));
    err_release(&e);
}

static void overdue(struct hub *h, const struct coll *c, const struct coll_req *q)
{
    char sentence[256];

    snprintf(sentence, sizeof(sentence),
             "%s %lld of the %s (rank %d of %d) did not end within %d s", q->name,
             (long long)q->number, c->what, c->rank, c->size, h->timeout_ms / 1000);
    pthread_mutex_unlock(&h->lock); /* it takes a while */
    roll_call(h, sentence);
    pthread_mutex_lock(&h->lock);
    abort_all(h); /* wakes the host, which finds the device's error */
}

/* NCCL's async error that a peer is gone: the launcher shall look for who that is, and
 * not name the rank that noticed. */
static void tell_of_peer(ncclResult_t async, const struct err *why)
{
    struct js *o;

    if (async != ncclRemoteError || !heartbeat_send)
        return;
    o = js_object();
    js_put_int(o, "code", (int)why->code);
    js_put_str(o, "text", err_text(why));
    js_put_bool(o, "of_peer", 1);
    heartbeat_send("error", o);
}

/* The lock is held. */
static void look_at(struct hub *h, struct coll *c)
{
    ncclResult_t async = ncclSuccess;

    while (c->seen < c->begun) {
        struct coll_req *q = &c->req[c->seen % MAX_FLIGHT];

        if (cudaEventQuery(q->done) == cudaErrorNotReady) {
            if (clock_ms() - q->since_ms > h->timeout_ms) {
                overdue(h, c, q);
                return;
            }
            break;
        }
        c->seen++;
    }
    if (c->comm)
        ncclCommGetAsyncError(c->comm, &async);
    if (async != ncclSuccess && async != ncclInProgress) {
        struct err e = ERR_INIT;

        coll_nccl_failed(async, c->comm, c->what, &e);
        tell_of_peer(async, &e);
        dev_fail(h->dev, e.code, "%s", err_text(&e));
        err_release(&e);
        abort_all(h);
    }
}

static void *watch(void *arg)
{
    struct hub *h = arg;

    cudaSetDevice(h->dev->local);
    for (;;) {
        clock_nap_us(WATCH_US);
        pthread_mutex_lock(&h->lock);
        for (int i = 0; i < h->n && !h->failed && !h->stop; i++)
            look_at(h, h->coll[i]);
        if (h->stop || h->failed) {
            pthread_mutex_unlock(&h->lock);
            return NULL;
        }
        pthread_mutex_unlock(&h->lock);
    }
}

/* What a call on an aborted communicator returns. */
int coll_nccl_check(const struct coll *c, struct err *err)
{
    const struct hub *h = c->hub;

    if (!h->failed)
        return 0;
    if (dev_ok(h->dev))
        return err_set(err, ERR_TIMEOUT, "the %s was aborted", c->what);
    return err_set(err, h->dev->sticky.code, "%s", err_text(&h->dev->sticky));
}

void coll_nccl_watch(struct hub *h)
{
    h->watching = pthread_create(&h->watcher, NULL, watch, h) == 0;
}
