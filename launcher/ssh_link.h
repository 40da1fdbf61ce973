/* ssh_link.h - inside of ssh.h's door: hops, phases, candidates for authentication. */
#ifndef LAUNCHER_SSH_LINK_H
#define LAUNCHER_SSH_LINK_H

#include <libssh/callbacks.h>
#include <libssh/libssh.h>
#include <netdb.h>

#include "base/err.h"
#include "base/str.h"
#include "launcher/ssh.h"

enum ssh_phase {
    SSH_PHASE_WAIT, /* for the hop before */
    SSH_PHASE_TCP,
    SSH_PHASE_TUNNEL, /* a direct-tcpip channel of the hop before */
    SSH_PHASE_KEX,
    SSH_PHASE_AUTH,
    SSH_PHASE_OPEN,
};

/* A key file or the agent. */
struct ssh_candidate {
    char *file; /* path; NULL: the agent */
    int given;  /* the configuration names it: its absence is worth a word */
};

struct ssh_hop {
    const struct ssh_host *host;
    enum ssh_phase phase;
    char *name; /* "node1 (10.99.0.1 port 22)" */
    ssh_session session;
    int fd; /* the session's socket; libssh does not close it */
    /* with a hop before: bytes go session <-> fd <-> pump <-> tunnel */
    int pump;
    ssh_channel tunnel;
    struct str up, down; /* read from one side, not taken by the other yet */
    int up_ended, down_ended;
    ssh_channel ear; /* never opened: lets libssh read packets when no run does */
    /* authentication */
    struct ssh_candidate *way;
    int n_ways, way_at; /* -1: asking what is allowed */
    int spare_agent;    /* there is one, and IdentitiesOnly: for a key that is locked */
    ssh_key key;        /* of way[way_at], loaded */
    struct str tried;   /* "FILE: refused; agent: ..." */
};

struct ssh_link {
    struct ssh_route route; /* owned */
    struct ssh_hop *hop;    /* [route.n] */
    int at;                 /* the hop that is being opened */
    int64_t deadline;
    struct addrinfo *addresses, *next; /* of the first hop */
    char local[64], remote[64];        /* the first hop's ends */
    struct ssh_run *runs;
    /* Bytes came or went since the last step, so that there may be more to do though
     * the socket is silent: libssh reads packets of all channels when one is read. */
    int again;
    int held_back; /* a write, since the session had bytes to send */
    int lost;
    struct err why; /* when lost */
};

/* ssh_tcp.c.  A nonblocking socket to the first hop: start resolves, step gives 1 when
 * connected, 0 not yet, -1. */
int ssh_tcp_start(struct ssh_link *l, struct err *err);
int ssh_tcp_step(struct ssh_link *l, struct err *err);

/* ssh_hop.c: a hop whose fd is connected up to SSH_PHASE_AUTH, its host key checked. */
int ssh_hop_start(struct ssh_hop *h, struct err *err);
int ssh_hop_kex(struct ssh_hop *h, struct err *err);
void ssh_hop_release(struct ssh_hop *h);

/* ssh_trust.c: 0 when the session's host key is the known one. */
int ssh_trust(struct ssh_hop *h, struct err *err);
/* Types of host keys to ask for, those that are known first; NULL: libssh's own list.
 * The caller's to free(). */
int ssh_trust_types(const struct ssh_host *h, char **list, struct err *err);

/* ssh_auth.c: 1 let in, 0 not yet, -1 refused. */
int ssh_auth_step(struct ssh_hop *h, struct err *err);

/* ssh_tunnel.c: hop i through hop i-1. */
int ssh_tunnel_step(struct ssh_link *l, int i, struct err *err); /* 1 open */
int ssh_tunnel_pump(struct ssh_hop *before, struct ssh_hop *h);  /* 1: bytes moved */

/* ssh_run.c: after the link moved; what its runs wait for. */
void ssh_runs_step(struct ssh_link *l);
void ssh_runs_lose(struct ssh_link *l);

#endif
