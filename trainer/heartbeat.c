#include "trainer/heartbeat.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"

enum { LAST_WORD_MS = 500, ALIVE_MS = 1000 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t timer;
    int fd, rank, running;
    int64_t step, period_ms;
    unsigned sent; /* lines, so that the timer sees whether others spoke */
} hb = { .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1, .step = -1 };

static struct js *new_event(const char *event)
{
    struct js *o = js_object();

    js_put_int(o, "rank", hb.rank);
    js_put_real(o, "t", clock_wall_s());
    js_put_str(o, "event", event);
    return o;
}

/* Whole or not at all.  A pipe whose reader is gone raises SIGPIPE in the
 * writing thread: it is held back and taken away. */
static int write_line(const char *line, size_t n)
{
    const struct timespec now = { 0, 0 };
    sigset_t pipe_set, pending, old;
    ssize_t k;
    int had;

    sigemptyset(&pipe_set);
    sigaddset(&pipe_set, SIGPIPE);
    sigpending(&pending);
    had = sigismember(&pending, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_set, &old);
    do
        k = write(hb.fd, line, n);
    while (k < 0 && errno == EINTR);
    if (k < 0 && errno == EPIPE) {
        if (!had)
            while (sigtimedwait(&pipe_set, NULL, &now) < 0 && errno == EINTR)
                ;
        hb.fd = -1; /* nobody listens any more */
        errno = EPIPE;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return k == (ssize_t)n ? 0 : -1;
}

static char *fitting_line(const char *event, struct js *o)
{
    char *text = js_line(o), *line;
    size_t n = strlen(text);

    if (n + 1 > PIPE_BUF) {
        struct js *instead = new_event(event);

        js_put_int(instead, "too_long", (int64_t)n + 1);
        free(text);
        text = js_line(instead);
        js_free(instead);
    }
    line = xasprintf("%s\n", text);
    free(text);
    return line;
}

/* With the lock held. */
static void send_locked(const char *event, struct js *fields)
{
    int last_word = str_eq(event, "error") || str_eq(event, "done");
    struct js *o = new_event(event), *v;
    const char *key;
    char *line;

    for (size_t i = 0; fields && js_pair(fields, i, &key, &v); i++)
        js_put(o, key, js_ref(v));
    line = fitting_line(event, o);
    if (write_line(line, strlen(line)) != 0 && errno == EAGAIN && last_word) {
        struct pollfd p = { .fd = hb.fd, .events = POLLOUT };

        if (poll(&p, 1, LAST_WORD_MS) == 1)
            (void)write_line(line, strlen(line));
    }
    hb.sent++;
    free(line);
    js_free(o);
}

static void *timer_main(void *arg)
{
    struct timespec until;

    pthread_mutex_lock(&hb.lock);
    while (hb.running) {
        unsigned before = hb.sent;
        int64_t ns;

        clock_gettime(CLOCK_MONOTONIC, &until);
        ns = until.tv_nsec + hb.period_ms % 1000 * 1000000;
        until.tv_sec += hb.period_ms / 1000 + ns / 1000000000;
        until.tv_nsec = ns % 1000000000;
        while (hb.running &&
               pthread_cond_timedwait(&hb.wake, &hb.lock, &until) != ETIMEDOUT)
            ;
        if (hb.running && hb.sent == before && hb.fd >= 0) {
            struct js *fields = js_object();

            js_put_int(fields, "step", hb.step);
            send_locked("alive", fields);
            js_free(fields);
        }
    }
    pthread_mutex_unlock(&hb.lock);
    return arg;
}

static long number_of(const char *name, long def)
{
    const char *text = getenv(name);
    char *end;
    long v = text ? strtol(text, &end, 10) : 0;

    return text && *text && *end == '\0' && v >= 0 && v <= INT_MAX ? v : def;
}

/* The timer takes no signal that is meant for the rank. */
static void start_timer(void)
{
    pthread_condattr_t attr;
    sigset_t all, old;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&hb.wake, &attr);
    pthread_condattr_destroy(&attr);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    hb.running = 1;
    if (pthread_create(&hb.timer, NULL, timer_main, NULL) != 0)
        hb.running = 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void heartbeat_open(int rank)
{
    int fd = (int)number_of("MUSTER_EVENT_FD", -1), flags;

    pthread_mutex_lock(&hb.lock);
    flags = fd >= 0 && hb.fd < 0 ? fcntl(fd, F_GETFL) : -1;
    if (flags >= 0) {
        fcntl(fd, F_SETFL, flags | O_NONBLOCK);
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        hb.fd = fd;
        hb.rank = rank;
        hb.period_ms = number_of("MUSTER_ALIVE_MS", ALIVE_MS);
        if (hb.period_ms > 0 && !hb.running)
            start_timer();
    }
    pthread_mutex_unlock(&hb.lock);
}

void heartbeat_send(const char *event, struct js *fields)
{
    pthread_mutex_lock(&hb.lock);
    if (str_eq(event, "step"))
        hb.step = js_get_int(fields, "step", hb.step);
    if (hb.fd >= 0)
        send_locked(event, fields);
    pthread_mutex_unlock(&hb.lock);
    js_free(fields);
}

static void send_stage(const char *event, const char *stage)
{
    struct js *fields = js_object();

    js_put_str(fields, "stage", stage);
    heartbeat_send(event, fields);
}

void heartbeat_arrive(const char *stage)
{
    send_stage("arrive", stage);
}

void heartbeat_leave(const char *stage)
{
    send_stage("leave", stage);
}

void heartbeat_close(void)
{
    int was;

    pthread_mutex_lock(&hb.lock);
    was = hb.running;
    hb.running = 0;
    if (was)
        pthread_cond_signal(&hb.wake);
    pthread_mutex_unlock(&hb.lock);
    if (was) {
        pthread_join(hb.timer, NULL);
        pthread_cond_destroy(&hb.wake);
    }
    hb.fd = -1;
}
