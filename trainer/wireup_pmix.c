/* wireup_pmix.c - the only client door to PMIx.
 *
 * PMIx calls block for as long as the server likes, so the ones that wait run
 * under our own timer: PMIx_Init in a helper thread, the fence by its
 * nonblocking form.  What a timed-out call still may touch is left allocated;
 * the rank is about to end.
 *
 * The fence always collects data: Slurm 22.05's fence without it is no barrier
 * when a step has fewer nodes than TreeWidth (reverse_tree_info() in its pmix
 * plugin finds no parent), and it is the way that scales. */
#include <pmix.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "trainer/wireup_method.h"
#include "trainer/wireup_rules.h"

enum { ROLL_CALL_MS = 1500, NAMED = 16 };

struct link {
    pmix_proc_t me, all;
    int world, fences, broken;
};

/* --- waiting under our own timer ------------------------------------------- */

struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int open; /* answers still to come */
    pmix_status_t status;
    pmix_proc_t me; /* PMIx_Init's answer */
    pmix_info_t collect;
    unsigned char *arrived; /* roll call */
};

static struct waiter *waiter_new(int answers)
{
    struct waiter *w = xcalloc(1, sizeof(*w));
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, &attr);
    pthread_condattr_destroy(&attr);
    w->open = answers;
    return w;
}

static void waiter_answer(struct waiter *w, pmix_status_t status)
{
    pthread_mutex_lock(&w->lock);
    w->status = status;
    w->open--;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
}

/* 0 all answered, -1 the time is up: then *w may still be written to. */
static int waiter_wait(struct waiter *w, int timeout_ms)
{
    struct timespec until;
    int rc = 0, done;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += timeout_ms % 1000 * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&w->lock);
    while (w->open > 0 && rc == 0)
        rc = pthread_cond_timedwait(&w->wake, &w->lock, &until);
    done = w->open <= 0;
    pthread_mutex_unlock(&w->lock);
    return done ? 0 : -1;
}

static void waiter_free(struct waiter *w)
{
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->wake);
    free(w->arrived);
    free(w);
}

/* --- job data --------------------------------------------------------------- */

static int value_int(const pmix_value_t *v)
{
    switch (v->type) {
    case PMIX_UINT32:
        return (int)v->data.uint32;
    case PMIX_UINT16:
        return v->data.uint16;
    case PMIX_PROC_RANK:
        return (int)v->data.rank;
    case PMIX_INT:
        return v->data.integer;
    default:
        return -1;
    }
}

/* A number that the server knows from the start; -1 when it does not. */
static int job_number(const pmix_proc_t *who, const char *key)
{
    pmix_value_t *v = NULL;
    pmix_info_t now;
    bool yes = true;
    int n = -1;

    PMIX_INFO_LOAD(&now, PMIX_IMMEDIATE, &yes, PMIX_BOOL);
    if (PMIx_Get(who, key, &now, 1, &v) == PMIX_SUCCESS && v) {
        n = value_int(v);
        PMIX_VALUE_RELEASE(v);
    }
    return n;
}

/* The host of a rank; the caller's to free(); NULL unknown. */
static char *job_host(const struct link *k, int rank)
{
    pmix_value_t *v = NULL;
    pmix_proc_t who;
    pmix_info_t now;
    bool yes = true;
    char *host = NULL;

    PMIX_INFO_LOAD(&now, PMIX_IMMEDIATE, &yes, PMIX_BOOL);
    PMIX_LOAD_PROCID(&who, k->me.nspace, (pmix_rank_t)rank);
    if (PMIx_Get(&who, PMIX_HOSTNAME, &now, 1, &v) == PMIX_SUCCESS && v) {
        host = v->type == PMIX_STRING ? xstrdup(v->data.string) : NULL;
        PMIX_VALUE_RELEASE(v);
    }
    return host;
}

/* --- open ---------------------------------------------------------------------- */

static int pmix_present(void)
{
    return getenv("PMIX_NAMESPACE") && getenv("PMIX_RANK");
}

static void *init_main(void *arg)
{
    struct waiter *w = arg;

    waiter_answer(w, PMIx_Init(&w->me, NULL, 0));
    return NULL;
}

static int init_with_deadline(pmix_proc_t *me, int timeout_ms, struct err *err)
{
    struct waiter *w = waiter_new(1);
    pthread_t thread;
    int rc = pthread_create(&thread, NULL, init_main, w);

    if (rc != 0) {
        waiter_free(w);
        return err_set(err, ERR_SYSTEM, "a thread for PMIx_Init: %s", strerror(rc));
    }
    pthread_detach(thread);
    if (waiter_wait(w, timeout_ms))
        return err_set(err, ERR_TIMEOUT,
                       "the PMIx server of this node does not answer rank %s within "
                       "%.1f s (PMIx_Init)",
                       getenv("PMIX_RANK"), timeout_ms / 1000.0);
    rc = w->status;
    *me = w->me;
    waiter_free(w);
    if (rc != PMIX_SUCCESS)
        return err_set(err, ERR_SYSTEM,
                       "PMIx_Init: %s; this program was built with PMIx %s, and the "
                       "launcher must serve a version that speaks with it",
                       PMIx_Error_string(rc), PMIx_Get_version());
    return 0;
}

static int pmix_open(void **link, struct wireup_self *self, int timeout_ms,
                     struct err *err)
{
    struct link *k = xcalloc(1, sizeof(*k));

    if (init_with_deadline(&k->me, timeout_ms, err)) {
        free(k);
        return -1;
    }
    PMIX_LOAD_PROCID(&k->all, k->me.nspace, PMIX_RANK_WILDCARD);
    k->world = job_number(&k->all, PMIX_JOB_SIZE);
    self->rank = (int)k->me.rank;
    self->world = k->world;
    self->local_rank = job_number(&k->me, PMIX_LOCAL_RANK);
    self->local_world = job_number(&k->all, PMIX_LOCAL_SIZE);
    self->node_rank = job_number(&k->me, PMIX_NODEID);
    *link = k;
    if (k->world < 1)
        err_set(err, ERR_SYSTEM,
                "the PMIx server does not say how many ranks there are "
                "(PMIX_JOB_SIZE)");
    else if (!wireup_compare(self->rank, self->world, k->me.nspace, err))
        return 0;
    PMIx_Finalize(NULL, 0);
    free(k);
    return -1;
}

/* --- put, get, fence -------------------------------------------------------------- */

static int pmix_put(void *link, const char *key, const void *bytes, size_t n,
                    struct err *err)
{
    pmix_value_t v = { .type = PMIX_BYTE_OBJECT };
    pmix_status_t rc;

    (void)link;
    v.data.bo.bytes = (char *)bytes;
    v.data.bo.size = n;
    rc = PMIx_Put(PMIX_GLOBAL, key, &v);
    return rc == PMIX_SUCCESS ? 0
                              : err_set(err, ERR_SYSTEM, "PMIx_Put of '%s': %s", key,
                                        PMIx_Error_string(rc));
}

static int pmix_get(void *link, int rank, const char *key, void **out, size_t *n,
                    struct err *err)
{
    struct link *k = link;
    pmix_value_t *v = NULL;
    pmix_proc_t who;
    pmix_info_t limit;
    pmix_status_t rc;
    int seconds = 30;
    char *copy;

    PMIX_LOAD_PROCID(&who, k->me.nspace, (pmix_rank_t)rank);
    PMIX_INFO_LOAD(&limit, PMIX_TIMEOUT, &seconds, PMIX_INT);
    rc = PMIx_Get(&who, key, &limit, 1, &v);
    if (rc != PMIX_SUCCESS || !v || v->type != PMIX_BYTE_OBJECT) {
        if (rc == PMIX_SUCCESS && v)
            PMIX_VALUE_RELEASE(v);
        return err_set(err, ERR_FAILED,
                       "rank %d published no '%s' before the last fence: %s", rank, key,
                       PMIx_Error_string(rc));
    }
    *n = v->data.bo.size;
    copy = xcalloc(*n + 1, 1);
    if (*n)
        memcpy(copy, v->data.bo.bytes, *n);
    PMIX_VALUE_RELEASE(v);
    *out = copy;
    return 0;
}

static void on_fence(pmix_status_t status, void *arg)
{
    waiter_answer(arg, status);
}

/* Each rank put "muster.at.N" before fence N: ask for everyone's, and see who
 * answers.  A server keeps a question about a rank that has not come. */
struct question {
    struct waiter *w;
    int rank;
    pmix_info_t limit;
    char key[32];
};

static void on_answer(pmix_status_t status, pmix_value_t *v, void *arg)
{
    struct question *q = arg;

    (void)v;
    pthread_mutex_lock(&q->w->lock);
    q->w->arrived[q->rank] = status == PMIX_SUCCESS;
    q->w->open--;
    pthread_cond_signal(&q->w->wake);
    pthread_mutex_unlock(&q->w->lock);
}

static void ask(const struct link *k, struct waiter *w, int rank)
{
    struct question *q = xcalloc(1, sizeof(*q));
    pmix_proc_t who;
    int seconds = 1;

    q->w = w;
    q->rank = rank;
    PMIX_LOAD_PROCID(&who, k->me.nspace, (pmix_rank_t)rank);
    PMIX_INFO_LOAD(&q->limit, PMIX_TIMEOUT, &seconds, PMIX_INT);
    snprintf(q->key, sizeof(q->key), "muster.at.%d", k->fences);
    if (PMIx_Get_nb(&who, q->key, &q->limit, 1, on_answer, q) != PMIX_SUCCESS)
        on_answer(PMIX_ERROR, NULL, q);
}

/* [world], who has come; the caller's.  Late answers write to what is left
 * allocated here. */
static unsigned char *roll_call(const struct link *k)
{
    struct waiter *w = waiter_new(k->world);
    unsigned char *came = xcalloc((size_t)k->world, 1);

    w->arrived = xcalloc((size_t)k->world, 1);
    for (int r = 0; r < k->world; r++)
        ask(k, w, r);
    waiter_wait(w, ROLL_CALL_MS);
    pthread_mutex_lock(&w->lock);
    memcpy(came, w->arrived, (size_t)k->world);
    pthread_mutex_unlock(&w->lock);
    return came;
}

static int name_missing(const struct link *k, const char *what, int timeout_ms,
                        struct err *err)
{
    unsigned char *came = roll_call(k);
    struct str who = STR_INIT;
    int missing = 0;

    for (int r = 0; r < k->world; r++) {
        char *host = NULL;

        missing += !came[r];
        if (came[r] || missing > NAMED)
            continue;
        host = job_host(k, r);
        str_addf(&who, "%s%d (%s)", who.len ? ", " : "", r, host ? host : "?");
        free(host);
    }
    free(came);
    if (missing > NAMED)
        str_addf(&who, " and %d more", missing - NAMED);
    if (missing == 0)
        err_set(
            err, ERR_TIMEOUT,
            "%s: all %d ranks came, but the PMIx servers do not end the fence within "
            "%.1f s: is a node's daemon or the network between nodes down?",
            what, k->world, timeout_ms / 1000.0);
    else
        err_set(err, ERR_TIMEOUT,
                "%s: %d of %d ranks came within %.1f s; missing: rank%s %s", what,
                k->world - missing, k->world, timeout_ms / 1000.0,
                missing == 1 ? "" : "s", who.text);
    str_release(&who);
    return -1;
}

static int pmix_fence(void *link, const char *what, int timeout_ms, struct err *err)
{
    struct link *k = link;
    struct waiter *w;
    bool yes = true;
    pmix_status_t rc;
    char key[32];

    k->fences++;
    snprintf(key, sizeof(key), "muster.at.%d", k->fences);
    if (pmix_put(k, key, "", 1, err))
        return -1;
    rc = PMIx_Commit();
    if (rc != PMIX_SUCCESS)
        return err_set(err, ERR_SYSTEM, "PMIx_Commit: %s", PMIx_Error_string(rc));
    w = waiter_new(1);
    PMIX_INFO_LOAD(&w->collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    rc = PMIx_Fence_nb(&k->all, 1, &w->collect, 1, on_fence, w);
    if (rc == PMIX_SUCCESS && waiter_wait(w, timeout_ms)) {
        k->broken = 1;
        return name_missing(k, what, timeout_ms, err);
    }
    if (rc == PMIX_SUCCESS)
        rc = w->status;
    if (rc == PMIX_OPERATION_SUCCEEDED)
        rc = PMIX_SUCCESS;
    waiter_free(w);
    if (rc == PMIX_SUCCESS)
        return 0;
    k->broken = 1;
    return err_set(err, ERR_FAILED, "%s: PMIx_Fence: %s", what, PMIx_Error_string(rc));
}

/* PMIx_Finalize talks to a server that may be the reason of the failure. */
static void pmix_close(void *link)
{
    struct link *k = link;

    if (!k->broken)
        PMIx_Finalize(NULL, 0);
    free(k);
}

const struct wireup_method wireup_pmix = {
    .name = "pmix",
    .gets_here = 1,
    .present = pmix_present,
    .open = pmix_open,
    .put = pmix_put,
    .get = pmix_get,
    .fence = pmix_fence,
    .close = pmix_close,
};
