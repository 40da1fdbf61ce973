#include <stdlib.h>
#include <string.h>

#include "recipes/field.h"
#include "recipes/recipe.h"
#include "recipes/text.h"

static void print_list(const struct field *f, const struct recipe *r, struct str *s)
{
    int n = field_count(f, r);

    str_adds(s, "[");
    for (int i = 0; i < n; i++) {
        if (i)
            str_adds(s, ", ");
        field_print(f, r, i, s);
    }
    str_adds(s, "]");
}

static void print_sweep(const struct recipe *r, struct str *s)
{
    if (!r->scale.n_sweep)
        return;
    str_adds(s, "  sweep:\n");
    for (int i = 0; i < r->scale.n_sweep; i++) {
        const struct sweep_axis *a = &r->scale.sweep[i];
        str_addf(s, "    %s: [", a->key);
        for (int k = 0; k < a->values.n; k++) {
            if (k)
                str_adds(s, ", ");
            text_quote(s, a->values.item[k]);
        }
        str_adds(s, "]\n");
    }
}

/* "cluster.slurm.args" has section "cluster" and name "slurm.args". */
static size_t section_length(const char *key)
{
    return strchr(key, '.') ? strcspn(key, ".") : 0;
}

/* A model without a preset has fields that were never set: they are left out. */
static int is_unset(const struct field *f, const struct recipe *r)
{
    return !f->def && !field_is_list(f) && strncmp(f->key, "model.", 6) == 0 &&
           *(const int *)((const char *)r + f->offset) == 0;
}

static void print_field(const struct field *f, const struct recipe *r, struct str *s)
{
    size_t n = section_length(f->key);

    str_addf(s, "%s%s: ", n ? "  " : "", f->key + (n ? n + 1 : 0));
    if (field_is_list(f))
        print_list(f, r, s);
    else
        field_print(f, r, 0, s);
    str_adds(s, "\n");
}

char *recipe_text(const struct recipe *r)
{
    struct str s = STR_INIT;
    const char *section = "";

    for (int i = 0; i < n_fields; i++) {
        const struct field *f = &fields[i];
        size_t n = section_length(f->key);
        if (is_unset(f, r))
            continue;
        if (n && (strncmp(section, f->key, n) != 0 || section[n] != '.')) {
            str_addf(&s, "%.*s:\n", (int)n, f->key);
            section = f->key;
        }
        print_field(f, r, &s);
    }
    print_sweep(r, &s); /* scale is the last section */
    return str_take(&s);
}

void recipe_print(const struct recipe *r, FILE *fp)
{
    char *text = recipe_text(r);

    fputs(text, fp);
    free(text);
}

static const char *default_text(const struct field *f)
{
    if (f->def)
        return *f->def ? f->def : "empty";
    return field_is_list(f) ? "[]" : "from the preset";
}

static void help_row(const struct field *f, FILE *fp, int markdown)
{
    struct str range = STR_INIT;

    field_range(f, &range);
    if (markdown)
        fprintf(fp, "| `%s` | %s | %s | %s | %s |\n", f->key, field_type_name(f),
                default_text(f), range.text ? range.text : "", f->doc);
    else
        fprintf(fp, "%s\n    %s\n    %s%s%s; default %s\n", f->key, f->doc,
                field_type_name(f), range.text ? ": " : "",
                range.text ? range.text : "", default_text(f));
    str_release(&range);
}

void recipe_help(FILE *fp, int markdown)
{
    if (markdown)
        fputs("| key | type | default | range | meaning |\n|---|---|---|---|---|\n",
              fp);
    for (int i = 0; i < n_fields; i++)
        help_row(&fields[i], fp, markdown);
    if (markdown)
        fputs("| `scale.sweep` | mapping of keys to lists | empty | | values that "
              "`muster climb` tries |\n",
              fp);
    else
        fputs(
            "scale.sweep\n    values that `muster climb` tries, a list for each key\n",
            fp);
}
