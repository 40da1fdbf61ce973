/* xml.h - the small XML of NCCL's topology files, as a tree.
 *
 * Elements, attributes in either quotes, comments, a prolog if there is one, blanks
 * anywhere: more than NCCL's own reader takes.  Text between elements, entities and
 * CDATA are not part of these files and are refused.  Bounded by XML_MAX_BYTES,
 * _NODES and _DEPTH: a larger file is an error, never cut (aws-ofi-nccl#1226). */
#ifndef TOPOLOGY_XML_H
#define TOPOLOGY_XML_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct err;

enum { XML_MAX_BYTES = 16 << 20, XML_MAX_NODES = 200000, XML_MAX_DEPTH = 64 };

struct xml_attr {
    char *name, *value;
};

struct xml_node {
    char *name;
    int line, n_attrs;
    struct xml_attr *attrs;
    struct xml_node *child, *next; /* first child; next sibling */
};

/* One root element.  *root is the caller's: xml_free().  ERR_USAGE with WHERE:LINE. */
int xml_parse(const char *text, size_t len, const char *where, struct xml_node **root,
              struct err *err);
void xml_free(struct xml_node *n); /* with its siblings; NULL is fine */
/* The value of an attribute, borrowed; NULL when absent. */
const char *xml_attr(const struct xml_node *n, const char *name);

#ifdef __cplusplus
}
#endif
#endif
