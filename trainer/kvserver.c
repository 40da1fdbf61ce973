#include "trainer/kvserver.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "trainer/kvdial.h"
#include "trainer/kvmeet.h"

enum { HOLD_MS = 1000, STRANGER_MS = 5000, STRANGERS = 128, READ_AT_ONCE = 65536 };

enum state { GREETED, PROVEN, JOINED };

struct conn {
    int fd, rank;
    enum state state;
    int64_t since_ms;
    unsigned char challenge[KV_CHALLENGE];
    struct str in, out;
    size_t sent;
    int closing; /* close once `out` is gone */
};

struct kvserver {
    pthread_t thread;
    int listener, wake[2];
    struct kv_key key;
    struct conn *conn;
    int n_conn;
    struct kvmeet meet;
    struct str fresh; /* KV_DATA frames of what was put since the last fence */
    int64_t stop_ms;  /* -1: running */
    int64_t held_ms;  /* since when rank 0 waits for the others to be told; -1 */
};

static void drop(struct conn *c)
{
    close(c->fd);
    str_release(&c->in);
    str_release(&c->out);
    c->fd = -1;
}

static void send_fail(struct conn *c, const struct err *why)
{
    kv_append(&c->out, KV_FAIL, why->code, "", why->text, strlen(why->text));
}

static void fail_waiting(struct kvserver *s)
{
    for (int i = 0; i < s->n_conn; i++) {
        struct conn *c = &s->conn[i];

        if (c->fd >= 0 && c->state == JOINED && s->meet.member[c->rank].fenced)
            send_fail(c, &s->meet.failure);
    }
}

static void release_waiting(struct kvserver *s)
{
    for (int i = 0; i < s->n_conn; i++) {
        struct conn *c = &s->conn[i];

        if (c->fd < 0 || c->state != JOINED || c->closing)
            continue;
        str_add(&c->out, s->fresh.text ? s->fresh.text : "", s->fresh.len);
        kv_append(&c->out, KV_MET, 0, "", NULL, 0);
    }
    str_clear(&s->fresh);
    kvmeet_next(&s->meet);
}

static void on_hello(struct kvserver *s, struct conn *c, const struct kv_frame *f)
{
    struct err why = ERR_INIT;
    char numbers[32], host[64], *end;
    long world, node;

    snprintf(host, sizeof(host), "%.*s", (int)f->key_len, f->key);
    snprintf(numbers, sizeof(numbers), "%.*s", (int)f->value_len, f->value);
    world = strtol(numbers, &end, 10);
    node = strtol(end, NULL, 10);
    if (kvmeet_join(&s->meet, f->rank, world, node, host, &why) == 0) {
        c->rank = (int)f->rank;
        c->state = JOINED;
        kv_append(&c->out, KV_WELCOME, 0, "", NULL, 0);
    } else {
        send_fail(c, &why);
        c->closing = 1;
    }
    err_release(&why);
}

static void on_fence(struct kvserver *s, struct conn *c, const struct kv_frame *f)
{
    char what[64];

    snprintf(what, sizeof(what), "%.*s", (int)f->key_len, f->key);
    if (s->meet.left)
        kvmeet_lost(&s->meet, s->meet.left - 1);
    if (s->meet.failure.code)
        send_fail(c, &s->meet.failure);
    else if (kvmeet_arrive(&s->meet, c->rank, what, f->rank, clock_ms()))
        release_waiting(s);
}

static void on_frame(struct kvserver *s, struct conn *c, const struct kv_frame *f)
{
    char key[KV_MAX_KEY + 1];

    if (c->state == PROVEN && f->type == KV_HELLO) {
        on_hello(s, c, f);
    } else if (c->state == JOINED && f->type == KV_PUT) {
        memcpy(key, f->key, f->key_len);
        key[f->key_len] = '\0';
        kv_append(&s->fresh, KV_DATA, (uint32_t)c->rank, key, f->value, f->value_len);
    } else if (c->state == JOINED && f->type == KV_FENCE) {
        on_fence(s, c, f);
    } else {
        c->closing = 1;
        if (c->state == JOINED && kvmeet_bye(&s->meet, c->rank))
            fail_waiting(s);
    }
}

/* Bytes used from the front of c->in. */
static size_t on_answer(struct kvserver *s, struct conn *c)
{
    unsigned char want[KV_PROOF];
    const unsigned char *in = (const unsigned char *)c->in.text;

    if (c->in.len < KV_ANSWER)
        return 0;
    kv_proof(s->key, 'C', c->challenge, in, want);
    if (memcmp(want, in + KV_CHALLENGE, KV_PROOF) != 0) {
        drop(c);
        return 0;
    }
    kv_proof(s->key, 'S', c->challenge, in, want);
    str_add(&c->out, (const char *)want, KV_PROOF);
    c->state = PROVEN;
    return KV_ANSWER;
}

static void on_bytes(struct kvserver *s, struct conn *c)
{
    struct kv_frame f;
    size_t used = 0;
    long n = 1;

    if (c->state == GREETED)
        used = on_answer(s, c);
    while (c->fd >= 0 && c->state != GREETED && !c->closing &&
           (n = kv_parse(c->in.text + used, c->in.len - used, &f)) > 0) {
        on_frame(s, c, &f);
        used += (size_t)n;
    }
    if (c->fd < 0)
        return;
    if (n < 0)
        c->closing = 1;
    memmove(c->in.text, c->in.text + used, c->in.len - used);
    c->in.len -= used;
}

static void on_gone(struct kvserver *s, struct conn *c)
{
    int rank = c->rank, joined = c->state == JOINED && !c->closing;

    drop(c);
    if (joined && kvmeet_lost(&s->meet, rank))
        fail_waiting(s);
}

static void read_from(struct kvserver *s, struct conn *c)
{
    char buf[READ_AT_ONCE];
    ssize_t k = recv(c->fd, buf, sizeof(buf), MSG_DONTWAIT);

    if (k > 0) {
        str_add(&c->in, buf, (size_t)k);
        on_bytes(s, c);
    } else if (k == 0 || (errno != EAGAIN && errno != EINTR)) {
        on_gone(s, c);
    }
}

static void write_to(struct kvserver *s, struct conn *c)
{
    ssize_t k = send(c->fd, c->out.text + c->sent, c->out.len - c->sent,
                     MSG_DONTWAIT | MSG_NOSIGNAL);

    if (k < 0 && errno != EAGAIN && errno != EINTR) {
        on_gone(s, c);
        return;
    }
    c->sent += k > 0 ? (size_t)k : 0;
    if (c->sent == c->out.len) {
        str_clear(&c->out);
        c->sent = 0;
    }
}

static void accept_one(struct kvserver *s)
{
    int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC), one = 1, strangers = 0;
    struct conn *c;

    if (fd < 0)
        return;
    for (int i = 0; i < s->n_conn; i++)
        strangers += s->conn[i].state != JOINED;
    if (strangers >= STRANGERS + s->meet.world) {
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    s->conn = xrealloc(s->conn, (size_t)s->n_conn + 1, sizeof(*s->conn));
    c = &s->conn[s->n_conn++];
    memset(c, 0, sizeof(*c));
    c->fd = fd;
    c->since_ms = clock_ms();
    kv_random(c->challenge, KV_CHALLENGE);
    str_add(&c->out, kv_magic, KV_MAGIC);
    str_add(&c->out, (const char *)c->challenge, KV_CHALLENGE);
}

/* Close what is done with; keep the others in order. */
static void sweep(struct kvserver *s, int64_t now)
{
    int kept = 0;

    for (int i = 0; i < s->n_conn; i++) {
        struct conn *c = &s->conn[i];

        if (c->fd >= 0 && ((c->closing && c->out.len == 0) ||
                           (c->state != JOINED && now - c->since_ms > STRANGER_MS)))
            drop(c);
        if (c->fd >= 0)
            s->conn[kept++] = *c;
    }
    s->n_conn = kept;
}

static int others_left(const struct kvserver *s)
{
    int n = 0;

    for (int i = 0; i < s->n_conn; i++)
        n += s->conn[i].state == JOINED;
    return n;
}

static int is_host(const struct conn *c)
{
    return c->state == JOINED && c->rank == 0;
}

/* Rank 0 last: what it hears may end its process, and this store with it.  Others
 * that do not read hold it up for HOLD_MS. */
static void write_all(struct kvserver *s)
{
    int waiting = 0;

    for (int i = 0; i < s->n_conn; i++) {
        struct conn *c = &s->conn[i];

        if (c->fd < 0 || c->out.len == 0 || is_host(c))
            continue;
        write_to(s, c);
        waiting += c->fd >= 0 && c->out.len > 0;
    }
    if (waiting == 0)
        s->held_ms = -1;
    else if (s->held_ms < 0)
        s->held_ms = clock_ms();
    for (int i = 0; i < s->n_conn; i++)
        if (s->conn[i].fd >= 0 && s->conn[i].out.len > 0 && is_host(&s->conn[i]) &&
            (waiting == 0 || clock_ms() - s->held_ms > HOLD_MS))
            write_to(s, &s->conn[i]);
}

static void serve_once(struct kvserver *s, struct pollfd *p)
{
    int n = s->n_conn;
    char byte;

    p[0] = (struct pollfd){ .fd = s->listener, .events = POLLIN };
    p[1] = (struct pollfd){ .fd = s->wake[0], .events = POLLIN };
    for (int i = 0; i < n; i++)
        p[2 + i] =
            (struct pollfd){ .fd = s->conn[i].fd,
                             .events =
                                 (short)(POLLIN | (s->conn[i].out.len ? POLLOUT : 0)) };
    if (poll(p, (nfds_t)n + 2, 50) <= 0)
        return;
    if (p[1].revents && read(s->wake[0], &byte, 1) < 0)
        return;
    for (int i = 0; i < n; i++)
        if (p[2 + i].revents & (POLLIN | POLLHUP | POLLERR))
            read_from(s, &s->conn[i]);
    write_all(s);
    if (p[0].revents)
        accept_one(s);
}

static void *serve(void *arg)
{
    struct kvserver *s = arg;
    struct pollfd *p = NULL;

    for (;;) {
        int64_t now = clock_ms();
        int64_t stop = __atomic_load_n(&s->stop_ms, __ATOMIC_ACQUIRE);

        sweep(s, now);
        if (stop >= 0 && (others_left(s) == 0 || now >= stop))
            break;
        p = xrealloc(p, (size_t)s->n_conn + 2, sizeof(*p));
        serve_once(s, p);
        if (kvmeet_late(&s->meet, clock_ms()))
            fail_waiting(s);
    }
    free(p);
    return NULL;
}

static void kvserver_free(struct kvserver *s)
{
    for (int i = 0; i < s->n_conn; i++)
        drop(&s->conn[i]);
    for (int i = 0; i < 2; i++)
        if (s->wake[i] >= 0)
            close(s->wake[i]);
    if (s->listener >= 0)
        close(s->listener);
    str_release(&s->fresh);
    kvmeet_release(&s->meet);
    free(s->conn);
    free(s);
}

int kvserver_start(struct kvserver **out, struct kvdial *where, int world,
                   int local_world, struct err *err)
{
    struct kvserver *s = xcalloc(1, sizeof(*s));
    sigset_t all, old;
    int rc;

    s->listener = s->wake[0] = s->wake[1] = -1;
    s->key = where->key;
    s->stop_ms = s->held_ms = -1;
    kvmeet_init(&s->meet, world, local_world);
    s->listener = kvdial_listen(where, err);
    if (s->listener < 0)
        goto fail;
    if (pipe2(s->wake, O_CLOEXEC) != 0) {
        err_set(err, ERR_SYSTEM, "pipe: %m");
        goto fail;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&s->thread, NULL, serve, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0) {
        err_set(err, ERR_SYSTEM, "the store's thread: %s", strerror(rc));
        goto fail;
    }
    *out = s;
    return 0;
fail:
    kvserver_free(s);
    return -1;
}

void kvserver_stop(struct kvserver *s, int linger_ms)
{
    if (!s)
        return;
    __atomic_store_n(&s->stop_ms, clock_ms() + linger_ms, __ATOMIC_RELEASE);
    (void)!write(s->wake[1], "", 1); /* else it wakes by itself soon */
    pthread_join(s->thread, NULL);
    kvserver_free(s);
}
