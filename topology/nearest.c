#include "topology/nearest.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "topology/topology.h"

int pci_shared_bridges(const struct pci_path *a, const struct pci_path *b)
{
    int n = 0;

    if (strcmp(a->host, b->host) != 0)
        return 0;
    while (n < a->n - 1 && n < b->n - 1 && strcmp(a->at[n], b->at[n]) == 0)
        n++;
    return n;
}

static int is_rdma(const struct nic *c)
{
    return c->guid[0] || c->layer == LINK_INFINIBAND;
}

static int beside_a_gpu(const struct node *n, const struct pci_path *gpu,
                        const struct pci_path *nic)
{
    for (int i = 0; i < n->n_gpus; i++)
        if (pci_shared_bridges(&gpu[i], nic))
            return 1;
    return 0;
}

static void set_kinds(struct node *n, const struct pci_path *gpu,
                      const struct pci_path *nic)
{
    int rdma = 0, pairs = 0;
    double best = 0;

    for (int i = 0; i < n->n_nics; i++) {
        const struct nic *c = &n->nics[i];
        if (!is_rdma(c))
            continue;
        rdma++;
        pairs += beside_a_gpu(n, gpu, &nic[i]);
        best = c->up == 1 && c->gbits_per_s > best ? c->gbits_per_s : best;
    }
    for (int i = 0; i < n->n_nics; i++) {
        struct nic *c = &n->nics[i];
        if (!is_rdma(c))
            c->kind = rdma ? NIC_MANAGEMENT : NIC_UNKNOWN;
        else if (pairs)
            c->kind = beside_a_gpu(n, gpu, &nic[i]) ? NIC_COMPUTE : NIC_STORAGE;
        else
            c->kind = c->gbits_per_s >= best ? NIC_COMPUTE : NIC_MANAGEMENT;
    }
}

static int load_of(const struct node *n, int nic)
{
    int load = 0;

    for (int i = 0; i < n->n_gpus; i++)
        load += n->gpus[i].nic == nic;
    return load;
}

int nearest_pick(const struct node *n, const int *near)
{
    int best = -1;

    for (int k = 0; k < n->n_nics; k++) {
        if (near[k] <= 0)
            continue;
        if (best < 0 || near[k] > near[best] ||
            (near[k] == near[best] && load_of(n, k) < load_of(n, best)))
            best = k;
    }
    return best;
}

/* Shared bridges come before the NUMA node. */
static int nearness(const struct gpu *g, const struct pci_path *gpu,
                    const struct nic *c, const struct pci_path *nic)
{
    int shared = pci_shared_bridges(gpu, nic);

    if (c->kind != NIC_COMPUTE)
        return 0;
    if (shared)
        return 1 + shared;
    return g->numa >= 0 && g->numa == c->numa;
}

/* The way in nvidia-smi's words. */
static const char *path_word(const struct gpu *g, const struct pci_path *gpu,
                             const struct nic *c, const struct pci_path *nic)
{
    int shared = pci_shared_bridges(gpu, nic);

    if (shared) /* one switch is between the two ports of it */
        return gpu->n - 1 - shared <= 1 && nic->n - 1 - shared <= 1 ? "PIX" : "PXB";
    if (gpu->n && nic->n && str_eq(gpu->host, nic->host))
        return "PHB";
    if (g->numa < 0 || c->numa < 0)
        return "";
    return g->numa == c->numa ? "NODE" : "SYS";
}

void nearest_join(struct node *n, const struct pci_path *gpu,
                  const struct pci_path *nic)
{
    int *near = xcalloc((size_t)n->n_nics + 1, sizeof(*near));

    set_kinds(n, gpu, nic);
    for (int i = 0; i < n->n_gpus; i++) {
        int k;
        for (k = 0; k < n->n_nics; k++)
            near[k] = nearness(&n->gpus[i], &gpu[i], &n->nics[k], &nic[k]);
        k = nearest_pick(n, near);
        n->gpus[i].nic = k;
        if (k >= 0)
            snprintf(n->gpus[i].nic_path, sizeof(n->gpus[i].nic_path), "%s",
                     path_word(&n->gpus[i], &gpu[i], &n->nics[k], &nic[k]));
    }
    free(near);
}
