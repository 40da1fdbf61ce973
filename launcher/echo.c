#include "launcher/echo.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

/* Bytes for one descriptor, in order: lines to 1 and 2 keep their order, too. */
struct chunk {
    struct chunk *next;
    int fd;
    long lines;
    struct str bytes;
};

enum { CHUNK = 64 << 10 };

struct echo {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* CLOCK_MONOTONIC */
    struct chunk *first, *last;
    size_t queued; /* bytes */
    long dropped;  /* lines */
    long written;  /* chunks: progress */
    int dead[3];   /* by descriptor: errno of the write that failed */
    int closing, busy, abandoned;
};

static int write_all(int fd, const char *bytes, size_t n)
{
    while (n) {
        ssize_t k = write(fd, bytes, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0 && errno == EAGAIN) { /* somebody made it nonblocking */
            const struct timespec nap = { 0, 5000000 };
            nanosleep(&nap, NULL);
            continue;
        }
        if (k <= 0)
            return -1;
        bytes += k;
        n -= (size_t)k;
    }
    return 0;
}

static struct chunk *take(struct echo *e)
{
    struct chunk *c = e->first;

    e->first = c->next;
    if (!e->first)
        e->last = NULL;
    return c;
}

static void *writer(void *arg)
{
    struct echo *e = arg;

    pthread_mutex_lock(&e->lock);
    while (!e->abandoned && (e->first || !e->closing)) {
        struct chunk *c;
        int why;
        if (!e->first) {
            pthread_cond_wait(&e->changed, &e->lock);
            continue;
        }
        c = take(e);
        e->busy = 1;
        pthread_mutex_unlock(&e->lock);
        why = e->dead[c->fd];
        if (!why && write_all(c->fd, c->bytes.text, c->bytes.len) < 0)
            why = errno;
        pthread_mutex_lock(&e->lock);
        e->busy = 0;
        e->dead[c->fd] = why;
        e->queued -= c->bytes.len;
        e->written++;
        str_release(&c->bytes);
        free(c);
        pthread_cond_broadcast(&e->changed);
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

int echo_open(struct echo **out, struct err *err)
{
    struct echo *e = xcalloc(1, sizeof(*e));
    pthread_condattr_t mono;
    sigset_t all, before;
    int rc;

    pthread_mutex_init(&e->lock, NULL);
    pthread_condattr_init(&mono);
    pthread_condattr_setclock(&mono, CLOCK_MONOTONIC);
    pthread_cond_init(&e->changed, &mono);
    pthread_condattr_destroy(&mono);
    sigfillset(&all); /* SIGPIPE included: a lost reader is an errno here */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&e->thread, NULL, writer, e);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        free(e);
        return err_set(err, ERR_SYSTEM, "pthread_create: %s", strerror(rc));
    }
    *out = e;
    return 0;
}

static struct chunk *chunk_for(struct echo *e, int fd)
{
    struct chunk *c = e->last;

    if (c && c->fd == fd && c->bytes.len < CHUNK)
        return c;
    c = xcalloc(1, sizeof(*c));
    c->fd = fd;
    if (e->last)
        e->last->next = c;
    else
        e->first = c;
    e->last = c;
    return c;
}

void echo_line(struct echo *e, int fd, const char *prefix, const char *bytes, size_t n)
{
    struct chunk *c;
    size_t before;

    pthread_mutex_lock(&e->lock);
    if (e->queued + n > ECHO_LIMIT) {
        e->dropped++;
    } else if (!e->dead[fd]) {
        c = chunk_for(e, fd);
        before = c->bytes.len;
        str_adds(&c->bytes, prefix);
        str_add(&c->bytes, bytes, n);
        if (!n || bytes[n - 1] != '\n')
            str_add(&c->bytes, "\n", 1);
        c->lines++;
        e->queued += c->bytes.len - before;
        pthread_cond_broadcast(&e->changed);
    }
    pthread_mutex_unlock(&e->lock);
}

int echo_full(struct echo *e)
{
    int full;

    pthread_mutex_lock(&e->lock);
    full = e->queued > ECHO_LIMIT / 2;
    pthread_mutex_unlock(&e->lock);
    return full;
}

int echo_reader_gone(struct echo *e, int fd)
{
    int gone;

    pthread_mutex_lock(&e->lock);
    gone = e->dead[fd] == EPIPE;
    pthread_mutex_unlock(&e->lock);
    return gone;
}

/* Wait, lock held, until all is written or nothing moves for patience_ms. */
static void drain(struct echo *e, int patience_ms)
{
    struct timespec until;
    long seen;
    int rc = 0;

    while ((e->first || e->busy) && rc != ETIMEDOUT) {
        seen = e->written;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += patience_ms / 1000;
        until.tv_nsec += (long)(patience_ms % 1000) * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        rc = 0;
        while (e->written == seen && (e->first || e->busy) && rc != ETIMEDOUT)
            rc = pthread_cond_timedwait(&e->changed, &e->lock, &until);
    }
}

long echo_close(struct echo *e, int patience_ms)
{
    struct chunk *c;
    long lost;
    int stuck;

    if (!e)
        return 0;
    pthread_mutex_lock(&e->lock);
    drain(e, patience_ms);
    lost = e->dropped;
    while (e->first) {
        c = take(e);
        lost += c->lines;
        str_release(&c->bytes);
        free(c);
    }
    stuck = e->busy;
    e->closing = 1;
    e->abandoned = stuck;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    if (stuck) {
        pthread_detach(e->thread); /* it sits in write(); its memory stays with it */
        return lost + 1;
    }
    pthread_join(e->thread, NULL);
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->lock);
    free(e);
    return lost;
}
