#include "launcher/slurm_master.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/js.h"
#include "base/str.h"
#include "launcher/env.h"
#include "launcher/net_look.h"
#include "launcher/rank_env.h"
#include "launcher/run.h"
#include "topology/place.h"
#include "topology/topology.h"

void slurm_master_own_address(int fd, char out[48])
{
    struct sockaddr_storage own;
    socklen_t n = sizeof(own);
    char text[64];

    *out = '\0';
    if (getsockname(fd, (struct sockaddr *)&own, &n) == 0 &&
        getnameinfo((struct sockaddr *)&own, n, text, sizeof(text), NULL, 0,
                    NI_NUMERICHOST) == 0 &&
        !net_is_loopback(text))
        snprintf(out, 48, "%.47s", strncmp(text, "::ffff:", 7) == 0 ? text + 7 : text);
}

struct js *slurm_master_about(int fd)
{
    struct js *o = js_object();
    const char *node = getenv("SLURMD_NODENAME");
    char host[65] = "", own[48] = "", address[48];
    struct net_look here;

    gethostname(host, sizeof(host) - 1);
    net_resolve(node && *node ? node : host, own);
    slurm_master_own_address(fd, address);
    if (!*address) { /* the launcher is on this node */
        net_look_here(NULL, 0, &here);
        snprintf(address, sizeof(address), "%s", here.address);
    }
    js_put_str(o, "own", own);
    js_put_str(o, "address", address);
    js_put_int(o, "port", rank_env_free_port());
    return o;
}

void slurm_master_take(const struct run_request *q, const struct js *about,
                       struct slurm_master *out)
{
    const struct placement *p = q->placement;
    const char *own = js_str(about, "own", ""), *address = js_str(about, "address", "");
    const char *name = q->topology->nodes[p->rank[0].node].name;

    memset(out, 0, sizeof(*out));
    out->port = (int)js_get_int(about, "port", 0);
    if (*own && (p->n_nodes == 1 || !net_is_loopback(own)))
        return;
    if (p->n_nodes == 1)
        address = "127.0.0.1";
    if (!*address)
        return;
    snprintf(out->addr, sizeof(out->addr), "%s", address);
    if (*own)
        snprintf(out->why, sizeof(out->why),
                 "%.64s leads to %.48s on that node, where no other finds it", name,
                 own);
    else
        snprintf(out->why, sizeof(out->why), "%.64s does not resolve on that node",
                 name);
}

void slurm_master_set(const struct slurm_master *m, struct env *env)
{
    const char *users = getenv("MASTER_ADDR");

    if (*m->addr && (!users || !*users))
        env_set(env, "MASTER_ADDR", m->addr);
}
