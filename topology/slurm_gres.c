#include "topology/slurm_gres.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "topology/cpulist.h"

enum { FIELDS_MAX = 6, TEXT_MAX = 65536 };

struct reader {
    const char *item; /* what messages show */
    struct err *err;
};

static int wrong(const struct reader *r, const char *what)
{
    return err_set(r->err, ERR_USAGE, "GRES '%.200s': %s", r->item, what);
}

/* A whole count with Slurm's suffixes: -1 when text is none, -2 when it is too large. */
static int64_t read_count(const char *text)
{
    static const char suffixes[] = "KMGTP";
    int64_t v = 0;
    const char *at = text, *suffix;

    for (; isdigit((unsigned char)*at); at++) {
        if (v > INT64_C(1) << 40)
            return -2;
        v = v * 10 + (*at - '0');
    }
    if (at == text)
        return -1;
    if (*at == '\0')
        return v;
    suffix = strchr(suffixes, toupper((unsigned char)*at));
    if (!suffix || at[1])
        return -1;
    for (const char *s = suffixes; s <= suffix; s++) {
        if (v > INT64_C(1) << 40)
            return -2;
        v *= 1024;
    }
    return v;
}

/* "h200_3g.71gb", "1g.10gb+me": digits g . digits gb somewhere. */
static int is_mig(const char *type)
{
    for (const char *g = strstr(type, "g."); g; g = strstr(g + 1, "g.")) {
        size_t n = strspn(g + 2, "0123456789");
        if (g > type && isdigit((unsigned char)g[-1]) && n &&
            strncmp(g + 2 + n, "gb", 2) == 0)
            return 1;
    }
    return 0;
}

/* What stands in "(KEY:TEXT)". */
static int read_place(const struct reader *r, char *text, struct gres_item *out)
{
    struct cpulist set;
    char *colon = strchr(text, ':');

    if (!colon)
        return 0;
    *colon++ = '\0';
    if (str_eq(text, "S"))
        out->place = GRES_SOCKETS;
    else if (str_eq(text, "IDX"))
        out->place = GRES_INDEXES;
    else
        return 0;
    if (str_eq(colon, "N/A") || *colon == '\0')
        return 0;
    if (strlen(colon) >= sizeof(out->where) || cpulist_parse(colon, &set) < 0)
        return wrong(r, "what stands behind S: or IDX: is no list of numbers");
    snprintf(out->where, sizeof(out->where), "%s", colon);
    return 0;
}

/* Take "(...)" off the end of item, however many. */
static int read_places(const struct reader *r, char *item, struct gres_item *out)
{
    char *open = strchr(item, '('), *close;

    if (!open)
        return 0;
    for (char *at = open; *at; at = close + 1) {
        close = strchr(at, ')');
        if (*at != '(' || !close)
            return wrong(r, "a parenthesis is not closed, or text follows it");
        *close = '\0';
        if (read_place(r, at + 1, out) < 0)
            return -1;
    }
    *open = '\0';
    return 0;
}

static int copy(const struct reader *r, char *to, size_t size, const char *from)
{
    size_t n = strlen(from);

    if (n == 0 || n >= size)
        return wrong(r, "a name or a type is empty or too long");
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)from[i]) && !strchr("_.+-/ ", from[i]))
            return wrong(r, "a name or a type holds a character that Slurm has not");
    memcpy(to, from, n + 1);
    return 0;
}

/* Cut at ':'; returns how many fields, no_consume taken out. */
static int cut_fields(char *text, char *field[FIELDS_MAX], int *no_consume)
{
    int n = 0;

    for (char *next; text; text = next) {
        next = strchr(text, ':');
        if (next)
            *next++ = '\0';
        if (str_eq(text, "no_consume"))
            *no_consume = 1;
        else if (n < FIELDS_MAX)
            field[n++] = text;
    }
    return n;
}

/* NAME[:TYPE][:COUNT], or NAME[:TYPE] and the count of a TRES. */
static int read_body(const struct reader *r, char *text, const char *count,
                     struct gres_item *out)
{
    char *field[FIELDS_MAX];
    int n = cut_fields(text, field, &out->no_consume);

    if (n < 1 || copy(r, out->name, sizeof(out->name), field[0]) < 0)
        return n < 1 ? wrong(r, "no name") : -1;
    out->count = 1;
    if (count)
        out->count = read_count(count);
    else if (n > 1 && read_count(field[n - 1]) != -1)
        out->count = read_count(field[--n]);
    if (out->count < 0 || n > 2)
        return wrong(r, "the count is no number, or too large (NAME[:TYPE][:COUNT])");
    if (n == 2 && copy(r, out->type, sizeof(out->type), field[1]) < 0)
        return -1;
    out->mig = is_mig(out->type);
    return 0;
}

/* 1: *out is filled; 0: a TRES of another kind. */
static int read_item(char *item, struct gres_item *out, struct err *err)
{
    char *shown = xstrdup(item), *equal;
    struct reader r = { shown, err };
    int rc = read_places(&r, item, out), gres = strncmp(item, "gres/", 5) == 0;

    if (gres || strncmp(item, "gres:", 5) == 0)
        item += 5;
    equal = strchr(item, '=');
    if (equal)
        *equal++ = '\0';
    out->tres = equal != NULL;
    if (rc == 0 && (!equal || gres))
        rc = read_body(&r, item, equal, out) < 0 ? -1 : 1;
    free(shown);
    return rc;
}

/* Up to the next ',' outside parentheses; text is cut there. */
static char *next_item(char **at)
{
    char *item = *at, *p = item;
    int depth = 0;

    for (; *p && (depth || *p != ','); p++)
        depth = *p == '(' ? 1 : *p == ')' ? 0 : depth;
    *at = *p ? p + 1 : NULL;
    *p = '\0';
    while (isspace((unsigned char)*item))
        item++;
    while (p > item && isspace((unsigned char)p[-1]))
        *--p = '\0';
    return item;
}

static int is_nothing(const char *text)
{
    return *text == '\0' || str_eq(text, "(null)") || str_eq(text, "N/A");
}

int gres_parse(const char *text, struct gres *out, struct err *err)
{
    struct gres g = { 0 };
    char *all, *at;
    int rc = 0;

    if (strlen(text) > TEXT_MAX)
        return err_set(err, ERR_USAGE, "GRES text of more than 64 KiB");
    all = at = xstrdup(text);
    while (at && rc >= 0 && !is_nothing(text)) {
        struct gres_item item = { .name = "" };
        char *one = next_item(&at);
        rc = *one ? read_item(one, &item, err) : 0;
        if (rc > 0 && g.n == GRES_ITEMS_MAX)
            rc = err_set(err, ERR_USAGE, "GRES: more than %d items", GRES_ITEMS_MAX);
        if (rc <= 0)
            continue;
        g.item = xrealloc(g.item, (size_t)g.n + 1, sizeof(*g.item));
        g.item[g.n++] = item;
    }
    free(all);
    if (rc < 0) {
        gres_release(&g);
        return -1;
    }
    *out = g;
    return 0;
}

void gres_release(struct gres *g)
{
    free(g->item);
    *g = (struct gres){ 0 };
}

int64_t gres_count(const struct gres *g, const char *name)
{
    int64_t plain = 0, total = 0, typed = 0;

    for (int i = 0; i < g->n; i++) {
        const struct gres_item *m = &g->item[i];
        if (!str_eq(m->name, name))
            continue;
        if (!m->tres)
            plain += m->count;
        else if (m->type[0])
            typed += m->count;
        else
            total += m->count;
    }
    return plain + (total > typed ? total : typed);
}

int64_t gres_whole_gpus(const struct gres *g)
{
    int64_t slices = 0;

    for (int i = 0; i < g->n; i++)
        if (str_eq(g->item[i].name, "gpu") && g->item[i].mig)
            slices += g->item[i].count;
    return gres_count(g, "gpu") - slices;
}

void gres_where(const struct gres_item *item, struct cpulist *out)
{
    if (cpulist_parse(item->where, out) < 0)
        memset(out, 0, sizeof(*out)); /* cannot be: it was parsed before */
}
