#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "recipes/field.h"
#include "recipes/recipe.h"
#include "recipes/rules.h"
#include "recipes/text.h"
#include "recipes/yaml.h"

/* Problems that help; a hostile file has thousands. */
enum { LISTED_MAX = 50, CANDIDATES_MAX = 1000 };

struct problem {
    int line;
    char *text;
};

struct reader {
    const char *where;
    struct recipe r;
    const struct yaml_node **node; /* [n_fields] value of each field, or NULL */
    int *line;                     /* [n_fields] of its key */
    int model_line;                /* of the section */
    const struct yaml_node *sweep;
    struct recipe trial; /* takes every candidate of the sweep */
    int in_unknown;      /* depth below a key nobody knows */
    int n, dropped;
    struct problem problem[LISTED_MAX];
};

static void add_problem(struct reader *rd, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void add_problem(struct reader *rd, int line, const char *fmt, ...)
{
    va_list ap;

    if (rd->n == LISTED_MAX) {
        rd->dropped++;
        return;
    }
    va_start(ap, fmt);
    rd->problem[rd->n++] = (struct problem){ line, xvasprintf(fmt, ap) };
    va_end(ap);
}

static void add_error(struct reader *rd, int line, struct err *problem)
{
    add_problem(rd, line, "%s", err_text(problem));
    err_release(problem);
}

/* Some field's key begins with "path.". */
static int is_section(const char *path)
{
    size_t n = strlen(path);

    for (int i = 0; i < n_fields; i++)
        if (strncmp(fields[i].key, path, n) == 0 && fields[i].key[n] == '.')
            return 1;
    return 0;
}

static void note_field(struct reader *rd, const struct field *f,
                       const struct yaml_node *key, const struct yaml_node *value)
{
    long i = f - fields;

    if (key->first_line) /* said once, where the key stands */
        return;
    if (rd->node[i]) {
        add_problem(rd, key->line, "%s was already set on line %d", f->key,
                    rd->line[i]);
        return;
    }
    rd->node[i] = value;
    rd->line[i] = key->line;
}

static void read_mapping(struct reader *rd, const char *path,
                         const struct yaml_node *map);

static void unknown_key(struct reader *rd, const char *path, int line)
{
    struct err e = ERR_INIT;

    recipe_unknown_key(path, &e);
    add_error(rd, line, &e);
}

/* Said once for the whole subtree, which is still searched for repeated keys. */
// NOLINTNEXTLINE(misc-no-recursion): YAML_MAX_DEPTH
static void read_unknown(struct reader *rd, const char *path,
                         const struct yaml_node *key, const struct yaml_node *value)
{
    if (!rd->in_unknown)
        unknown_key(rd, path, key->line);
    rd->in_unknown++;
    if (value->kind == YAML_MAPPING)
        read_mapping(rd, path, value);
    rd->in_unknown--;
}

// NOLINTNEXTLINE(misc-no-recursion): YAML_MAX_DEPTH
static void read_pair(struct reader *rd, const char *path, const struct yaml_node *key,
                      const struct yaml_node *value)
{
    const struct field *f = field_find(path);

    if (key->first_line)
        add_problem(rd, key->line, "key '%s' repeats the one on line %d", path,
                    key->first_line);
    if (f)
        note_field(rd, f, key, value);
    else if (strcmp(path, "scale.sweep") == 0)
        rd->sweep = value;
    else if (!is_section(path))
        read_unknown(rd, path, key, value);
    else if (value->kind == YAML_MAPPING)
        read_mapping(rd, path, value);
    else if (!yaml_is_null(value))
        add_problem(rd, key->line, "%s is a section: keys are wanted under it, not %s",
                    path, yaml_kind_name(value->kind));
    if (strcmp(path, "model") == 0)
        rd->model_line = key->line;
}

// NOLINTNEXTLINE(misc-no-recursion): YAML_MAX_DEPTH
static void read_mapping(struct reader *rd, const char *path,
                         const struct yaml_node *map)
{
    for (int i = 0; i < map->n; i++) {
        const char *word = map->key[i]->text;
        char *longer = *path ? xasprintf("%s.%s", path, word) : xstrdup(word);
        read_pair(rd, longer, map->key[i], map->value[i]);
        free(longer);
    }
}

/* One scalar of the file, variables filled in; NULL after a problem.  What a
 * variable filled in is typed like plain text, quotes or not, because inside
 * [ ] and { } YAML forces the quotes. */
static char *scalar(struct reader *rd, const char *key, const struct yaml_node *n,
                    int *quoted)
{
    struct err e = ERR_INIT;
    char *text = NULL;
    int filled;

    if (n->kind != YAML_SCALAR)
        add_problem(rd, n->line, "%s: one value is wanted, not %s", key,
                    yaml_kind_name(n->kind));
    else if (yaml_is_null(n))
        add_problem(rd, n->line, "%s has no value (an empty text is \"\")", key);
    else if (text_expand(n->text, &text, &filled, &e) < 0)
        add_problem(rd, n->line, "%s: %s", key, err_text(&e));
    else
        *quoted = n->quoted && !filled;
    err_release(&e);
    return text;
}

static void add_element(struct reader *rd, const struct field *f,
                        const struct yaml_node *n)
{
    struct err e = ERR_INIT;
    int quoted = 0;
    char *text = scalar(rd, f->key, n, &quoted);

    if (text && field_add(f, &rd->r, text, quoted, &e) < 0)
        add_error(rd, n->line, &e);
    free(text);
}

/* NAME: value, which is NAME=value in the list. */
static void add_pair(struct reader *rd, const struct field *f,
                     const struct yaml_node *name, const struct yaml_node *value)
{
    struct err e = ERR_INIT;
    int quoted = 0;
    char *key = xasprintf("%s.%s", f->key, name->text), *pair;
    char *text = scalar(rd, key, value, &quoted);

    free(key);
    if (name->first_line)
        add_problem(rd, name->line, "%s: %s repeats the one on line %d", f->key,
                    name->text, name->first_line);
    if (!text)
        return;
    pair = xasprintf("%s=%s", name->text, text);
    if (field_add(f, &rd->r, pair, quoted, &e) < 0)
        add_error(rd, name->line, &e);
    free(pair);
    free(text);
}

static void set_list(struct reader *rd, const struct field *f,
                     const struct yaml_node *n)
{
    field_clear(f, &rd->r);
    for (int i = 0; f->pairs && n->kind == YAML_MAPPING && i < n->n; i++)
        add_pair(rd, f, n->key[i], n->value[i]);
    if (f->pairs && n->kind == YAML_MAPPING)
        return;
    if (n->kind != YAML_SEQUENCE) {
        add_element(rd, f, n);
        return;
    }
    for (int i = 0; i < n->n; i++)
        add_element(rd, f, n->value[i]);
}

static void set_scalar(struct reader *rd, const struct field *f,
                       const struct yaml_node *n)
{
    struct err e = ERR_INIT;
    int quoted = 0, rc;
    char *text = scalar(rd, f->key, n, &quoted);

    if (!text)
        return;
    rc = quoted && f->type != FIELD_TEXT ? field_set(f, &rd->r, text, 1, &e)
                                         : recipe_set(&rd->r, f->key, text, &e);
    if (rc < 0)
        add_error(rd, n->line, &e);
    free(text);
}

static void set_fields(struct reader *rd)
{
    long preset = field_find("model.preset") - fields;

    /* The preset first, wherever it stands: the others override it. */
    if (rd->node[preset])
        set_scalar(rd, &fields[preset], rd->node[preset]);
    for (int i = 0; i < n_fields; i++) {
        if (!rd->node[i] || i == preset)
            continue;
        if (field_is_list(&fields[i]))
            set_list(rd, &fields[i], rd->node[i]);
        else
            set_scalar(rd, &fields[i], rd->node[i]);
    }
}

static void add_candidate(struct reader *rd, struct sweep_axis *axis,
                          const struct yaml_node *n)
{
    struct err e = ERR_INIT;
    int quoted = 0;
    char *text = scalar(rd, axis->key, n, &quoted);

    if (!text)
        return;
    for (int i = 0; i < axis->values.n; i++)
        if (strcmp(axis->values.item[i], text) == 0)
            add_problem(rd, n->line, "scale.sweep: %s: %s stands twice", axis->key,
                        text);
    if (recipe_set(&rd->trial, axis->key, text, &e) < 0)
        add_problem(rd, n->line, "scale.sweep: %s", err_text(&e));
    err_release(&e);
    strlist_add(&axis->values, text);
    free(text);
}

static void add_axis(struct reader *rd, const struct yaml_node *key,
                     const struct yaml_node *values)
{
    const struct field *f = field_find(key->text);
    struct recipe *r = &rd->r;
    struct sweep_axis *axis;

    if (key->first_line)
        add_problem(rd, key->line, "scale.sweep: key '%s' repeats the one on line %d",
                    key->text, key->first_line);
    if (!f) {
        unknown_key(rd, key->text, key->line);
        return;
    }
    if (!f->swept) {
        add_problem(rd, key->line, "scale.sweep: %s cannot be swept", key->text);
        return;
    }
    r->scale.sweep =
        xrealloc(r->scale.sweep, (size_t)r->scale.n_sweep + 1, sizeof(*r->scale.sweep));
    axis = &r->scale.sweep[r->scale.n_sweep++];
    *axis = (struct sweep_axis){ .key = xstrdup(key->text) };
    if (values->kind == YAML_SCALAR)
        add_candidate(rd, axis, values);
    else if (values->kind == YAML_MAPPING || values->n == 0 ||
             values->n > CANDIDATES_MAX)
        add_problem(rd, key->line,
                    "scale.sweep: %s: a list of 1 to %d values is wanted", key->text,
                    CANDIDATES_MAX);
    else
        for (int i = 0; i < values->n; i++)
            add_candidate(rd, axis, values->value[i]);
}

static void set_sweep(struct reader *rd)
{
    const struct yaml_node *s = rd->sweep;

    if (!s || yaml_is_null(s))
        return;
    if (s->kind != YAML_MAPPING)
        add_problem(rd, s->line, "scale.sweep: keys with lists are wanted, not %s",
                    yaml_kind_name(s->kind));
    recipe_copy(&rd->trial, &rd->r);
    for (int i = 0; s->kind == YAML_MAPPING && i < s->n; i++)
        add_axis(rd, s->key[i], s->value[i]);
    recipe_release(&rd->trial);
}

static void broken_rule(void *arg, const char *key, const char *text)
{
    struct reader *rd = arg;
    const struct field *f = field_find(key);
    int line = f ? rd->line[f - fields] : 0;

    if (!line && strncmp(key, "model", 5) == 0)
        line = rd->model_line;
    add_problem(rd, line ? line : 1, "%s: %s", key, text);
}

static int by_line(const void *a, const void *b)
{
    const struct problem *x = a, *y = b;

    return (x->line > y->line) - (x->line < y->line);
}

/* All problems in the order of the file; frees them. */
static int report(struct reader *rd, struct err *err)
{
    int n = rd->n;

    qsort(rd->problem, (size_t)n, sizeof(rd->problem[0]), by_line);
    for (int i = 0; i < n; i++) {
        err_more(err, ERR_USAGE, "%s:%d: %s", rd->where, rd->problem[i].line,
                 rd->problem[i].text);
        free(rd->problem[i].text);
    }
    if (rd->dropped)
        err_more(err, ERR_USAGE, "%s: and %d more problems", rd->where, rd->dropped);
    return n ? -1 : 0;
}

static void read_root(struct reader *rd, const struct yaml_node *root)
{
    struct rules rules = { broken_rule, rd, 0 };

    if (root->kind != YAML_MAPPING) {
        add_problem(rd, root->line, "'key: value' lines are wanted, not %s",
                    yaml_kind_name(root->kind));
        return;
    }
    read_mapping(rd, "", root);
    set_fields(rd);
    set_sweep(rd);
    if (rd->n == 0) /* else a rule might only echo what is already listed */
        rules_check_recipe(&rules, &rd->r);
}

int recipe_parse(const char *text, size_t len, const char *where, struct recipe *out,
                 struct err *err)
{
    struct reader rd = { .where = where };
    struct yaml_node *root;
    int rc;

    if (yaml_tree_parse_marked(text, len, where, &root, err) < 0)
        return -1;
    rd.node = xcalloc((size_t)n_fields, sizeof(struct yaml_node *));
    rd.line = xcalloc((size_t)n_fields, sizeof(int));
    recipe_init(&rd.r);
    read_root(&rd, root);
    rc = report(&rd, err);
    if (rc == 0)
        *out = rd.r;
    else
        recipe_release(&rd.r);
    free(rd.node);
    free(rd.line);
    yaml_tree_free(root);
    return rc;
}

int recipe_load(const char *path, struct recipe *out, struct err *err)
{
    char *text;
    size_t len;
    int rc;

    if (yaml_read_file(path, YAML_MAX_BYTES, &text, &len, err) < 0)
        return -1;
    rc = recipe_parse(text, len, path, out, err);
    free(text);
    return rc;
}
