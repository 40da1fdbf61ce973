/* yaml.h - the only door to libyaml: a text becomes a tree of plain data.
 *
 * Nothing is typed here: a scalar is its text, and `quoted` tells 1 from "1".
 * Every node keeps the line and column it stands at (from 1).
 *
 *   struct yaml_node *root;
 *   yaml_tree_load("b200-64x8.yaml", &root, err);
 *   const struct yaml_node *n = yaml_get(root, "nodes");
 *   ... err_more(err, ERR_USAGE, "%s:%d: ...", path, n->line) ...
 *   yaml_tree_free(root);
 *
 * Refused, each with FILE:LINE and a cure: bytes that are not UTF-8, tabs that
 * indent, a second document, a key that is no scalar, anchors, aliases, tags,
 * NUL in a value, more than YAML_MAX_BYTES, _NODES or _DEPTH.  A BOM and
 * CRLF line ends are read and leave no trace.  An empty document is an empty
 * mapping. */
#ifndef RECIPES_YAML_H
#define RECIPES_YAML_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct err;

enum { YAML_MAX_BYTES = 1 << 20, YAML_MAX_NODES = 100000, YAML_MAX_DEPTH = 24 };

enum yaml_kind { YAML_SCALAR, YAML_SEQUENCE, YAML_MAPPING };

struct yaml_node {
    enum yaml_kind kind;
    int line, column;
    int quoted;               /* scalar: written in quotes or as a block */
    char *text;               /* scalar; else NULL */
    int n;                    /* values */
    struct yaml_node **key;   /* mapping: [n] scalars; else NULL */
    struct yaml_node **value; /* sequence, mapping: [n] */
    int first_line;           /* a key that repeats one of this line; 0: it does not */
    struct yaml_node *next;   /* in the order of the text, from the root on */
};

/* Parse; a key repeated within one mapping, at any depth, is an error (all of
 * them are listed).  *root is set only on success; yaml_tree_free().
 * Codes: ERR_USAGE; load: ERR_MISSING when there is no such file. */
int yaml_tree_parse(const char *text, size_t len, const char *where,
                    struct yaml_node **root, struct err *err);
int yaml_tree_load(const char *path, struct yaml_node **root, struct err *err);

/* The same, but repeated keys only carry first_line: for a reader that lists
 * them among the other problems of the file. */
int yaml_tree_parse_marked(const char *text, size_t len, const char *where,
                           struct yaml_node **root, struct err *err);

void yaml_tree_free(struct yaml_node *root); /* NULL is fine */

/* The value of a key of a mapping; NULL when absent or no mapping. */
const struct yaml_node *yaml_get(const struct yaml_node *map, const char *key);

/* A plain scalar that YAML 1.2 reads as null: empty, ~, null, Null, NULL. */
int yaml_is_null(const struct yaml_node *n);

/* "text", "a list", "a mapping". */
const char *yaml_kind_name(enum yaml_kind kind);

/* A whole file of at most `limit` bytes, with a NUL after it; free(). */
int yaml_read_file(const char *path, size_t limit, char **text, size_t *len,
                   struct err *err);

#ifdef __cplusplus
}
#endif
#endif
