#include "launcher/machines.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "launcher/launch_nodes.h"
#include "launcher/net_look.h"
#include "launcher/node.h"
#include "launcher/node_alike.h"
#include "launcher/run.h"
#include "launcher/slurm_alloc.h"
#include "recipes/recipe.h"
#include "topology/place.h"
#include "topology/topology.h"

static const char *cluster_file(const struct machines_ask *ask)
{
    if (ask->cluster || !ask->recipe || !*ask->recipe->cluster.file)
        return ask->cluster;
    return ask->recipe->cluster.file;
}

int machines_take(struct machines_ask *ask, int key, const char *arg)
{
    if (key == MACHINES_HOSTS)
        ask->hosts = arg;
    else if (key == MACHINES_HOSTFILE)
        ask->hostfile = arg;
    else
        return 0;
    return 1;
}

int machines_ask_check(const struct machines_ask *ask, struct err *err)
{
    if (!!ask->hosts + !!ask->hostfile + !!ask->cluster > 1)
        return err_set(err, ERR_USAGE,
                       "--hosts, --hostfile and --cluster each name the machines: one "
                       "of them");
    return 0;
}

void machines_add_words(const struct machines_ask *ask, struct strlist *argv)
{
    const struct {
        const char *option, *value;
    } words[] = { { "--cluster", ask->cluster },
                  { "--hosts", ask->hosts },
                  { "--hostfile", ask->hostfile } };

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (words[i].value && *words[i].value) {
            strlist_add(argv, words[i].option);
            strlist_add(argv, words[i].value);
        }
}

int machines_open(const struct machines_ask *ask, struct machines *out, struct err *err)
{
    const char *file = cluster_file(ask);
    struct machines m = { .in_slurm = 0 };
    int rc = launch_nodes_open(ask, &m.nodes, &m.topology, err);

    if (rc == 0 && !m.nodes) {
        rc = slurm_machines(ask->recipe, file, &m.slurm, &m.topology, err);
        m.in_slurm = rc > 0;
        if (rc == 0)
            rc = topology_from_cluster(file, &m.topology, err);
    }
    if (rc < 0)
        return -1;
    *out = m;
    return 0;
}

void machines_leave(struct machines *m)
{
    nodes_close(m->nodes);
    m->nodes = NULL;
}

void machines_close(struct machines *m)
{
    machines_leave(m);
    if (m->in_slurm)
        slurm_place_release(&m->slurm);
    strlist_release(&m->defaults);
    strlist_release(&m->net_said);
    for (int i = 0; m->net && i < m->topology->n_nodes; i++)
        strlist_release(&m->net[i]);
    free(m->net);
    topology_free(m->topology);
    *m = (struct machines){ .in_slurm = 0 };
}

static int most_gpus(const struct topology *t)
{
    int most = 0;

    for (int i = 0; i < t->n_nodes; i++)
        most = t->nodes[i].n_gpus > most ? t->nodes[i].n_gpus : most;
    return most;
}

int machines_cure(const struct machines *m, const struct recipe *r, int world,
                  struct err *err)
{
    int most = most_gpus(m->topology), all = 0,
        limit = r ? r->cluster.gpus_per_node : -1;
    int each = limit > 0 && limit < most ? limit : most;
    char *text;

    for (int i = 0; i < m->topology->n_nodes; i++)
        all += m->topology->nodes[i].n_gpus;
    if (!m->in_slurm || each < 1 || all >= world)
        return -1;
    text = xstrdup(err_text(err));
    err_set(err, err->code,
            "%s; job %s has no more: ask for it (salloc --nodes=%d --gres=gpu:%d), or "
            "use what is there (--gpus %d)",
            text, m->slurm.job, (world + each - 1) / each, each, all);
    free(text);
    return -1;
}

/* "NCCL_SOCKET_IFNAME is set to =eth0 on n1 and 3 other nodes: NCCL would also take ..." */
static void say_net(struct machines *m, const struct placement *p, enum net_var v)
{
    struct net_look first = { .address = "" }, one;
    const char *name = "";
    char *value, *text;
    int n = 0;

    for (int k = 0; k < p->n_nodes; k++) {
        nodes_net(m->nodes, p->order[k], &one);
        if (*one.why[v] && n++ == 0) {
            first = one;
            name = m->topology->nodes[p->order[k]].name;
        }
    }
    if (!n)
        return;
    value = net_value(&first, v);
    text = xasprintf("%s is set to %s on %s", net_name(v), value, name);
    if (n > 1) {
        char *more = xasprintf("%s (and to its like on %d other node%s)", text, n - 1,
                               str_s(n - 1));
        free(text);
        text = more;
    }
    free(value);
    value = xasprintf("%s: %s", text, first.why[v]);
    strlist_add(&m->net_said, value);
    free(value);
    free(text);
}

static void settle_net(struct machines *m, const struct placement *p)
{
    struct net_look one;

    m->net = xcalloc((size_t)m->topology->n_nodes, sizeof(*m->net));
    for (int k = 0; k < p->n_nodes; k++) {
        nodes_net(m->nodes, p->order[k], &one);
        net_settings(&one, &m->net[p->order[k]]);
    }
    for (int v = 0; v < NET_VARS; v++)
        say_net(m, p, (enum net_var)v);
}

static int settle(struct machines *m, const struct placement *p, struct err *err)
{
    if (!m->nodes)
        return 0;
    if (launch_nodes_check(m->nodes, p, err) < 0 ||
        nodes_alike(m->topology, p, err) < 0)
        return -1;
    strlist_release(&m->defaults);
    nodes_settings(m->nodes, p->order[0], &m->defaults);
    if (p->n_nodes > 1)
        settle_net(m, p);
    return 0;
}

int machines_place(struct machines *m, const struct recipe *r, int world,
                   struct placement **out, struct err *err)
{
    if (placement_make(r, m->topology, world, out, err) < 0)
        return machines_cure(m, r, world, err);
    if (settle(m, *out, err) == 0)
        return 0;
    placement_free(*out);
    *out = NULL;
    return -1;
}

int machines_world(const struct machines *m, const struct recipe *r, int gpus)
{
    int shard = r ? r->parallelism.data_parallel_shard_degree : -1;
    int copies = r ? r->parallelism.data_parallel_replicate_degree : -1;
    int all = 0, slots = 0;

    if (gpus)
        return gpus;
    if (shard > 0 && copies > 0)
        return shard * copies;
    for (int n = 0; n < m->topology->n_nodes; n++) {
        const struct node *at = &m->topology->nodes[n];
        if (at->set_aside)
            continue;
        all += at->n_gpus;
        if (slots >= 0)
            slots = at->slots > 0 ? slots + at->slots : -1;
    }
    return all > 0 ? all : slots > 0 ? slots : shard > 0 ? shard : 1;
}

void machines_request(const struct machines *m, struct run_request *q)
{
    q->topology = m->topology;
    q->nodes = m->nodes;
    q->defaults = &m->defaults;
    q->net = m->net;
    q->net_said = &m->net_said;
    q->slurm = m->in_slurm ? &m->slurm : NULL;
}
