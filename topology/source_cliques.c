/* NVLink domains of nodes: a rack may hold several cliques (case B10). */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "recipes/yaml.h"
#include "topology/hostlist.h"
#include "topology/source.h"
#include "topology/topology.h"

enum { CLIQUES_MAX_BYTES = 16 << 20 };

struct row {
    const char *node, *domain;
    int line;
};

struct table {
    const char *where;
    int n, room;
    struct row *row;
    struct err *err;
};

/* "11111111-2222-3333-4444-555555555555.1": hexadecimal digits and dashes, a dot, a
 * number; not all zeros, which the driver shows where there is no fabric. */
static int domain_valid(const char *text)
{
    size_t uuid = strspn(text, "0123456789abcdefABCDEF-");
    size_t clique = text[uuid] == '.' ? strspn(text + uuid + 1, "0123456789") : 0;

    return uuid >= 8 && clique && text[uuid + 1 + clique] == '\0' &&
           strlen(text) < sizeof(((struct node *)0)->nvlink_domain) &&
           strspn(text, "0-") < uuid;
}

static int add_row(struct table *t, char *line, int number)
{
    char *save, *node = strtok_r(line, " \t\r", &save), *domain, *more;

    if (!node)
        return 0;
    domain = strtok_r(NULL, " \t\r", &save);
    more = strtok_r(NULL, " \t\r", &save);
    if (!hostlist_name_valid(node) || strlen(node) > 63 || more)
        return err_set(t->err, ERR_USAGE,
                       "%s:%d: a node and its ClusterUUID.CliqueId must stand here",
                       t->where, number);
    if (!domain || !domain_valid(domain))
        return err_set(t->err, ERR_USAGE,
                       "%s:%d: node %s: '%.60s' is no ClusterUUID.CliqueId (is the "
                       "fabric manager ready? nvidia-smi -q shows it under Fabric)",
                       t->where, number, node, domain ? domain : "");
    if (t->n == t->room) {
        t->room = t->room ? 2 * t->room : 64;
        t->row = xrealloc(t->row, (size_t)t->room, sizeof(*t->row));
    }
    t->row[t->n++] = (struct row){ node, domain, number };
    return 0;
}

static int compare_rows(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    int c = strcmp(x->node, y->node);

    return c ? c : x->line - y->line;
}

/* A node in two domains; the same row again is no harm.  Sorted by name after it. */
static int check_rows(struct table *t)
{
    int kept = 0;

    qsort(t->row, (size_t)t->n, sizeof(*t->row), compare_rows);
    for (int i = 0; i < t->n; i++) {
        const struct row *r = &t->row[i], *last = kept ? &t->row[kept - 1] : NULL;
        if (last && str_eq(r->node, last->node)) {
            if (strcasecmp(r->domain, last->domain) == 0)
                continue;
            return err_set(t->err, ERR_USAGE,
                           "%s:%d: node %s is in another NVLink domain than on line %d",
                           t->where, r->line, r->node, last->line);
        }
        t->row[kept++] = *r;
    }
    t->n = kept;
    return 0;
}

static int compare_lines(const void *a, const void *b)
{
    return ((const struct row *)a)->line - ((const struct row *)b)->line;
}

static struct topology *build(const struct table *table)
{
    const char *slash = strrchr(table->where, '/');
    char source[64];
    struct topology *t;

    snprintf(source, sizeof(source), "cliques:%.50s", slash ? slash + 1 : table->where);
    t = topology_new(source, table->n);
    for (int i = 0; i < table->n; i++) {
        struct node *n = &t->nodes[i];
        snprintf(n->name, sizeof(n->name), "%s", table->row[i].node);
        snprintf(n->nvlink_domain, sizeof(n->nvlink_domain), "%s",
                 table->row[i].domain);
        for (char *c = n->nvlink_domain; *c; c++)
            *c = (char)tolower((unsigned char)*c);
    }
    return t;
}

int topology_from_cliques_text(const char *text, size_t len, const char *where,
                               struct topology **out, struct err *err)
{
    struct table t = { .where = where, .err = err };
    char *copy;
    int rc = 0, number = 1;

    if (memchr(text, '\0', len))
        return err_set(err, ERR_USAGE, "%s: holds a NUL byte", where);
    copy = xstrndup(text, len);
    for (char *line = copy, *next; line && rc == 0; line = next, number++) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        line[strcspn(line, "#")] = '\0';
        rc = t.n < HOSTLIST_MAX ? add_row(&t, line, number)
                                : err_set(err, ERR_USAGE, "%s: more than %d nodes",
                                          where, HOSTLIST_MAX);
    }
    if (rc == 0 && t.n == 0)
        rc = err_set(err, ERR_USAGE, "%s names no node", where);
    if (rc == 0)
        rc = check_rows(&t);
    if (rc == 0) {
        qsort(t.row, (size_t)t.n, sizeof(*t.row), compare_lines);
        *out = build(&t);
    }
    free(t.row);
    free(copy);
    return rc;
}

int topology_from_cliques(const char *path, struct topology **out, struct err *err)
{
    char *text;
    size_t len;
    int rc;

    if (yaml_read_file(path, CLIQUES_MAX_BYTES, &text, &len, err) < 0)
        return -1;
    rc = topology_from_cliques_text(text, len, path, out, err);
    free(text);
    return rc;
}
