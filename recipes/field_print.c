#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "recipes/field.h"
#include "recipes/recipe.h"
#include "recipes/text.h"
#include "recipes/value.h"

static const char *const type_names[] = {
    [FIELD_INT] = "whole number",
    [FIELD_INT64] = "whole number",
    [FIELD_REAL] = "number",
    [FIELD_BOOL] = "true or false",
    [FIELD_WORD] = "word",
    [FIELD_TEXT] = "text",
    [FIELD_TEXTS] = "list of texts",
    [FIELD_INTS] = "list of whole numbers",
    [FIELD_REALS] = "list of numbers",
};

const char *field_type_name(const struct field *f)
{
    return f->pairs ? "NAME: text" : type_names[f->type];
}

static void range_numbers(const struct field *f, struct str *out)
{
    char lo[40], hi[40];

    str_addf(out, "%s%s .. %s", f->above_min ? "above " : "",
             value_real_text(f->min, lo), value_real_text(f->max, hi));
}

void field_range(const struct field *f, struct str *out)
{
    int numeric = f->min != 0 || f->max != 0;

    for (int i = 0; i < f->n_words; i++)
        str_addf(out, "%s%s", i ? ", " : "", f->words[i]);
    if (numeric)
        range_numbers(f, out);
    if (f->minus && f->type != FIELD_BOOL)
        str_addf(out, ", or -1 (%s)", f->minus);
    if (f->minus && f->type == FIELD_BOOL)
        str_addf(out, "true, false, %s", f->minus);
}

int field_count(const struct field *f, const struct recipe *r)
{
    const void *at = (const char *)r + f->offset;

    switch (f->type) {
    case FIELD_TEXTS:
        return ((const struct strlist *)at)->n;
    case FIELD_INTS:
        return ((const struct intlist *)at)->n;
    case FIELD_REALS:
        return ((const struct reallist *)at)->n;
    default:
        return -1;
    }
}

static void print_bool(const struct field *f, int v, struct str *out)
{
    str_adds(out, v < 0 ? f->minus : v ? "true" : "false");
}

void field_print(const struct field *f, const struct recipe *r, int i, struct str *out)
{
    const void *at = (const char *)r + f->offset;
    char buf[40];

    switch (f->type) {
    case FIELD_INT:
        str_addf(out, "%d", *(const int *)at);
        break;
    case FIELD_INT64:
        str_addf(out, "%lld", (long long)*(const int64_t *)at);
        break;
    case FIELD_REAL:
        str_adds(out, value_real_text(*(const double *)at, buf));
        break;
    case FIELD_BOOL:
        print_bool(f, *(const int *)at, out);
        break;
    case FIELD_WORD:
        str_adds(out, f->words[*(const int *)at]);
        break;
    case FIELD_TEXT:
        text_quote(out, *(char *const *)at);
        break;
    case FIELD_TEXTS:
        text_quote(out, ((const struct strlist *)at)->item[i]);
        break;
    case FIELD_INTS:
        str_addf(out, "%lld", (long long)((const struct intlist *)at)->item[i]);
        break;
    case FIELD_REALS:
        str_adds(out, value_real_text(((const struct reallist *)at)->item[i], buf));
        break;
    }
}

static void copy_ints(struct intlist *to, const struct intlist *from)
{
    to->n = from->n;
    to->item = xcalloc((size_t)from->n, sizeof(*to->item));
    if (from->n)
        memcpy(to->item, from->item, (size_t)from->n * sizeof(*to->item));
}

static void copy_reals(struct reallist *to, const struct reallist *from)
{
    to->n = from->n;
    to->item = xcalloc((size_t)from->n, sizeof(*to->item));
    if (from->n)
        memcpy(to->item, from->item, (size_t)from->n * sizeof(*to->item));
}

void field_copy(const struct field *f, struct recipe *to, const struct recipe *from)
{
    void *at = (char *)to + f->offset;
    const void *was = (const char *)from + f->offset;

    switch (f->type) {
    case FIELD_TEXT:
        *(char **)at = xstrdup(*(char *const *)was);
        break;
    case FIELD_TEXTS:
        strlist_copy(at, was);
        break;
    case FIELD_INTS:
        copy_ints(at, was);
        break;
    case FIELD_REALS:
        copy_reals(at, was);
        break;
    default:
        break; /* recipe_copy() took all that is no pointer */
    }
}

void field_clear(const struct field *f, struct recipe *r)
{
    void *at = (char *)r + f->offset;

    switch (f->type) {
    case FIELD_TEXT:
        free(*(char **)at);
        *(char **)at = NULL;
        break;
    case FIELD_TEXTS:
        strlist_release(at);
        break;
    case FIELD_INTS:
        free(((struct intlist *)at)->item);
        *(struct intlist *)at = (struct intlist){ 0 };
        break;
    case FIELD_REALS:
        free(((struct reallist *)at)->item);
        *(struct reallist *)at = (struct reallist){ 0 };
        break;
    default:
        break;
    }
}
