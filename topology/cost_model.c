/* The links of a topology and their capacities. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "topology/cost_state.h"
#include "topology/topology.h"

int cost_model_add_link(struct cost_model *m, double bytes_per_s, enum cost_tier tier,
                        int node, int device)
{
    if ((m->n_links & (m->n_links - 1)) == 0) /* full: twice the room */
        m->link = xrealloc(m->link, 2 * (size_t)m->n_links + 1, sizeof(*m->link));
    m->link[m->n_links] = (struct cost_link){ bytes_per_s, tier, node, device };
    return m->n_links++;
}

static double known(double gbytes_per_s)
{
    return gbytes_per_s > 0 ? gbytes_per_s * 1e9 : NAN;
}

/* --- GPUs ------------------------------------------------------------------------- */

static double nvlink_rate(const struct gpu *g)
{
    static const struct {
        int sm;
        double gbytes_per_s; /* of one link */
    } links[] = { { 60, 18 }, { 70, 20 },   { 80, 20 },
                  { 86, 12 }, { 90, 20.6 }, { 100, 40.1 } };

    if (gpu_nvlink_count(g) == 0)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(links); i++)
        if (links[i].sm == g->sm)
            return links[i].gbytes_per_s * gpu_nvlink_count(g) * 1e9;
    return known(gpu_nvlink_gbytes_per_s(g));
}

static int is_switched(const struct node *n, const struct gpu *g)
{
    for (int i = 0; i < g->n_nvlinks; i++)
        if (str_eq(g->nvlinks[i].peer, "switch") || !gpu_peer(n, &g->nvlinks[i]))
            return 1;
    return 0;
}

/* --- NICs of GPUs --------------------------------------------------------------------- */

/* NICs that may train: the compute ones; of a node that has none, those that nothing is
 * known against. */
static int is_usable(const struct node *n, int nic, enum nic_kind kind)
{
    return n->nics[nic].kind == kind && n->nics[nic].up != 0;
}

static int count_usable(const struct node *n, enum nic_kind *kind)
{
    int count = 0, compute = 0;

    for (int i = 0; i < n->n_nics; i++)
        compute += n->nics[i].kind == NIC_COMPUTE;
    *kind = compute ? NIC_COMPUTE : NIC_UNKNOWN;
    for (int i = 0; i < n->n_nics; i++)
        count += is_usable(n, i, *kind);
    return count;
}

/* The usable NIC with the fewest users, of the GPU's NUMA node if there is one. */
static int stand_in(const struct node *n, const struct gpu *g, enum nic_kind kind,
                    const int *users)
{
    int best = -1, near = 0;

    for (int i = 0; i < n->n_nics; i++) {
        int same = g->numa >= 0 && n->nics[i].numa == g->numa;
        if (!is_usable(n, i, kind))
            continue;
        if (best < 0 || same > near || (same == near && users[i] < users[best])) {
            best = i;
            near = same;
        }
    }
    return best;
}

/* own[gpu]: nics[] or -1. */
static void find_own(const struct node *n, enum nic_kind kind, int usable, int *own,
                     int *users)
{
    for (int i = 0; i < n->n_gpus; i++) {
        own[i] = n->gpus[i].nic;
        if (own[i] >= 0 && is_usable(n, own[i], n->nics[own[i]].kind))
            users[own[i]]++;
    }
    for (int i = 0; i < n->n_gpus; i++) {
        int down = own[i] >= 0 && n->nics[own[i]].up == 0;
        if (down || (own[i] < 0 && usable == 1)) {
            own[i] = stand_in(n, &n->gpus[i], kind, users);
            if (own[i] >= 0)
                users[own[i]]++;
        }
    }
}

static void add_nic(struct cost_model *m, struct cost_gpu *g, int *n, int nic)
{
    m->nics_of[(*n)++] = nic;
    g->n_nics++;
}

/* nics_of[] of one node from *n on; where NICs are a multiple of the GPUs, those that
 * are nearest to none belong to a GPU of their NUMA node. */
static void join_nics(struct cost_model *m, const struct node *node,
                      struct cost_gpu *gpu, int *n)
{
    enum nic_kind kind;
    int usable = count_usable(node, &kind), each;
    int *own = xcalloc((size_t)node->n_gpus + 1, sizeof(*own));
    int *users = xcalloc((size_t)node->n_nics + 1, sizeof(*users));

    find_own(node, kind, usable, own, users);
    each = node->n_gpus && usable % node->n_gpus == 0 ? usable / node->n_gpus : 1;
    for (int g = 0; g < node->n_gpus; g++) {
        gpu[g].first_nic = *n;
        if (own[g] < 0)
            continue;
        add_nic(m, &gpu[g], n, own[g]);
        for (int k = 0; k < node->n_nics && gpu[g].n_nics < each; k++)
            if (is_usable(node, k, kind) && !users[k] && node->gpus[g].numa >= 0 &&
                node->nics[k].numa == node->gpus[g].numa) {
                users[k]++;
                add_nic(m, &gpu[g], n, k);
            }
    }
    free(own);
    free(users);
}

/* --- nodes ----------------------------------------------------------------------------- */

/* The generation of "Xeon Platinum 8570": the second of four digits; -1. */
static int xeon_generation(const char *model)
{
    const char *p = strstr(model, "Xeon");

    for (; p && *p; p++)
        if (isdigit((unsigned char)p[0]))
            return strspn(p, "0123456789") == 4 ? p[1] - '0' : -1;
    return -1;
}

static int is_amd(const struct node *n)
{
    return str_eq(n->cpu_vendor, "AuthenticAMD") || strstr(n->cpu_model, "AMD") ||
           strstr(n->cpu_model, "EPYC");
}

/* GB/s between two CPUs of a node: NCCL's figures (topo.h, ncclTopoGetInterCpuBw), by
 * CPUID where it is known, else by name. */
static double cpu_gbytes(const struct node *n)
{
    int generation = xeon_generation(n->cpu_model);

    if (is_amd(n))
        return 16;
    if (str_eq(n->arch, "arm64"))
        return 6;
    if (str_eq(n->arch, "ppc64"))
        return 32;
    if (str_eq(n->cpu_vendor, "GenuineIntel") && n->cpu_family == 6) {
        int v = n->cpu_version;
        return v >= 0xcf ? 40 : v >= 0x8f ? 22 : v >= 0x55 ? 10 : 6;
    }
    if (generation >= 4)
        return generation > 4 ? 40 : 22;
    return COST_CPU_GBYTES;
}

/* How many of all nodes' devices are in already. */
struct counts {
    int gpus, nics, nics_of;
};

static void add_node(struct cost_model *m, int i, struct counts *at)
{
    const struct node *n = &m->t->nodes[i];
    struct cost_node *c = &m->node[i];

    c->unit = i;
    c->amd = is_amd(n);
    c->gpu = at->gpus;
    c->first_nic = at->nics;
    c->nic = m->n_links;
    for (int k = 0; k < n->n_nics; k++) {
        cost_model_add_link(m, known(n->nics[k].gbits_per_s / 8), COST_NIC, i, k);
        m->pci_of_nic[at->nics++] = node_pci(n, n->nics[k].busid);
    }
    for (int k = 0; k < n->n_gpus; k++) {
        struct cost_gpu *g = &m->gpu[at->gpus++];
        g->nvlink_rate = nvlink_rate(&n->gpus[k]);
        g->switched = is_switched(n, &n->gpus[k]);
        g->pci = node_pci(n, n->gpus[k].busid);
        g->switch_above = g->pci >= 0 ? n->pcis[g->pci].above : -1;
        g->nvlink = cost_model_add_link(m, g->nvlink_rate, COST_NVLINK, i, k);
        g->pcie = cost_model_add_link(m, known(n->gpus[k].pcie_gbytes_per_s), COST_PCIE,
                                      i, k);
    }
    c->pci = cost_pci_build(m, i);
    c->cpu = cost_model_add_link(m, cpu_gbytes(n) * 1e9, COST_CPU, i, -1);
    c->memory = cost_model_add_link(m, COST_MEMORY_GBYTES * 1e9, COST_MEMORY, i, -1);
    c->network = cost_model_add_link(m, COST_NIC_GBYTES * 1e9, COST_NIC, i, -1);
    join_nics(m, n, m->gpu + c->gpu, &at->nics_of);
}

/* --- NVLink domains --------------------------------------------------------------------- */

struct domain {
    const char *name;
    int node;
};

static int compare_domain(const void *a, const void *b)
{
    const struct domain *x = a, *y = b;
    int by_name = strcmp(x->name, y->name);

    return by_name ? by_name : (x->node > y->node) - (x->node < y->node);
}

/* Nodes whose GPUs hang on the switches of one domain become one unit: its first. */
static void join_domains(struct cost_model *m)
{
    struct domain *d = xcalloc((size_t)m->t->n_nodes + 1, sizeof(*d));
    int n = 0;

    for (int i = 0; i < m->t->n_nodes; i++) {
        const struct node *node = &m->t->nodes[i];
        if (node->nvlink_domain[0] && node->n_gpus && m->gpu[m->node[i].gpu].switched)
            d[n++] = (struct domain){ node->nvlink_domain, i };
    }
    qsort(d, (size_t)n, sizeof(*d), compare_domain);
    for (int i = 1; i < n; i++)
        if (str_eq(d[i].name, d[i - 1].name))
            m->node[d[i].node].unit = m->node[d[i - 1].node].unit;
    free(d);
}

struct cost_model *cost_model_new(const struct topology *t)
{
    struct cost_model *m = xcalloc(1, sizeof(*m));
    size_t gpus = 0, nics = 0;
    struct counts at = { 0 };

    for (int i = 0; i < t->n_nodes; i++) {
        gpus += (size_t)t->nodes[i].n_gpus;
        nics += (size_t)t->nodes[i].n_nics;
    }
    m->t = t;
    m->node = xcalloc((size_t)t->n_nodes + 1, sizeof(*m->node));
    m->gpu = xcalloc(gpus + 1, sizeof(*m->gpu));
    m->nics_of = xcalloc(gpus + nics + 1, sizeof(*m->nics_of));
    m->pci_of_nic = xcalloc(nics + 1, sizeof(*m->pci_of_nic));
    for (int i = 0; i < t->n_nodes; i++)
        add_node(m, i, &at);
    join_domains(m);
    cost_fabric_build(m);
    return m;
}

void cost_model_free(struct cost_model *m)
{
    if (!m)
        return;
    free(m->link);
    free(m->node);
    free(m->gpu);
    free(m->nics_of);
    free(m->pci_of_nic);
    free(m->part);
    free(m->part_of);
    free(m);
}
