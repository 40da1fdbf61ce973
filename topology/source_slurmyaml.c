/* topology.yaml of Slurm 25.05 and later: a list of topologies, of which the cluster's
 * default is read. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "recipes/value.h"
#include "recipes/yaml.h"
#include "topology/slurm_fabric.h"
#include "topology/source.h"
#include "topology/topology.h"

struct reader {
    const char *where;
    struct slurm_fabric *f;
    struct err problems;
};

static void wrong(struct reader *r, const struct yaml_node *n, const char *what)
{
    err_more(&r->problems, ERR_USAGE, "%s:%d: %s", r->where, n->line, what);
}

static void wrong_key(struct reader *r, const struct yaml_node *key,
                      const char *const *known, int n)
{
    const char *near = str_nearest(key->text, known, n);

    err_more(&r->problems, ERR_USAGE, "%s:%d: there is no key '%.60s' here%s%s%s",
             r->where, key->line, key->text, near ? " (did you mean '" : "",
             near ? near : "", near ? "'?)" : "");
}

/* Every key of map is one of known[n], and map is one. */
static int check_keys(struct reader *r, const struct yaml_node *map,
                      const char *const *known, int n)
{
    if (map->kind != YAML_MAPPING) {
        wrong(r, map, "a mapping must stand here");
        return 0;
    }
    for (int i = 0; i < map->n; i++) {
        int found = 0;
        for (int k = 0; k < n; k++)
            found |= str_eq(map->key[i]->text, known[k]);
        if (!found)
            wrong_key(r, map->key[i], known, n);
    }
    return 1;
}

/* The text of a key; NULL when absent (an error when it must be there). */
static const char *text_of(struct reader *r, const struct yaml_node *map,
                           const char *key, int must)
{
    const struct yaml_node *v = yaml_get(map, key);

    if (v && v->kind == YAML_SCALAR && v->text[0] && (v->quoted || !yaml_is_null(v)))
        return v->text;
    if (v)
        err_more(&r->problems, ERR_USAGE, "%s:%d: %s must be a text", r->where, v->line,
                 key);
    else if (must)
        err_more(&r->problems, ERR_USAGE, "%s:%d: %s is missing", r->where, map->line,
                 key);
    return NULL;
}

/* One definition: its name under `word`, nodes and children. */
static void read_entry(struct reader *r, const struct yaml_node *map,
                       enum slurm_kind kind, const char *word)
{
    const char *known[] = { word, "nodes", "children" };
    const char *name, *nodes, *below;
    struct slurm_entry *e;

    if (!check_keys(r, map, known, kind == SLURM_SWITCH ? 3 : 2))
        return;
    name = text_of(r, map, word, 1);
    nodes = text_of(r, map, "nodes", kind != SLURM_SWITCH);
    below = kind == SLURM_SWITCH ? text_of(r, map, "children", 0) : NULL;
    if (!name)
        return;
    e = slurm_fabric_add(r->f, kind, map->line);
    if (!e) {
        wrong(r, map, "more than 16384 definitions");
        return;
    }
    e->name = xstrdup(name);
    e->nodes = xstrdup(nodes);
    e->below = xstrdup(below);
}

static void read_entries(struct reader *r, const struct yaml_node *map,
                         enum slurm_kind kind, const char *list, const char *word)
{
    const struct yaml_node *v = yaml_get(map, list);

    if (!v || v->kind != YAML_SEQUENCE) {
        err_more(&r->problems, ERR_USAGE, "%s:%d: %s must be a list", r->where,
                 v ? v->line : map->line, list);
        return;
    }
    for (int i = 0; i < v->n; i++)
        read_entry(r, v->value[i], kind, word);
}

static void read_tree(struct reader *r, const struct yaml_node *map)
{
    static const char *const known[] = { "switches" };

    if (check_keys(r, map, known, 1))
        read_entries(r, map, SLURM_SWITCH, "switches", "switch");
}

static void read_sizes(struct reader *r, const struct yaml_node *v)
{
    struct str s = STR_INIT;

    str_adds(&s, "");
    for (int i = 0; v->kind == YAML_SEQUENCE && i < v->n && i <= SLURM_SIZES_MAX; i++)
        str_addf(&s, "%s%s", i ? "," : "",
                 v->value[i]->kind == YAML_SCALAR ? v->value[i]->text : "?");
    if (v->kind == YAML_SCALAR)
        str_adds(&s, v->text);
    if (slurm_fabric_sizes(r->f, s.text) < 0)
        wrong(
            r, v,
            "block_sizes: sizes like [18, 36], each later one the first times a power "
            "of two");
    str_release(&s);
}

static void read_block(struct reader *r, const struct yaml_node *map)
{
    static const char *const known[] = { "block_sizes", "blocks" };

    if (!check_keys(r, map, known, 2))
        return;
    read_entries(r, map, SLURM_BLOCK, "blocks", "block");
    if (yaml_get(map, "block_sizes"))
        read_sizes(r, yaml_get(map, "block_sizes"));
}

static void read_ring(struct reader *r, const struct yaml_node *map)
{
    static const char *const known[] = { "rings" };

    if (check_keys(r, map, known, 1))
        read_entries(r, map, SLURM_RING, "rings", "ring");
}

static void read_flat(struct reader *r, const struct yaml_node *map)
{
    wrong(r, map,
          "a flat topology names no nodes and no switches: there is nothing to "
          "show");
}

static void read_torus(struct reader *r, const struct yaml_node *map)
{
    wrong(r, map, "torus3d is not read by this muster: tree, block and ring are");
}

/* To add a plugin, add its row. */
static const struct {
    const char *key;
    void (*read)(struct reader *r, const struct yaml_node *map);
} plugins[] = {
    { "tree", read_tree }, { "block", read_block },   { "ring", read_ring },
    { "flat", read_flat }, { "torus3d", read_torus },
};

static const char *const topology_keys[] = {
    "topology", "cluster_default", "tree", "block", "ring", "flat", "torus3d"
};

/* Exactly one plugin; -1 with the problem said. */
static int find_plugin(struct reader *r, const struct yaml_node *map)
{
    int found = -1, n = 0;

    for (size_t i = 0; i < ARRAY_LEN(plugins); i++)
        if (yaml_get(map, plugins[i].key)) {
            found = (int)i;
            n++;
        }
    if (n != 1)
        wrong(r, map,
              "exactly one of tree, block, ring, flat and torus3d must stand "
              "here");
    return n == 1 ? found : -1;
}

static int is_default(struct reader *r, const struct yaml_node *map)
{
    const struct yaml_node *v = yaml_get(map, "cluster_default");
    struct err one = ERR_INIT;
    int yes = 0;

    if (v && (v->kind != YAML_SCALAR || value_bool(v->text, &yes, &one) < 0))
        wrong(r, v, "cluster_default must be true or false");
    err_release(&one);
    return yes;
}

/* The first that is the default, else the first; NULL with the problem said. */
static const struct yaml_node *choose(struct reader *r, const struct yaml_node *root)
{
    const struct yaml_node *chosen = NULL;

    if (root->kind != YAML_SEQUENCE || root->n == 0) {
        wrong(r, root, "no topology: a list must stand here (- topology: NAME)");
        return NULL;
    }
    for (int i = 0; i < root->n; i++) {
        const struct yaml_node *map = root->value[i];
        if (!check_keys(r, map, topology_keys, ARRAY_LEN(topology_keys)))
            continue;
        text_of(r, map, "topology", 1);
        if (is_default(r, map) && !chosen)
            chosen = map;
    }
    return chosen ? chosen : root->value[0];
}

static void note_others(struct topology *t, const struct yaml_node *root,
                        const struct yaml_node *chosen, const char *where)
{
    if (root->n > 1)
        topology_find(t, SEVERITY_NOTE, where,
                      "topology %.60s of the %d in the file is shown, the cluster's "
                      "default or the first",
                      yaml_get(chosen, "topology")->text, root->n);
}

int topology_from_slurmyaml_text(const char *text, size_t len, const char *where,
                                 struct topology **out, struct err *err)
{
    struct slurm_fabric f = { 0 };
    struct reader r = { .where = where, .f = &f };
    const char *slash = strrchr(where, '/');
    const struct yaml_node *chosen;
    struct yaml_node *root;
    char source[64];
    int plugin = -1, rc = -1;

    if (yaml_tree_parse(text, len, where, &root, err) < 0)
        return -1;
    chosen = choose(&r, root);
    if (chosen && r.problems.code == ERR_NONE)
        plugin = find_plugin(&r, chosen);
    if (plugin >= 0)
        plugins[plugin].read(&r, yaml_get(chosen, plugins[plugin].key));
    snprintf(source, sizeof(source), "slurmconf:%.50s", slash ? slash + 1 : where);
    if (r.problems.code != ERR_NONE)
        err_set(err, ERR_USAGE, "%s", err_text(&r.problems));
    else
        rc = slurm_fabric_build(&f, source, where, out, err);
    if (rc == 0)
        note_others(*out, root, chosen, where);
    err_release(&r.problems);
    slurm_fabric_release(&f);
    yaml_tree_free(root);
    return rc;
}
