#include "recipes/field.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "recipes/recipe.h"
#include "recipes/text.h"
#include "recipes/value.h"

static int in_range(const struct field *f, double v, const char *text, struct err *err)
{
    struct str range = STR_INIT;

    if (f->minus && v == -1)
        return 0;
    if (v >= f->min && v <= f->max && !(f->above_min && v == f->min))
        return 0;
    field_range(f, &range);
    err_set(err, ERR_USAGE, "%s: %s is outside %s", f->key, text, range.text);
    str_release(&range);
    return -1;
}

static int read_int(const struct field *f, const char *text, int64_t *v,
                    struct err *err)
{
    if (value_int64(text, v, err) < 0)
        return err_wrap(err, "%s", f->key);
    return in_range(f, (double)*v, text, err);
}

static int read_real(const struct field *f, const char *text, double *v,
                     struct err *err)
{
    if (value_real(text, v, err) < 0)
        return err_wrap(err, "%s", f->key);
    if (isnan(*v))
        return err_set(err, ERR_USAGE, "%s: .nan is not a number", f->key);
    return in_range(f, *v, text, err);
}

static int set_int(const struct field *f, void *at, const char *text, struct err *err)
{
    int64_t v = 0;

    if (read_int(f, text, &v, err) < 0)
        return -1;
    *(int *)at = (int)v; /* every FIELD_INT has a range that fits */
    return 0;
}

static int set_int64(const struct field *f, void *at, const char *text, struct err *err)
{
    int64_t v = 0;

    if (read_int(f, text, &v, err) < 0)
        return -1;
    *(int64_t *)at = v;
    return 0;
}

static int set_real(const struct field *f, void *at, const char *text, struct err *err)
{
    double v = 0;

    if (read_real(f, text, &v, err) < 0)
        return -1;
    *(double *)at = v;
    return 0;
}

static int set_bool(const struct field *f, void *at, const char *text, struct err *err)
{
    int v = -1;

    if (!(f->minus && str_eq(text, f->minus)) && value_bool(text, &v, err) < 0)
        return err_wrap(err, "%s", f->key);
    *(int *)at = v;
    return 0;
}

static int set_word(const struct field *f, void *at, const char *text, struct err *err)
{
    int v = 0;

    if (value_word(text, f->words, f->n_words, &v, err) < 0)
        return err_wrap(err, "%s", f->key);
    *(int *)at = v;
    return 0;
}

/* Text that a recipe can print and read back: UTF-8 without control characters. */
static int check_text(const struct field *f, const char *text, struct err *err)
{
    if (!text_is_utf8(text))
        return err_set(err, ERR_USAGE, "%s: the text is not UTF-8", f->key);
    for (const char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return err_set(err, ERR_USAGE, "%s: the text holds a control character",
                           f->key);
    return 0;
}

static int set_text(const struct field *f, void *at, const char *text, struct err *err)
{
    char **to = at, *copy;

    if (check_text(f, text, err) < 0)
        return -1;
    copy = xstrdup(text); /* first: text may be the old value */
    free(*to);
    *to = copy;
    return 0;
}

/* A variable's value may hold anything but a zero byte. */
static int check_pair(const struct field *f, const char *text, struct err *err)
{
    size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                            "0123456789_");

    if (!text_is_utf8(text))
        return err_set(err, ERR_USAGE, "%s: the text is not UTF-8", f->key);
    if (n == 0 || text[n] != '=' || (*text >= '0' && *text <= '9'))
        return err_set(
            err, ERR_USAGE,
            "%s: '%s' is not NAME=VALUE with a name of letters, digits and _", f->key,
            text);
    return 0;
}

static int add_text(const struct field *f, void *at, const char *text, struct err *err)
{
    if ((f->pairs ? check_pair : check_text)(f, text, err) < 0)
        return -1;
    strlist_add(at, text);
    return 0;
}

static int add_int(const struct field *f, void *at, const char *text, struct err *err)
{
    struct intlist *l = at;
    int64_t v = 0;

    if (read_int(f, text, &v, err) < 0)
        return -1;
    l->item = xrealloc(l->item, (size_t)l->n + 1, sizeof(*l->item));
    l->item[l->n++] = v;
    return 0;
}

static int add_real(const struct field *f, void *at, const char *text, struct err *err)
{
    struct reallist *l = at;
    double v = 0;

    if (read_real(f, text, &v, err) < 0)
        return -1;
    l->item = xrealloc(l->item, (size_t)l->n + 1, sizeof(*l->item));
    l->item[l->n++] = v;
    return 0;
}

typedef int set_fn(const struct field *f, void *at, const char *text, struct err *err);

/* For a list: how one element is added. */
static set_fn *const setters[] = {
    [FIELD_INT] = set_int,    [FIELD_INT64] = set_int64, [FIELD_REAL] = set_real,
    [FIELD_BOOL] = set_bool,  [FIELD_WORD] = set_word,   [FIELD_TEXT] = set_text,
    [FIELD_TEXTS] = add_text, [FIELD_INTS] = add_int,    [FIELD_REALS] = add_real,
};

static int store(const struct field *f, struct recipe *r, const char *text, int quoted,
                 struct err *err)
{
    int textual = f->type == FIELD_TEXT || f->type == FIELD_TEXTS;

    if (quoted && !textual)
        return err_set(err, ERR_USAGE,
                       "%s: \"%s\" is text, but a %s is wanted: leave the quotes out",
                       f->key, text, field_type_name(f));
    return setters[f->type](f, (char *)r + f->offset, text, err);
}

int field_is_list(const struct field *f)
{
    return f->type >= FIELD_TEXTS;
}

int field_set(const struct field *f, struct recipe *r, const char *text, int quoted,
              struct err *err)
{
    if (field_is_list(f))
        return err_set(err, ERR_USAGE, "%s: a list is wanted: [%s]", f->key, text);
    return store(f, r, text, quoted, err);
}

int field_add(const struct field *f, struct recipe *r, const char *text, int quoted,
              struct err *err)
{
    if (!field_is_list(f))
        return err_set(err, ERR_USAGE, "%s: one value is wanted, not a list", f->key);
    return store(f, r, text, quoted, err);
}
