/* What must hold of any topology, whoever built it. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "topology/topology.h"

/* The first of n strings (`size` bytes apart) that an earlier one repeats; "" is
 * unknown and repeats nothing.  Sorted copies: 16384 nodes are legal. */
static int compare_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const char *first_repeat(const char *text, int n, size_t size)
{
    const char **sorted = xcalloc((size_t)n + 1, sizeof(*sorted));
    const char *repeat = NULL;

    for (int i = 0; i < n; i++)
        sorted[i] = text + (size_t)i * size;
    qsort(sorted, (size_t)n, sizeof(*sorted), compare_text);
    for (int i = 1; i < n && !repeat; i++)
        if (sorted[i][0] && strcmp(sorted[i], sorted[i - 1]) == 0)
            repeat = sorted[i];
    free(sorted);
    return repeat;
}

static int has_numa(const struct node *n, int id)
{
    for (int i = 0; i < n->n_numas; i++)
        if (n->numas[i].id == id)
            return 1;
    return id == -1 || n->n_numas == 0;
}

static void check_gpu(const struct node *n, const struct gpu *g, struct err *err)
{
    if (g->index < 0)
        err_more(err, ERR_USAGE, "%s: a gpu has index %d", n->name, g->index);
    if (g->nic < -1 || g->nic >= n->n_nics)
        err_more(err, ERR_USAGE, "%s: gpu %d names nic %d, there are %d", n->name,
                 g->index, g->nic, n->n_nics);
    if (!has_numa(n, g->numa))
        err_more(err, ERR_USAGE, "%s: gpu %d is on NUMA node %d, which is not listed",
                 n->name, g->index, g->numa);
    if (g->memory_bytes == 0 || g->memory_bytes < -1)
        err_more(err, ERR_USAGE, "%s: gpu %d has %lld bytes of memory", n->name,
                 g->index, (long long)g->memory_bytes);
    for (int i = 0; i < g->n_nvlinks; i++)
        if (g->nvlinks[i].count < 1)
            err_more(err, ERR_USAGE, "%s: gpu %d has %d NVLinks to '%s'", n->name,
                     g->index, g->nvlinks[i].count, g->nvlinks[i].peer);
}

static void check_gpus(const struct node *n, struct err *err)
{
    const char *repeat;

    for (int i = 0; i < n->n_gpus; i++) {
        check_gpu(n, &n->gpus[i], err);
        for (int j = 0; j < i; j++)
            if (n->gpus[i].index == n->gpus[j].index)
                err_more(err, ERR_USAGE, "%s: two gpus have index %d", n->name,
                         n->gpus[i].index);
    }
    if (n->n_gpus &&
        (repeat = first_repeat(n->gpus[0].busid, n->n_gpus, sizeof(*n->gpus))))
        err_more(err, ERR_USAGE, "%s: two gpus have bus id %s", n->name, repeat);
}

static void check_nics(const struct topology *t, const struct node *n, struct err *err)
{
    const char *repeat;

    for (int i = 0; i < n->n_nics; i++) {
        const struct nic *c = &n->nics[i];
        if (c->leaf < -1 || c->leaf >= t->n_switches)
            err_more(err, ERR_USAGE, "%s: nic %s names switch %d, there are %d",
                     n->name, c->name, c->leaf, t->n_switches);
        if (c->up < -1 || c->up > 1)
            err_more(err, ERR_USAGE, "%s: nic %s: up is %d, not 1, 0 or -1", n->name,
                     c->name, c->up);
        if (!has_numa(n, c->numa))
            err_more(err, ERR_USAGE,
                     "%s: nic %s is on NUMA node %d, which is not listed", n->name,
                     c->name, c->numa);
    }
    if (n->n_nics &&
        (repeat = first_repeat(n->nics[0].name, n->n_nics, sizeof(*n->nics))))
        err_more(err, ERR_USAGE, "%s: two nics are called %s", n->name, repeat);
}

static void check_pcis(const struct node *n, struct err *err)
{
    const char *repeat;

    for (int i = 0; i < n->n_pcis; i++) {
        const struct pci *p = &n->pcis[i];
        char plain[20];
        busid_normalise(p->busid, plain);
        if (!busid_valid(p->busid) || !str_eq(plain, p->busid))
            err_more(err, ERR_USAGE, "%s: PCI device %d: '%s' is no PCI bus id",
                     n->name, i, p->busid);
        if (p->above < -1 || p->above >= i)
            err_more(err, ERR_USAGE,
                     "%s: PCI device %s hangs below number %d: that comes first in the "
                     "list",
                     n->name, p->busid, p->above);
    }
    if (n->n_pcis &&
        (repeat = first_repeat(n->pcis[0].busid, n->n_pcis, sizeof(*n->pcis))))
        err_more(err, ERR_USAGE, "%s: PCI device %s is listed twice", n->name, repeat);
}

static void check_leaf(const struct topology *t, const struct node *n, struct err *err)
{
    if (n->leaf < -1 || n->leaf >= t->n_switches)
        err_more(err, ERR_USAGE, "%s: names switch %d as its leaf, there are %d",
                 n->name, n->leaf, t->n_switches);
}

static void check_numas(const struct node *n, struct err *err)
{
    for (int i = 0; i < n->n_numas; i++)
        for (int j = 0; j < i; j++)
            if (n->numas[i].id == n->numas[j].id)
                err_more(err, ERR_USAGE, "%s: NUMA node %d is listed twice", n->name,
                         n->numas[i].id);
}

static void check_names(const struct topology *t, struct err *err)
{
    const char *repeat;

    for (int i = 0; i < t->n_nodes; i++)
        if (!t->nodes[i].name[0])
            err_more(err, ERR_USAGE, "node %d has no name", i);
    if (t->n_nodes < 1) {
        err_more(err, ERR_USAGE, "a topology needs at least one node");
        return;
    }
    if ((repeat = first_repeat(t->nodes[0].name, t->n_nodes, sizeof(*t->nodes))))
        err_more(err, ERR_USAGE, "two nodes are called %s", repeat);
    if ((repeat = first_repeat(t->nodes[0].boot_id, t->n_nodes, sizeof(*t->nodes))))
        err_more(err, ERR_USAGE,
                 "two nodes have boot id %s: one machine is listed twice", repeat);
}

enum { LEVEL_MAX = 63 };

static void check_fabric(const struct topology *t, struct err *err)
{
    const char *repeat;

    if (t->n_switches && (repeat = first_repeat(t->switches[0].name, t->n_switches,
                                                sizeof(*t->switches))))
        err_more(err, ERR_USAGE, "two switches are called %s", repeat);
    for (int i = 0; i < t->n_switches; i++)
        if (t->switches[i].level < 0 || t->switches[i].level > LEVEL_MAX)
            err_more(err, ERR_USAGE, "switch %s is on level %d, there are 0 to %d",
                     t->switches[i].name, t->switches[i].level, LEVEL_MAX);
    for (int i = 0; i < t->n_links; i++) {
        const struct fabric_link *l = &t->links[i];
        if (l->from < 0 || l->from >= t->n_switches || l->to < 0 ||
            l->to >= t->n_switches || l->from == l->to)
            err_more(err, ERR_USAGE, "link %d joins switches %d and %d, there are %d",
                     i, l->from, l->to, t->n_switches);
        if (l->count < 1)
            err_more(err, ERR_USAGE, "link %d has %d cables", i, l->count);
    }
}

int topology_validate(const struct topology *t, struct err *err)
{
    struct err found = ERR_INIT;

    check_names(t, &found);
    for (int i = 0; i < t->n_nodes; i++) {
        check_gpus(&t->nodes[i], &found);
        check_nics(t, &t->nodes[i], &found);
        check_numas(&t->nodes[i], &found);
        check_pcis(&t->nodes[i], &found);
        check_leaf(t, &t->nodes[i], &found);
    }
    check_fabric(t, &found);
    if (found.code == ERR_NONE)
        return 0;
    err_set(err, found.code, "%s", err_text(&found));
    err_release(&found);
    return -1;
}
