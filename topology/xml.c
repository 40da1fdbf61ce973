#include "topology/xml.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

struct reader {
    const char *at, *end, *where;
    int line, nodes, depth;
    struct err *err;
};

static int wrong(struct reader *r, const char *what)
{
    return err_set(r->err, ERR_USAGE, "%s:%d: %s", r->where, r->line, what);
}

static int starts(const struct reader *r, const char *text)
{
    size_t n = strlen(text);

    return (size_t)(r->end - r->at) >= n && memcmp(r->at, text, n) == 0;
}

static void advance(struct reader *r, size_t n)
{
    for (; n && r->at < r->end; n--, r->at++)
        r->line += *r->at == '\n';
}

static void skip_blanks(struct reader *r)
{
    while (r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at)
        advance(r, 1);
}

/* Past the end of something that `close` ends. */
static int skip_past(struct reader *r, const char *close, const char *what)
{
    while (r->at < r->end && !starts(r, close))
        advance(r, 1);
    if (r->at == r->end)
        return wrong(r, what);
    advance(r, strlen(close));
    return 0;
}

/* Blanks, comments and the prolog. */
static int skip_between(struct reader *r)
{
    for (;;) {
        skip_blanks(r);
        if (starts(r, "<!--")) {
            if (skip_past(r, "-->", "a comment that does not end") < 0)
                return -1;
        } else if (starts(r, "<?")) {
            if (skip_past(r, "?>", "a prolog that does not end") < 0)
                return -1;
        } else
            return 0;
    }
}

static char *read_name(struct reader *r)
{
    const char *from = r->at;

    while (r->at < r->end &&
           (isalnum((unsigned char)*r->at) || (*r->at && strchr("_-.:", *r->at))))
        r->at++;
    return r->at > from ? xstrndup(from, (size_t)(r->at - from)) : NULL;
}

static int read_attr(struct reader *r, struct xml_node *n)
{
    char *name = read_name(r);
    const char *from;
    char quote;

    if (!name)
        return wrong(r, "an attribute, '>' or '/>' is expected here");
    n->attrs = xrealloc(n->attrs, (size_t)n->n_attrs + 1, sizeof(*n->attrs));
    n->attrs[n->n_attrs++] = (struct xml_attr){ name, NULL };
    skip_blanks(r);
    if (!starts(r, "="))
        return wrong(r, "an attribute without a value");
    advance(r, 1);
    skip_blanks(r);
    if (r->at == r->end || (*r->at != '"' && *r->at != '\''))
        return wrong(r, "a value without quotes");
    quote = *r->at;
    advance(r, 1);
    from = r->at;
    while (r->at < r->end && *r->at != quote && *r->at && *r->at != '<')
        advance(r, 1);
    if (r->at == r->end || *r->at != quote)
        return wrong(r, "a value whose quotes do not close");
    n->attrs[n->n_attrs - 1].value = xstrndup(from, (size_t)(r->at - from));
    advance(r, 1);
    return 0;
}

/* From "<name" to ">" (1: children follow) or "/>" (0); -1. */
static int read_tag(struct reader *r, struct xml_node *n)
{
    n->line = r->line;
    advance(r, 1);
    n->name = read_name(r);
    if (!n->name)
        return wrong(r, "an element without a name");
    for (;;) {
        skip_blanks(r);
        if (starts(r, "/>")) {
            advance(r, 2);
            return 0;
        }
        if (starts(r, ">")) {
            advance(r, 1);
            return 1;
        }
        if (read_attr(r, n) < 0)
            return -1;
    }
}

static int read_close(struct reader *r, const struct xml_node *n)
{
    char *name;
    int same;

    advance(r, 2);
    name = read_name(r);
    same = name && strcmp(name, n->name) == 0;
    free(name);
    skip_blanks(r);
    if (!same || !starts(r, ">"))
        return err_set(r->err, ERR_USAGE,
                       "%s:%d: <%s> of line %d is not closed by this tag", r->where,
                       r->line, n->name, n->line);
    advance(r, 1);
    return 0;
}

static int read_element(struct reader *r, struct xml_node **out);

/* Children and the closing tag.  Depth is bounded, so recursion is. */
static int read_children(struct reader *r, struct xml_node *n)
{
    struct xml_node **tail = &n->child;

    for (;;) {
        if (skip_between(r) < 0)
            return -1;
        if (starts(r, "</"))
            return read_close(r, n);
        if (!starts(r, "<"))
            return r->at == r->end
                       ? err_set(
                             r->err, ERR_USAGE,
                             "%s:%d: the file ends inside <%s> of line %d: it is cut",
                             r->where, r->line, n->name, n->line)
                       : wrong(r, "text between elements");
        if (read_element(r, tail) < 0)
            return -1;
        tail = &(*tail)->next;
    }
}

static int read_element(struct reader *r, struct xml_node **out)
{
    struct xml_node *n;
    int open;

    if (++r->nodes > XML_MAX_NODES || r->depth >= XML_MAX_DEPTH)
        return wrong(r, r->depth >= XML_MAX_DEPTH ? "elements nest too deep (64)"
                                                  : "too many elements (200000)");
    n = xcalloc(1, sizeof(*n));
    *out = n; /* reachable from the root, so that a failure frees it */
    open = read_tag(r, n);
    if (open <= 0)
        return open;
    r->depth++;
    open = read_children(r, n);
    r->depth--;
    return open;
}

int xml_parse(const char *text, size_t len, const char *where, struct xml_node **root,
              struct err *err)
{
    struct reader r = { text, text + len, where, 1, 0, 0, err };
    struct xml_node *n = NULL;
    int rc = -1;

    if (len > XML_MAX_BYTES)
        return err_set(err, ERR_USAGE, "%s: %zu bytes, at most %d are read", where, len,
                       XML_MAX_BYTES);
    if (skip_between(&r) < 0)
        return -1;
    if (!starts(&r, "<"))
        return wrong(&r, "an element is expected here");
    if (read_element(&r, &n) == 0 && skip_between(&r) == 0)
        rc = r.at == r.end ? 0 : wrong(&r, "something follows the root element");
    if (rc == 0)
        *root = n;
    else
        xml_free(n);
    return rc;
}

void xml_free(struct xml_node *n)
{
    while (n) {
        struct xml_node *next = n->next;
        xml_free(n->child);
        for (int i = 0; i < n->n_attrs; i++) {
            free(n->attrs[i].name);
            free(n->attrs[i].value);
        }
        free(n->attrs);
        free(n->name);
        free(n);
        n = next;
    }
}

const char *xml_attr(const struct xml_node *n, const char *name)
{
    for (int i = 0; i < n->n_attrs; i++)
        if (strcmp(n->attrs[i].name, name) == 0)
            return n->attrs[i].value;
    return NULL;
}
