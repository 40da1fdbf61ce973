/* NCCL's topology file: what NCCL_TOPO_DUMP_FILE writes and NCCL_TOPO_FILE reads
 * (formats: nccl src/graph/xml.cc, topo.cc). */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "recipes/yaml.h"
#include "topology/cpulist.h"
#include "topology/nearest.h"
#include "topology/source.h"
#include "topology/topology.h"
#include "topology/xml.h"

/* One host of the file and where its devices hang. */
struct host {
    const char *hash; /* borrowed from the tree; "" none */
    struct pci_path *gpu, *nic;
};

struct walk {
    struct topology *t;
    struct host *hosts; /* [n_hosts], one a node */
    int n_hosts;
    const char *where;
    int node, numa;    /* of the cpu that is walked */
    int at[PCI_DEPTH]; /* node.pcis of the devices above, from the root */
};

static long number(const struct xml_node *x, const char *name, long unknown)
{
    const char *text = xml_attr(x, name);
    char *end;
    long v;

    if (!text)
        return unknown;
    errno = 0;
    v = strtol(text, &end, 0);
    return end == text || *end || errno || v < INT_MIN || v > INT_MAX ? unknown : v;
}

static const char *text_of(const struct xml_node *x, const char *name)
{
    const char *text = xml_attr(x, name);

    return text ? text : "";
}

/* What is longer than its place is no such value. */
static void read_text(const struct xml_node *x, const char *name, char *out, size_t n)
{
    const char *text = text_of(x, name);

    snprintf(out, n, "%s", strlen(text) < n ? text : "");
}

/* A prefix decides, as in NCCL. */
static int has_class(const struct xml_node *pci, const char *prefix)
{
    return strncmp(text_of(pci, "class"), prefix, strlen(prefix)) == 0;
}

/* "ffffffff,ffff0000,00000000", the highest CPUs first. */
static void read_affinity(const char *mask, char *out, size_t n)
{
    struct cpulist l = { { 0 } };
    int groups = 1;

    for (const char *p = mask; *p; p++)
        groups += *p == ',';
    for (const char *p = mask; *p && groups * 32 <= CPULIST_MAX; p += *p == ',') {
        char *end;
        unsigned long bits = strtoul(p, &end, 16);
        groups--;
        for (int i = 0; i < 32; i++)
            if (bits >> i & 1)
                cpulist_add(&l, groups * 32 + i);
        p = end + strcspn(end, ",");
    }
    cpulist_format(&l, out, n);
}

static void read_nvlink(const struct xml_node *x, struct gpu *g)
{
    const char *target = text_of(x, "target");
    struct nvlink *l;
    char peer[20];

    if (strncasecmp(target, "fffffff", 7) == 0)
        snprintf(peer, sizeof(peer), "switch");
    else
        busid_normalise(target, peer);
    for (int i = 0; i < g->n_nvlinks; i++)
        if (str_eq(g->nvlinks[i].peer, peer)) {
            g->nvlinks[i].count += (int)number(x, "count", 1);
            return;
        }
    l = topology_add_nvlink(g);
    snprintf(l->peer, sizeof(l->peer), "%s", peer);
    read_text(x, "tclass", l->peer_class, sizeof(l->peer_class));
    l->count = (int)number(x, "count", 1);
}

static void add_gpu(struct walk *w, const struct xml_node *pci,
                    const struct pci_path *path, double rate)
{
    struct node *n = &w->t->nodes[w->node];
    struct host *h = &w->hosts[w->node];
    struct gpu *g = topology_add_gpu(n);

    snprintf(g->busid, sizeof(g->busid), "%s", path->at[path->n - 1]);
    g->numa = w->numa;
    g->pcie_gbytes_per_s = rate;
    for (const struct xml_node *x = pci->child; x; x = x->next) {
        if (!str_eq(x->name, "gpu"))
            continue;
        g->index = (int)number(x, "dev", g->index);
        g->sm = (int)number(x, "sm", -1);
        g->gdr = (int)number(x, "gdr", -1);
        for (const struct xml_node *l = x->child; l; l = l->next)
            if (str_eq(l->name, "nvlink"))
                read_nvlink(l, g);
    }
    h->gpu = xrealloc(h->gpu, (size_t)n->n_gpus, sizeof(*h->gpu));
    h->gpu[n->n_gpus - 1] = *path;
}

static struct nic *new_nic(struct walk *w, const struct pci_path *path)
{
    struct node *n = &w->t->nodes[w->node];
    struct host *h = &w->hosts[w->node];
    struct nic *c = topology_add_nic(n);

    if (path->n)
        snprintf(c->busid, sizeof(c->busid), "%s", path->at[path->n - 1]);
    c->numa = w->numa;
    h->nic = xrealloc(h->nic, (size_t)n->n_nics, sizeof(*h->nic));
    h->nic[n->n_nics - 1] = *path;
    return c;
}

static void name_nic(const struct node *n, struct nic *c, const struct xml_node *net)
{
    const char *name = text_of(net, "name");

    for (int i = 0; i < n->n_nics; i++)
        if (&n->nics[i] != c && str_eq(n->nics[i].name, name)) {
            snprintf(c->name, sizeof(c->name), "%.20s:%ld", name,
                     number(net, "port", 0));
            return;
        }
    snprintf(c->name, sizeof(c->name), "%.31s", name);
}

static void add_net(struct walk *w, const struct xml_node *net,
                    const struct pci_path *path, enum link_layer layer)
{
    struct nic *c = new_nic(w, path);
    unsigned long long guid = strtoull(text_of(net, "guid"), NULL, 0);
    long speed = number(net, "speed", -1);

    name_nic(&w->t->nodes[w->node], c, net);
    if (guid)
        snprintf(c->guid, sizeof(c->guid), "0x%016llx", guid);
    memcpy(c->image_guid, c->guid, sizeof(c->image_guid));
    c->port = (int)number(net, "port", -1);
    c->port = c->port > 0 ? c->port : -1; /* sockets have port 0 */
    c->layer = layer == LINK_UNKNOWN && !guid ? LINK_ETHERNET : layer;
    c->gbits_per_s = speed > 0 ? (double)speed / 1000 : -1;
    c->rail = (int)number(net, "rail", -1);
    c->plane = (int)number(net, "plane", -1);
    c->up = 1; /* NCCL lists what it can use */
}

/* A <nic>: one NIC a <net>.  The number of them. */
static int add_nets(struct walk *w, const struct xml_node *nic,
                    const struct pci_path *path, enum link_layer layer)
{
    int nets = 0;

    for (const struct xml_node *x = nic->child; x; x = x->next)
        if (str_eq(x->name, "net")) {
            add_net(w, x, path, layer);
            nets++;
        }
    return nets;
}

/* A network card; without <nic> (injected files) it is named by its bus id. */
static void add_card(struct walk *w, const struct xml_node *pci,
                     const struct pci_path *path)
{
    enum link_layer layer = has_class(pci, "0x0207") ? LINK_INFINIBAND : LINK_UNKNOWN;
    struct nic *c;
    int nets = 0;

    for (const struct xml_node *x = pci->child; x; x = x->next)
        if (str_eq(x->name, "nic"))
            nets += add_nets(w, x, path, layer);
    if (nets)
        return;
    c = new_nic(w, path);
    c->layer = layer;
    snprintf(c->name, sizeof(c->name), "%s", c->busid);
}

static void keep_pci(struct walk *w, const struct xml_node *x,
                     const struct pci_path *path)
{
    struct node *n = &w->t->nodes[w->node];
    long width = number(x, "link_width", -1);
    struct pci *p = topology_add_pci(n);

    snprintf(p->busid, sizeof(p->busid), "%s", path->at[path->n - 1]);
    p->above = path->n > 1 ? w->at[path->n - 2] : -1;
    w->at[path->n - 1] = n->n_pcis - 1;
    p->numa = w->numa;
    read_text(x, "class", p->class, sizeof(p->class));
    read_text(x, "vendor", p->vendor, sizeof(p->vendor));
    read_text(x, "device", p->device, sizeof(p->device));
    read_text(x, "subsystem_vendor", p->subsystem_vendor, sizeof(p->subsystem_vendor));
    read_text(x, "subsystem_device", p->subsystem_device, sizeof(p->subsystem_device));
    read_text(x, "link_speed", p->link_speed, sizeof(p->link_speed));
    p->link_width = width > 0 ? (int)width : -1; /* 0: NCCL did not know */
}

/* One PCI device below `above`; rate: the narrowest step so far, -1 unknown. */
static int walk_pci(struct walk *w, const struct xml_node *pci,
                    const struct pci_path *above, double rate, struct err *err)
{
    struct pci_path path = *above;
    double here = pcie_gbytes_per_s(text_of(pci, "link_speed"),
                                    (int)number(pci, "link_width", -1));

    if (!busid_valid(text_of(pci, "busid")))
        return err_set(err, ERR_USAGE, "%s:%d: '%s' is no PCI bus id", w->where,
                       pci->line, text_of(pci, "busid"));
    if (path.n == PCI_DEPTH)
        return err_set(err, ERR_USAGE, "%s:%d: PCI devices nest deeper than %d",
                       w->where, pci->line, PCI_DEPTH);
    busid_normalise(text_of(pci, "busid"), path.at[path.n++]);
    keep_pci(w, pci, &path);
    rate = here > 0 && (rate < 0 || here < rate) ? here : rate;
    if (has_class(pci, "0x03"))
        add_gpu(w, pci, &path, rate);
    else if (has_class(pci, "0x02"))
        add_card(w, pci, &path);
    for (const struct xml_node *x = pci->child; x; x = x->next)
        if (str_eq(x->name, "pci") && walk_pci(w, x, &path, rate, err) < 0)
            return -1;
    return 0;
}

/* The node of a host; hosts of one file differ by their hash. */
static int host_index(struct walk *w, const char *hash)
{
    struct node *n;
    int i = 0;

    while (i < w->n_hosts && !str_eq(w->hosts[i].hash, hash))
        i++;
    if (i < w->n_hosts)
        return i;
    n = topology_add_node(w->t);
    w->hosts = xrealloc(w->hosts, (size_t)++w->n_hosts, sizeof(*w->hosts));
    w->hosts[i] = (struct host){ .hash = hash };
    snprintf(n->name, sizeof(n->name), "%.63s", i ? hash : TOPOLOGY_UNNAMED);
    return i;
}

static int walk_cpu(struct walk *w, const struct xml_node *cpu, struct err *err)
{
    struct pci_path top = { .n = 0 };
    struct node *n;

    w->node = host_index(w, text_of(cpu, "host_hash"));
    w->numa = (int)number(cpu, "numaid", -1);
    n = &w->t->nodes[w->node];
    if (!n->arch[0]) {
        read_text(cpu, "arch", n->arch, sizeof(n->arch));
        read_text(cpu, "vendor", n->cpu_vendor, sizeof(n->cpu_vendor));
        n->cpu_family = (int)number(cpu, "familyid", -1);
        n->cpu_version = (int)number(cpu, "modelid", -1);
    }
    if (w->numa >= 0) {
        struct numa *m = topology_add_numa(n);
        m->id = w->numa;
        read_affinity(text_of(cpu, "affinity"), m->cpus, sizeof(m->cpus));
    }
    snprintf(top.host, sizeof(top.host), "cpu%d", w->numa);
    for (const struct xml_node *x = cpu->child; x; x = x->next) {
        struct pci_path nowhere = { .n = 0 };
        if (str_eq(x->name, "pci") && walk_pci(w, x, &top, -1, err) < 0)
            return -1;
        if (str_eq(x->name, "nic"))
            add_nets(w, x, &nowhere, LINK_UNKNOWN);
    }
    return 0;
}

static int walk_system(struct walk *w, const struct xml_node *root, struct err *err)
{
    if (!str_eq(root->name, "system") || number(root, "version", -1) != 1)
        return err_set(err, ERR_USAGE,
                       "%s:%d: no NCCL topology: <system version=\"1\"> is expected",
                       w->where, root->line);
    for (const struct xml_node *x = root->child; x; x = x->next)
        if (str_eq(x->name, "cpu") && walk_cpu(w, x, err) < 0)
            return -1;
    for (int i = 0; i < w->n_hosts; i++)
        nearest_join(&w->t->nodes[i], w->hosts[i].gpu, w->hosts[i].nic);
    topology_inspect(w->t);
    topology_inspect_affinity(w->t);
    return topology_validate(w->t, err) < 0 ? err_wrap(err, "%s", w->where) : 0;
}

int topology_from_ncclxml_text(const char *text, size_t len, const char *where,
                               struct topology **out, struct err *err)
{
    struct walk w = { .where = where };
    struct xml_node *root;
    int rc;

    if (xml_parse(text, len, where, &root, err) < 0)
        return -1;
    w.t = topology_new("ncclxml", 0);
    w.hosts = xcalloc(1, sizeof(*w.hosts));
    rc = walk_system(&w, root, err);
    for (int i = 0; i < w.n_hosts; i++) {
        free(w.hosts[i].gpu);
        free(w.hosts[i].nic);
    }
    free(w.hosts);
    xml_free(root);
    if (rc == 0)
        *out = w.t;
    else
        topology_free(w.t);
    return rc;
}

int topology_from_ncclxml(const char *path, struct topology **out, struct err *err)
{
    char *text;
    size_t len;
    int rc;

    if (yaml_read_file(path, XML_MAX_BYTES, &text, &len, err) < 0)
        return -1;
    rc = topology_from_ncclxml_text(text, len, path, out, err);
    free(text);
    return rc;
}
