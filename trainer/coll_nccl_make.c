/* coll_nccl_make.c - communicators are made in a thread: the call may never return. */
#include "trainer/coll_nccl.h"

#include <stdlib.h>

#include "base/clock.h"

enum { PINNED_CHANNELS = 16 };

static void *make(void *arg)
{
    struct coll_nccl_making *m = arg;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

    if (m->copy_engines)
        config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
    if (m->channels)
        config.minCTAs = config.maxCTAs = m->channels;
    cudaSetDevice(m->device);
    m->result =
        m->parent ? ncclCommSplit(m->parent, m->color, m->key, &m->comm, &config)
                  : ncclCommInitRankConfig(&m->comm, m->color, m->id, m->key, &config);
    m->done = 1;
    return NULL;
}

/* With them an element's place in the rings, and so the order of its sum, is fixed. */
static int pinned_channels(const struct hub *h)
{
    if (!h->dev->deterministic || getenv("NCCL_MIN_CTAS") || getenv("NCCL_MAX_CTAS") ||
        getenv("NCCL_MIN_NCHANNELS") || getenv("NCCL_MAX_NCHANNELS"))
        return 0;
    return PINNED_CHANNELS;
}

int coll_nccl_make(struct hub *h, struct coll_nccl_making *m, const char *what,
                   ncclComm_t *out, struct err *err)
{
    int64_t until = clock_ms() + h->timeout_ms;
    pthread_t thread;
    int rc = 0;

    m->device = h->dev->local;
    m->channels = pinned_channels(h);
    if (pthread_create(&thread, NULL, make, m) != 0) {
        free(m);
        return err_set(err, ERR_SYSTEM, "%s: no thread to connect it with", what);
    }
    while (!m->done && clock_ms() < until)
        clock_nap_us(500);
    if (!m->done) {
        pthread_detach(thread);
        return err_set(err, ERR_TIMEOUT,
                       "%s: NCCL did not connect within %d s; NCCL_DEBUG=INFO shows "
                       "where it waits",
                       what, h->timeout_ms / 1000);
    }
    pthread_join(thread, NULL);
    if (m->result == ncclSuccess)
        *out = m->comm;
    else
        rc = coll_nccl_failed(m->result, NULL, what, err);
    free(m);
    return rc;
}
