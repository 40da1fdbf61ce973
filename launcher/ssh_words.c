#include "launcher/ssh_words.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/str.h"

/* --- words ------------------------------------------------------------------------ */

static const char blanks[] = " \t\r\n";

/* Does this backslash keep the next byte from meaning something? */
static int escapes(const char *s, char quote)
{
    return s[0] == '\\' &&
           (s[1] == '\'' || s[1] == '"' || s[1] == '\\' || (!quote && s[1] == ' '));
}

/* One word from *s, which moves behind it; -1: its quote is open. */
static int take_word(const char **s, struct str *word)
{
    char quote = '\0';

    for (; **s; (*s)++) {
        if (escapes(*s, quote))
            str_add(word, ++*s, 1);
        else if (!quote && (**s == ' ' || **s == '\t'))
            break;
        else if (!quote && (**s == '"' || **s == '\''))
            quote = **s;
        else if (quote && **s == quote)
            quote = '\0';
        else
            str_add(word, *s, 1);
    }
    return quote ? -1 : 0;
}

int ssh_words_split(const char *text, struct strlist *out)
{
    for (;;) {
        struct str word = STR_INIT;
        int rc;
        text += strspn(text, " \t");
        if (!*text || *text == '#')
            return 0;
        rc = take_word(&text, &word);
        if (rc == 0)
            strlist_add(out, word.text ? word.text : "");
        str_release(&word);
        if (rc < 0)
            return -1;
    }
}

/* End *s's first word and move *s to the second; 0: a quote is open. */
static int cut_keyword(char **s)
{
    char *end = strpbrk(*s, " \t\r\n\"=");
    int equals;

    if (!end) {
        *s += strlen(*s);
        return 1;
    }
    if (*end == '"') {
        memmove(end, end + 1, strlen(end));
        end = strchr(end, '"');
        if (!end)
            return 0;
    }
    equals = *end == '=';
    *end++ = '\0';
    end += strspn(end, blanks);
    if (*end == '=' && !equals)
        end += 1 + strspn(end + 1, blanks);
    *s = end;
    return 1;
}

char *ssh_words_keyword(char *line, char **keyword)
{
    size_t n = strlen(line);
    char *rest;

    while (n && strchr(" \t\r\n\f", line[n - 1]))
        line[--n] = '\0';
    line += strspn(line, blanks);
    rest = line;
    if (!*line || *line == '#' || !cut_keyword(&rest) || !*line)
        return NULL;
    for (char *c = line; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    *keyword = xstrdup(line);
    return rest;
}

/* --- patterns --------------------------------------------------------------------- */

/* Linear in practice: on a mismatch only the last '*' takes one byte more. */
static int match(const char *text, const char *p, size_t plen)
{
    const char *end = p + plen, *star = NULL, *mark = NULL;

    for (;;) {
        if (p < end && *p == '*') {
            star = ++p;
            mark = text;
        } else if (*text && p < end && (*p == '?' || *p == *text)) {
            p++;
            text++;
        } else if (!*text && p == end) {
            return 1;
        } else if (star && *mark) {
            p = star;
            text = ++mark;
        } else {
            return 0;
        }
    }
}

int ssh_pattern_matches(const char *text, const char *pattern)
{
    return match(text, pattern, strlen(pattern));
}

static char *lower(const char *text)
{
    char *copy = xstrdup(text);

    for (char *c = copy; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return copy;
}

int ssh_patterns_match(const char *text, const char *list, int fold)
{
    char *t = fold ? lower(text) : xstrdup(text),
         *l = fold ? lower(list) : xstrdup(list);
    int result = 0;

    for (const char *p = l; *p && result >= 0; p += *p == ',') {
        int negated = *p == '!';
        size_t n = strcspn(p += negated, ",");
        if (n && match(t, p, n))
            result = negated ? -1 : 1;
        p += n;
    }
    free(t);
    free(l);
    return result;
}

/* --- addresses -------------------------------------------------------------------- */

int ssh_words_port(const char *text)
{
    char *end;
    long v;

    if (!isdigit((unsigned char)text[0]))
        return 0;
    v = strtol(text, &end, 10);
    return *end || v < 1 || v > 65535 ? 0 : (int)v;
}

/* "host", "host:port", "[address]:port", "address:with:colons" into *host and *port. */
static int split_port(const char *text, char **host, int *port)
{
    const char *colon = NULL, *end = text + strlen(text);

    if (text[0] == '[') {
        end = strchr(text++, ']');
        if (!end || (end[1] && end[1] != ':'))
            return -1;
        colon = end[1] ? end + 1 : NULL;
    } else if (strchr(text, ':') == strrchr(text, ':')) {
        colon = strchr(text, ':');
        end = colon ? colon : end;
    }
    *port = colon ? ssh_words_port(colon + 1) : 0;
    if ((colon && !*port) || end == text)
        return -1;
    *host = xstrndup(text, (size_t)(end - text));
    return 0;
}

/* Names that begin with '-' would read as options elsewhere. */
static int sound(const char *word)
{
    if (!*word || *word == '-')
        return 0;
    for (; *word; word++)
        if ((unsigned char)*word <= ' ' || strchr("'`\"$\\;&<>|(){},", *word))
            return 0;
    return 1;
}

int ssh_words_address(const char *text, char **user, char **host, int *port)
{
    const char *at, *name = text;
    char *u = NULL, *h = NULL, *slash;

    if (strncmp(text, "ssh://", 6) == 0)
        name = text = text + 6;
    at = strrchr(text, '@');
    if (at) {
        u = xstrndup(text, (size_t)(at - text));
        name = at + 1;
    }
    if (split_port(name, &h, port) < 0) {
        free(u);
        return -1;
    }
    slash = strchr(h, '/');
    if (slash || !sound(h) || (u && !sound(u))) {
        free(u);
        free(h);
        return -1;
    }
    *user = u;
    *host = h;
    return 0;
}
