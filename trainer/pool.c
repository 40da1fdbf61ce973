#include "trainer/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"

enum { MAX_THREADS = 1024, SPIN = 4000 };

struct pool {
    int threads, started;
    int spin; /* polls before sleeping; 0 when processors are shared */
    pthread_t *thread;
    struct worker *worker;
    pthread_mutex_t lock;
    pthread_cond_t start, done;
    pool_fn *fn;
    void *arg;
    int n;
    atomic_int next;        /* first unit nobody has taken */
    atomic_int busy;        /* workers not finished with this generation */
    atomic_uint generation; /* changes when there is work, or to stop */
    atomic_int stop;
};

struct worker {
    struct pool *pool;
    int index;
};

static void relax(void)
{
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}

static void take_units(struct pool *p, int worker)
{
    int unit;

    while ((unit = atomic_fetch_add(&p->next, 1)) < p->n)
        p->fn(p->arg, unit, worker);
}

static unsigned wait_for_work(struct pool *p, unsigned seen)
{
    unsigned now;

    for (int i = 0; i < p->spin; i++) {
        if ((now = atomic_load(&p->generation)) != seen)
            return now;
        relax();
    }
    pthread_mutex_lock(&p->lock);
    while ((now = atomic_load(&p->generation)) == seen)
        pthread_cond_wait(&p->start, &p->lock);
    pthread_mutex_unlock(&p->lock);
    return now;
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct pool *p = w->pool;
    unsigned seen = 0;

    for (;;) {
        seen = wait_for_work(p, seen);
        if (atomic_load(&p->stop))
            return NULL;
        take_units(p, w->index);
        if (atomic_fetch_sub(&p->busy, 1) == 1) {
            pthread_mutex_lock(&p->lock);
            pthread_cond_signal(&p->done);
            pthread_mutex_unlock(&p->lock);
        }
    }
}

static void publish(struct pool *p)
{
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->generation, 1);
    pthread_cond_broadcast(&p->start);
    pthread_mutex_unlock(&p->lock);
}

static void wait_until_done(struct pool *p)
{
    for (int i = 0; i < p->spin; i++) {
        if (atomic_load(&p->busy) == 0)
            return;
        relax();
    }
    pthread_mutex_lock(&p->lock);
    while (atomic_load(&p->busy) != 0)
        pthread_cond_wait(&p->done, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

void pool_run(struct pool *p, int n, pool_fn *fn, void *arg)
{
    if (p->threads == 1 || n <= 1) {
        for (int i = 0; i < n; i++)
            fn(arg, i, 0);
        return;
    }
    p->fn = fn;
    p->arg = arg;
    p->n = n;
    atomic_store(&p->next, 0);
    atomic_store(&p->busy, p->threads - 1);
    publish(p);
    take_units(p, 0);
    wait_until_done(p);
}

int pool_threads(const struct pool *p)
{
    return p->threads;
}

void pool_free(struct pool *p)
{
    if (!p)
        return;
    atomic_store(&p->stop, 1);
    publish(p);
    for (int i = 0; i < p->started; i++)
        pthread_join(p->thread[i], NULL);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->start);
    pthread_cond_destroy(&p->done);
    free(p->thread);
    free(p->worker);
    free(p);
}

int pool_new(struct pool **out, int threads, struct err *err)
{
    struct pool *p;

    if (threads < 1 || threads > MAX_THREADS)
        return err_set(err, ERR_USAGE, "%d threads: give 1 to %d", threads,
                       MAX_THREADS);
    p = xcalloc(1, sizeof(*p));
    p->threads = threads;
    p->spin = threads <= sysconf(_SC_NPROCESSORS_ONLN) ? SPIN : 0;
    p->thread = xcalloc((size_t)threads, sizeof(*p->thread));
    p->worker = xcalloc((size_t)threads, sizeof(*p->worker));
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->start, NULL);
    pthread_cond_init(&p->done, NULL);
    for (; p->started < threads - 1; p->started++) {
        struct worker *w = &p->worker[p->started];
        int rc;

        *w = (struct worker){ p, p->started + 1 };
        rc = pthread_create(&p->thread[p->started], NULL, worker_main, w);
        if (rc != 0) {
            err_set(err, ERR_SYSTEM, "starting thread %d of %d: %s", p->started + 2,
                    threads, strerror(rc));
            pool_free(p);
            return -1;
        }
    }
    *out = p;
    return 0;
}
