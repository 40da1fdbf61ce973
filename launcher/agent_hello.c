#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "launcher/agent_state.h"
#include "launcher/net_look.h"
#include "topology/topology.h"

/* One line of a file of the kernel's; "" when there is none.  The caller's to free(). */
static char *read_word(const char *path)
{
    char buf[128] = "";
    FILE *fp = fopen(path, "re");

    if (fp && !fgets(buf, sizeof(buf), fp))
        *buf = '\0';
    if (fp)
        fclose(fp);
    buf[strcspn(buf, "\n")] = '\0';
    return xstrdup(buf);
}

/* Two hosts with one boot id and one network are one machine; containers of a machine
 * that have networks of their own are not. */
static char *machine(void)
{
    char *boot = read_word("/proc/sys/kernel/random/boot_id"), *text, net[64] = "";
    ssize_t n = readlink("/proc/self/ns/net", net, sizeof(net) - 1);

    net[n > 0 ? n : 0] = '\0';
    text = xasprintf("%s %s", boot, net);
    free(boot);
    return text;
}

/* SSH_CONNECTION: client address and port, server address and port. */
static char *address(void)
{
    const char *at = getenv("SSH_CONNECTION");

    for (int i = 0; at && i < 2; i++) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    return at && *at ? xstrndup(at, strcspn(at, " ")) : xstrdup("127.0.0.1");
}

static void find_interface(struct agent_hello *h)
{
    struct net_look n;

    net_look_here(h->address, 1, &n);
    h->interface = xstrdup(n.interface);
    h->network = xstrdup(n.network);
    h->nccl = xstrdup(n.why[NET_NCCL]);
    h->gloo = xstrdup(n.why[NET_GLOO]);
    h->mpi = xstrdup(n.why[NET_MPI]);
}

/* This machine as its own `muster topo` shows it. */
static char *topology(const char *host, struct err *err)
{
    struct topology *t;
    struct js *o;
    char *line;

    if (topology_from_cluster(NULL, &t, err) < 0)
        return NULL;
    snprintf(t->nodes[0].name, sizeof(t->nodes[0].name), "%.*s",
             (int)sizeof(t->nodes[0].name) - 1, host);
    o = topology_json(t);
    line = js_line(o);
    js_free(o);
    topology_free(t);
    return line;
}

int agent_say_hello(struct agent *a, struct err *err)
{
    char host[65] = "";
    struct agent_hello h = { .protocol = FRAME_PROTOCOL };
    int rc = -1;

    gethostname(host, sizeof(host) - 1);
    h.version = xstrdup(MUSTER_VERSION);
    h.build = xstrdup(agent_build());
    h.host = xstrdup(host);
    h.machine = machine();
    h.address = address();
    find_interface(&h);
    h.topology = topology(host, err);
    if (h.topology) {
        str_adds(&a->to.bytes, FRAME_GREETING);
        agent_hello_put(&a->to, &h);
        rc = 0;
    }
    agent_hello_release(&h);
    return rc;
}
