/* Topology to JSON and back.  One table a struct drives both directions, so that
 * what is written is what is read. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "topology/fields.h"
#include "topology/topology.h"

/* --- writing ----------------------------------------------------------------- */

static struct js *field_json(const struct field *f, const void *base)
{
    const char *at = (const char *)base + f->at;

    switch (f->type) {
    case FIELD_INT:
        return js_int(*(const int *)(const void *)at);
    case FIELD_INT64:
        return js_int(*(const int64_t *)(const void *)at);
    case FIELD_REAL:
        return js_real(*(const double *)(const void *)at);
    case FIELD_KIND:
        return js_string(nic_kind_name(*(const enum nic_kind *)(const void *)at));
    case FIELD_LAYER:
        return js_string(link_layer_name(*(const enum link_layer *)(const void *)at));
    case FIELD_TEXT:
        break;
    }
    return js_string(at);
}

static struct js *struct_json(const struct field *f, const void *base)
{
    struct js *o = js_object();

    for (; f->key; f++)
        js_put(o, f->key, field_json(f, base));
    return o;
}

static struct js *list_json(const struct field *f, const void *items, int n,
                            size_t size)
{
    struct js *a = js_array();

    for (int i = 0; i < n; i++)
        js_push(a, struct_json(f, (const char *)items + (size_t)i * size));
    return a;
}

static struct js *gpus_json(const struct node *n)
{
    struct js *a = js_array();

    for (int i = 0; i < n->n_gpus; i++) {
        const struct gpu *g = &n->gpus[i];
        struct js *o = struct_json(gpu_fields, g);
        js_put(o, "nvlinks",
               list_json(nvlink_fields, g->nvlinks, g->n_nvlinks, sizeof(*g->nvlinks)));
        js_push(a, o);
    }
    return a;
}

static struct js *node_json(const struct node *n)
{
    struct js *o = struct_json(node_fields, n);

    js_put(o, "numas", list_json(numa_fields, n->numas, n->n_numas, sizeof(*n->numas)));
    js_put(o, "pcis", list_json(pci_fields, n->pcis, n->n_pcis, sizeof(*n->pcis)));
    js_put(o, "gpus", gpus_json(n));
    js_put(o, "nics", list_json(nic_fields, n->nics, n->n_nics, sizeof(*n->nics)));
    return o;
}

static struct js *findings_json(const struct topology *t)
{
    struct js *a = js_array();

    for (int i = 0; i < t->n_findings; i++) {
        struct js *o = js_object();
        js_put_str(o, "severity", severity_name(t->findings[i].severity));
        js_put_str(o, "object", t->findings[i].object);
        js_put_str(o, "text", t->findings[i].text);
        js_push(a, o);
    }
    return a;
}

static struct js *block_sizes_json(const struct topology *t)
{
    struct js *a = js_array();

    for (int i = 0; i < t->n_block_sizes; i++)
        js_push(a, js_int(t->block_sizes[i]));
    return a;
}

struct js *topology_json(const struct topology *t)
{
    struct js *o = js_document("topo"), *nodes = js_array(), *fabric = js_object();

    js_put_str(o, "source", t->source);
    js_put_bool(o, "simulated", t->simulated);
    if (t->by_guid)
        js_put_bool(o, "by_guid", 1);
    for (int i = 0; i < t->n_nodes; i++)
        js_push(nodes, node_json(&t->nodes[i]));
    js_put(o, "nodes", nodes);
    js_put(fabric, "switches",
           list_json(switch_fields, t->switches, t->n_switches, sizeof(*t->switches)));
    js_put(fabric, "links",
           list_json(link_fields, t->links, t->n_links, sizeof(*t->links)));
    js_put(fabric, "block_sizes", block_sizes_json(t));
    js_put(o, "fabric", fabric);
    js_put(o, "findings", findings_json(t));
    return o;
}

/* --- reading ----------------------------------------------------------------- */

struct reader {
    const char *path;
    char where[160]; /* "nodes[3].gpus[1]" */
    struct err *err;
};

static int wrong(struct reader *r, const char *key, const char *want)
{
    return err_set(r->err, ERR_USAGE,
                   "%s: %s.%s is not %s: this is no file of `muster topo --json`",
                   r->path, r->where, key, want);
}

/* The word's place among name(0), name(1), ...; -1: none of them. */
static int word_index(const char *word, const char *(*name)(int))
{
    for (int i = 0; *name(i) != '?'; i++)
        if (str_eq(word, name(i)))
            return i;
    return -1;
}

static const char *kind_at(int i)
{
    return nic_kind_name((enum nic_kind)i);
}

static const char *layer_at(int i)
{
    return link_layer_name((enum link_layer)i);
}

static const char *severity_at(int i)
{
    return severity_name((enum severity)i);
}

static int read_word(struct reader *r, const struct field *f, const struct js *v,
                     void *at)
{
    int i = word_index(js_as_str(v, ""), f->type == FIELD_KIND ? kind_at : layer_at);

    if (i < 0)
        return wrong(r, f->key, "one of its words");
    if (f->type == FIELD_KIND)
        *(enum nic_kind *)at = (enum nic_kind)i;
    else
        *(enum link_layer *)at = (enum link_layer)i;
    return 0;
}

static int read_int(struct reader *r, const struct field *f, const struct js *v,
                    void *at)
{
    int64_t i = js_as_int(v, INT64_MIN);

    if (i == INT64_MIN || (f->type == FIELD_INT && (i < INT_MIN || i > INT_MAX)))
        return wrong(r, f->key, "a whole number of its range");
    if (f->type == FIELD_INT)
        *(int *)at = (int)i;
    else
        *(int64_t *)at = i;
    return 0;
}

static int read_field(struct reader *r, const struct field *f, const struct js *v,
                      void *base)
{
    void *at = (char *)base + f->at;
    const char *text;

    if (!v)
        return 0; /* stays unknown */
    switch (f->type) {
    case FIELD_INT:
    case FIELD_INT64:
        return read_int(r, f, v, at);
    case FIELD_REAL:
        *(double *)at = js_as_real(v, -1);
        return 0;
    case FIELD_KIND:
    case FIELD_LAYER:
        return read_word(r, f, v, at);
    case FIELD_TEXT:
        break;
    }
    text = js_as_str(v, NULL);
    if (!text || strlen(text) >= f->size)
        return wrong(r, f->key, "a text of its length");
    snprintf(at, f->size, "%s", text);
    return 0;
}

static int read_struct(struct reader *r, const struct field *f, const struct js *o,
                       void *base)
{
    for (; f->key; f++)
        if (read_field(r, f, js_get(o, f->key), base) < 0)
            return -1;
    return 0;
}

static void set_where(struct reader *r, const char *outer, const char *list, size_t i)
{
    snprintf(r->where, sizeof(r->where), "%s%s%s[%zu]", outer, *outer ? "." : "", list,
             i);
}

static int read_gpus(struct reader *r, struct node *n, const struct js *list,
                     const char *outer)
{
    const struct js *links;

    for (size_t i = 0; i < js_len(list); i++) {
        struct gpu *g = topology_add_gpu(n);
        set_where(r, outer, "gpus", i);
        if (read_struct(r, gpu_fields, js_at(list, i), g) < 0)
            return -1;
        links = js_get(js_at(list, i), "nvlinks");
        for (size_t k = 0; k < js_len(links); k++)
            if (read_struct(r, nvlink_fields, js_at(links, k), topology_add_nvlink(g)) <
                0)
                return -1;
    }
    return 0;
}

static int read_node(struct reader *r, struct node *n, const struct js *o, size_t i)
{
    char outer[32];
    const struct js *numas = js_get(o, "numas"), *nics = js_get(o, "nics");
    const struct js *pcis = js_get(o, "pcis");

    set_where(r, "", "nodes", i);
    snprintf(outer, sizeof(outer), "%.31s", r->where);
    if (read_struct(r, node_fields, o, n) < 0)
        return -1;
    for (size_t k = 0; k < js_len(numas); k++) {
        set_where(r, outer, "numas", k);
        if (read_struct(r, numa_fields, js_at(numas, k), topology_add_numa(n)) < 0)
            return -1;
    }
    for (size_t k = 0; k < js_len(pcis); k++) {
        set_where(r, outer, "pcis", k);
        if (read_struct(r, pci_fields, js_at(pcis, k), topology_add_pci(n)) < 0)
            return -1;
    }
    for (size_t k = 0; k < js_len(nics); k++) {
        set_where(r, outer, "nics", k);
        if (read_struct(r, nic_fields, js_at(nics, k), topology_add_nic(n)) < 0)
            return -1;
    }
    return read_gpus(r, n, js_get(o, "gpus"), outer);
}

static int read_block_sizes(struct reader *r, struct topology *t, const struct js *list)
{
    for (size_t i = 0; i < js_len(list); i++) {
        int64_t size = js_as_int(js_at(list, i), -1);
        if (size < 1 || size > INT_MAX || i >= ARRAY_LEN(t->block_sizes)) {
            set_where(r, "fabric", "block_sizes", i);
            return wrong(r, "size", "a size of a block");
        }
        t->block_sizes[t->n_block_sizes++] = (int)size;
    }
    return 0;
}

static int read_fabric(struct reader *r, struct topology *t, const struct js *o)
{
    const struct js *switches = js_get(o, "switches"), *links = js_get(o, "links");

    for (size_t i = 0; i < js_len(switches); i++) {
        set_where(r, "fabric", "switches", i);
        if (read_struct(r, switch_fields, js_at(switches, i), topology_add_switch(t)) <
            0)
            return -1;
    }
    for (size_t i = 0; i < js_len(links); i++) {
        set_where(r, "fabric", "links", i);
        if (read_struct(r, link_fields, js_at(links, i), topology_add_link(t)) < 0)
            return -1;
    }
    return read_block_sizes(r, t, js_get(o, "block_sizes"));
}

static int read_findings(struct reader *r, struct topology *t, const struct js *list)
{
    for (size_t i = 0; i < js_len(list); i++) {
        const struct js *o = js_at(list, i);
        int s = word_index(js_str(o, "severity", ""), severity_at);
        set_where(r, "", "findings", i);
        if (s < 0)
            return wrong(r, "severity", "note, warn or fail");
        topology_find(t, (enum severity)s, js_str(o, "object", ""), "%s",
                      js_str(o, "text", ""));
    }
    return 0;
}

static int read_topology(struct reader *r, const struct js *o, struct topology *t)
{
    const struct js *nodes = js_get(o, "nodes");

    t->simulated = js_get_bool(o, "simulated", 0);
    t->by_guid = js_get_bool(o, "by_guid", 0);
    for (size_t i = 0; i < js_len(nodes); i++)
        if (read_node(r, &t->nodes[i], js_at(nodes, i), i) < 0)
            return -1;
    if (read_fabric(r, t, js_get(o, "fabric")) < 0 ||
        read_findings(r, t, js_get(o, "findings")) < 0)
        return -1;
    if (topology_validate(t, r->err) < 0)
        return err_wrap(r->err, "%s", r->path);
    return 0;
}

int topology_from_json(const char *path, struct topology **out, struct err *err)
{
    struct reader r = { .path = path, .err = err };
    struct topology *t;
    struct js *o;
    int rc;

    if (js_load(path, &o, err) < 0)
        return -1;
    if (!str_eq(js_str(o, "schema", ""), "muster/topo/1")) {
        js_free(o);
        return err_set(err, ERR_USAGE,
                       "%s: no topology: its \"schema\" is not muster/topo/1 (`muster "
                       "topo --json` writes one)",
                       path);
    }
    t = topology_new(js_str(o, "source", "json"), (int)js_len(js_get(o, "nodes")));
    rc = read_topology(&r, o, t);
    js_free(o);
    if (rc == 0)
        *out = t;
    else
        topology_free(t);
    return rc;
}
