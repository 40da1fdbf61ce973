#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static void str_reserve(struct str *s, size_t more)
{
    size_t need = s->len + more + 1;

    if (need <= s->room)
        return;
    s->room = need < 64 ? 64 : need + need / 2;
    s->text = xrealloc(s->text, s->room, 1);
}

void str_add(struct str *s, const char *bytes, size_t n)
{
    str_reserve(s, n);
    if (n)
        memcpy(s->text + s->len, bytes, n);
    s->len += n;
    s->text[s->len] = '\0';
}

void str_adds(struct str *s, const char *text)
{
    str_add(s, text, strlen(text));
}

void str_addf(struct str *s, const char *fmt, ...)
{
    char *text;
    va_list ap;

    va_start(ap, fmt);
    text = xvasprintf(fmt, ap);
    va_end(ap);
    str_adds(s, text);
    free(text);
}

char *str_take(struct str *s)
{
    char *text = s->text ? s->text : xstrdup("");

    *s = (struct str)STR_INIT;
    return text;
}

void str_clear(struct str *s)
{
    s->len = 0;
    if (s->text)
        s->text[0] = '\0';
}

void str_release(struct str *s)
{
    free(s->text);
    *s = (struct str)STR_INIT;
}

void strlist_add(struct strlist *l, const char *text)
{
    l->item = xrealloc(l->item, (size_t)l->n + 1, sizeof(*l->item));
    l->item[l->n++] = xstrdup(text);
}

void strlist_copy(struct strlist *to, const struct strlist *from)
{
    *to = (struct strlist){ 0 };
    for (int i = 0; i < from->n; i++)
        strlist_add(to, from->item[i]);
}

void strlist_release(struct strlist *l)
{
    for (int i = 0; i < l->n; i++)
        free(l->item[i]);
    free(l->item);
    *l = (struct strlist){ 0 };
}

int str_eq(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

enum { NEAR_MAX = 63 };

static int edit_distance(const char *a, const char *b)
{
    int row[NEAR_MAX + 1];
    size_t la = strlen(a), lb = strlen(b);

    if (la > NEAR_MAX || lb > NEAR_MAX)
        return NEAR_MAX;
    for (size_t j = 0; j <= lb; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= la; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= lb; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[lb];
}

const char *str_nearest(const char *word, const char *const *names, int n)
{
    const char *near = NULL;
    int best = 4, len = (int)strlen(word);

    for (int i = 0; i < n; i++) {
        int d = edit_distance(word, names[i]);
        if (d < best && d < len) {
            best = d;
            near = names[i];
        }
    }
    return near;
}
