#include "trainer/kvdial.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"

enum { TRY_MS = 3000, NAP_FIRST_MS = 20, NAP_LAST_MS = 1000 };

int kvdial_wait(int fd, short events, int64_t deadline_ms)
{
    struct pollfd p = { .fd = fd, .events = events };
    int64_t left = deadline_ms - clock_ms();
    int n;

    do
        n = poll(&p, 1, left > 0 ? (int)left : 0);
    while (n < 0 && errno == EINTR);
    return n == 1 ? 0 : -1;
}

/* A port of the ephemeral range can be dialled by the very socket that got it. */
static int is_self(int fd)
{
    struct sockaddr_storage here, there;
    socklen_t n = sizeof(here), m = sizeof(there);

    memset(&here, 0, sizeof(here));
    memset(&there, 0, sizeof(there));
    return getsockname(fd, (struct sockaddr *)&here, &n) == 0 &&
           getpeername(fd, (struct sockaddr *)&there, &m) == 0 && n == m &&
           memcmp(&here, &there, n) == 0;
}

static int dial(const struct sockaddr *at, socklen_t len, int64_t deadline_ms,
                struct err *err)
{
    int fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int one = 1, failed = 0;
    socklen_t n = sizeof(failed);

    if (fd < 0)
        return err_set(err, ERR_SYSTEM, "socket: %m");
    if (connect(fd, at, len) != 0) {
        failed = errno;
        if (failed == EINPROGRESS) {
            failed = ETIMEDOUT;
            if (kvdial_wait(fd, POLLOUT, deadline_ms) == 0)
                getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &n);
        }
    }
    if (failed == 0 && is_self(fd))
        failed = ECONNREFUSED;
    if (failed != 0) {
        close(fd);
        return err_set(err, ERR_TIMEOUT, "%s", strerror(failed));
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

static int dial_master(const struct kvdial *k, int64_t deadline_ms, struct err *err)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
    int64_t until = clock_ms() + TRY_MS;
    char service[16];
    int fd = -1, rc;

    if (until > deadline_ms)
        until = deadline_ms;
    if (k->at.ss_family)
        return dial((const struct sockaddr *)&k->at,
                    k->at.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                : sizeof(struct sockaddr_in),
                    until, err);
    snprintf(service, sizeof(service), "%d", k->port);
    rc = getaddrinfo(k->master, service, &hints, &list);
    if (rc != 0)
        return err_set(err, ERR_TIMEOUT, "%s", gai_strerror(rc));
    for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next)
        fd = dial(a->ai_addr, a->ai_addrlen, until, err);
    freeaddrinfo(list);
    return fd;
}

static int read_exactly(int fd, void *to, size_t n, int64_t deadline_ms)
{
    char *p = to;

    while (n > 0) {
        ssize_t k;

        if (kvdial_wait(fd, POLLIN, deadline_ms))
            return -1;
        k = recv(fd, p, n, 0);
        if (k < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (k <= 0)
            return -1;
        p += k;
        n -= (size_t)k;
    }
    return 0;
}

int kvdial_write(int fd, const void *from, size_t n, int64_t deadline_ms)
{
    const char *p = from;

    while (n > 0) {
        ssize_t k = send(fd, p, n, MSG_NOSIGNAL);

        if (k < 0 && errno == EAGAIN && kvdial_wait(fd, POLLOUT, deadline_ms) == 0)
            continue;
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return -1;
        p += k;
        n -= (size_t)k;
    }
    return 0;
}

/* 0, -1 the other side closed or was silent, -2 it is no store of this job. */
static int shake_hands(const struct kvdial *k, int fd, int64_t deadline_ms)
{
    unsigned char greeting[KV_GREETING], answer[KV_ANSWER], proof[KV_PROOF];
    unsigned char want[KV_PROOF];

    if (read_exactly(fd, greeting, sizeof(greeting), deadline_ms))
        return -1;
    if (memcmp(greeting, kv_magic, KV_MAGIC) != 0)
        return -2;
    kv_random(answer, KV_CHALLENGE);
    kv_proof(k->key, 'C', greeting + KV_MAGIC, answer, answer + KV_CHALLENGE);
    if (kvdial_write(fd, answer, sizeof(answer), deadline_ms) ||
        read_exactly(fd, proof, sizeof(proof), deadline_ms))
        return -2; /* a store of another job hangs up on a wrong proof */
    kv_proof(k->key, 'S', greeting + KV_MAGIC, answer, want);
    return memcmp(proof, want, KV_PROOF) == 0 ? 0 : -2;
}

int kvdial_reach(const struct kvdial *k, int64_t deadline_ms, struct err *err)
{
    int64_t nap = NAP_FIRST_MS + k->spread, begun_ms = clock_ms();
    struct err why = ERR_INIT;
    int fd, rc;

    for (;;) {
        fd = dial_master(k, deadline_ms, &why);
        rc = fd >= 0 ? shake_hands(k, fd, clock_ms() + TRY_MS) : -1;
        if (fd >= 0 && rc == -1)
            err_set(&why, ERR_TIMEOUT, "it accepts and says nothing");
        if (fd >= 0 && rc != 0)
            close(fd);
        if (rc != -1 || clock_ms() + nap > deadline_ms)
            break;
        clock_nap_us(nap * 1000);
        nap = nap * 2 < NAP_LAST_MS ? nap * 2 : NAP_LAST_MS;
    }
    if (rc == -2)
        err_set(
            err, ERR_USAGE,
            "%s:%d is not rank 0 of this job (another job or program listens there): "
            "choose another MASTER_PORT",
            k->master, k->port);
    else if (rc == -1)
        err_set(err, ERR_TIMEOUT,
                "wireup: rank 0 is missing: %s:%d not reached within %.1f s (%s); is "
                "MASTER_ADDR its host, and did it start?",
                k->master, k->port, (double)(clock_ms() - begun_ms) / 1000,
                err_text(&why));
    err_release(&why);
    return rc == 0 ? fd : -1;
}

/* --- the other end ----------------------------------------------------------- */

static int listen_at(const struct addrinfo *a, struct err *err)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    if (fd < 0)
        return err_set(err, ERR_SYSTEM, "socket: %m");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, 1024) == 0)
        return fd;
    err_set(err, errno == EADDRNOTAVAIL ? ERR_MISSING : ERR_SYSTEM, "%m");
    close(fd);
    return -1;
}

/* Where nothing is bound in particular, rank 0 reaches itself by loopback. */
static void point_at_self(struct sockaddr_storage *at)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)at;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)at;

    if (at->ss_family == AF_INET && v4->sin_addr.s_addr == htonl(INADDR_ANY))
        v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (at->ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr))
        v6->sin6_addr = in6addr_loopback;
}

int kvdial_listen(struct kvdial *k, struct err *err)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
    struct addrinfo *list, *any = NULL;
    struct err why = ERR_INIT;
    socklen_t len = sizeof(k->at);
    char service[16];
    int fd, rc;

    snprintf(service, sizeof(service), "%d", k->port);
    rc = getaddrinfo(k->master, service, &hints, &list);
    if (rc != 0)
        return err_set(err, ERR_USAGE, "MASTER_ADDR %s: %s", k->master,
                       gai_strerror(rc));
    fd = listen_at(list, &why);
    hints.ai_family = list->ai_family;
    freeaddrinfo(list);
    if (fd < 0 && why.code == ERR_MISSING &&
        getaddrinfo(NULL, service, &hints, &any) == 0) {
        fd = listen_at(any, &why);
        freeaddrinfo(any);
    }
    if (fd < 0) {
        err_set(err, ERR_SYSTEM,
                "rank 0 cannot listen at %s:%d: %s; choose another MASTER_PORT",
                k->master, k->port, err_text(&why));
    } else {
        getsockname(fd, (struct sockaddr *)&k->at, &len);
        point_at_self(&k->at);
    }
    err_release(&why);
    return fd;
}
