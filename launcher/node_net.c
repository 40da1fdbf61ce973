/* node_net.c - the machines and their network as the agents see them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "launcher/net_look.h"
#include "launcher/node.h"
#include "topology/topology.h"

int node_topology(const char *text, const char *name, struct topology **out,
                  struct err *err)
{
    int fd = memfd_create("topology", MFD_CLOEXEC), rc = -1;
    char *path = xasprintf("/proc/self/fd/%d", fd);

    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        err_set(err, ERR_SYSTEM, "memfd: %m");
    else
        rc = topology_from_json(path, out, err);
    if (rc == 0 && (*out)->n_nodes != 1) {
        rc =
            err_set(err, ERR_FAILED, "it says that it is %d machines", (*out)->n_nodes);
        topology_free(*out);
    }
    if (fd >= 0)
        close(fd);
    free(path);
    return rc < 0 ? err_wrap(err, "node %s", name) : 0;
}

void node_append(struct topology *t, struct topology *more)
{
    struct node *at = topology_add_node(t);

    *at = more->nodes[0];
    more->n_nodes = 0;
    for (int i = 0; i < more->n_findings; i++)
        topology_find(t, more->findings[i].severity, more->findings[i].object, "%s",
                      more->findings[i].text);
    topology_free(more);
}

int nodes_topology(const struct nodes *nodes, struct topology **out, struct err *err)
{
    struct topology *t = topology_new("agents", 0), *one;

    for (int i = 0; i < nodes->n; i++) {
        const struct node_link *l = &nodes->link[i];
        if (node_topology(l->hello.topology, l->name, &one, err) < 0) {
            topology_free(t);
            return -1;
        }
        node_append(t, one);
    }
    *out = t;
    return 0;
}

static void add(struct strlist *out, const char *name, const char *value)
{
    char *text = xasprintf("%s=%s", name, value);

    strlist_add(out, text);
    free(text);
}

void nodes_settings(const struct nodes *nodes, int master, struct strlist *out)
{
    if (nodes->local)
        add(out, "OMPI_MCA_btl_tcp_if_include", "lo");
    else
        add(out, "MASTER_ADDR", nodes->link[master].hello.address);
}

void nodes_net(const struct nodes *nodes, int node, struct net_look *out)
{
    const struct agent_hello *h = &nodes->link[node].hello;
    const char *why[NET_VARS] = { h->nccl, h->gloo, h->mpi };

    memset(out, 0, sizeof(*out));
    snprintf(out->interface, sizeof(out->interface), "%s", h->interface);
    snprintf(out->address, sizeof(out->address), "%s", h->address);
    snprintf(out->network, sizeof(out->network), "%s", h->network);
    for (int v = 0; v < NET_VARS && !nodes->local; v++)
        snprintf(out->why[v], sizeof(out->why[v]), "%s", why[v]);
}
