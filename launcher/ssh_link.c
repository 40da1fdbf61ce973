/* A link: its hops opened one behind the other, then kept going. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "launcher/ssh_link.h"

int ssh_available(void)
{
    return 1;
}

/* --- opening ------------------------------------------------------------------------ */

static int step_wait(struct ssh_link *l, int i, struct err *err)
{
    if (i == 0 && ssh_tcp_start(l, err) < 0)
        return -1;
    l->hop[i].phase = i == 0 ? SSH_PHASE_TCP : SSH_PHASE_TUNNEL;
    return 1;
}

static int step_tcp(struct ssh_link *l, int i, struct err *err)
{
    int rc = ssh_tcp_step(l, err);

    return rc == 1 && ssh_hop_start(&l->hop[i], err) < 0 ? -1 : rc;
}

static int step_tunnel(struct ssh_link *l, int i, struct err *err)
{
    int rc = ssh_tunnel_step(l, i, err);

    return rc == 1 && ssh_hop_start(&l->hop[i], err) < 0 ? -1 : rc;
}

static int step_kex(struct ssh_link *l, int i, struct err *err)
{
    return ssh_hop_kex(&l->hop[i], err);
}

static int step_auth(struct ssh_link *l, int i, struct err *err)
{
    int rc = ssh_auth_step(&l->hop[i], err);

    if (rc != 1)
        return rc;
    l->hop[i].ear = ssh_channel_new(l->hop[i].session);
    if (!l->hop[i].ear)
        return err_set(err, ERR_SYSTEM, "libssh: out of memory");
    l->hop[i].phase = SSH_PHASE_OPEN;
    l->at++;
    return 1;
}

/* What each phase does, and what it is called when it takes too long. */
static const struct {
    int (*step)(struct ssh_link *l, int i, struct err *err); /* 1 on, 0 wait, -1 */
    const char *late;
} phases[] = {
    [SSH_PHASE_WAIT] = { step_wait, "was not begun" },
    [SSH_PHASE_TCP] = { step_tcp, "does not answer on that port" },
    [SSH_PHASE_TUNNEL] = { step_tunnel, "is not reached by the jump host" },
    [SSH_PHASE_KEX] = { step_kex, "accepts the connection but its sshd says nothing" },
    [SSH_PHASE_AUTH] = { step_auth, "does not decide on our key" },
};

static int open_some(struct ssh_link *l, struct err *err)
{
    int rc = 1;

    while (rc == 1 && l->at < l->route.n)
        rc = phases[l->hop[l->at].phase].step(l, l->at, err);
    return rc;
}

/* Let libssh read and write; -1 when a session is gone. */
static int serve(struct ssh_link *l, struct err *err)
{
    for (int i = 0; i < l->at; i++) {
        struct ssh_hop *h = &l->hop[i];
        if (ssh_channel_poll(h->ear, 0) != SSH_ERROR && ssh_is_connected(h->session))
            continue;
        return err_set(err, ERR_SYSTEM, "%s: the connection was lost: %s", h->name,
                       ssh_get_error(h->session));
    }
    return 0;
}

/* libssh reads a few KiB at a time, and nobody waits for this socket. */
static int has_more(const struct ssh_hop *h)
{
    struct pollfd p = { .fd = h->fd, .events = POLLIN };

    return h->phase >= SSH_PHASE_KEX && poll(&p, 1, 0) == 1;
}

static int pump(struct ssh_link *l)
{
    int moved = 0;

    for (int i = 1; i < l->route.n; i++)
        if (l->hop[i].pump >= 0)
            moved |=
                ssh_tunnel_pump(&l->hop[i - 1], &l->hop[i]) || has_more(&l->hop[i]);
    return moved;
}

/* Everything inside has to come to rest: the caller waits for the first hop's socket
 * only. */
static int move(struct ssh_link *l, struct err *err)
{
    int rc;

    do {
        rc = serve(l, err);
        if (rc == 0)
            rc = open_some(l, err);
        if (rc < 0)
            return -1;
        if (rc == 1)
            ssh_runs_step(l);
    } while (pump(l));
    return rc;
}

/* For good: the first reason stays. */
static void lose(struct ssh_link *l, const struct err *err)
{
    if (l->lost)
        return;
    l->lost = 1;
    err_set(&l->why, err->code, "%s", err_text(err));
    ssh_runs_lose(l);
}

int ssh_link_step(struct ssh_link *l, struct err *err)
{
    struct err mine = ERR_INIT;
    int rc = l->lost ? -1 : move(l, &mine);

    if (rc == 0 && clock_ms() >= l->deadline)
        rc = err_set(&mine, ERR_TIMEOUT, "%s %s: the deadline passed",
                     l->hop[l->at].name, phases[l->hop[l->at].phase].late);
    if (rc < 0) {
        lose(l, &mine);
        err_set(err, l->why.code, "%s", err_text(&l->why));
    }
    l->again = l->held_back = 0;
    err_release(&mine);
    return rc;
}

/* --- the rest ----------------------------------------------------------------------- */

/* Was a write held back for what was sent meanwhile? */
static int may_write_again(const struct ssh_link *l)
{
    ssh_session last = l->hop[l->route.n - 1].session;

    return l->held_back && !(ssh_get_poll_flags(last) & SSH_WRITE_PENDING);
}

int ssh_link_poll(const struct ssh_link *l, struct pollfd *p)
{
    const struct ssh_hop *h = &l->hop[0];
    int64_t left = l->deadline - clock_ms();

    p->fd = h->fd;
    p->events = POLLIN;
    p->revents = 0;
    if (h->phase == SSH_PHASE_TCP)
        p->events = POLLOUT;
    else if (h->session && (ssh_get_poll_flags(h->session) & SSH_WRITE_PENDING))
        p->events |= POLLOUT;
    if (l->lost || l->again || may_write_again(l) || h->fd < 0)
        return 0;
    if (l->at == l->route.n)
        return -1;
    return left < 0 ? 0 : (int)left;
}

int ssh_link_open(struct ssh_link *l, struct err *err)
{
    struct pollfd p;
    int rc;

    while ((rc = ssh_link_step(l, err)) == 0) {
        int timeout = ssh_link_poll(l, &p);
        poll(&p, 1, timeout);
    }
    return rc < 0 ? -1 : 0;
}

static char *name_of(const struct ssh_host *h)
{
    if (strcmp(h->name, h->host) == 0 && h->port == 22)
        return xstrdup(h->name);
    return xasprintf("%s (%s port %d)", h->name, h->host, h->port);
}

int ssh_link_start(struct ssh_route *route, int64_t open_ms, struct ssh_link **out,
                   struct err *err)
{
    struct ssh_link *l = xcalloc(1, sizeof(*l));

    (void)err;
    l->route = *route;
    memset(route, 0, sizeof(*route));
    l->hop = xcalloc((size_t)l->route.n, sizeof(*l->hop));
    l->deadline = clock_ms() + open_ms;
    for (int i = 0; i < l->route.n; i++) {
        l->hop[i].host = &l->route.hop[i];
        l->hop[i].fd = l->hop[i].pump = -1;
        l->hop[i].name = name_of(&l->route.hop[i]);
    }
    *out = l;
    return 0;
}

const char *ssh_link_name(const struct ssh_link *l)
{
    return l->hop[l->route.n - 1].name;
}

const char *ssh_link_local_address(const struct ssh_link *l)
{
    return l->local;
}

const char *ssh_link_address(const struct ssh_link *l)
{
    return l->remote;
}

void ssh_link_free(struct ssh_link *l)
{
    if (!l)
        return;
    while (l->runs)
        ssh_run_free(l->runs);
    for (int i = l->route.n - 1; i >= 0; i--)
        ssh_hop_release(&l->hop[i]);
    if (l->addresses)
        freeaddrinfo(l->addresses);
    free(l->hop);
    ssh_route_release(&l->route);
    err_release(&l->why);
    free(l);
}
