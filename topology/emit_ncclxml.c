/* NCCL's topology file; what NCCL asks of it is in emit.h. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "topology/cpulist.h"
#include "topology/emit.h"
#include "topology/nearest.h"
#include "topology/topology.h"

/* NCCL stops before it reads beyond 256 elements, also a closing tag. */
enum { NCCL_MAX_ELEMENTS = 255 };

/* An NVSwitch that is not on this machine's bus, in NCCL's words. */
static const char hidden_switch[] = "fffffff:ffff:ff", switch_class[] = "0x068000";

struct page {
    const struct node *n;
    int elements;
    struct str text;
};

static void indent(struct page *p, int depth)
{
    str_addf(&p->text, "%*s", 2 * depth, "");
}

/* ` name="text"`, unless it is unknown or breaks the file. */
static void put_text(struct page *p, const char *name, const char *text)
{
    if (text[0] && !strpbrk(text, "\"<>&\n\t"))
        str_addf(&p->text, " %s=\"%s\"", name, text);
}

/* NCCL refuses a file in which a device has no such attribute ("Attribute link_width of
 * node pci not found", getters of graph/xml.h); empty and 0 are its own words for what
 * sysfs does not tell, and it then takes 16 lanes and its default rate. */
static void put_needed(struct page *p, const char *name, const char *text)
{
    str_addf(&p->text, " %s=\"%s\"", name, strpbrk(text, "\"<>&\n\t") ? "" : text);
}

static void put_int(struct page *p, const char *name, long value)
{
    if (value >= 0)
        str_addf(&p->text, " %s=\"%ld\"", name, value);
}

static void begin(struct page *p, int depth, const char *name)
{
    indent(p, depth);
    str_addf(&p->text, "<%s", name);
    p->elements++;
}

/* --- devices ---------------------------------------------------------------------------- */

static void put_nvlink(struct page *p, int depth, const struct nvlink *l)
{
    const struct gpu *peer = gpu_peer(p->n, l);
    int hidden = str_eq(l->peer, "switch"),
        at = peer ? node_pci(p->n, peer->busid) : -1;
    const char *class = l->peer_class;

    if (!*class)
        class = hidden ? switch_class : at >= 0 ? p->n->pcis[at].class : "";
    begin(p, depth, "nvlink");
    put_text(p, "target", hidden ? hidden_switch : peer ? peer->busid : l->peer);
    put_int(p, "count", l->count);
    put_text(p, "tclass", class);
    str_adds(&p->text, "/>\n");
}

static void put_gpu(struct page *p, int depth, const struct gpu *g)
{
    int links = 0;

    begin(p, depth, "gpu");
    put_int(p, "dev", g->index);
    put_int(p, "sm", g->sm);
    put_int(p, "gdr", g->gdr);
    for (int i = 0; i < g->n_nvlinks; i++)
        links += g->nvlinks[i].peer[0] != '\0';
    str_adds(&p->text, links ? ">\n" : "/>\n");
    for (int i = 0; i < g->n_nvlinks; i++)
        if (g->nvlinks[i].peer[0])
            put_nvlink(p, depth + 1, &g->nvlinks[i]);
    if (links) {
        indent(p, depth);
        str_adds(&p->text, "</gpu>\n");
    }
}

/* A second port of one device is called NAME:PORT here. */
static void put_net(struct page *p, int depth, const struct nic *c)
{
    char name[32], port[16];
    size_t n = strlen(c->name), tail;

    snprintf(name, sizeof(name), "%s", c->name);
    tail = (size_t)snprintf(port, sizeof(port), ":%d", c->port);
    if (c->port > 0 && n > tail && str_eq(name + n - tail, port))
        name[n - tail] = '\0';
    begin(p, depth, "net");
    put_text(p, "name", name);
    put_int(p, "speed", c->gbits_per_s > 0 ? (long)(c->gbits_per_s * 1000 + 0.5) : -1);
    put_int(p, "port", c->port);
    put_text(p, "guid", c->image_guid);
    put_int(p, "rail", c->rail);
    put_int(p, "plane", c->plane);
    str_adds(&p->text, "/>\n");
}

/* Is c a NIC at this bus id ("": one on NUMA node `numa` that hangs off no device)?  A
 * card without <nic> is called as its bus id. */
static int is_there(const struct nic *c, const char *busid, int numa)
{
    return str_eq(c->busid, busid) && (*busid || c->numa == numa) &&
           !str_eq(c->name, busid);
}

static int count_nics(const struct page *p, const char *busid, int numa)
{
    int count = 0;

    for (int i = 0; i < p->n->n_nics; i++)
        count += is_there(&p->n->nics[i], busid, numa);
    return count;
}

static void put_nics(struct page *p, int depth, const char *busid, int numa)
{
    if (count_nics(p, busid, numa) == 0)
        return;
    begin(p, depth, "nic");
    str_adds(&p->text, ">\n");
    for (int i = 0; i < p->n->n_nics; i++)
        if (is_there(&p->n->nics[i], busid, numa))
            put_net(p, depth + 1, &p->n->nics[i]);
    indent(p, depth);
    str_adds(&p->text, "</nic>\n");
}

/* --- the tree ------------------------------------------------------------------------------ */

static const struct gpu *gpu_at(const struct node *n, const char *busid)
{
    for (int i = 0; i < n->n_gpus; i++)
        if (str_eq(n->gpus[i].busid, busid))
            return &n->gpus[i];
    return NULL;
}

/* A device of a GPU's or NIC's class that is neither here: NCCL would take it for one. */
static int is_stray(const struct node *n, const struct pci *d)
{
    int nics = 0;

    for (int i = 0; i < n->n_nics; i++)
        nics += str_eq(n->nics[i].busid, d->busid);
    return (strncmp(d->class, "0x03", 4) == 0 && !gpu_at(n, d->busid)) ||
           (strncmp(d->class, "0x02", 4) == 0 && !nics);
}

static int has_below(const struct node *n, int above)
{
    for (int i = above + 1; i < n->n_pcis; i++)
        if (n->pcis[i].above == above && !is_stray(n, &n->pcis[i]))
            return 1;
    return 0;
}

static void put_pci(struct page *p, int depth, int i)
{
    const struct pci *d = &p->n->pcis[i];
    const struct gpu *g = gpu_at(p->n, d->busid);
    int inside = g || has_below(p->n, i) || count_nics(p, d->busid, d->numa);

    begin(p, depth, "pci");
    put_text(p, "busid", d->busid);
    put_needed(p, "class", d->class);
    put_text(p, "vendor", d->vendor);
    put_text(p, "device", d->device);
    put_text(p, "subsystem_vendor", d->subsystem_vendor);
    put_text(p, "subsystem_device", d->subsystem_device);
    put_needed(p, "link_speed", d->link_speed);
    put_int(p, "link_width", d->link_width > 0 ? d->link_width : 0);
    str_adds(&p->text, inside ? ">\n" : "/>\n");
    if (g)
        put_gpu(p, depth + 1, g);
    put_nics(p, depth + 1, d->busid, d->numa);
    for (int k = i + 1; k < p->n->n_pcis; k++)
        if (p->n->pcis[k].above == i && !is_stray(p->n, &p->n->pcis[k]))
            put_pci(p, depth + 1, k);
    if (inside) {
        indent(p, depth);
        str_adds(&p->text, "</pci>\n");
    }
}

/* "0-3,32-35" as the kernel's mask: groups of 32, the highest first. */
static void put_affinity(struct page *p, const char *cpus)
{
    struct cpulist l;
    int groups = 0;

    if (!*cpus || cpulist_parse(cpus, &l) < 0)
        return;
    for (int c = 0; c < CPULIST_MAX; c++)
        groups = cpulist_has(&l, c) ? c / 32 + 1 : groups;
    for (int g = groups - 1; g >= 0; g--) {
        unsigned bits = 0;
        for (int i = 0; i < 32; i++)
            bits |= (unsigned)(cpulist_has(&l, g * 32 + i) != 0) << i;
        str_addf(&p->text, "%s%08x", g == groups - 1 ? " affinity=\"" : ",", bits);
    }
    str_adds(&p->text, groups ? "\"" : "");
}

static int is_above(const struct pci *d, int numa)
{
    return d->above < 0 && d->numa == numa;
}

static void put_cpu(struct page *p, int numa, const char *cpus)
{
    const struct node *n = p->n;

    begin(p, 1, "cpu");
    str_addf(&p->text, " numaid=\"%d\"", numa);
    put_affinity(p, cpus);
    put_text(p, "arch", n->arch);
    put_text(p, "vendor", n->cpu_vendor);
    put_int(p, "familyid", n->cpu_family);
    put_int(p, "modelid", n->cpu_version);
    str_adds(&p->text, ">\n");
    for (int i = 0; i < n->n_pcis; i++)
        if (is_above(&n->pcis[i], numa) && !is_stray(n, &n->pcis[i]))
            put_pci(p, 2, i);
    put_nics(p, 2, "", numa);
    str_adds(&p->text, "  </cpu>\n");
}

/* Devices whose NUMA node is unknown hang off number -1, where NCCL puts them too. */
static void put_cpus(struct page *p)
{
    int unknown = p->n->n_numas == 0;

    for (int i = 0; i < p->n->n_numas; i++)
        put_cpu(p, p->n->numas[i].id, p->n->numas[i].cpus);
    for (int i = 0; i < p->n->n_pcis; i++)
        unknown |= is_above(&p->n->pcis[i], -1);
    if (unknown)
        put_cpu(p, -1, "");
}

/* --- whole ------------------------------------------------------------------------------------ */

/* Switches above device i and itself. */
static int depth_of(const struct node *n, int i)
{
    int depth = 1;

    for (; n->pcis[i].above >= 0; i = n->pcis[i].above)
        depth++;
    return depth;
}

static int check_depth(const struct node *n, struct err *err)
{
    for (int i = 0; i < n->n_pcis; i++)
        if (depth_of(n, i) > PCI_DEPTH)
            return err_set(err, ERR_USAGE, "%s: PCI device %s nests deeper than %d",
                           n->name, n->pcis[i].busid, PCI_DEPTH);
    return 0;
}

static int check_node(const struct node *n, struct err *err)
{
    int placed = n->n_gpus > 0;

    if (check_depth(n, err) < 0)
        return -1;

    for (int i = 0; i < n->n_gpus; i++) {
        const char *busid = n->gpus[i].busid;
        if (node_pci(n, busid) < 0)
            return err_set(
                err, ERR_FAILED,
                "%s: where GPU %d%s%s hangs in the PCI tree is not known, and "
                "NCCL's file is about that: sources sysfs (on the node) and "
                "ncclxml know it",
                n->name, n->gpus[i].index, *busid ? ", " : "", busid);
    }
    for (int i = 0; i < n->n_nics && !placed; i++)
        placed = node_pci(n, n->nics[i].busid) >= 0;
    return placed ? 0
                  : err_set(err, ERR_FAILED,
                            "%s: neither a GPU nor a NIC hangs in its PCI tree: there "
                            "is nothing to tell NCCL",
                            n->name);
}

int topology_emit_ncclxml(const struct topology *t, FILE *fp, struct err *err)
{
    struct page p = { .n = t->nodes };
    int rc = 0;

    if (t->n_nodes != 1)
        return err_set(err, ERR_USAGE,
                       "NCCL's file is about one node, there are %d here: choose one "
                       "with --node, or write all with --output FOLDER",
                       t->n_nodes);
    if (check_node(p.n, err) < 0)
        return -1;
    str_adds(&p.text, "<system version=\"1\">\n");
    put_cpus(&p);
    str_adds(&p.text, "</system>\n");
    if (++p.elements > NCCL_MAX_ELEMENTS)
        rc = err_set(err, ERR_FAILED,
                     "%s: %d elements are more than the %d that NCCL reads", p.n->name,
                     p.elements, NCCL_MAX_ELEMENTS);
    else
        fputs(p.text.text, fp);
    str_release(&p.text);
    return rc;
}
