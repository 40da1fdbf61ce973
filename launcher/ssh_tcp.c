/* The TCP connection to the first hop. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/ssh_link.h"

/* A peer that vanished is noticed within this time, talking or silent. */
enum { LOST_MS = 10000, KEEP_IDLE_S = 4, KEEP_EVERY_S = 2, KEEP_TRIES = 3 };

static void watch_peer(int fd)
{
    const struct {
        int level, option, value;
    } set[] = {
        { IPPROTO_TCP, TCP_NODELAY, 1 },
        { SOL_SOCKET, SO_KEEPALIVE, 1 },
        { IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S },
        { IPPROTO_TCP, TCP_KEEPINTVL, KEEP_EVERY_S },
        { IPPROTO_TCP, TCP_KEEPCNT, KEEP_TRIES },
        { IPPROTO_TCP, TCP_USER_TIMEOUT, LOST_MS },
    };

    for (size_t i = 0; i < sizeof(set) / sizeof(set[0]); i++)
        setsockopt(fd, set[i].level, set[i].option, &set[i].value,
                   sizeof(set[i].value));
}

static int family_of(const struct ssh_host *h)
{
    if (!h->family)
        return AF_UNSPEC;
    return strcmp(h->family, "inet6") == 0 ? AF_INET6 : AF_INET;
}

int ssh_tcp_start(struct ssh_link *l, struct err *err)
{
    const struct ssh_host *h = l->hop[0].host;
    struct addrinfo hints = { .ai_family = family_of(h), .ai_socktype = SOCK_STREAM };
    char port[8];
    int rc;

    snprintf(port, sizeof(port), "%d", h->port);
    rc = getaddrinfo(h->host, port, &hints, &l->addresses);
    if (rc != 0)
        return err_set(err, ERR_MISSING,
                       "%s: the name %s has no address here (%s): correct it, or give "
                       "HostName in ~/.ssh/config",
                       h->name, h->host, gai_strerror(rc));
    l->next = l->addresses;
    return 0;
}

static void note_ends(struct ssh_link *l, int fd)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof(a);

    if (getsockname(fd, (struct sockaddr *)&a, &n) == 0)
        getnameinfo((struct sockaddr *)&a, n, l->local, sizeof(l->local), NULL, 0,
                    NI_NUMERICHOST);
    n = sizeof(a);
    if (getpeername(fd, (struct sockaddr *)&a, &n) == 0)
        getnameinfo((struct sockaddr *)&a, n, l->remote, sizeof(l->remote), NULL, 0,
                    NI_NUMERICHOST);
}

/* Begin with the next address; -1 and errno. */
static int try_next(struct ssh_link *l)
{
    const struct addrinfo *a = l->next;
    struct ssh_hop *h = &l->hop[0];

    if (h->fd >= 0)
        close(h->fd);
    h->fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (h->fd < 0)
        return -1;
    watch_peer(h->fd);
    l->next = a->ai_next;
    return connect(h->fd, a->ai_addr, a->ai_addrlen) < 0 && errno != EINPROGRESS ? -1
                                                                                 : 0;
}

/* 1 connected, 0 not yet, -1 refused with errno. */
static int is_connected(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLOUT };
    int why = 0;
    socklen_t n = sizeof(why);

    if (poll(&p, 1, 0) <= 0)
        return 0;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &n) < 0)
        return -1;
    errno = why;
    return why ? -1 : 1;
}

int ssh_tcp_step(struct ssh_link *l, struct err *err)
{
    struct ssh_hop *h = &l->hop[0];
    int rc = h->fd >= 0 ? is_connected(h->fd) : -1;

    while (rc < 0 && l->next)
        rc = try_next(l);
    if (rc < 0)
        return err_set(err, ERR_SYSTEM,
                       "%s: cannot connect: %s; is the host up and its sshd listening?",
                       h->name, strerror(errno));
    if (rc == 1)
        note_ends(l, h->fd);
    return rc;
}
