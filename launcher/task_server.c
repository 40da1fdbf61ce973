#include "launcher/task_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/js.h"
#include "base/log.h"
#include "base/mem.h"
#include "trainer/kvwire.h"

enum {
    STRANGERS = 64,
    STRANGER_MS = 10000,
    LISTENER = -1,
    AT_ONCE = 64,
    ROUNDS = 64,
    LATER_AT_ONCE = 4,
};

enum link_state { GREETED, PROVEN, JOINED, OVER };

struct link {
    int fd, rank, slot, wants_write;
    enum link_state state;
    unsigned char challenge[KV_CHALLENGE];
    int64_t since;
    struct str in, out;
    size_t sent;
    struct str later;  /* frames that wait, whole */
    struct link *next; /* of those with some */
    int is_waiting;
};

struct task_server {
    int world, listener, epoll, port, n;
    struct kv_key key;
    struct task_server_calls calls;
    void *arg;
    struct link **link; /* [n]; holes are NULL */
    struct link **of;   /* [world]; NULL: not connected */
    struct link *waiting, **last_waiting;
};

/* ---- what waits ----
 *
 * Hundreds of ranks report a step, and end, at the time when one of them prints it. */

static void wait_for_turn(struct task_server *s, struct link *l, enum task_frame type,
                          const char *bytes, size_t n)
{
    task_frame_add(&l->later, type, bytes, n);
    if (l->is_waiting)
        return;
    l->is_waiting = 1;
    l->next = NULL;
    *s->last_waiting = l;
    s->last_waiting = &l->next;
}

static void unlist(struct task_server *s, struct link *l)
{
    struct link **at = &s->waiting;

    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    if (s->last_waiting == &l->next)
        s->last_waiting = at;
    l->is_waiting = 0;
}

static void take_later(struct task_server *s, struct link *l)
{
    struct str frames = l->later;
    enum task_frame type;
    const char *bytes;
    size_t n, used = 0;

    if (!l->is_waiting)
        return;
    unlist(s, l);
    l->later = (struct str)STR_INIT;
    while (used < frames.len) {
        used += (size_t)task_frame_parse(frames.text + used, frames.len - used, &type,
                                         &bytes, &n);
        s->calls.frame(s->arg, l->rank, type, bytes, n);
    }
    str_release(&frames);
}

/* ---- one connection ---- */

static void drop(struct task_server *s, struct link *l)
{
    int rank = l->rank, lost = l->state == JOINED;

    take_later(s, l);
    close(l->fd);
    if (rank >= 0 && s->of[rank] == l)
        s->of[rank] = NULL;
    s->link[l->slot] = NULL;
    str_release(&l->in);
    str_release(&l->out);
    str_release(&l->later);
    free(l);
    if (lost)
        s->calls.lost(s->arg, rank);
}

static void listen_to(struct task_server *s, struct link *l, int op)
{
    struct epoll_event e = { .events = EPOLLIN, .data.fd = l->slot };

    l->wants_write = l->sent < l->out.len;
    if (l->wants_write)
        e.events |= EPOLLOUT;
    epoll_ctl(s->epoll, op, l->fd, &e);
}

/* What the socket does not take waits; an error shows when it is read. */
static void write_out(struct task_server *s, struct link *l)
{
    ssize_t n = 1;

    while (l->sent < l->out.len && n > 0) {
        n = send(l->fd, l->out.text + l->sent, l->out.len - l->sent,
                 MSG_DONTWAIT | MSG_NOSIGNAL);
        l->sent += n > 0 ? (size_t)n : 0;
    }
    if (l->sent == l->out.len) {
        str_clear(&l->out);
        l->sent = 0;
    }
    if (l->wants_write != (l->sent < l->out.len))
        listen_to(s, l, EPOLL_CTL_MOD);
}

/* Bytes used; -1: it is no agent of ours. */
static long take_proof(struct task_server *s, struct link *l)
{
    const unsigned char *in = (const unsigned char *)l->in.text;
    unsigned char want[KV_PROOF];

    if (l->in.len < KV_ANSWER)
        return 0;
    kv_proof(s->key, 'C', l->challenge, in, want);
    if (memcmp(want, in + KV_CHALLENGE, KV_PROOF) != 0)
        return -1;
    kv_proof(s->key, 'S', l->challenge, in, want);
    str_add(&l->out, (const char *)want, KV_PROOF);
    write_out(s, l);
    l->state = PROVEN;
    return KV_ANSWER;
}

static int take_hello(struct task_server *s, struct link *l, enum task_frame type,
                      const char *bytes, size_t n)
{
    struct js *about = NULL;
    int64_t rank;
    int rc = -1;

    if (type != TASK_HELLO || js_parse(bytes, n, "hello", &about, NULL) < 0)
        return -1;
    rank = js_get_int(about, "rank", -1);
    if (rank < 0 || rank >= s->world || s->of[rank]) {
        log_warn("an agent says that it is rank %lld, which %s: refused",
                 (long long)rank,
                 rank < 0 || rank >= s->world ? "does not exist" : "is there already");
    } else {
        l->rank = (int)rank;
        l->state = JOINED;
        s->of[rank] = l;
        rc = s->calls.hello(s->arg, l->rank, about);
    }
    js_free(about);
    return rc;
}

static int take_frame(struct task_server *s, struct link *l, enum task_frame type,
                      const char *bytes, size_t n)
{
    if (l->state == PROVEN)
        return take_hello(s, l, type, bytes, n);
    if (l->state == OVER || type == TASK_HELLO || type == TASK_START)
        return -1;
    if (type == TASK_EXIT || type == TASK_FAILED)
        l->state = OVER;
    if (s->calls.can_wait && s->calls.can_wait(type, bytes, n)) {
        wait_for_turn(s, l, type, bytes, n);
        return 0;
    }
    if (type != TASK_OUT && type != TASK_ERR)
        take_later(s, l);
    s->calls.frame(s->arg, l->rank, type, bytes, n);
    return 0;
}

/* 0, or -1: drop it. */
static int take_bytes(struct task_server *s, struct link *l)
{
    enum task_frame type;
    const char *bytes;
    size_t n, used = 0;
    long whole = 0;

    if (l->state == GREETED) {
        whole = take_proof(s, l);
        if (whole <= 0)
            return (int)whole;
        used = (size_t)whole;
    }
    while ((whole = task_frame_parse(l->in.text + used, l->in.len - used, &type, &bytes,
                                     &n)) > 0) {
        if (take_frame(s, l, type, bytes, n) < 0)
            return -1;
        used += (size_t)whole;
    }
    memmove(l->in.text, l->in.text + used, l->in.len - used);
    l->in.len -= used;
    return whole < 0 ? -1 : 0;
}

static void read_from(struct task_server *s, struct link *l)
{
    char buf[65536];
    ssize_t n = recv(l->fd, buf, sizeof(buf), MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        str_add(&l->in, buf, (size_t)n);
        if (take_bytes(s, l) == 0)
            return;
    }
    drop(s, l);
}

/* ---- new ones ---- */

static int free_slot(struct task_server *s)
{
    for (int i = 0; i < s->n; i++)
        if (!s->link[i])
            return i;
    s->link = xrealloc(s->link, (size_t)s->n + 1, sizeof(struct link *));
    s->link[s->n] = NULL;
    return s->n++;
}

static void add(struct task_server *s, int fd)
{
    struct link *l = xcalloc(1, sizeof(*l));

    l->fd = fd;
    l->rank = -1;
    l->since = clock_ms();
    l->slot = free_slot(s);
    s->link[l->slot] = l;
    task_keep_alive(fd);
    kv_random(l->challenge, KV_CHALLENGE);
    str_add(&l->out, kv_magic, KV_MAGIC);
    str_add(&l->out, (const char *)l->challenge, KV_CHALLENGE);
    listen_to(s, l, EPOLL_CTL_ADD);
    write_out(s, l);
}

/* Strangers that say nothing do not keep agents out for long. */
static int strangers(struct task_server *s)
{
    int64_t now = clock_ms();
    int n = 0;

    for (int i = 0; i < s->n; i++) {
        if (!s->link[i] || s->link[i]->state == JOINED || s->link[i]->state == OVER)
            continue;
        if (now - s->link[i]->since > STRANGER_MS)
            drop(s, s->link[i]);
        else
            n++;
    }
    return n;
}

static void accept_all(struct task_server *s)
{
    int fd;

    while ((fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
        if (strangers(s) < STRANGERS + s->world)
            add(s, fd);
        else
            close(fd);
}

/* How many could be read or written to. */
static int serve_sockets(struct task_server *s)
{
    struct epoll_event e[AT_ONCE];
    int n = epoll_wait(s->epoll, e, AT_ONCE, 0);

    for (int i = 0; i < n; i++) {
        int slot = e[i].data.fd;
        if (slot == LISTENER) {
            accept_all(s);
            continue;
        }
        if (slot < s->n && s->link[slot] && e[i].events & EPOLLOUT)
            write_out(s, s->link[slot]);
        if (slot < s->n && s->link[slot] && e[i].events & ~(uint32_t)EPOLLOUT)
            read_from(s, s->link[slot]);
    }
    return n;
}

void task_server_poll(struct task_server *s)
{
    int n = 1;

    for (int round = 0; round < ROUNDS && (n > 0 || s->waiting); round++) {
        n = serve_sockets(s);
        for (int i = 0; n < AT_ONCE && s->waiting && i < LATER_AT_ONCE; i++)
            take_later(s, s->waiting);
    }
    while (s->waiting)
        take_later(s, s->waiting);
}

/* ---- opening ---- */

static int start_listening(struct task_server *s, struct err *err)
{
    struct sockaddr_in at = { .sin_family = AF_INET };
    struct epoll_event e = { .events = EPOLLIN, .data.fd = LISTENER };
    socklen_t len = sizeof(at);

    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->epoll < 0 || s->listener < 0 ||
        bind(s->listener, (struct sockaddr *)&at, sizeof(at)) < 0 ||
        listen(s->listener, 4096) < 0 ||
        getsockname(s->listener, (struct sockaddr *)&at, &len) < 0)
        return err_set(err, ERR_SYSTEM, "a port for the agents: %m");
    s->port = ntohs(at.sin_port);
    epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->listener, &e);
    return 0;
}

int task_server_open(struct task_server **out, int world, const char *key,
                     const struct task_server_calls *calls, void *arg, struct err *err)
{
    struct task_server *s = xcalloc(1, sizeof(*s));

    s->world = world;
    s->key = kv_key_of(key);
    s->calls = *calls;
    s->arg = arg;
    s->of = xcalloc((size_t)world, sizeof(struct link *));
    s->listener = s->epoll = -1;
    s->last_waiting = &s->waiting;
    if (start_listening(s, err) < 0) {
        task_server_close(s);
        return -1;
    }
    *out = s;
    return 0;
}

void task_server_close(struct task_server *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->n; i++)
        if (s->link[i]) {
            s->link[i]->state = OVER;
            drop(s, s->link[i]);
        }
    if (s->listener >= 0)
        close(s->listener);
    if (s->epoll >= 0)
        close(s->epoll);
    free(s->link);
    free(s->of);
    free(s);
}

int task_server_fd(const struct task_server *s)
{
    return s->epoll;
}

static int is_usable(const struct ifaddrs *a)
{
    static const char *const inner[] = { "docker", "virbr", "veth", "br-", "cni" };

    if (!a->ifa_addr || a->ifa_addr->sa_family != AF_INET || !(a->ifa_flags & IFF_UP) ||
        a->ifa_flags & IFF_LOOPBACK)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(inner); i++)
        if (strncmp(a->ifa_name, inner[i], strlen(inner[i])) == 0)
            return 0;
    return 1;
}

char *task_server_at(const struct task_server *s)
{
    char host[256] = "", text[INET_ADDRSTRLEN];
    struct ifaddrs *all = NULL;
    struct str at = STR_INIT;

    getifaddrs(&all);
    for (struct ifaddrs *a = all; a; a = a->ifa_next)
        if (is_usable(a) &&
            inet_ntop(AF_INET, &((struct sockaddr_in *)a->ifa_addr)->sin_addr, text,
                      sizeof(text)))
            str_addf(&at, "%s:%d ", text, s->port);
    freeifaddrs(all);
    gethostname(host, sizeof(host) - 1);
    str_addf(&at, "%s:%d 127.0.0.1:%d", host, s->port, s->port);
    return str_take(&at);
}

/* ---- sending ---- */

void task_server_send(struct task_server *s, int rank, enum task_frame type,
                      const char *bytes, size_t n)
{
    if (!s->of[rank])
        return;
    task_frame_add(&s->of[rank]->out, type, bytes, n);
    write_out(s, s->of[rank]);
}

void task_server_start(struct task_server *s, int rank, const struct task_start *st)
{
    if (!s->of[rank])
        return;
    task_start_add(&s->of[rank]->out, st);
    write_out(s, s->of[rank]);
}

int task_server_has(const struct task_server *s, int rank)
{
    return s->of[rank] != NULL;
}
