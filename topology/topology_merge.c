/* Two sources, one topology: what the first does not know, the second adds. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "topology/fields.h"
#include "topology/merge_conflict.h"
#include "topology/source.h"
#include "topology/topology.h"

/* A machine is its boot id; where one is unknown, its name. */
static int same_node(const struct node *a, const struct node *b)
{
    if (a->boot_id[0] && b->boot_id[0])
        return str_eq(a->boot_id, b->boot_id);
    return str_eq(a->name, b->name);
}

static int same_gpu(const struct gpu *a, const struct gpu *b)
{
    if (a->busid[0] && b->busid[0])
        return str_eq(a->busid, b->busid);
    if (a->uuid[0] && b->uuid[0])
        return str_eq(a->uuid, b->uuid);
    return a->index == b->index;
}

static int same_nic(const struct nic *a, const struct nic *b)
{
    if (a->guid[0] && b->guid[0] && !str_eq(a->guid, b->guid))
        return 0;
    if (a->busid[0] && b->busid[0] && !str_eq(a->busid, b->busid))
        return 0;
    return (a->guid[0] && b->guid[0]) || (a->busid[0] && b->busid[0]) ||
           str_eq(a->name, b->name);
}

/* The NIC of `to` that is nic i of `from`; -1 none. */
static int nic_index(const struct node *to, const struct node *from, int i)
{
    for (int k = 0; i >= 0 && i < from->n_nics && k < to->n_nics; k++)
        if (same_nic(&to->nics[k], &from->nics[i]))
            return k;
    return -1;
}

static void merge_nics(const struct sources *s, struct node *to,
                       const struct node *from, int first_switch)
{
    for (int i = 0; i < from->n_nics; i++) {
        struct nic c = from->nics[i];
        int k = nic_index(to, from, i);
        if (c.leaf >= 0)
            c.leaf += first_switch;
        if (k >= 0)
            conflict_nic(s, to, &to->nics[k], &c);
        fields_fill(nic_fields, k >= 0 ? &to->nics[k] : topology_add_nic(to), &c);
    }
}

/* Devices that both know are the same by bus id; a new one hangs where it did. */
static void merge_pcis(struct node *to, const struct node *from)
{
    for (int i = 0; i < from->n_pcis; i++) {
        struct pci p = from->pcis[i];
        int k = node_pci(to, p.busid);
        p.above = p.above >= 0 ? node_pci(to, from->pcis[p.above].busid) : -1;
        if (k < 0) {
            *topology_add_pci(to) = p;
            continue;
        }
        p.above = to->pcis[k].above;
        fields_fill(pci_fields, &to->pcis[k], &p);
    }
}

static void merge_nvlinks(struct gpu *to, const struct gpu *from)
{
    if (to->n_nvlinks)
        return;
    for (int i = 0; i < from->n_nvlinks; i++)
        *topology_add_nvlink(to) = from->nvlinks[i];
}

static void merge_gpus(const struct sources *s, struct node *to,
                       const struct node *from)
{
    for (int i = 0; i < from->n_gpus; i++) {
        struct gpu g = from->gpus[i], *mine = NULL;
        for (int k = 0; k < to->n_gpus && !mine; k++)
            if (same_gpu(&to->gpus[k], &g))
                mine = &to->gpus[k];
        if (mine) {
            conflict_gpu(s, to, mine, &g);
        } else {
            mine = topology_add_gpu(to);
            mine->index = g.index;
        }
        g.nic = nic_index(to, from, g.nic);
        fields_fill(gpu_fields, mine, &g);
        merge_nvlinks(mine, &g);
    }
}

static void merge_node(const struct sources *s, struct node *to,
                       const struct node *from, int first_switch)
{
    struct node n = *from;

    if (n.leaf >= 0)
        n.leaf += first_switch;
    fields_fill(node_fields, to, &n);
    for (int i = 0; to->n_numas < from->n_numas && i < from->n_numas; i++) {
        int known = 0;
        for (int k = 0; k < to->n_numas; k++)
            known |= to->numas[k].id == from->numas[i].id;
        if (!known)
            *topology_add_numa(to) = from->numas[i];
    }
    merge_pcis(to, from);
    merge_nics(s, to, from, first_switch);
    merge_gpus(s, to, from);
}

static int unnamed(const struct node *n)
{
    return str_eq(n->name, TOPOLOGY_UNNAMED);
}

/* What a node of t is found by: its boot id or its name.  A copy, since the list of nodes
 * moves when it grows. */
struct name {
    char text[64];
    int node;
};

/* The nodes that t had before, sorted by boot id (those that have one) and by name. */
struct finder {
    struct name *boot, *name;
    size_t boots, names;
};

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct name *)a)->text, ((const struct name *)b)->text);
}

static void add_name(struct name *list, size_t *n, const char *text, int node)
{
    if (!text[0])
        return;
    snprintf(list[*n].text, sizeof(list[*n].text), "%s", text);
    list[(*n)++].node = node;
}

static void finder_init(struct finder *f, const struct topology *t)
{
    size_t room = (size_t)t->n_nodes + 1;

    *f = (struct finder){ .boot = xcalloc(room, sizeof(*f->boot)),
                          .name = xcalloc(room, sizeof(*f->name)) };
    for (int i = 0; i < t->n_nodes; i++) {
        add_name(f->boot, &f->boots, t->nodes[i].boot_id, i);
        add_name(f->name, &f->names, t->nodes[i].name, i);
    }
    qsort(f->boot, f->boots, sizeof(*f->boot), compare_names);
    qsort(f->name, f->names, sizeof(*f->name), compare_names);
}

static void finder_release(struct finder *f)
{
    free(f->boot);
    free(f->name);
}

static const struct name *look_up(const struct name *list, size_t n, const char *text)
{
    struct name key = { "", 0 };

    snprintf(key.text, sizeof(key.text), "%s", text);
    return bsearch(&key, list, n, sizeof(*list), compare_names);
}

/* The node of t that `from` describes too, else a new one.  lone: each has just one. */
static struct node *node_for(struct topology *t, const struct finder *f,
                             const struct node *from, int lone)
{
    struct node *only = &t->nodes[0];
    const struct name *found;

    if (lone && (unnamed(only) || unnamed(from))) {
        if (unnamed(only))
            only->name[0] = '\0'; /* the other's is taken */
        return only;
    }
    found = from->boot_id[0] ? look_up(f->boot, f->boots, from->boot_id) : NULL;
    if (!found)
        found = look_up(f->name, f->names, from->name);
    if (found && same_node(&t->nodes[found->node], from))
        return &t->nodes[found->node];
    return topology_add_node(t);
}

static void merge_nodes(const struct sources *both, struct topology *t,
                        const struct topology *more, int first_switch)
{
    int lone = t->n_nodes == 1 && more->n_nodes == 1;
    struct finder f;

    finder_init(&f, t);
    for (int i = 0; i < more->n_nodes; i++)
        merge_node(both, node_for(t, &f, &more->nodes[i], lone), &more->nodes[i],
                   first_switch);
    finder_release(&f);
}

/* What one source did not know, another may. */
static void look_again_at_affinity(struct topology *t)
{
    int kept = 0, dropped = 0;

    for (int i = 0; i < t->n_findings; i++) {
        if (strstr(t->findings[i].text, AFFINITY_UNKNOWN)) {
            free(t->findings[i].text);
            dropped++;
        } else
            t->findings[kept++] = t->findings[i];
    }
    t->n_findings = kept;
    if (dropped)
        topology_inspect_affinity(t);
}

/* A NIC and its GUID. */
struct known {
    const char *guid;
    struct node *node;
    struct nic *nic;
};

static int compare_known(const void *a, const void *b)
{
    return strcmp(((const struct known *)a)->guid, ((const struct known *)b)->guid);
}

/* All NICs of t that have a GUID, sorted by it; free(). */
static struct known *known_nics(struct topology *t, size_t *n)
{
    struct known *k = NULL;
    size_t count = 0;

    for (int i = 0; i < t->n_nodes; i++)
        count += (size_t)t->nodes[i].n_nics;
    k = xcalloc(count + 1, sizeof(*k));
    *n = 0;
    for (int i = 0; i < t->n_nodes; i++)
        for (int c = 0; c < t->nodes[i].n_nics; c++)
            if (t->nodes[i].nics[c].guid[0])
                k[(*n)++] = (struct known){ t->nodes[i].nics[c].guid, &t->nodes[i],
                                            &t->nodes[i].nics[c] };
    qsort(k, *n, sizeof(*k), compare_known);
    return k;
}

/* Adapters of a fabric get their leaf where t knows the GUID; others are hosts that
 * are no part of t. */
static void merge_by_guid(const struct sources *s, struct topology *t,
                          const struct topology *more, int first_switch)
{
    int joined = 0, others = 0;
    size_t n;
    struct known *known = known_nics(t, &n);

    for (int i = 0; i < more->n_nodes; i++)
        for (int c = 0; c < more->nodes[i].n_nics; c++) {
            struct nic from = more->nodes[i].nics[c];
            const struct known key = { from.guid, NULL, NULL };
            const struct known *k =
                bsearch(&key, known, n, sizeof(*known), compare_known);
            others += k == NULL;
            if (!k)
                continue;
            joined++;
            from.rail = -1; /* it was read from a description */
            if (from.leaf >= 0)
                from.leaf += first_switch;
            conflict_nic(s, k->node, k->nic, &from);
            fields_fill(nic_fields, k->nic, &from);
        }
    if (others)
        topology_find(t, joined ? SEVERITY_NOTE : SEVERITY_WARN, more->source,
                      "%d adapters of the fabric are in no node that is known here "
                      "(by GUID), %d are",
                      others, joined);
    free(known);
}

/* A name proves nothing: what two sources call leaf1 may be two switches. */
static void merge_switches(struct topology *t, const struct topology *more)
{
    int first = t->n_switches;

    for (int i = 0; i < more->n_switches; i++) {
        struct fabric_switch w = more->switches[i];
        for (int k = 0; k < first; k++)
            if (str_eq(t->switches[k].name, w.name)) {
                snprintf(w.name, sizeof(w.name), "%.40s.%.*s", more->switches[i].name,
                         (int)strcspn(more->source, ":+"), more->source);
                break;
            }
        *topology_add_switch(t) = w;
    }
}

static int merge_turned(struct topology *t, const struct topology *more,
                        struct err *err);

int topology_merge(struct topology *t, const struct topology *more, struct err *err)
{
    const struct sources both = { t, t->source, more->source };
    int first_switch = t->n_switches;
    size_t n = strlen(t->source);

    if (t->by_guid && !more->by_guid)
        return merge_turned(t, more, err);
    if (more->by_guid && !t->by_guid)
        merge_by_guid(&both, t, more, first_switch);
    if (more->by_guid == t->by_guid)
        merge_nodes(&both, t, more, first_switch);
    merge_switches(t, more);
    for (int i = 0; i < more->n_links; i++) {
        struct fabric_link *l = topology_add_link(t);
        *l = more->links[i];
        l->from += first_switch;
        l->to += first_switch;
    }
    for (int i = 0; t->n_block_sizes == 0 && i < more->n_block_sizes; i++)
        t->block_sizes[i] = more->block_sizes[i];
    if (t->n_block_sizes == 0)
        t->n_block_sizes = more->n_block_sizes;
    for (int i = 0; i < more->n_findings; i++)
        topology_find(t, more->findings[i].severity, more->findings[i].object, "%s",
                      more->findings[i].text);
    look_again_at_affinity(t);
    t->simulated |= more->simulated;
    snprintf(t->source + n, sizeof(t->source) - n, "+%s", more->source);
    return topology_validate(t, err);
}

/* A fabric came first: what names its nodes goes before it. */
static int merge_turned(struct topology *t, const struct topology *more,
                        struct err *err)
{
    struct topology *named = topology_new("", 0), fabric = *t;
    int rc = topology_merge(named, more, err);

    memcpy(named->source, more->source, sizeof(named->source));
    if (rc == 0)
        rc = topology_merge(named, &fabric, err);
    *t = *named;
    *named = fabric;
    topology_free(named);
    return rc;
}
