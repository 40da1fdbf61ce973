/* The door to CUPTI: kernels, copies and zeroes of this process, by the call that queued
 * them.
 *
 * The library is loaded when a profile is asked for, so that nothing else needs it.  Its
 * buffers are made then, before the profiled steps, and read after them.  A call carries
 * its number as an external correlation id, which CUPTI notes beside each launch; host
 * times come from CUPTI's clock.  Each call is an NVTX range too, for other tools. */
#include <cupti.h>
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "trainer/profile.h"

enum { BUFFER = 8 << 20, MAX_BUFFERS = 256 };

/* Every function we use, by name. */
#define CUPTI_CALLS(X)                        \
    X(cuptiGetVersion)                        \
    X(cuptiGetResultString)                   \
    X(cuptiGetTimestamp)                      \
    X(cuptiActivityRegisterCallbacks)         \
    X(cuptiActivityEnable)                    \
    X(cuptiActivityDisable)                   \
    X(cuptiActivityFlushAll)                  \
    X(cuptiActivityGetNextRecord)             \
    X(cuptiActivityGetNumDroppedRecords)      \
    X(cuptiActivityPushExternalCorrelationId) \
    X(cuptiActivityPopExternalCorrelationId)

#define POINTER(name) __typeof__(name) *name;
static struct {
    CUPTI_CALLS(POINTER)
} cupti;

/* CUPTI calls back from a thread of its own, without an argument. */
static struct {
    pthread_mutex_t lock;
    char *memory;
    int n, given; /* buffers of BUFFER bytes */
    struct {
        char *at;
        size_t used;
    } full[MAX_BUFFERS];
    int n_full;
    size_t dropped;
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER };

static const CUpti_ActivityKind kinds[] = {
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
    CUPTI_ACTIVITY_KIND_RUNTIME,
    CUPTI_ACTIVITY_KIND_DRIVER,
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
    CUPTI_ACTIVITY_KIND_MEMCPY,
    CUPTI_ACTIVITY_KIND_MEMCPY2,
    CUPTI_ACTIVITY_KIND_MEMSET,
};

static int failed(CUptiResult r, const char *what, struct err *err)
{
    const char *text = NULL;

    cupti.cuptiGetResultString(r, &text);
    return err_set(err, ERR_FAILED, "--profile: CUPTI, %s: %s%s", what,
                   text ? text : "unknown error",
                   r == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES
                       ? "; the driver lets only administrators profile (option "
                         "NVreg_RestrictProfilingToAdminUsers)"
                   : r == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
                       ? "; another profiler is attached"
                       : "");
}

/* --- opening ------------------------------------------------------------------------- */
static void *find_library(void)
{
    static const char *const names[] = {
        "libcupti.so.13",
        "libcupti.so.12",
        "libcupti.so",
        "/usr/local/cuda/lib64/libcupti.so",
        "/usr/local/cuda/lib/libcupti.so",
        "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
    };
    void *lib = NULL;

    for (size_t i = 0; i < ARRAY_LEN(names) && !lib; i++)
        lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return lib; /* stays loaded */
}

static int load(struct err *err)
{
    void *lib = find_library();
    uint32_t version = 0;

    if (!lib)
        return err_set(
            err, ERR_MISSING,
            "--profile: libcupti.so is not found: install the CUDA toolkit's "
            "CUPTI, or set LD_LIBRARY_PATH");
#define FIND(name)                                          \
    cupti.name = (__typeof__(cupti.name))dlsym(lib, #name); \
    if (!cupti.name)                                        \
        return err_set(err, ERR_MISSING, "--profile: libcupti.so has no %s", #name);
    CUPTI_CALLS(FIND)
    cupti.cuptiGetVersion(&version);
    if (version / 10000 != CUPTI_API_VERSION / 10000)
        return err_set(
            err, ERR_MISSING,
            "--profile: libcupti.so is version %u, the CUDA module was built "
            "with %d: their records differ; use the same toolkit",
            version, CUPTI_API_VERSION);
    return 0;
}

static void CUPTIAPI hand_out(uint8_t **buffer, size_t *size, size_t *most)
{
    pthread_mutex_lock(&pool.lock);
    *buffer = NULL;
    *size = 0;
    *most = 0; /* as many records as fit */
    if (pool.given < pool.n) {
        *buffer = (uint8_t *)pool.memory + (size_t)pool.given++ * BUFFER;
        *size = BUFFER;
    }
    pthread_mutex_unlock(&pool.lock);
}

static void CUPTIAPI take_back(CUcontext context, uint32_t stream, uint8_t *buffer,
                               size_t size, size_t used)
{
    size_t dropped = 0;

    (void)size;
    cupti.cuptiActivityGetNumDroppedRecords(context, stream, &dropped);
    pthread_mutex_lock(&pool.lock);
    pool.dropped += dropped;
    if (buffer && used > 0 && pool.n_full < MAX_BUFFERS) {
        pool.full[pool.n_full].at = (char *)buffer;
        pool.full[pool.n_full++].used = used;
    }
    pthread_mutex_unlock(&pool.lock);
}

static int cupti_open(int64_t bytes, struct err *err)
{
    CUptiResult r;

    if (load(err))
        return -1;
    pool.n = (int)(bytes / BUFFER);
    pool.n = pool.n > MAX_BUFFERS ? MAX_BUFFERS : pool.n;
    pool.memory = aligned_alloc(4096, (size_t)pool.n * BUFFER);
    if (!pool.memory)
        return err_set(err, ERR_SYSTEM, "--profile: no memory for %d buffers", pool.n);
    memset(pool.memory, 0, (size_t)pool.n * BUFFER); /* the pages, too */
    r = cupti.cuptiActivityRegisterCallbacks(hand_out, take_back);
    return r == CUPTI_SUCCESS ? 0 : failed(r, "callbacks", err);
}

/* --- recording ------------------------------------------------------------------------ */
static int64_t cupti_now(void)
{
    uint64_t t = 0;

    cupti.cuptiGetTimestamp(&t);
    return (int64_t)t;
}

static int cupti_start(struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        CUptiResult r = cupti.cuptiActivityEnable(kinds[i]);

        if (r != CUPTI_SUCCESS)
            return failed(r, "starting", err);
    }
    return 0;
}

static void cupti_push(const char *name, uint64_t id)
{
    nvtxRangePushA(name);
    cupti.cuptiActivityPushExternalCorrelationId(
        CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, id);
}

static void cupti_pop(void)
{
    uint64_t last;

    cupti.cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0,
                                                &last);
    nvtxRangePop();
}

/* --- reading ---------------------------------------------------------------------------- */
struct link {
    uint32_t correlation;
    uint64_t id;
};

struct reading {
    struct link *link;
    size_t n, room;
    profile_seen *seen;
    void *arg;
};

typedef void visit_fn(struct reading *r, CUpti_Activity *record);

static void each_record(struct reading *r, visit_fn *visit)
{
    for (int i = 0; i < pool.n_full; i++) {
        CUpti_Activity *record = NULL;

        while (cupti.cuptiActivityGetNextRecord((uint8_t *)pool.full[i].at,
                                                pool.full[i].used,
                                                &record) == CUPTI_SUCCESS)
            visit(r, record);
    }
}

static void note_link(struct reading *r, CUpti_Activity *record)
{
    const CUpti_ActivityExternalCorrelation *c = (const void *)record;

    if (record->kind != CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION)
        return;
    if (r->n == r->room) {
        r->room = r->room ? 2 * r->room : 4096;
        r->link = xrealloc(r->link, r->room, sizeof(*r->link));
    }
    r->link[r->n++] = (struct link){ c->correlationId, c->externalId };
}

static int by_correlation(const void *a, const void *b)
{
    uint32_t x = ((const struct link *)a)->correlation;
    uint32_t y = ((const struct link *)b)->correlation;

    return (x > y) - (x < y);
}

static uint64_t id_of(const struct reading *r, uint32_t correlation)
{
    struct link key = { correlation, 0 };
    const struct link *found =
        r->n ? bsearch(&key, r->link, r->n, sizeof(key), by_correlation) : NULL;

    return found ? found->id : 0;
}

/* The records of the four kinds name the same fields. */
#define EVENT(r, k, n, b)                                                            \
    (struct profile_event)                                                           \
    {                                                                                \
        .from = (int64_t)(r)->start, .to = (int64_t)(r)->end,                        \
        .track = (int32_t)(r)->streamId, .kind = k, .name = n, .bytes = (int64_t)(b) \
    }

static void hand_on(struct reading *r, CUpti_Activity *record)
{
    const CUpti_ActivityKernel10 *k = (const void *)record;
    const CUpti_ActivityMemcpy6 *m = (const void *)record;
    const CUpti_ActivityMemcpyPtoP4 *p = (const void *)record;
    const CUpti_ActivityMemset4 *z = (const void *)record;
    struct profile_event e;
    uint32_t correlation;

    switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        e = EVENT(k, PROFILE_OTHER, k->name, 0);
        correlation = k->correlationId;
        break;
    case CUPTI_ACTIVITY_KIND_MEMCPY:
        e = EVENT(m, PROFILE_MEMORY, "copy", m->bytes);
        correlation = m->correlationId;
        break;
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
        e = EVENT(p, PROFILE_MEMORY, "copy to a peer", p->bytes);
        correlation = p->correlationId;
        break;
    case CUPTI_ACTIVITY_KIND_MEMSET:
        e = EVENT(z, PROFILE_MEMORY, "zero", z->bytes);
        correlation = z->correlationId;
        break;
    default:
        return;
    }
    r->seen(r->arg, &e, id_of(r, correlation));
}

static int cupti_stop(profile_seen *seen, void *arg, int64_t *dropped, struct err *err)
{
    struct reading r = { .seen = seen, .arg = arg };
    CUptiResult result = CUPTI_SUCCESS;

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        cupti.cuptiActivityDisable(kinds[i]);
    result = cupti.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    if (result != CUPTI_SUCCESS)
        return failed(result, "reading the buffers", err);
    each_record(&r, note_link);
    if (r.n)
        qsort(r.link, r.n, sizeof(*r.link), by_correlation);
    each_record(&r, hand_on);
    *dropped = (int64_t)pool.dropped;
    free(r.link);
    return 0;
}

extern const struct profile_device profile_cupti;
__attribute__((visibility("default"))) const struct profile_device profile_cupti = {
    .open = cupti_open,
    .now = cupti_now,
    .start = cupti_start,
    .push = cupti_push,
    .pop = cupti_pop,
    .stop = cupti_stop,
};
