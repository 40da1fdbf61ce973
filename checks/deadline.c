#include "checks/deadline.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/js.h"
#include "trainer/heartbeat.h"

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    int running, over; /* over: the step ended */
    int ms;
    struct timespec end;
    char what[160];
} watch = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void give_up(void)
{
    struct js *o = js_object();
    char text[256];

    snprintf(text, sizeof(text), "%s did not end within %.1f s: it was given up",
             watch.what, watch.ms / 1e3);
    dprintf(STDERR_FILENO, "muster-probe: %s\n", text);
    js_put_int(o, "code", ERR_TIMEOUT);
    js_put_str(o, "text", text);
    heartbeat_send("error", o);
    _exit(ERR_TIMEOUT);
}

static void *wait_for_end(void *arg)
{
    int status = 0;

    (void)arg;
    pthread_mutex_lock(&watch.lock);
    while (!watch.over && status != ETIMEDOUT)
        status = pthread_cond_timedwait(&watch.changed, &watch.lock, &watch.end);
    if (!watch.over)
        give_up();
    pthread_mutex_unlock(&watch.lock);
    return NULL;
}

void deadline_start(int ms, const char *what, ...)
{
    pthread_condattr_t monotonic;
    va_list ap;

    deadline_end();
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&watch.changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    clock_gettime(CLOCK_MONOTONIC, &watch.end);
    watch.end.tv_sec += ms / 1000;
    watch.end.tv_nsec += ms % 1000 * 1000000L;
    if (watch.end.tv_nsec >= 1000000000L) {
        watch.end.tv_sec++;
        watch.end.tv_nsec -= 1000000000L;
    }
    watch.ms = ms;
    watch.over = 0;
    va_start(ap, what);
    vsnprintf(watch.what, sizeof(watch.what), what, ap);
    va_end(ap);
    watch.running = pthread_create(&watch.thread, NULL, wait_for_end, NULL) == 0;
}

void deadline_end(void)
{
    if (!watch.running)
        return;
    pthread_mutex_lock(&watch.lock);
    watch.over = 1;
    pthread_cond_signal(&watch.changed);
    pthread_mutex_unlock(&watch.lock);
    pthread_join(watch.thread, NULL);
    watch.running = 0;
}
