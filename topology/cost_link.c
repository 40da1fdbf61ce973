/* One hop of a flow: the links between two ranks. */
#include <math.h>
#include <string.h>

#include "topology/cost_state.h"
#include "topology/place.h"
#include "topology/topology.h"

void cost_load_link(struct cost_flows *f, int link, double bytes, int counts)
{
    struct cost_load *l = f->l;

    if (l->stamp[link] != l->additions) {
        l->stamp[link] = l->additions;
        l->groups[link] += f->sign;
    }
    l->load[link] += f->sign * bytes / f->share;
    if (counts)
        l->tier_bytes[l->m->link[link].tier] += f->sign * bytes;
}

/* Up from leaf a until one part holds leaf b as well. */
static void climb(struct cost_flows *f, int a, int b, double bytes)
{
    const struct cost_model *m = f->l->m;

    if (a < 0 || b < 0) {
        f->l->no_leaf += f->sign * bytes;
        return;
    }
    a = m->part_of[a];
    b = m->part_of[b];
    while (a >= 0 && b >= 0 && a != b) {
        if (m->part[a].uplink >= 0)
            cost_load_link(f, m->part[a].uplink, bytes, 1);
        a = m->part[a].above;
        b = m->part[b].above;
    }
    if (a < 0 || b < 0)
        f->l->no_trunk += f->sign * bytes;
}

/* The leaf that a NIC hangs on; nic -1: the node. */
int cost_leaf_of(const struct node *n, int nic)
{
    return nic >= 0 && n->nics[nic].leaf >= 0 ? n->nics[nic].leaf : n->leaf;
}

struct cost_gpu *cost_gpu_of(const struct cost_model *m, const struct place *p)
{
    return &m->gpu[m->node[p->node].gpu + p->gpu];
}

/* Two NUMA nodes of n, both known? */
static int is_far(const struct node *n, int numa, int other)
{
    return n->n_numas != 1 && numa >= 0 && other >= 0 && numa != other;
}

/* Is a NIC on another CPU than the GPU?  nvidia-smi's word for the nearest one wins. */
static int is_nic_far(const struct node *n, const struct gpu *g, int nic)
{
    if (nic == g->nic && g->nic_path[0])
        return strcmp(g->nic_path, "SYS") == 0;
    return is_far(n, g->numa, n->nics[nic].numa);
}

/* The k-th NIC of the GPU at p, spread over those it has; -1 not known. */
int cost_nic_of(const struct cost_model *m, const struct place *p, int k)
{
    const struct cost_gpu *g = cost_gpu_of(m, p);

    return g->n_nics ? m->nics_of[g->first_nic + k % g->n_nics] : -1;
}

/* Between a GPU and its NIC, as much in as out: what the NIC receives goes up its own
 * side. */
static void pass_pci(struct cost_flows *f, const struct place *at, int nic,
                     double bytes)
{
    const struct cost_model *m = f->l->m;
    const struct cost_gpu *g = cost_gpu_of(m, at);
    int pci = m->pci_of_nic[m->node[at->node].first_nic + nic];

    cost_pci_up(f, at->node, g->switch_above, pci, bytes);
    cost_pci_up(f, at->node, pci, g->pci, bytes);
}

static void leave_gpu(struct cost_flows *f, const struct place *from,
                      const struct place *to, double bytes)
{
    const struct cost_model *m = f->l->m;
    const struct node *n = &m->t->nodes[from->node];
    const struct cost_gpu *g = cost_gpu_of(m, from);

    if (!g->n_nics || !cost_gpu_of(m, to)->n_nics) {
        const struct place *who = g->n_nics ? to : from;
        if (!f->l->no_nic_groups && !f->no_nic) {
            f->l->no_nic_node = who->node;
            f->l->no_nic_gpu = who->gpu;
        }
        f->no_nic = 1;
        return;
    }
    if (!isnan(m->link[g->pcie].bytes_per_s))
        cost_load_link(f, g->pcie, bytes, 0);
    for (int k = 0; k < g->n_nics; k++) {
        int nic = cost_nic_of(m, from, k), other = cost_nic_of(m, to, k);
        cost_load_link(f, m->node[from->node].nic + nic, bytes / g->n_nics, 1);
        pass_pci(f, from, nic, bytes / g->n_nics);
        if (is_nic_far(n, &n->gpus[from->gpu], nic))
            cost_load_link(f, m->node[from->node].cpu, bytes / g->n_nics, 1);
        climb(f, cost_leaf_of(n, nic), cost_leaf_of(&m->t->nodes[to->node], other),
              bytes / g->n_nics);
    }
}

static void leave_cpu(struct cost_flows *f, const struct place *from,
                      const struct place *to, double bytes)
{
    const struct cost_model *m = f->l->m;
    const struct node *n = &m->t->nodes[from->node];
    int known = from->nic >= 0 && n->nics[from->nic].gbits_per_s > 0;

    cost_load_link(
        f, known ? m->node[from->node].nic + from->nic : m->node[from->node].network,
        bytes, 1);
    climb(f, cost_leaf_of(n, from->nic), cost_leaf_of(&m->t->nodes[to->node], to->nic),
          bytes);
}

void cost_leave(struct cost_flows *f, const struct place *from, const struct place *to,
                double bytes)
{
    if (f->l->on_gpus)
        leave_gpu(f, from, to, bytes);
    else
        leave_cpu(f, from, to, bytes);
}

/* --- inside a node, or an NVLink domain -------------------------------------------------- */

static int is_cabled(const struct node *n, const struct gpu *a, const struct gpu *b)
{
    for (int i = 0; i < a->n_nvlinks; i++)
        if (gpu_peer(n, &a->nvlinks[i]) == b)
            return 1;
    return 0;
}

int cost_is_nvlinked(const struct cost_model *m, const struct place *a,
                     const struct place *b)
{
    const struct node *n = &m->t->nodes[a->node];

    if (cost_gpu_of(m, a)->switched && cost_gpu_of(m, b)->switched)
        return 1;
    return a->node == b->node && is_cabled(n, &n->gpus[a->gpu], &n->gpus[b->gpu]);
}

/* Of the links of the GPU at p, the share that leads to the group: GPUs without a
 * switch use no others. */
double cost_useful_share(struct cost_flows *f, const struct place *p, int unit)
{
    const struct cost_load *l = f->l;
    const struct node *n = &l->m->t->nodes[p->node];
    const struct gpu *g = &n->gpus[p->gpu];
    int useful = 0, all = gpu_nvlink_count(g);

    if (cost_gpu_of(l->m, p)->switched || all == 0)
        return 1;
    for (int i = 0; i < g->n_nvlinks; i++)
        for (int k = l->first[unit]; k < l->first[unit + 1]; k++) {
            const struct place *q = &f->rank[l->member[k]];
            if (q->node == p->node && gpu_peer(n, &g->nvlinks[i]) == &n->gpus[q->gpu])
                useful += g->nvlinks[i].count;
        }
    return useful ? (double)useful / all : 1;
}

void cost_pass(struct cost_flows *f, const struct place *a, const struct place *b,
               int unit, double bytes)
{
    const struct cost_model *m = f->l->m;
    const struct node *n = &m->t->nodes[a->node];

    if (!f->l->on_gpus) {
        cost_load_link(f, m->node[a->node].memory, bytes, 1);
    } else if (cost_is_nvlinked(m, a, b)) {
        int link = cost_gpu_of(m, a)->nvlink;
        double share = cost_useful_share(f, a, unit);
        cost_load_link(f, link, bytes, 1);
        f->l->load[link] += f->sign * bytes / f->share * (1 / share - 1);
    } else {
        cost_load_link(f, cost_gpu_of(m, a)->pcie, bytes, 1);
        cost_pci_up(f, a->node, cost_gpu_of(m, a)->switch_above, cost_gpu_of(m, b)->pci,
                    bytes);
        if (is_far(n, n->gpus[a->gpu].numa, n->gpus[b->gpu].numa))
            cost_load_link(f, m->node[a->node].cpu, bytes, 1);
    }
}

const struct place *cost_member(const struct cost_flows *f, int unit, int i)
{
    const struct cost_load *l = f->l;
    int n = l->first[unit + 1] - l->first[unit];

    return &f->rank[l->member[l->first[unit] + i % n]];
}

int cost_members(const struct cost_flows *f, int unit)
{
    return f->l->first[unit + 1] - f->l->first[unit];
}
