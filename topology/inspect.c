#include "topology/inspect.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "topology/source.h"
#include "topology/topology.h"

void inspect_object(const struct node *n, const struct gpu *g, char out[96])
{
    snprintf(out, 96, "%.60s gpu %d", n->name, g->index);
}

void inspect_nic_object(const struct node *n, const struct nic *c, char out[96])
{
    snprintf(out, 96, "%.60s %s", n->name, c->name);
}

static void inspect_affinity(struct topology *t, const struct node *n)
{
    int gpus = 0, nics = 0, near = 0;

    for (int i = 0; i < n->n_gpus; i++) {
        gpus += n->gpus[i].numa < 0;
        near += n->gpus[i].nic >= 0;
    }
    for (int i = 0; i < n->n_nics; i++)
        nics += n->nics[i].numa < 0 && n->nics[i].busid[0];
    if (gpus + nics == 0)
        return;
    topology_find(
        t, gpus ? SEVERITY_WARN : SEVERITY_NOTE, n->name,
        "%s" AFFINITY_UNKNOWN ": %d of %d GPUs and %d of %d NICs name no NUMA node "
        "(usual in a virtual machine); supply the provider's NCCL_TOPO_FILE as "
        "--source ncclxml:FILE",
        gpus && !near ? "flat; " : "", gpus, n->n_gpus, nics, n->n_nics);
}

static void inspect_down(struct topology *t, const struct node *n)
{
    char object[96];

    for (int i = 0; i < n->n_nics; i++) {
        const struct nic *c = &n->nics[i];
        if (c->kind != NIC_COMPUTE || c->up != 0)
            continue;
        inspect_nic_object(n, c, object);
        if (str_eq(c->state, "init") || str_eq(c->state, "armed"))
            topology_find_once(t, SEVERITY_FAIL, object,
                               "the port is down: it has a link, but no subnet manager "
                               "has made it active (%s): start opensm, or ask its "
                               "log",
                               c->state);
        else
            topology_find_once(t, SEVERITY_FAIL, object,
                               "the port is down: check its cable and the switch port");
    }
}

/* RoCE goes by the GID that NCCL_IB_GID_INDEX names. */
static void inspect_gids(struct topology *t, const struct node *n)
{
    char object[96];

    for (int i = 0; i < n->n_nics; i++) {
        const struct nic *c = &n->nics[i];
        if (c->kind != NIC_COMPUTE || c->layer != LINK_ETHERNET || c->up != 1 ||
            c->gid != GID_NONE)
            continue;
        inspect_nic_object(n, c, object);
        topology_find_once(t, SEVERITY_WARN, object,
                           "no RoCE v2 GID with an address that routes: give its "
                           "network interface an IP address");
    }
}

void topology_inspect(struct topology *t)
{
    for (int i = 0; i < t->n_nodes; i++) {
        inspect_gpus(t, &t->nodes[i]);
        inspect_down(t, &t->nodes[i]);
        inspect_gids(t, &t->nodes[i]);
    }
}

void topology_inspect_affinity(struct topology *t)
{
    for (int i = 0; i < t->n_nodes; i++)
        inspect_affinity(t, &t->nodes[i]);
}

/* --- slow ports ------------------------------------------------------------------------ */

static int is_running(const struct nic *c)
{
    return c->kind == NIC_COMPUTE && c->up != 0 && c->gbits_per_s > 0;
}

static int compare_rates(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The rate of more than half of the ports; -1: there is none. */
static double usual_rate(const struct topology *t)
{
    size_t n = 0, room = 1, same = 0;
    double *rate, usual;

    for (int i = 0; i < t->n_nodes; i++)
        room += (size_t)t->nodes[i].n_nics;
    rate = xcalloc(room, sizeof(*rate));
    for (int i = 0; i < t->n_nodes; i++)
        for (int k = 0; k < t->nodes[i].n_nics; k++)
            if (is_running(&t->nodes[i].nics[k]))
                rate[n++] = t->nodes[i].nics[k].gbits_per_s;
    qsort(rate, n, sizeof(*rate), compare_rates);
    usual = n ? rate[n / 2] : -1;
    for (size_t i = 0; i < n; i++)
        same += rate[i] == usual;
    free(rate);
    return n && same * 2 > n ? usual : -1;
}

void inspect_slow_nics(struct topology *t)
{
    double usual = t->by_guid ? -1 : usual_rate(t); /* there cables are told of */
    char object[96];

    for (int i = 0; usual > 0 && i < t->n_nodes; i++) {
        const struct node *n = &t->nodes[i];
        int ports = 0, slow = 0;
        for (int k = 0; k < n->n_nics; k++) {
            ports += is_running(&n->nics[k]);
            slow += is_running(&n->nics[k]) && n->nics[k].gbits_per_s < usual;
        }
        for (int k = 0; k < n->n_nics && slow < ports; k++) {
            const struct nic *c = &n->nics[k];
            if (!is_running(c) || c->gbits_per_s >= usual)
                continue;
            inspect_nic_object(n, c, object);
            topology_find_once(
                t, SEVERITY_FAIL, object,
                "the port runs at %.0f Gb/s, its like at %.0f: check the "
                "cable, the transceivers and the switch port",
                c->gbits_per_s, usual);
        }
    }
}
