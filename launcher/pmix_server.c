#include "launcher/pmix_server.h"

#include <pmix.h>
#include <pmix_server.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "launcher/pmix_server_job.h"
#include "launcher/pmix_server_wait.h"

const int pmixd_not_found = PMIX_ERR_NOT_FOUND;

struct pmixd {
    pmix_nspace_t nspace;
    int ready; /* eventfd: counts queued events */
    struct pmixd_event *first, **last;
};

enum { START_S = 30, END_S = 2 }; /* how long the library may take */

static struct pmixd *the_server; /* upcalls carry no pointer of ours */
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER; /* and its events */

/* What a ticket of PMIXD_FENCE and PMIXD_MODEX holds. */
struct ticket {
    pmix_modex_cbfunc_t answer;
    void *cbdata;
};

/* ---- the queue ---- */

void pmixd_event_free(struct pmixd_event *e)
{
    if (!e)
        return;
    free(e->text);
    free(e->blob);
    free(e->ranks);
    free(e);
}

/* An event that nobody will see: the rank that asks is gone. */
static void drop(struct pmixd_event *e)
{
    if (e->what == PMIXD_FENCE || e->what == PMIXD_MODEX)
        free(e->ticket);
    pmixd_event_free(e);
}

static void push(struct pmixd_event *e)
{
    struct pmixd *s;
    uint64_t one = 1;

    pthread_mutex_lock(&queue_lock);
    s = the_server;
    if (s) {
        *s->last = e;
        s->last = &e->next;
        (void)!write(s->ready, &one, sizeof(one));
    }
    pthread_mutex_unlock(&queue_lock);
    if (!s)
        drop(e);
}

static struct pmixd_event *event_new(enum pmixd_what what, int rank)
{
    struct pmixd_event *e = xcalloc(1, sizeof(*e));

    e->what = what;
    e->rank = rank;
    return e;
}

int pmixd_fd(const struct pmixd *s)
{
    return s->ready;
}

struct pmixd_event *pmixd_next(struct pmixd *s)
{
    struct pmixd_event *e;
    uint64_t count;

    pthread_mutex_lock(&queue_lock);
    e = s->first;
    if (e) {
        s->first = e->next;
        if (!s->first)
            s->last = &s->first;
    } else {
        (void)!read(s->ready, &count, sizeof(count));
    }
    pthread_mutex_unlock(&queue_lock);
    return e;
}

/* ---- upcalls: on the library's thread; PMIx sets their parameters ---- */

static pmix_status_t client_connected(const pmix_proc_t *proc, void *object,
                                      pmix_info_t info[], size_t n,
                                      pmix_op_cbfunc_t done, void *cbdata)
{
    (void)object, (void)info, (void)n, (void)done, (void)cbdata;
    push(event_new(PMIXD_CONNECTED, (int)proc->rank));
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t client_finalized(const pmix_proc_t *proc, void *object,
                                      pmix_op_cbfunc_t done, void *cbdata)
{
    (void)object, (void)done, (void)cbdata;
    push(event_new(PMIXD_FINALIZED, (int)proc->rank));
    return PMIX_OPERATION_SUCCEEDED;
}

/* NOLINTNEXTLINE(readability-function-size) */
static pmix_status_t client_aborts(const pmix_proc_t *proc, void *object, int status,
                                   const char text[], pmix_proc_t procs[], size_t n,
                                   pmix_op_cbfunc_t done, void *cbdata)
{
    struct pmixd_event *e = event_new(PMIXD_ABORTED, (int)proc->rank);

    (void)object, (void)procs, (void)n, (void)done, (void)cbdata;
    e->status = status;
    e->text = xstrdup(text);
    push(e);
    return PMIX_OPERATION_SUCCEEDED;
}

static struct ticket *ticket_new(pmix_modex_cbfunc_t answer, void *cbdata)
{
    struct ticket *t = xcalloc(1, sizeof(*t));

    t->answer = answer;
    t->cbdata = cbdata;
    return t;
}

/* NOLINTNEXTLINE(readability-function-size) */
static pmix_status_t fence(const pmix_proc_t procs[], size_t n,
                           const pmix_info_t info[], size_t ninfo, char *data,
                           size_t len, pmix_modex_cbfunc_t answer, void *cbdata)
{
    struct pmixd_event *e = event_new(PMIXD_FENCE, -1);

    (void)info, (void)ninfo;
    e->blob = data; /* ours from here on */
    e->blob_len = len;
    e->ranks = xcalloc(n, sizeof(*e->ranks));
    for (size_t i = 0; i < n; i++)
        if (procs[i].rank != PMIX_RANK_WILDCARD)
            e->ranks[e->n_ranks++] = (int)procs[i].rank;
    e->ticket = ticket_new(answer, cbdata);
    push(e);
    return PMIX_SUCCESS;
}

static pmix_status_t direct_modex(const pmix_proc_t *proc, const pmix_info_t info[],
                                  size_t n, pmix_modex_cbfunc_t answer, void *cbdata)
{
    struct pmixd_event *e = event_new(PMIXD_MODEX, (int)proc->rank);

    (void)info, (void)n;
    e->ticket = ticket_new(answer, cbdata);
    push(e);
    return PMIX_SUCCESS;
}

/* Ranks register handlers for events (Open MPI: "a peer died").  We end the run
 * ourselves when one does, so there is nothing to route: accepted. */
/* NOLINTNEXTLINE(readability-non-const-parameter) */
static pmix_status_t register_events(pmix_status_t *codes, size_t n,
                                     const pmix_info_t info[], size_t ninfo,
                                     pmix_op_cbfunc_t done, void *cbdata)
{
    (void)codes, (void)n, (void)info, (void)ninfo, (void)done, (void)cbdata;
    return PMIX_OPERATION_SUCCEEDED;
}

/* NOLINTNEXTLINE(readability-non-const-parameter) */
static pmix_status_t deregister_events(pmix_status_t *codes, size_t n,
                                       pmix_op_cbfunc_t done, void *cbdata)
{
    (void)codes, (void)n, (void)done, (void)cbdata;
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_server_module_t upcalls = {
    .client_connected2 = client_connected,
    .client_finalized = client_finalized,
    .abort = client_aborts,
    .fence_nb = fence,
    .direct_modex = direct_modex,
    .register_events = register_events,
    .deregister_events = deregister_events,
};

/* ---- life ---- */

static int register_job(struct pmixd *s, const struct pmixd_config *c, struct err *err)
{
    struct pmixd_wait *w;
    pmix_data_array_t array;
    int rc, n = pmixd_describe_job(c, &array, err);

    if (n < 0)
        return -1;
    w = pmixd_wait_new();
    pmixd_wait_expect(w);
    pmixd_wait_started(w, PMIx_server_register_nspace(s->nspace, n, array.array,
                                                      array.size, pmixd_wait_wake, w));
    rc = pmixd_wait_finish(w, "PMIx_server_register_nspace", START_S, err);
    PMIX_DATA_ARRAY_DESTRUCT(&array);
    return rc;
}

static void register_rank(const struct pmixd *s, int rank, struct pmixd_wait *w)
{
    pmix_proc_t p;

    PMIX_LOAD_PROCID(&p, s->nspace, (pmix_rank_t)rank);
    pmixd_wait_expect(w);
    pmixd_wait_started(w, PMIx_server_register_client(&p, getuid(), getgid(), NULL,
                                                      pmixd_wait_wake, w));
}

/* All at once: each alone would wait for the library's thread. */
static int register_ranks(const struct pmixd *s, const struct pmixd_config *c,
                          struct err *err)
{
    struct pmixd_wait *w = pmixd_wait_new();

    for (int r = 0; r < c->world; r++)
        if (c->node_of[r] == c->node)
            register_rank(s, r, w);
    return pmixd_wait_finish(w, "PMIx_server_register_client", START_S, err);
}

static void *finalize(void *arg)
{
    PMIx_server_finalize();
    return arg;
}

/* At exit.  On a thread of its own, because it joins that of the library. */
static void end_library(void)
{
    struct timespec until;
    pthread_t thread;

    if (pmixd_is_stuck() || pthread_create(&thread, NULL, finalize, NULL) != 0)
        return;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += END_S;
    pthread_timedjoin_np(thread, NULL, &until);
}

static int start_library(const struct pmixd_config *c, struct err *err)
{
    static int runs;
    pmix_data_array_t array;
    pmix_status_t rc;

    if (pmixd_is_stuck())
        return err_set(
            err, ERR_SYSTEM,
            "libpmix is locked up in this process since a rank died while it "
            "connected: start muster again");
    if (runs)
        return 0;
    pmixd_describe_server(c, &array);
    rc = PMIx_server_init(&upcalls, array.array, array.size);
    PMIX_DATA_ARRAY_DESTRUCT(&array);
    if (rc != PMIX_SUCCESS)
        return err_set(err, ERR_SYSTEM, "PMIx_server_init: %s", PMIx_Error_string(rc));
    runs = 1;
    atexit(end_library);
    return 0;
}

int pmixd_open(struct pmixd **out, const struct pmixd_config *c, struct err *err)
{
    struct pmixd *s;

    if (the_server)
        return err_set(err, ERR_SYSTEM, "a PMIx job is open in this process already");
    if (strlen(c->nspace) > PMIX_MAX_NSLEN)
        return err_set(err, ERR_USAGE, "the job name %s is longer than PMIx takes (%d)",
                       c->nspace, PMIX_MAX_NSLEN);
    if (start_library(c, err) < 0)
        return -1;
    s = xcalloc(1, sizeof(*s));
    PMIX_LOAD_NSPACE(s->nspace, c->nspace);
    s->last = &s->first;
    s->ready = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_lock(&queue_lock);
    the_server = s;
    pthread_mutex_unlock(&queue_lock);
    if (register_job(s, c, err) < 0 || register_ranks(s, c, err) < 0) {
        pmixd_close(s);
        return -1;
    }
    *out = s;
    return 0;
}

static void deregister_job(const struct pmixd *s)
{
    struct pmixd_wait *w = pmixd_wait_new();

    pmixd_wait_expect(w);
    PMIx_server_deregister_nspace(s->nspace, pmixd_wait_wake, w);
    pmixd_wait_finish(w, "PMIx_server_deregister_nspace", END_S, NULL);
}

void pmixd_close(struct pmixd *s)
{
    struct pmixd_event *e;

    if (!s)
        return;
    if (!pmixd_is_stuck())
        deregister_job(s);
    pthread_mutex_lock(&queue_lock);
    the_server = NULL; /* what the library still says about this job is dropped */
    pthread_mutex_unlock(&queue_lock);
    while ((e = pmixd_next(s)))
        drop(e);
    close(s->ready);
    free(s);
}

int pmixd_set_env(struct pmixd *s, int rank, struct env *env, struct err *err)
{
    char **added = NULL;
    pmix_status_t rc;
    pmix_proc_t p;

    PMIX_LOAD_PROCID(&p, s->nspace, (pmix_rank_t)rank);
    rc = PMIx_server_setup_fork(&p, &added);
    if (rc != PMIX_SUCCESS)
        return err_set(err, ERR_SYSTEM, "PMIx_server_setup_fork: %s",
                       PMIx_Error_string(rc));
    for (char **v = added; v && *v; v++) {
        char *eq = strchr(*v, '=');
        *eq = '\0';
        env_set(env, *v, eq + 1);
    }
    PMIX_ARGV_FREE(added);
    return 0;
}

/* ---- answers ---- */

static void answer(void *ticket, int status, const char *blob, size_t len)
{
    struct ticket *t = ticket;
    char *copy = len ? xcalloc(len, 1) : NULL;

    if (len)
        memcpy(copy, blob, len);
    t->answer(status, copy, len, t->cbdata, free, copy);
    free(t);
}

void pmixd_fence_done(void *ticket, int status, const char *blob, size_t len)
{
    answer(ticket, status, blob, len);
}

void pmixd_modex_done(void *ticket, int status, const char *blob, size_t len)
{
    answer(ticket, status, blob, len);
}

static void fetched(pmix_status_t status, char *data, size_t len, void *cbdata)
{
    struct pmixd_event *e = event_new(PMIXD_FETCHED, -1);

    e->status = status;
    e->ticket = cbdata;
    if (status == PMIX_SUCCESS && len) {
        e->blob = xcalloc(len, 1);
        memcpy(e->blob, data, len);
        e->blob_len = len;
    }
    push(e);
}

int pmixd_fetch(struct pmixd *s, int rank, void *ticket, struct err *err)
{
    pmix_status_t rc;
    pmix_proc_t p;

    PMIX_LOAD_PROCID(&p, s->nspace, (pmix_rank_t)rank);
    rc = PMIx_server_dmodex_request(&p, fetched, ticket);
    if (rc == PMIX_SUCCESS)
        return 0;
    return err_set(err, ERR_SYSTEM, "PMIx_server_dmodex_request: %s",
                   PMIx_Error_string(rc));
}
