#include "launcher/table.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static void push(struct table *t, char *text)
{
    t->cell = xrealloc(t->cell, (size_t)t->n + 1, sizeof(char *));
    t->cell[t->n++] = text;
    t->at++;
}

void table_add(struct table *t, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    push(t, xvasprintf(fmt, ap));
    va_end(ap);
}

void table_end_row(struct table *t)
{
    if (!t->columns)
        t->columns = t->at;
    while (t->at < t->columns)
        push(t, xstrdup(""));
    t->at = 0;
}

/* Characters, not bytes. */
static int width_of(const char *text)
{
    int n = 0;

    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static int is_number_column(const struct table *t, int column)
{
    for (int i = t->columns + column; i < t->n; i += t->columns) {
        const char *c = t->cell[i];
        if (*c && !isdigit((unsigned char)*c) && !strchr("+-.", *c))
            return 0;
    }
    return t->n > t->columns;
}

void table_print(const struct table *t, FILE *fp)
{
    int width[TABLE_COLUMNS_MAX] = { 0 }, right[TABLE_COLUMNS_MAX] = { 0 };
    int columns = t->columns < TABLE_COLUMNS_MAX ? t->columns : TABLE_COLUMNS_MAX;

    for (int c = 0; c < columns; c++) {
        right[c] = is_number_column(t, c);
        for (int i = c; i < t->n; i += t->columns)
            if (width_of(t->cell[i]) > width[c])
                width[c] = width_of(t->cell[i]);
    }
    for (int i = 0; i + columns <= t->n; i += t->columns) {
        for (int c = 0; c < columns; c++) {
            const char *text = t->cell[i + c];
            int pad = width[c] - width_of(text), last = c == columns - 1;
            fprintf(fp, "%s%*s%s%*s", c ? "  " : "", right[c] ? pad : 0, "", text,
                    right[c] || last ? 0 : pad, "");
        }
        fputc('\n', fp);
    }
}

void table_release(struct table *t)
{
    for (int i = 0; i < t->n; i++)
        free(t->cell[i]);
    free(t->cell);
    *t = (struct table){ 0 };
}
