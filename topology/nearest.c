#include "topology/nearest.h"

#include <stdarg.h>
#include <stdio.h>
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

/* What is known so far of the RDMA devices of a node. */
struct rdma {
    int count, pairs; /* of them, and those beside a GPU */
    double best;      /* Gb/s of the fastest that is up */
};

static struct rdma count_rdma(const struct node *n, const struct pci_path *gpu,
                              const struct pci_path *nic)
{
    struct rdma r = { 0 };

    for (int i = 0; i < n->n_nics; i++) {
        const struct nic *c = &n->nics[i];
        if (!is_rdma(c) || c->why[0])
            continue;
        r.count++;
        r.pairs += beside_a_gpu(n, gpu, &nic[i]);
        r.best = c->up == 1 && c->gbits_per_s > r.best ? c->gbits_per_s : r.best;
    }
    return r;
}

static void __attribute__((format(printf, 3, 4)))
set_aside(struct nic *c, enum nic_kind kind, const char *fmt, ...)
{
    va_list ap;

    c->kind = kind;
    va_start(ap, fmt);
    vsnprintf(c->why, sizeof(c->why), fmt, ap);
    va_end(ap);
}

/* A NIC with a reason already (a virtual function, a part of a bond) keeps it. */
static void set_kinds(struct node *n, const struct pci_path *gpu,
                      const struct pci_path *nic)
{
    struct rdma r = count_rdma(n, gpu, nic);

    for (int i = 0; i < n->n_nics; i++) {
        struct nic *c = &n->nics[i];
        if (c->why[0])
            c->kind = NIC_MANAGEMENT;
        else if (!is_rdma(c) && r.count)
            set_aside(c, NIC_MANAGEMENT, "Ethernet beside RDMA devices");
        else if (!is_rdma(c))
            c->kind = NIC_UNKNOWN;
        else if (r.pairs && !beside_a_gpu(n, gpu, &nic[i]))
            set_aside(c, NIC_STORAGE, "shares no PCIe switch with a GPU");
        else if (!r.pairs && c->gbits_per_s < r.best)
            set_aside(c, NIC_MANAGEMENT, "%.0f Gb/s, the fastest have %.0f",
                      c->gbits_per_s, r.best);
        else
            c->kind = NIC_COMPUTE;
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
