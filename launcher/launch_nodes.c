#include "launcher/launch_nodes.h"

#include <stdlib.h>

#include "base/err.h"
#include "launcher/hostfile.h"
#include "launcher/machines.h"
#include "launcher/node.h"
#include "launcher/slurm_alloc.h"
#include "recipes/recipe.h"
#include "recipes/value.h"
#include "topology/place.h"
#include "topology/topology.h"

enum { READY_MS = 30000 };

static int open_for_tests(const char *count, struct nodes **nodes, struct err *err)
{
    int64_t n;

    if (value_int64(count, &n, err) < 0)
        return err_wrap(err, "MUSTER_TEST_LOCAL_AGENTS");
    if (n < 1 || n > 64)
        return err_set(err, ERR_USAGE, "MUSTER_TEST_LOCAL_AGENTS=%s: 1 to 64", count);
    return nodes_open_local((int)n, nodes, err);
}

/* 1: these hosts; 0: none were asked for. */
static int choose(const struct machines_ask *a, struct hosts *hosts, struct err *err)
{
    const struct recipe *r = a->recipe;
    int rc;

    if (a->hosts || a->hostfile) {
        rc = a->hosts ? hostfile_list(a->hosts, "--hosts", hosts, err)
                      : hostfile_read(a->hostfile, hosts, err);
        return rc < 0 ? -1 : 1;
    }
    if (!r || r->cluster.backend == BACKEND_LOCAL ||
        r->cluster.backend == BACKEND_SLURM || a->cluster || slurm_is_wanted(r, NULL))
        return 0;
    if (r->cluster.hosts.n)
        return hostfile_recipe(&r->cluster.hosts, hosts, err) < 0 ? -1 : 1;
    if (r->cluster.backend == BACKEND_SSH)
        return err_set(
            err, ERR_USAGE,
            "cluster.backend is ssh: name the hosts (cluster.hosts, --hosts or "
            "--hostfile)");
    return 0;
}

static int slots_of(const struct hosts *hosts, const char *name)
{
    for (int i = 0; i < hosts->n; i++)
        if (str_eq(hosts->item[i].name, name))
            return hosts->item[i].slots;
    return 0;
}

static int open_hosts(const struct machines_ask *ask, const struct hosts *hosts,
                      struct nodes **nodes, struct err *err)
{
    int64_t ms =
        ask->answer_ms > 0 && ask->answer_ms < READY_MS ? ask->answer_ms : READY_MS;
    struct strlist names = { 0 };
    int rc;

    for (int i = 0; i < hosts->n; i++)
        strlist_add(&names, hosts->item[i].name);
    rc = nodes_open(&names, ms, ask->spares, nodes, err);
    for (int i = 0; rc == 0 && i < (*nodes)->n; i++)
        (*nodes)->link[i].slots = slots_of(hosts, (*nodes)->link[i].name);
    strlist_release(&names);
    return rc;
}

int launch_nodes_open(const struct machines_ask *ask, struct nodes **nodes,
                      struct topology **topology, struct err *err)
{
    const char *test = getenv("MUSTER_TEST_LOCAL_AGENTS");
    struct hosts hosts = { 0 };
    int rc;

    *nodes = NULL;
    if (test && *test) {
        rc = open_for_tests(test, nodes, err);
    } else {
        rc = choose(ask, &hosts, err);
        if (rc > 0)
            rc = open_hosts(ask, &hosts, nodes, err);
        hosts_release(&hosts);
    }
    if (rc < 0 || !*nodes)
        return rc;
    if (nodes_topology(*nodes, topology, err) < 0) {
        nodes_close(*nodes);
        *nodes = NULL;
        return -1;
    }
    for (int i = 0; i < (*nodes)->n; i++)
        if ((*nodes)->link[i].slots)
            (*topology)->nodes[i].slots = (*nodes)->link[i].slots;
    return 0;
}

int launch_nodes_check(const struct nodes *nodes, const struct placement *p,
                       struct err *err)
{
    for (int i = 0; i < nodes->n; i++) {
        int n = 0;
        for (int r = 0; r < p->world; r++)
            n += p->rank[r].node == i;
        if (nodes->link[i].slots && n > nodes->link[i].slots)
            return err_set(err, ERR_USAGE,
                           "host %s has %d slot%s, and %d ranks are placed there (set "
                           "cluster.gpus_per_node, or use fewer GPUs)",
                           nodes->link[i].name, nodes->link[i].slots,
                           str_s(nodes->link[i].slots), n);
    }
    return 0;
}
