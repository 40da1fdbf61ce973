#include "topology/topology.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

static void node_init(struct node *n)
{
    n->sockets = n->cores = n->threads = -1;
    n->memory_bytes = -1;
    n->leaf = n->slots = n->cpu_family = n->cpu_version = n->nvswitches = -1;
}

struct topology *topology_new(const char *source, int n_nodes)
{
    struct topology *t = xcalloc(1, sizeof(*t));

    snprintf(t->source, sizeof(t->source), "%s", source);
    t->n_nodes = n_nodes;
    t->nodes = xcalloc((size_t)n_nodes, sizeof(*t->nodes));
    for (int i = 0; i < n_nodes; i++)
        node_init(&t->nodes[i]);
    return t;
}

/* One more zeroed element at the end of a list. */
static void *grow(void *list, int *n, size_t size)
{
    char *items = xrealloc(*(void **)list, (size_t)*n + 1, size);
    char *new = items + (size_t)*n *size;

    memset(new, 0, size);
    *(void **)list = items;
    (*n)++;
    return new;
}

struct node *topology_add_node(struct topology *t)
{
    struct node *n = grow(&t->nodes, &t->n_nodes, sizeof(*n));

    node_init(n);
    return n;
}

struct gpu *topology_add_gpu(struct node *n)
{
    struct gpu *g = grow(&n->gpus, &n->n_gpus, sizeof(*g));

    g->index = n->n_gpus - 1;
    g->sm = g->numa = g->mig = g->mig_instances = g->gdr = g->nic = -1;
    g->memory_bytes = -1;
    g->pcie_gbytes_per_s = -1;
    return g;
}

struct nic *topology_add_nic(struct node *n)
{
    struct nic *c = grow(&n->nics, &n->n_nics, sizeof(*c));

    c->up = c->numa = c->rail = c->leaf = c->plane = c->gid = c->port = -1;
    c->gbits_per_s = -1;
    return c;
}

struct numa *topology_add_numa(struct node *n)
{
    struct numa *m = grow(&n->numas, &n->n_numas, sizeof(*m));

    m->memory_bytes = -1;
    return m;
}

struct pci *topology_add_pci(struct node *n)
{
    struct pci *p = grow(&n->pcis, &n->n_pcis, sizeof(*p));

    p->above = p->numa = p->link_width = -1;
    return p;
}

struct nvlink *topology_add_nvlink(struct gpu *g)
{
    struct nvlink *l = grow(&g->nvlinks, &g->n_nvlinks, sizeof(*l));

    l->gbytes_per_s = -1;
    return l;
}

struct fabric_switch *topology_add_switch(struct topology *t)
{
    return grow(&t->switches, &t->n_switches, sizeof(*t->switches));
}

struct fabric_link *topology_add_link(struct topology *t)
{
    struct fabric_link *l = grow(&t->links, &t->n_links, sizeof(*l));

    l->count = 1;
    l->gbits_per_s = -1;
    return l;
}

void topology_find(struct topology *t, enum severity s, const char *object,
                   const char *fmt, ...)
{
    struct finding *f = grow(&t->findings, &t->n_findings, sizeof(*f));
    va_list ap;

    f->severity = s;
    snprintf(f->object, sizeof(f->object), "%s", object);
    va_start(ap, fmt);
    f->text = xvasprintf(fmt, ap);
    va_end(ap);
}

void topology_find_once(struct topology *t, enum severity s, const char *object,
                        const char *fmt, ...)
{
    int there = 0;
    char *text;
    va_list ap;

    va_start(ap, fmt);
    text = xvasprintf(fmt, ap);
    va_end(ap);
    for (int i = 0; i < t->n_findings && !there; i++)
        there = strncmp(t->findings[i].object, object,
                        sizeof(t->findings[i].object) - 1) == 0 &&
                strcmp(t->findings[i].text, text) == 0;
    if (!there)
        topology_find(t, s, object, "%s", text);
    free(text);
}

static void node_release(struct node *n)
{
    for (int i = 0; i < n->n_gpus; i++)
        free(n->gpus[i].nvlinks);
    free(n->gpus);
    free(n->nics);
    free(n->numas);
    free(n->pcis);
}

/* "n1", "n1 gpu 3", "n1 mlx5_0". */
static int is_about(const struct finding *f, const char *name)
{
    size_t n = strlen(name);

    return strncmp(f->object, name, n) == 0 && (!f->object[n] || f->object[n] == ' ');
}

static int refuse_node(const struct topology *t, const char *name, struct err *err)
{
    const char **names = xcalloc((size_t)t->n_nodes + 1, sizeof(*names)), *near;

    for (int i = 0; i < t->n_nodes; i++)
        names[i] = t->nodes[i].name;
    near = str_nearest(name, names, t->n_nodes);
    free(names);
    return err_set(err, ERR_USAGE, "%s: no node '%s' among the %d%s%s%s", t->source,
                   name, t->n_nodes, near ? " (did you mean '" : "", near ? near : "",
                   near ? "'?)" : "");
}

int topology_keep_node(struct topology *t, const char *name, struct err *err)
{
    int found = 0, kept = 0;

    while (found < t->n_nodes && strcmp(t->nodes[found].name, name) != 0)
        found++;
    if (found == t->n_nodes)
        return refuse_node(t, name, err);
    for (int i = 0; i < t->n_nodes; i++)
        if (i != found)
            node_release(&t->nodes[i]);
    t->nodes[0] = t->nodes[found];
    t->n_nodes = 1;
    for (int i = 0; i < t->n_findings; i++)
        if (is_about(&t->findings[i], t->nodes[0].name))
            t->findings[kept++] = t->findings[i];
        else
            free(t->findings[i].text);
    t->n_findings = kept;
    return 0;
}

void topology_free(struct topology *t)
{
    if (!t)
        return;
    for (int i = 0; i < t->n_nodes; i++)
        node_release(&t->nodes[i]);
    for (int i = 0; i < t->n_findings; i++)
        free(t->findings[i].text);
    free(t->nodes);
    free(t->switches);
    free(t->links);
    free(t->findings);
    free(t);
}

const char *nic_kind_name(enum nic_kind k)
{
    static const char *const names[] = { "unknown", "compute", "storage",
                                         "management" };

    return (unsigned)k < ARRAY_LEN(names) ? names[k] : "?";
}

const char *link_layer_name(enum link_layer l)
{
    static const char *const names[] = { "unknown", "infiniband", "ethernet" };

    return (unsigned)l < ARRAY_LEN(names) ? names[l] : "?";
}

const char *severity_name(enum severity s)
{
    static const char *const names[] = { "note", "warn", "fail" };

    return (unsigned)s < ARRAY_LEN(names) ? names[s] : "?";
}

int node_pci(const struct node *n, const char *busid)
{
    for (int i = 0; i < n->n_pcis && busid[0]; i++)
        if (strcmp(n->pcis[i].busid, busid) == 0)
            return i;
    return -1;
}

const struct gpu *gpu_peer(const struct node *n, const struct nvlink *l)
{
    char index[20];

    for (int i = 0; i < n->n_gpus; i++) {
        snprintf(index, sizeof(index), "gpu:%d", n->gpus[i].index);
        if ((n->gpus[i].busid[0] && strcmp(l->peer, n->gpus[i].busid) == 0) ||
            strcmp(l->peer, index) == 0)
            return &n->gpus[i];
    }
    return NULL;
}

int gpu_nvlink_count(const struct gpu *g)
{
    int n = 0;

    for (int i = 0; i < g->n_nvlinks; i++)
        n += g->nvlinks[i].count;
    return n;
}

double gpu_nvlink_gbytes_per_s(const struct gpu *g)
{
    double sum = 0;

    for (int i = 0; i < g->n_nvlinks; i++) {
        if (g->nvlinks[i].gbytes_per_s < 0)
            return -1;
        sum += g->nvlinks[i].gbytes_per_s;
    }
    return sum;
}

double pcie_gbytes_per_s(const char *speed, int width)
{
    static const struct {
        double gt_per_s;
        int per_lane; /* 100 Mb/s */
    } rates[] = { { 2.5, 15 }, { 5, 30 },   { 8, 60 },
                  { 16, 120 }, { 32, 240 }, { 64, 480 } };
    char *end;
    double gt = strtod(speed, &end);

    if (end == speed || width <= 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(rates); i++)
        if (gt > rates[i].gt_per_s - 0.1 && gt < rates[i].gt_per_s + 0.1)
            return width * rates[i].per_lane / 80.0;
    return -1;
}
