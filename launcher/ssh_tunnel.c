/* A hop through the hop before: a direct-tcpip channel there, and a pair of sockets
 * that gives libssh's next session something to read and write. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/ssh_link.h"

enum { CHUNK = 32 * 1024 };

int ssh_tunnel_step(struct ssh_link *l, int i, struct err *err)
{
    struct ssh_hop *before = &l->hop[i - 1], *h = &l->hop[i];
    int ends[2], rc;

    if (!h->tunnel)
        h->tunnel = ssh_channel_new(before->session);
    if (!h->tunnel)
        return err_set(err, ERR_SYSTEM, "libssh: out of memory");
    rc = ssh_channel_open_forward(h->tunnel, h->host->host, h->host->port, "127.0.0.1",
                                  0);
    if (rc == SSH_AGAIN)
        return 0;
    if (rc != SSH_OK)
        return err_set(err, ERR_SYSTEM, "%s: the jump host %s does not get there: %s",
                       h->name, before->name, ssh_get_error(before->session));
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) < 0)
        return err_set(err, ERR_SYSTEM, "%s: no pair of sockets: %m", h->name);
    h->fd = ends[0];
    h->pump = ends[1];
    return 1;
}

/* Write what is held; 1 when bytes moved. */
static int drain_down(struct ssh_hop *h)
{
    ssize_t n;

    if (!h->down.len)
        return 0;
    n = send(h->pump, h->down.text, h->down.len, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN)
        h->down.len = 0; /* the session is gone; nobody misses them */
    if (n <= 0)
        return 0;
    h->down.len -= (size_t)n;
    memmove(h->down.text, h->down.text + n, h->down.len);
    return 1;
}

/* From the tunnel to the session. */
static int pump_down(struct ssh_hop *h)
{
    char buf[CHUNK];
    int n, moved = drain_down(h);

    if (h->down.len || h->down_ended)
        return moved;
    n = ssh_channel_read_nonblocking(h->tunnel, buf, sizeof(buf), 0);
    if (n > 0) {
        str_add(&h->down, buf, (size_t)n);
        return 1;
    }
    if (n == 0 && !ssh_channel_is_eof(h->tunnel))
        return moved;
    h->down_ended = 1;
    shutdown(h->pump, SHUT_WR);
    return 1;
}

/* Offer what is held to the tunnel, as far as its window goes; -1: it is gone. */
static int drain_up(struct ssh_hop *before, struct ssh_hop *h)
{
    int n;

    if (!h->up.len || (ssh_get_poll_flags(before->session) & SSH_WRITE_PENDING))
        return 0;
    n = ssh_channel_write(h->tunnel, h->up.text, (uint32_t)h->up.len);
    if (n < 0)
        return -1;
    h->up.len -= (size_t)n;
    memmove(h->up.text, h->up.text + n, h->up.len);
    return n > 0;
}

/* From the session to the tunnel. */
static int pump_up(struct ssh_hop *before, struct ssh_hop *h)
{
    char buf[CHUNK];
    int moved = drain_up(before, h);
    ssize_t n;

    if (moved < 0)
        h->up_ended = 1;
    if (h->up_ended || h->up.len)
        return moved > 0;
    n = recv(h->pump, buf, sizeof(buf), 0);
    if (n < 0)
        return moved;
    if (n > 0) {
        str_add(&h->up, buf, (size_t)n);
    } else {
        h->up_ended = 1;
        ssh_channel_send_eof(h->tunnel);
    }
    return 1;
}

int ssh_tunnel_pump(struct ssh_hop *before, struct ssh_hop *h)
{
    int down = pump_down(h), up = pump_up(before, h);

    return down || up;
}
