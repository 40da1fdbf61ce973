#include "launcher/pmix_server_wait.h"

#include <errno.h>
#include <pmix.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/err.h"
#include "base/mem.h"

struct pmixd_wait {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* CLOCK_MONOTONIC */
    int pending;            /* calls that pmixd_wait_wake() will answer */
    pmix_status_t status;   /* of the first that failed */
};

static int stuck;

int pmixd_is_stuck(void)
{
    return stuck;
}

struct pmixd_wait *pmixd_wait_new(void)
{
    struct pmixd_wait *w = xcalloc(1, sizeof(*w));
    pthread_condattr_t mono;

    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&mono);
    pthread_condattr_setclock(&mono, CLOCK_MONOTONIC);
    pthread_cond_init(&w->changed, &mono);
    pthread_condattr_destroy(&mono);
    w->status = PMIX_SUCCESS;
    return w;
}

void pmixd_wait_expect(struct pmixd_wait *w)
{
    pthread_mutex_lock(&w->lock);
    w->pending++;
    pthread_mutex_unlock(&w->lock);
}

void pmixd_wait_wake(pmix_status_t status, void *wait)
{
    struct pmixd_wait *w = wait;

    pthread_mutex_lock(&w->lock);
    if (w->status == PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED)
        w->status = status;
    w->pending--;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

void pmixd_wait_started(struct pmixd_wait *w, pmix_status_t status)
{
    if (status != PMIX_SUCCESS)
        pmixd_wait_wake(status, w);
}

static int wait_for_answers(struct pmixd_wait *w, int patience_s)
{
    struct timespec until;
    int rc = 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += patience_s;
    pthread_mutex_lock(&w->lock);
    while (w->pending > 0 && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&w->changed, &w->lock, &until);
    rc = w->pending;
    pthread_mutex_unlock(&w->lock);
    return rc;
}

int pmixd_wait_finish(struct pmixd_wait *w, const char *call, int patience_s,
                      struct err *err)
{
    pmix_status_t status;

    if (wait_for_answers(w, patience_s) > 0) {
        stuck = 1; /* and w stays: an answer may still come */
        return err_set(err, ERR_TIMEOUT,
                       "%s: libpmix has not answered within %d s (it locks up when a "
                       "rank dies while it connects); start the run again",
                       call, patience_s);
    }
    status = w->status;
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
    if (status == PMIX_SUCCESS)
        return 0;
    return err_set(err, ERR_SYSTEM, "%s: %s", call, PMIx_Error_string(status));
}
