#include "recipes/text.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

/* One code point at *p, which moves on; -1 when it is malformed. */
static int32_t next_char(const char **p)
{
    static const int32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const unsigned char *s = (const unsigned char *)*p;
    int n = s[0] < 0x80   ? 1
            : s[0] < 0xc2 ? 0
            : s[0] < 0xe0 ? 2
            : s[0] < 0xf0 ? 3
            : s[0] < 0xf5 ? 4
                          : 0;
    int32_t c = n == 1 ? s[0] : s[0] & (0x7f >> n);

    if (n == 0)
        return -1;
    for (int i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return -1;
        c = c << 6 | (s[i] & 0x3f);
    }
    if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return -1;
    *p += n;
    return c;
}

int text_is_utf8(const char *text)
{
    while (*text)
        if (next_char(&text) < 0)
            return 0;
    return 1;
}

/* Letters, digits and a few marks, and nothing YAML reads as null. */
static int is_plain(const char *text)
{
    static const char *const nulls[] = { "null", "Null", "NULL", "~" };

    for (size_t i = 0; i < ARRAY_LEN(nulls); i++)
        if (strcmp(text, nulls[i]) == 0)
            return 0;
    if (!isalnum((unsigned char)text[0]) && text[0] != '/' && text[0] != '.')
        return 0;
    for (const char *p = text; *p; p++)
        if ((unsigned char)*p >= 0x80 ||
            (!isalnum((unsigned char)*p) && !strchr("_./+-", *p)))
            return 0;
    return 1;
}

/* Characters that libyaml refuses or folds when they stand as themselves. */
static int needs_escape(int32_t c)
{
    return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0x2028 || c == 0x2029 ||
           c == 0xfeff || (c >= 0xfffe && c <= 0xffff);
}

void text_quote(struct str *out, const char *text)
{
    if (is_plain(text)) {
        str_adds(out, text);
        return;
    }
    str_adds(out, "\"");
    while (*text) {
        const char *from = text;
        int32_t c = next_char(&text);
        if (c < 0) { /* not UTF-8: a recipe never holds it */
            text = from + 1;
            str_adds(out, "?");
        } else if (needs_escape(c)) {
            str_addf(out, "\\U%08X", (unsigned)c);
        } else {
            if (c == '"' || c == '\\')
                str_adds(out, "\\");
            else if (c == '$' && *text == '{')
                str_adds(out, "$");
            str_add(out, from, (size_t)(text - from));
        }
    }
    str_adds(out, "\"");
}

/* The variable at p ("${...}"); *end is behind its brace. */
static int expand_one(const char *p, const char **end, struct str *s, struct err *err)
{
    size_t name_len =
        strspn(p + 2, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                      "0123456789_");
    const char *after = p + 2 + name_len, *brace = strchr(after, '}');
    const char *value;
    char *name;

    if (!brace)
        return err_set(err, ERR_USAGE, "'%s': \"${\" without \"}\" (write $${ for ${)",
                       p);
    if (name_len == 0 || isdigit((unsigned char)p[2]) ||
        (after != brace && strncmp(after, ":-", 2) != 0))
        return err_set(err, ERR_USAGE, "'%.*s' is neither ${VAR} nor ${VAR:-default}",
                       (int)(brace + 1 - p), p);
    name = xstrndup(p + 2, name_len);
    value = getenv(name);
    *end = brace + 1;
    if (value && (*value || after == brace))
        str_adds(s, value);
    else if (after != brace)
        str_add(s, after + 2, (size_t)(brace - after - 2));
    else
        err_set(err, ERR_USAGE,
                "the variable %s is not set: set it, or write ${%s:-default}", name,
                name);
    free(name);
    return value || after != brace ? 0 : -1;
}

int text_expand(const char *text, char **out, int *filled, struct err *err)
{
    struct str s = STR_INIT;

    *filled = 0;
    while (*text) {
        const char *next = text + 1;
        if (strncmp(text, "$${", 3) == 0) {
            str_adds(&s, "${");
            next = text + 3;
        } else if (strncmp(text, "${", 2) == 0) {
            if (expand_one(text, &next, &s, err) < 0) {
                str_release(&s);
                return -1;
            }
            *filled = 1;
        } else {
            str_add(&s, text, 1);
        }
        text = next;
    }
    *out = str_take(&s);
    return 0;
}
