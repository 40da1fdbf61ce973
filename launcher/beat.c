#include "launcher/beat.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "launcher/frame.h"

struct stream {
    int fd;       /* -1: not open */
    int half;     /* a part of a frame was written: nothing may come between */
    int64_t said; /* ms */
};

struct beat {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t over; /* CLOCK_MONOTONIC */
    int leave, n;
    char alive[64]; /* the frame */
    size_t len;
    struct stream stream[];
};

static void say_all(struct beat *b)
{
    int64_t now = clock_ms();

    for (int i = 0; i < b->n; i++) {
        struct stream *s = &b->stream[i];
        if (s->fd < 0 || s->half || now - s->said < FRAME_ALIVE_MS)
            continue;
        /* So few bytes go whole or not at all; what cannot be written shows in the loop. */
        if (write(s->fd, b->alive, b->len) > 0)
            s->said = now;
    }
}

static void *run(void *arg)
{
    struct beat *b = arg;
    struct timespec at;

    pthread_mutex_lock(&b->lock);
    while (!b->leave) {
        clock_gettime(CLOCK_MONOTONIC, &at);
        at.tv_nsec += FRAME_ALIVE_MS / 2 * 1000000L;
        at.tv_sec += at.tv_nsec / 1000000000L;
        at.tv_nsec %= 1000000000L;
        pthread_cond_timedwait(&b->over, &b->lock, &at);
        say_all(b);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

static void make_frame(struct beat *b)
{
    struct frame_out o = { .sent = 0 };

    frame_put(&o, FRAME_ALIVE);
    b->len = o.bytes.len < sizeof(b->alive) ? o.bytes.len : sizeof(b->alive);
    memcpy(b->alive, o.bytes.text, b->len);
    frame_out_release(&o);
}

int beat_new(int n, struct beat **out, struct err *err)
{
    struct beat *b = xcalloc(1, sizeof(*b) + (size_t)n * sizeof(b->stream[0]));
    pthread_condattr_t attr;
    sigset_t all, before;
    int rc;

    b->n = n;
    for (int i = 0; i < n; i++)
        b->stream[i].fd = -1;
    make_frame(b);
    pthread_mutex_init(&b->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&b->over, &attr);
    pthread_condattr_destroy(&attr);
    sigfillset(&all); /* signals are the loop's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&b->thread, NULL, run, b);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        free(b);
        return err_set(err, ERR_SYSTEM, "cannot start a thread: %s", strerror(rc));
    }
    *out = b;
    return 0;
}

void beat_open(struct beat *b, int i, int fd)
{
    pthread_mutex_lock(&b->lock);
    b->stream[i] = (struct stream){ .fd = fd, .said = clock_ms() };
    pthread_mutex_unlock(&b->lock);
}

int beat_flush(struct beat *b, int i, struct frame_out *o)
{
    struct stream *s = &b->stream[i];
    int rc;

    pthread_mutex_lock(&b->lock);
    if (frame_pending(o))
        s->said = clock_ms();
    rc = frame_flush(o, s->fd);
    s->half = frame_pending(o) > 0;
    pthread_mutex_unlock(&b->lock);
    return rc;
}

void beat_close(struct beat *b, int i)
{
    pthread_mutex_lock(&b->lock);
    b->stream[i].fd = -1;
    pthread_mutex_unlock(&b->lock);
}

void beat_free(struct beat *b)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    b->leave = 1;
    pthread_cond_signal(&b->over);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
    pthread_cond_destroy(&b->over);
    pthread_mutex_destroy(&b->lock);
    free(b);
}
