/* The PCIe tree of a node, where somebody looked: links of NICs and the uplinks of
 * switches, which devices below share. */
#include <math.h>

#include "topology/cost_state.h"
#include "topology/topology.h"

int cost_pci_build(struct cost_model *m, int node)
{
    const struct node *n = &m->t->nodes[node];
    int first = m->n_links;

    for (int i = 0; i < n->n_pcis; i++) {
        double rate = pcie_gbytes_per_s(n->pcis[i].link_speed, n->pcis[i].link_width);
        cost_model_add_link(m, rate > 0 ? rate * 1e9 : NAN, COST_PCIE, node, -1 - i);
    }
    return first;
}

static int is_above(const struct node *n, int pci, int at)
{
    for (; at >= 0; at = n->pcis[at].above)
        if (at == pci)
            return 1;
    return 0;
}

void cost_pci_up(struct cost_flows *f, int node, int device, int to, double bytes)
{
    const struct cost_model *m = f->l->m;
    const struct node *n = &m->t->nodes[node];

    if (to < 0)
        return;
    for (int at = device; at >= 0 && !is_above(n, at, to); at = n->pcis[at].above) {
        int link = m->node[node].pci + at;
        if (!isnan(m->link[link].bytes_per_s))
            cost_load_link(f, link, bytes, 0);
    }
}
