/* A cluster that is described, not looked at: one table of keys reads the file,
 * simple rules lay out its nodes, NICs and switches. */
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "recipes/value.h"
#include "recipes/yaml.h"
#include "topology/cpulist.h"
#include "topology/source.h"
#include "topology/topology.h"

enum { MAX_LINKS = 1 << 16, MAX_DEVICES = 1 << 18 };
enum leaves { LEAF_NONE, LEAF_RAIL, LEAF_NODE };

struct spec {
    char name[32];
    struct {
        int count;
        char prefix[40];
    } nodes;
    struct {
        char model[64];
        int sockets, cores, threads, numa_nodes;
        int64_t memory;
    } cpu;
    struct {
        int per_node;
        char name[64];
        int64_t memory;
        int sm, nvlinks;
        double nvlink_gbytes_per_s, pcie_gbytes_per_s;
    } gpus;
    struct {
        int per_node;
        char prefix[20];
        int layer;
        double gbits_per_s;
    } nics;
    struct {
        int leaves;
        int nodes_per_leaf, spines, cables;
        double gbits_per_s;
    } fabric;
};

enum type { INT, SIZE, REAL, TEXT, LAYER, LEAVES };

static const char *const layers[] = { "unknown", "infiniband", "ethernet" };
static const char *const leaf_kinds[] = { "none", "rail", "node" };

struct key {
    const char *name;
    enum type type;
    size_t at, size;
    double min, max;
};

/* clang-format off */
#define KEY(name, type, at, min, max) { name, type, offsetof(struct spec, at), sizeof(((struct spec *)0)->at), min, max }
static const struct key keys[] = {
    KEY("name",                     TEXT,   name,                     1, 0),
    KEY("nodes.count",              INT,    nodes.count,              1, 16384),
    KEY("nodes.prefix",             TEXT,   nodes.prefix,             1, 0),
    KEY("cpu.model",                TEXT,   cpu.model,                0, 0),
    KEY("cpu.sockets",              INT,    cpu.sockets,              1, 64),
    KEY("cpu.cores",                INT,    cpu.cores,                1, CPULIST_MAX),
    KEY("cpu.threads",              INT,    cpu.threads,              1, CPULIST_MAX),
    KEY("cpu.numa_nodes",           INT,    cpu.numa_nodes,           1, 64),
    KEY("cpu.memory",               SIZE,   cpu.memory,               1, 1e18),
    KEY("gpus.per_node",            INT,    gpus.per_node,            0, 64),
    KEY("gpus.name",                TEXT,   gpus.name,                1, 0),
    KEY("gpus.memory",              SIZE,   gpus.memory,              1, 1e18),
    KEY("gpus.sm",                  INT,    gpus.sm,                  10, 999),
    KEY("gpus.nvlinks",             INT,    gpus.nvlinks,             0, 64),
    KEY("gpus.nvlink_gbytes_per_s", REAL,   gpus.nvlink_gbytes_per_s, 0.001, 1e6),
    KEY("gpus.pcie_gbytes_per_s",   REAL,   gpus.pcie_gbytes_per_s,   0.001, 1e6),
    KEY("nics.per_node",            INT,    nics.per_node,            0, 64),
    KEY("nics.prefix",              TEXT,   nics.prefix,              1, 0),
    KEY("nics.layer",               LAYER,  nics.layer,               0, 0),
    KEY("nics.gbits_per_s",         REAL,   nics.gbits_per_s,         0.001, 1e6),
    KEY("fabric.leaves",            LEAVES, fabric.leaves,            0, 0),
    KEY("fabric.nodes_per_leaf",    INT,    fabric.nodes_per_leaf,    1, 16384),
    KEY("fabric.spines",            INT,    fabric.spines,            0, 1024),
    KEY("fabric.cables",            INT,    fabric.cables,            1, 1024),
    KEY("fabric.gbits_per_s",       REAL,   fabric.gbits_per_s,       0.001, 1e6),
};
/* clang-format on */

/* What the file does not say. */
static const struct spec defaults = {
    .nodes = { .count = 1, .prefix = "node" },
    .cpu = { .sockets = -1, .cores = -1, .threads = -1, .numa_nodes = 1, .memory = -1 },
    .gpus = { .memory = -1,
              .sm = -1,
              .nvlink_gbytes_per_s = -1,
              .pcie_gbytes_per_s = -1 },
    .nics = { .prefix = "mlx5_", .layer = LINK_INFINIBAND, .gbits_per_s = -1 },
    .fabric = { .nodes_per_leaf = 32, .cables = 1, .gbits_per_s = -1 },
};

/* --- reading --------------------------------------------------------------------- */

struct reader {
    const char *where;
    struct err problems;
    struct spec *spec;
};

static int read_text(const struct key *k, const char *text, char *at, struct err *err)
{
    size_t n = strlen(text);

    if (n >= k->size || n < (size_t)k->min)
        return err_set(err, ERR_USAGE, "'%s' is not a text of %d to %zu bytes", text,
                       (int)k->min, k->size - 1);
    memcpy(at, text, n + 1);
    return 0;
}

/* A number into *at; `value` is what its range is about. */
static int read_number(const struct key *k, const char *text, void *at, double *value,
                       struct err *err)
{
    int64_t i;

    if (k->type == REAL) {
        if (value_real(text, value, err) < 0)
            return -1;
        *(double *)at = *value;
        return 0;
    }
    if ((k->type == SIZE ? value_size(text, &i, err) : value_int64(text, &i, err)) < 0)
        return -1;
    *value = (double)i;
    if (k->type == SIZE)
        *(int64_t *)at = i;
    else if (i >= INT_MIN && i <= INT_MAX)
        *(int *)at = (int)i;
    return 0;
}

static int read_value(const struct key *k, const char *text, struct spec *spec,
                      struct err *err)
{
    void *at = (char *)spec + k->at;
    double value = 0;

    if (k->type == TEXT)
        return read_text(k, text, at, err);
    if (k->type == LAYER)
        return value_word(text, layers, ARRAY_LEN(layers), at, err);
    if (k->type == LEAVES)
        return value_word(text, leaf_kinds, ARRAY_LEN(leaf_kinds), at, err);
    if (read_number(k, text, at, &value, err) < 0)
        return -1;
    if (!(value >= k->min && value <= k->max))
        return err_set(err, ERR_USAGE, "'%s' is not in the range %g to %g", text,
                       k->min, k->max);
    return 0;
}

static void read_scalar(struct reader *r, const char *name, const struct yaml_node *n)
{
    const char *names[ARRAY_LEN(keys)];
    const char *near;
    struct err e = ERR_INIT;

    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        names[i] = keys[i].name;
        if (!str_eq(keys[i].name, name))
            continue;
        if (n->kind != YAML_SCALAR)
            err_more(&r->problems, ERR_USAGE, "%s:%d: %s must be one value, it is %s",
                     r->where, n->line, name, yaml_kind_name(n->kind));
        else if (read_value(&keys[i], n->text, r->spec, &e) < 0)
            err_more(&r->problems, ERR_USAGE, "%s:%d: %s: %s", r->where, n->line, name,
                     err_text(&e));
        err_release(&e);
        return;
    }
    near = str_nearest(name, names, ARRAY_LEN(keys));
    err_more(&r->problems, ERR_USAGE, "%s:%d: there is no key '%s'%s%s%s", r->where,
             n->line, name, near ? " (did you mean '" : "", near ? near : "",
             near ? "'?)" : "");
}

/* A section is the first half of a key; is `name` one, or near to one? */
static int is_section(const char *name)
{
    size_t n = strlen(name);

    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (strncmp(keys[i].name, name, n) == 0 && keys[i].name[n] == '.')
            return 1;
    return 0;
}

static void read_section(struct reader *r, const char *section,
                         const struct yaml_node *map)
{
    if (map->kind != YAML_MAPPING) {
        if (!(map->kind == YAML_SCALAR && yaml_is_null(map)))
            err_more(&r->problems, ERR_USAGE, "%s:%d: %s must be a mapping, it is %s",
                     r->where, map->line, section, yaml_kind_name(map->kind));
        return;
    }
    for (int i = 0; i < map->n; i++) {
        char *name = xasprintf("%s.%s", section, map->key[i]->text);
        read_scalar(r, name, map->value[i]);
        free(name);
    }
}

static void read_unknown_section(struct reader *r, const struct yaml_node *key)
{
    static const char *const sections[] = { "name", "nodes", "cpu",
                                            "gpus", "nics",  "fabric" };
    const char *near = str_nearest(key->text, sections, ARRAY_LEN(sections));

    err_more(&r->problems, ERR_USAGE, "%s:%d: there is no section '%s'%s%s%s", r->where,
             key->line, key->text, near ? " (did you mean '" : "", near ? near : "",
             near ? "'?)" : "");
}

static void read_root(struct reader *r, const struct yaml_node *root)
{
    if (root->kind != YAML_MAPPING) {
        err_more(&r->problems, ERR_USAGE,
                 "%s:%d: a cluster is a mapping of sections, not %s", r->where,
                 root->line, yaml_kind_name(root->kind));
        return;
    }
    for (int i = 0; i < root->n; i++) {
        const struct yaml_node *key = root->key[i];
        if (is_section(key->text))
            read_section(r, key->text, root->value[i]);
        else if (str_eq(key->text, "name"))
            read_scalar(r, "name", root->value[i]);
        else
            read_unknown_section(r, key);
    }
}

/* Leaves of all groups. */
static int64_t count_leaves(const struct spec *s)
{
    int64_t groups =
        (s->nodes.count + s->fabric.nodes_per_leaf - 1) / s->fabric.nodes_per_leaf;

    switch (s->fabric.leaves) {
    case LEAF_RAIL:
        return groups * s->nics.per_node;
    case LEAF_NODE:
        return groups;
    default:
        return 0;
    }
}

static void check_fabric(struct reader *r)
{
    const struct spec *s = r->spec;
    int64_t links = count_leaves(s) * s->fabric.spines;

    if (s->fabric.leaves != LEAF_NONE && s->nics.per_node == 0)
        err_more(&r->problems, ERR_USAGE, "%s: fabric.leaves without nics.per_node",
                 r->where);
    if (count_leaves(s) > MAX_LINKS || links > MAX_LINKS)
        err_more(&r->problems, ERR_USAGE,
                 "%s: %lld leaves x %d spines are more than %d links: raise "
                 "fabric.nodes_per_leaf",
                 r->where, (long long)count_leaves(s), s->fabric.spines, MAX_LINKS);
}

/* What must hold across keys. */
static void check_whole(struct reader *r)
{
    const struct spec *s = r->spec;
    struct err *e = &r->problems;

    if (s->gpus.per_node > 0 && !s->gpus.name[0])
        err_more(e, ERR_USAGE, "%s: gpus.name is missing: peak speed depends on it",
                 r->where);
    if (s->gpus.per_node == 0 && s->cpu.threads < 0 && s->cpu.cores < 0)
        err_more(e, ERR_USAGE,
                 "%s: neither gpus.per_node nor cpu.cores: nothing to place ranks on",
                 r->where);
    if (s->cpu.threads > 0 && s->cpu.cores > 0 && s->cpu.threads % s->cpu.cores)
        err_more(e, ERR_USAGE, "%s: cpu.threads %d is no multiple of cpu.cores %d",
                 r->where, s->cpu.threads, s->cpu.cores);
    if (s->cpu.cores > 0 && s->cpu.cores % s->cpu.numa_nodes)
        err_more(e, ERR_USAGE, "%s: cpu.cores %d is no multiple of cpu.numa_nodes %d",
                 r->where, s->cpu.cores, s->cpu.numa_nodes);
    if (s->gpus.nvlinks && s->gpus.nvlink_gbytes_per_s < 0)
        err_more(e, ERR_USAGE,
                 "%s: gpus.nvlink_gbytes_per_s is missing: one direction, all links of "
                 "a GPU together",
                 r->where);
    if ((int64_t)s->nodes.count * (s->gpus.per_node + s->nics.per_node) > MAX_DEVICES)
        err_more(e, ERR_USAGE, "%s: %d nodes x (%d GPUs + %d NICs) are more than %d",
                 r->where, s->nodes.count, s->gpus.per_node, s->nics.per_node,
                 MAX_DEVICES);
    check_fabric(r);
}

/* --- building ----------------------------------------------------------------- */

/* CPUs of NUMA node i, numbered as Linux does: first threads of all cores, then
 * second ones. */
static void numa_cpus(const struct spec *s, int i, struct numa *m)
{
    int cores = s->cpu.cores > 0 ? s->cpu.cores : s->cpu.threads;
    int smt = s->cpu.threads > 0 ? s->cpu.threads / cores : 1;
    int each = cores / s->cpu.numa_nodes;
    struct cpulist l = { { 0 } };

    for (int k = 0; k < smt; k++)
        for (int c = 0; c < each; c++)
            cpulist_add(&l, k * cores + i * each + c);
    cpulist_format(&l, m->cpus, sizeof(m->cpus));
}

static void build_cpu(const struct spec *s, struct node *n)
{
    snprintf(n->cpu_model, sizeof(n->cpu_model), "%s", s->cpu.model);
    n->sockets = s->cpu.sockets;
    n->cores = s->cpu.cores;
    n->threads = s->cpu.threads > 0 ? s->cpu.threads : s->cpu.cores;
    n->memory_bytes = s->cpu.memory;
    for (int i = 0; n->threads > 0 && i < s->cpu.numa_nodes; i++) {
        struct numa *m = topology_add_numa(n);
        m->id = i;
        m->memory_bytes = s->cpu.memory > 0 ? s->cpu.memory / s->cpu.numa_nodes : -1;
        numa_cpus(s, i, m);
    }
}

/* The NUMA node of device i of n, when they are spread evenly. */
static int numa_of(const struct node *n, int i, int count)
{
    return n->n_numas ? i * n->n_numas / count : -1;
}

static void build_gpus(const struct spec *s, struct node *n)
{
    for (int i = 0; i < s->gpus.per_node; i++) {
        struct gpu *g = topology_add_gpu(n);
        snprintf(g->name, sizeof(g->name), "%s", s->gpus.name);
        g->sm = s->gpus.sm;
        g->memory_bytes = s->gpus.memory;
        g->pcie_gbytes_per_s = s->gpus.pcie_gbytes_per_s;
        g->numa = numa_of(n, i, s->gpus.per_node);
        g->mig = 0;
        if (s->nics.per_node)
            g->nic = (int)((long)i * s->nics.per_node / s->gpus.per_node);
        if (s->gpus.nvlinks) {
            struct nvlink *l = topology_add_nvlink(g);
            snprintf(l->peer, sizeof(l->peer), "switch");
            l->count = s->gpus.nvlinks;
            l->gbytes_per_s = s->gpus.nvlink_gbytes_per_s;
        }
    }
}

/* The leaf of NIC k of node i; leaves come first among the switches, group by
 * group, within a group rail by rail. */
static int leaf_of(const struct spec *s, int i, int k)
{
    int group = i / s->fabric.nodes_per_leaf;

    switch (s->fabric.leaves) {
    case LEAF_RAIL:
        return group * s->nics.per_node + k;
    case LEAF_NODE:
        return group;
    default:
        return -1;
    }
}

static void build_nics(const struct spec *s, struct node *n, int i)
{
    for (int k = 0; k < s->nics.per_node; k++) {
        struct nic *c = topology_add_nic(n);
        snprintf(c->name, sizeof(c->name), "%s%d", s->nics.prefix, k);
        c->kind = NIC_COMPUTE;
        c->layer = (enum link_layer)s->nics.layer;
        c->up = 1;
        c->numa = numa_of(n, k, s->nics.per_node);
        c->rail = k;
        c->gbits_per_s = s->nics.gbits_per_s;
        c->leaf = leaf_of(s, i, k);
    }
}

static void build_link(const struct spec *s, struct topology *t, int leaf, int spine)
{
    struct fabric_link *l = topology_add_link(t);

    l->from = leaf;
    l->to = spine;
    l->count = s->fabric.cables;
    l->gbits_per_s =
        s->fabric.gbits_per_s > 0 ? s->fabric.gbits_per_s : s->nics.gbits_per_s;
}

static void build_fabric(const struct spec *s, struct topology *t)
{
    int rails = s->fabric.leaves == LEAF_RAIL ? s->nics.per_node : 1;
    int leaves = (int)count_leaves(s);

    for (int i = 0; i < leaves; i++) {
        struct fabric_switch *w = topology_add_switch(t);
        if (rails > 1)
            snprintf(w->name, sizeof(w->name), "leaf%d-rail%d", i / rails, i % rails);
        else
            snprintf(w->name, sizeof(w->name), "leaf%d", i);
    }
    for (int i = 0; leaves && i < s->fabric.spines; i++) {
        struct fabric_switch *w = topology_add_switch(t);
        snprintf(w->name, sizeof(w->name), "spine%d", i);
        w->level = 1;
        for (int k = 0; k < leaves; k++)
            build_link(s, t, k, leaves + i);
    }
}

static struct topology *build(const struct spec *s, const char *where)
{
    char source[64], last[16];
    const char *slash = strrchr(where, '/');
    struct topology *t;
    int width;

    snprintf(source, sizeof(source), "spec:%.58s", slash ? slash + 1 : where);
    t = topology_new(source, s->nodes.count);
    t->simulated = 1;
    width = snprintf(last, sizeof(last), "%d", s->nodes.count);
    for (int i = 0; i < t->n_nodes; i++) {
        struct node *n = &t->nodes[i];
        if (t->n_nodes == 1)
            snprintf(n->name, sizeof(n->name), "%s", s->nodes.prefix);
        else
            snprintf(n->name, sizeof(n->name), "%s%0*d", s->nodes.prefix, width, i + 1);
        build_cpu(s, n);
        build_nics(s, n, i);
        build_gpus(s, n);
    }
    build_fabric(s, t);
    return t;
}

int topology_from_spec_text(const char *text, size_t len, const char *where,
                            struct topology **out, struct err *err)
{
    struct spec spec = defaults;
    struct reader r = { .where = where, .spec = &spec };
    struct yaml_node *root;
    struct topology *t;

    if (yaml_tree_parse(text, len, where, &root, err) < 0)
        return -1;
    read_root(&r, root);
    yaml_tree_free(root);
    if (r.problems.code == ERR_NONE)
        check_whole(&r);
    if (r.problems.code != ERR_NONE) {
        err_set(err, ERR_USAGE, "%s", err_text(&r.problems));
        err_release(&r.problems);
        return -1;
    }
    t = build(&spec, where);
    if (topology_validate(t, err) < 0) {
        topology_free(t);
        return err_wrap(err, "%s", where);
    }
    *out = t;
    return 0;
}

int topology_from_spec(const char *path, struct topology **out, struct err *err)
{
    char *text;
    size_t len;
    int rc;

    if (yaml_read_file(path, YAML_MAX_BYTES, &text, &len, err) < 0)
        return -1;
    rc = topology_from_spec_text(text, len, path, out, err);
    free(text);
    return rc;
}
