/* Which devices of a node are drawn together. */
#include <stdlib.h>

#include "base/mem.h"
#include "topology/svg_node.h"

/* Items, groups or panels are no more. */
static size_t most_of(const struct node *n)
{
    return (size_t)n->n_numas + (size_t)n->n_gpus + (size_t)n->n_nics + 1;
}

static int panel_of(struct node_view *v, int numa)
{
    for (int i = 0; i < v->n_panels; i++)
        if (v->panel[i].numa == numa)
            return i;
    v->panel[v->n_panels] = (struct panel){ .numa = numa };
    return v->n_panels++;
}

static int new_group(struct node_view *v, int pci, int panel)
{
    v->group[v->n_groups] = (struct group){ .pci = pci, .panel = panel };
    return v->n_groups++;
}

static int group_of(struct node_view *v, int pci, int panel)
{
    for (int i = 0; i < v->n_groups; i++)
        if (v->group[i].pci == pci && v->group[i].panel == panel)
            return i;
    return new_group(v, pci, panel);
}

static int above(const struct node *n, const char *busid)
{
    int at = node_pci(n, busid);

    return at < 0 ? -1 : n->pcis[at].above;
}

static void add_item(struct node_view *v, const struct gpu *g, const struct nic *c,
                     int group)
{
    v->item[v->n_items++] = (struct item){ .g = g, .c = c, .group = group };
}

/* The group of the GPU that c is beside, where no switch says it. */
static int group_of_partner(const struct node_view *v, const struct nic *c, int panel)
{
    for (int i = 0; i < v->n_items; i++) {
        const struct gpu *g = v->item[i].g;
        const struct group *at = &v->group[v->item[i].group];
        if (g && g->nic >= 0 && &v->n->nics[g->nic] == c && at->pci < 0 &&
            at->panel == panel)
            return v->item[i].group;
    }
    return -1;
}

static void add_nic(struct node_view *v, const struct nic *c, int *loose)
{
    int panel = panel_of(v, c->numa), pci = above(v->n, c->busid), group;

    if (pci >= 0) {
        add_item(v, NULL, c, group_of(v, pci, panel));
        return;
    }
    group = group_of_partner(v, c, panel);
    if (group < 0)
        group = loose[panel] >= 0 ? loose[panel] : new_group(v, -1, panel);
    if (group_of_partner(v, c, panel) < 0)
        loose[panel] = group;
    add_item(v, NULL, c, group);
}

static void arrange(struct node_view *v)
{
    const struct node *n = v->n;
    int *loose = xcalloc(most_of(n), sizeof(int));

    for (size_t i = 0; i < most_of(n); i++)
        loose[i] = -1;
    for (int i = 0; i < n->n_numas; i++)
        if (n->numas[i].cpus[0] || n->n_gpus + n->n_nics == 0)
            panel_of(v, n->numas[i].id);
    for (int i = 0; i < n->n_gpus; i++) {
        const struct gpu *g = &n->gpus[i];
        int panel = panel_of(v, g->numa), pci = above(n, g->busid);
        add_item(v, g, NULL,
                 pci >= 0 ? group_of(v, pci, panel) : new_group(v, -1, panel));
    }
    for (int i = 0; i < n->n_nics; i++)
        add_nic(v, &n->nics[i], loose);
    for (int i = 0; i < v->n_groups; i++) {
        if (v->group[i].pci < 0)
            continue;
        v->bars = 1;
        if (n->pcis[v->group[i].pci].above >= 0)
            v->roots = 1;
    }
    free(loose);
}

void node_view_init(struct node_view *v, struct svg *s, const struct topology *t,
                    const struct node *n)
{
    size_t most = most_of(n);

    *v = (struct node_view){ .s = s, .t = t, .n = n };
    v->item = xcalloc(most, sizeof(*v->item));
    v->group = xcalloc(most, sizeof(*v->group));
    v->panel = xcalloc(most, sizeof(*v->panel));
    arrange(v);
}

void node_view_release(struct node_view *v)
{
    free(v->item);
    free(v->group);
    free(v->panel);
}
