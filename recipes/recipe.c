#include "recipes/recipe.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "recipes/field.h"
#include "recipes/yaml.h"

void recipe_init(struct recipe *r)
{
    *r = (struct recipe){ 0 };
    for (int i = 0; i < n_fields; i++)
        if (fields[i].def)
            field_set(&fields[i], r, fields[i].def, 0, NULL);
}

static void sweep_copy(struct recipe *to, const struct recipe *from)
{
    to->scale.sweep = xcalloc((size_t)from->scale.n_sweep, sizeof(*to->scale.sweep));
    for (int i = 0; i < from->scale.n_sweep; i++) {
        to->scale.sweep[i].key = xstrdup(from->scale.sweep[i].key);
        strlist_copy(&to->scale.sweep[i].values, &from->scale.sweep[i].values);
    }
}

static void sweep_release(struct recipe *r)
{
    for (int i = 0; i < r->scale.n_sweep; i++) {
        free(r->scale.sweep[i].key);
        strlist_release(&r->scale.sweep[i].values);
    }
    free(r->scale.sweep);
    r->scale.sweep = NULL;
    r->scale.n_sweep = 0;
}

void recipe_copy(struct recipe *to, const struct recipe *from)
{
    *to = *from;
    for (int i = 0; i < n_fields; i++)
        field_copy(&fields[i], to, from);
    sweep_copy(to, from);
}

void recipe_release(struct recipe *r)
{
    for (int i = 0; i < n_fields; i++)
        field_clear(&fields[i], r);
    sweep_release(r);
}

/* The same last word in another section. */
static const char *same_word(const char *key)
{
    const char *dot = strrchr(key, '.'), *word = dot ? dot + 1 : key;

    for (int i = 0; i < n_fields; i++) {
        dot = strrchr(fields[i].key, '.');
        if (dot && strcmp(dot + 1, word) == 0)
            return fields[i].key;
    }
    return NULL;
}

static int is_section(const char *key)
{
    size_t n = strlen(key);

    for (int i = 0; i < n_fields; i++)
        if (strncmp(fields[i].key, key, n) == 0 && fields[i].key[n] == '.')
            return 1;
    return 0;
}

int recipe_unknown_key(const char *key, struct err *err)
{
    /* keys, and every section once (their rows stand together) */
    char **names = xcalloc((size_t)n_fields * 2, sizeof(char *));
    const char *near = same_word(key);
    int n = 0;

    if (strncmp(key, "scale.sweep", 11) == 0 && (!key[11] || key[11] == '.'))
        return free(names),
               err_set(err, ERR_USAGE, "%s: the sweep can only be written in the file",
                       key);
    if (is_section(key))
        return free(names),
               err_set(err, ERR_USAGE, "%s is a section: name one of its keys (%s.KEY)",
                       key, key);
    for (int i = 0; i < n_fields; i++) {
        size_t section = strcspn(fields[i].key, ".");
        if (fields[i].key[section] &&
            (i == 0 || strncmp(fields[i].key, fields[i - 1].key, section + 1) != 0))
            names[n++] = xstrndup(fields[i].key, section);
        names[n++] = xstrdup(fields[i].key);
    }
    if (!near)
        near = str_nearest(key, (const char *const *)names, n);
    err_set(err, ERR_USAGE, "unknown key '%s'%s%s%s", key,
            near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
    while (n)
        free(names[--n]);
    free(names);
    return -1;
}

static int add_element(const struct field *f, struct recipe *r,
                       const struct yaml_node *name, const struct yaml_node *v,
                       struct err *err)
{
    char *pair;
    int rc;

    if (v->kind != YAML_SCALAR)
        return err_set(err, ERR_USAGE, "%s: the list holds %s", f->key,
                       yaml_kind_name(v->kind));
    if (!name)
        return field_add(f, r, v->text, v->quoted, err);
    pair = xasprintf("%s=%s", name->text, v->text);
    rc = field_add(f, r, pair, v->quoted, err);
    free(pair);
    return rc;
}

/* "[a, b]" as YAML, "a,b" by its commas, "{A: b}" for pairs: replaces the list whole or
 * not at all. */
static int set_list(struct recipe *r, const struct field *f, const char *text,
                    struct err *err)
{
    int whole = text[0] == '[' || (f->pairs && text[0] == '{');
    char *yaml = whole ? xstrdup(text) : xasprintf("[%s]", text);
    struct yaml_node *root = NULL;
    struct recipe fresh = { 0 };
    int rc = yaml_tree_parse(yaml, strlen(yaml), f->key, &root, err);

    free(yaml);
    for (int i = 0; rc == 0 && i < root->n; i++)
        rc = add_element(f, &fresh, root->kind == YAML_MAPPING ? root->key[i] : NULL,
                         root->value[i], err);
    yaml_tree_free(root);
    if (rc == 0) {
        field_clear(f, r);
        field_copy(f, r, &fresh);
    }
    field_clear(f, &fresh);
    return rc;
}

int recipe_set(struct recipe *r, const char *key, const char *text, struct err *err)
{
    const struct field *f = field_find(key);
    struct model m;

    if (!f)
        return recipe_unknown_key(key, err);
    if (field_is_list(f))
        return set_list(r, f, text, err);
    if (strcmp(key, "model.preset") == 0 && *text) {
        if (model_preset(text, &m, err) < 0)
            return err_wrap(err, "%s", key);
        r->model = m;
    }
    return field_set(f, r, text, 0, err);
}

char *recipe_get(const struct recipe *r, const char *key)
{
    const struct field *f = field_find(key);
    struct str s = STR_INIT;
    int n;

    if (!f)
        return NULL;
    if (f->type == FIELD_TEXT)
        return xstrdup(*(char *const *)((const char *)r + f->offset));
    n = field_count(f, r);
    if (n < 0) {
        field_print(f, r, 0, &s);
        return str_take(&s);
    }
    str_adds(&s, "[");
    for (int i = 0; i < n; i++) {
        if (i)
            str_adds(&s, ", ");
        field_print(f, r, i, &s);
    }
    str_adds(&s, "]");
    return str_take(&s);
}
