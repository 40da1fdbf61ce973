#include "recipes/yaml.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/err.h"
#include "base/mem.h"

struct build {
    const char *where, *text;
    size_t len;
    yaml_parser_t parser;
    struct yaml_node *root, *last; /* chain of all nodes */
    struct yaml_node *stack[YAML_MAX_DEPTH];
    struct yaml_node *key; /* waits for its value */
    int depth, nodes, ended;
    struct err *err;
};

static int line_of_offset(const struct build *b, size_t offset)
{
    int line = 1;

    for (size_t i = 0; i < offset && i < b->len; i++)
        line += b->text[i] == '\n';
    return line;
}

static const char *line_start(const struct build *b, size_t line)
{
    const char *p = b->text, *end = b->text + b->len;

    for (size_t i = 0; i < line && p < end; p++)
        i += *p == '\n';
    return p;
}

/* The byte the scanner stopped at; 0 at the end. */
static char char_at_mark(const struct build *b, const yaml_mark_t *mark)
{
    const char *p = line_start(b, mark->line), *end = b->text + b->len;
    size_t column = 0;

    while (p < end) {
        if (((unsigned char)*p & 0xc0) != 0x80 && column++ == mark->column)
            return *p;
        p++;
    }
    return '\0';
}

static int line_holds(const struct build *b, size_t line, const char *part)
{
    const char *p = line_start(b, line), *end = b->text + b->len;
    const char *stop;

    if (p >= end)
        return 0;
    stop = memchr(p, '\n', (size_t)(end - p));
    if (!stop)
        stop = end;
    return memmem(p, (size_t)(stop - p), part, strlen(part)) != NULL;
}

static const char *syntax_cure(const struct build *b, const yaml_mark_t *mark)
{
    static const struct {
        char c;
        const char *cure;
    } cures[] = {
        { '\t', "; a tab cannot indent: use blanks" },
        { '%', "; put quotes around a value that begins with %" },
        { '@', "; put quotes around a value that begins with @" },
        { '`', "; put quotes around a value that begins with `" },
    };
    char c = char_at_mark(b, mark);

    for (size_t i = 0; i < ARRAY_LEN(cures); i++)
        if (c == cures[i].c)
            return cures[i].cure;
    if (line_holds(b, mark->line, "${"))
        return "; put quotes around \"${...}\" inside [ ] or { }";
    return "";
}

static int syntax_error(struct build *b)
{
    const yaml_parser_t *p = &b->parser;
    const char *problem = p->problem ? p->problem : "not valid YAML";

    if (p->error == YAML_READER_ERROR)
        return err_set(b->err, ERR_USAGE,
                       "%s:%d: %s: the text must be UTF-8 without control characters",
                       b->where, line_of_offset(b, p->problem_offset), problem);
    if (p->error == YAML_MEMORY_ERROR)
        return err_set(b->err, ERR_SYSTEM, "%s: out of memory", b->where);
    return err_set(b->err, ERR_USAGE, "%s:%zu: column %zu: %s%s", b->where,
                   p->problem_mark.line + 1, p->problem_mark.column + 1, problem,
                   syntax_cure(b, &p->problem_mark));
}

static struct yaml_node *node_new(struct build *b, enum yaml_kind kind,
                                  const yaml_mark_t *mark)
{
    struct yaml_node *n = xcalloc(1, sizeof(*n));

    n->kind = kind;
    n->line = (int)mark->line + 1;
    n->column = (int)mark->column + 1;
    if (b->last)
        b->last->next = n;
    else
        b->root = n;
    b->last = n;
    b->nodes++;
    return n;
}

/* Room doubles at the powers of two. */
static void grow(struct yaml_node ***list, int n)
{
    if ((n & (n - 1)) == 0)
        *list = xrealloc(*list, n ? (size_t)n * 2 : 1, sizeof(struct yaml_node *));
}

static int refuse(struct build *b, const yaml_mark_t *mark, const char *what)
{
    return err_set(b->err, ERR_USAGE, "%s:%zu: %s", b->where, mark->line + 1, what);
}

static int attach(struct build *b, struct yaml_node *n, const yaml_mark_t *mark)
{
    struct yaml_node *parent = b->depth ? b->stack[b->depth - 1] : NULL;

    if (b->nodes > YAML_MAX_NODES)
        return refuse(b, mark, "too many values for one file");
    if (!parent)
        return 0;
    if (parent->kind == YAML_MAPPING && !b->key) {
        if (n->kind != YAML_SCALAR)
            return refuse(b, mark, "a key must be a plain word");
        b->key = n;
        return 0;
    }
    grow(&parent->value, parent->n);
    parent->value[parent->n] = n;
    if (parent->kind == YAML_MAPPING) {
        grow(&parent->key, parent->n);
        parent->key[parent->n] = b->key;
        b->key = NULL;
    }
    parent->n++;
    return 0;
}

static int add_scalar(struct build *b, const yaml_event_t *ev)
{
    const char *text = (const char *)ev->data.scalar.value;
    struct yaml_node *n;

    if (ev->data.scalar.anchor || ev->data.scalar.tag)
        return refuse(b, &ev->start_mark,
                      "anchors (&) and tags (!) are not used here: write the value "
                      "itself, in quotes if it begins with & or !");
    if (strlen(text) != ev->data.scalar.length)
        return refuse(b, &ev->start_mark, "a value holds a NUL byte");
    n = node_new(b, YAML_SCALAR, &ev->start_mark);
    n->text = xstrdup(text);
    n->quoted = ev->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    return attach(b, n, &ev->start_mark);
}

static int open_collection(struct build *b, const yaml_event_t *ev)
{
    int map = ev->type == YAML_MAPPING_START_EVENT;
    const yaml_char_t *anchor =
        map ? ev->data.mapping_start.anchor : ev->data.sequence_start.anchor;
    const yaml_char_t *tag =
        map ? ev->data.mapping_start.tag : ev->data.sequence_start.tag;
    struct yaml_node *n;

    if (anchor || tag)
        return refuse(
            b, &ev->start_mark,
            "anchors (&) and tags (!) are not used here: write the values out");
    if (b->depth == YAML_MAX_DEPTH)
        return refuse(b, &ev->start_mark, "nested too deeply");
    n = node_new(b, map ? YAML_MAPPING : YAML_SEQUENCE, &ev->start_mark);
    if (attach(b, n, &ev->start_mark) < 0)
        return -1;
    b->stack[b->depth++] = n;
    return 0;
}

static int by_text(const void *a, const void *b)
{
    const struct yaml_node *x = *(struct yaml_node *const *)a;
    const struct yaml_node *y = *(struct yaml_node *const *)b;
    int order = strcmp(x->text, y->text);

    if (order)
        return order;
    return x->line != y->line ? (x->line > y->line) - (x->line < y->line)
                              : (x->column > y->column) - (x->column < y->column);
}

/* Sorted, so that a hostile file of many keys costs no square. */
static void mark_repeats(struct yaml_node *map)
{
    struct yaml_node **key;
    size_t n = (size_t)map->n;

    if (map->kind != YAML_MAPPING || n < 2)
        return;
    key = xcalloc(n, sizeof(struct yaml_node *));
    memcpy(key, map->key, n * sizeof(struct yaml_node *));
    qsort(key, n, sizeof(struct yaml_node *), by_text);
    for (size_t i = 1; i < n; i++)
        if (strcmp(key[i]->text, key[i - 1]->text) == 0)
            key[i]->first_line =
                key[i - 1]->first_line ? key[i - 1]->first_line : key[i - 1]->line;
    free(key);
}

static int close_collection(struct build *b, const yaml_event_t *ev)
{
    (void)ev;
    mark_repeats(b->stack[--b->depth]);
    return 0;
}

static int open_document(struct build *b, const yaml_event_t *ev)
{
    if (b->ended)
        return refuse(b, &ev->start_mark,
                      "a second document begins here (---): one file is one document");
    return 0;
}

static int close_document(struct build *b, const yaml_event_t *ev)
{
    (void)ev;
    b->ended = 1;
    return 0;
}

static int refuse_alias(struct build *b, const yaml_event_t *ev)
{
    return refuse(b, &ev->start_mark,
                  "aliases (*) are not used here: write the value itself, in quotes if "
                  "it begins with *");
}

typedef int event_fn(struct build *b, const yaml_event_t *ev);
static event_fn *const on_event[] = {
    [YAML_DOCUMENT_START_EVENT] = open_document,
    [YAML_DOCUMENT_END_EVENT] = close_document,
    [YAML_ALIAS_EVENT] = refuse_alias,
    [YAML_SCALAR_EVENT] = add_scalar,
    [YAML_SEQUENCE_START_EVENT] = open_collection,
    [YAML_SEQUENCE_END_EVENT] = close_collection,
    [YAML_MAPPING_START_EVENT] = open_collection,
    [YAML_MAPPING_END_EVENT] = close_collection,
};

static int build_tree(struct build *b)
{
    int more = 1, rc = 0;
    yaml_event_t ev;

    while (more && rc == 0) {
        if (!yaml_parser_parse(&b->parser, &ev))
            return syntax_error(b);
        more = ev.type != YAML_STREAM_END_EVENT;
        if ((size_t)ev.type < ARRAY_LEN(on_event) && on_event[ev.type])
            rc = on_event[ev.type](b, &ev);
        yaml_event_delete(&ev);
    }
    return rc;
}

static void empty_is_mapping(struct build *b)
{
    const yaml_mark_t start = { 0 };

    if (!b->root)
        node_new(b, YAML_MAPPING, &start);
    else if (yaml_is_null(b->root)) {
        free(b->root->text);
        b->root->text = NULL;
        b->root->kind = YAML_MAPPING;
    }
}

int yaml_tree_parse_marked(const char *text, size_t len, const char *where,
                           struct yaml_node **root, struct err *err)
{
    struct build b = { .where = where, .text = text, .len = len, .err = err };
    int rc;

    if (len > YAML_MAX_BYTES)
        return err_set(err, ERR_USAGE, "%s: larger than %d bytes", where,
                       YAML_MAX_BYTES);
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        b.text += 3;
        b.len -= 3;
    }
    if (!yaml_parser_initialize(&b.parser))
        return err_set(err, ERR_SYSTEM, "%s: out of memory", where);
    yaml_parser_set_encoding(&b.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&b.parser, (const unsigned char *)b.text, b.len);
    rc = build_tree(&b);
    yaml_parser_delete(&b.parser);
    if (rc < 0) {
        yaml_tree_free(b.root);
        return -1;
    }
    empty_is_mapping(&b);
    *root = b.root;
    return 0;
}

int yaml_tree_parse(const char *text, size_t len, const char *where,
                    struct yaml_node **root, struct err *err)
{
    enum { LISTED = 20 };
    struct yaml_node *tree;
    int repeats = 0;

    if (yaml_tree_parse_marked(text, len, where, &tree, err) < 0)
        return -1;
    for (const struct yaml_node *n = tree; n && repeats < LISTED; n = n->next)
        if (n->first_line && repeats++ < LISTED)
            err_more(err, ERR_USAGE, "%s:%d: key '%s' repeats the one on line %d",
                     where, n->line, n->text, n->first_line);
    if (repeats) {
        yaml_tree_free(tree);
        return -1;
    }
    *root = tree;
    return 0;
}
