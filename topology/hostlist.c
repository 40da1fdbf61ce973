#include "topology/hostlist.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

struct piece {
    const char *text;
    size_t n;
};

/* A word cut at its brackets: literal, inside, literal, inside, ..., literal. */
struct word {
    struct piece whole;
    int n; /* brackets */
    struct piece literal[HOSTLIST_BRACKETS_MAX + 1], inside[HOSTLIST_BRACKETS_MAX];
    int64_t count;
};

/* Where a bracket stands: its numbers come straight from the text, so that a list
 * needs no memory before it is known to be good. */
struct cursor {
    struct piece rest; /* ranges that follow */
    uint64_t now, hi;
    int width;
};

static int refuse(const struct piece *word, struct err *err, const char *what)
{
    char shown[61];
    size_t n = word->n < 60 ? word->n : 60;

    for (size_t i = 0; i < n; i++)
        shown[i] = isprint((unsigned char)word->text[i]) ? word->text[i] : '?';
    shown[n] = '\0';
    return err_set(err, ERR_USAGE, "host list '%s%s': %s", shown,
                   word->n > 60 ? "..." : "", what);
}

static int is_name_char(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("._:@-", c));
}

/* Digits at the front of p; 0 when there are none or they reach 2^64-1, which Slurm
 * takes for "no number". */
static size_t read_number(const struct piece *p, uint64_t *value)
{
    uint64_t v = 0;
    size_t n = 0;

    for (; n < p->n && isdigit((unsigned char)p->text[n]); n++) {
        uint64_t digit = (uint64_t)(p->text[n] - '0');
        if (v > (UINT64_MAX - 1 - digit) / 10)
            return 0;
        v = v * 10 + digit;
    }
    *value = v;
    return n;
}

static void skip(struct piece *p, size_t n)
{
    p->text += n;
    p->n -= n;
}

/* Take the next range of c->rest.  NULL, or what is wrong with it. */
static const char *next_range(struct cursor *c)
{
    size_t n = read_number(&c->rest, &c->now);

    if (n == 0)
        return "between [ and ] stand numbers and ranges below 2^64-1, like [01-04,7]";
    c->width = (int)n;
    c->hi = c->now;
    skip(&c->rest, n);
    if (c->rest.n && *c->rest.text == '-') {
        skip(&c->rest, 1);
        n = read_number(&c->rest, &c->hi);
        if (n == 0)
            return "a range has no end below 2^64-1";
        skip(&c->rest, n);
    }
    if (c->now > c->hi)
        return "a range runs backwards";
    if (c->hi - c->now >= HOSTLIST_RANGE_MAX)
        return "a range holds more than 65536 numbers";
    if (c->rest.n == 0)
        return NULL;
    if (*c->rest.text != ',' || c->rest.n == 1)
        return "between [ and ] stand numbers and ranges, like [01-04,7]";
    skip(&c->rest, 1);
    return NULL;
}

static size_t digits(uint64_t v)
{
    size_t n = 1;

    while ((v /= 10))
        n++;
    return n;
}

/* Numbers of a bracket, and the longest text one of them has. */
static const char *measure(struct piece inside, int64_t *count, size_t *longest)
{
    struct cursor c = { .rest = inside };
    const char *wrong;

    *count = 0;
    do {
        size_t n;
        wrong = next_range(&c);
        if (wrong)
            return wrong;
        n = digits(c.hi) > (size_t)c.width ? digits(c.hi) : (size_t)c.width;
        *longest = n > *longest ? n : *longest;
        *count += (int64_t)(c.hi - c.now) + 1;
        if (*count > HOSTLIST_MAX)
            return "more than 131072 hosts";
    } while (c.rest.n);
    return NULL;
}

static const char *literal_wrong(const struct word *w, int i)
{
    const struct piece *p = &w->literal[i];

    if (i == 0 && p->n && *p->text == '-')
        return "a host name does not begin with '-'";
    for (size_t k = 0; k < p->n; k++)
        if (!is_name_char(p->text[k]))
            return p->text[k] == ']' ? "a ']' without its '['"
                                     : "a host name is made of letters, digits and "
                                       "._:@-";
    if (i > 0 && i == w->n && p->n)
        return "Slurm takes no text after the last bracket: write these names out";
    return NULL;
}

/* Cut at the brackets. */
static const char *cut(struct word *w)
{
    struct piece rest = w->whole;

    w->n = 0;
    for (;;) {
        const char *open = memchr(rest.text, '[', rest.n), *close;
        w->literal[w->n] =
            (struct piece){ rest.text, open ? (size_t)(open - rest.text) : rest.n };
        if (!open)
            return NULL;
        if (w->n == HOSTLIST_BRACKETS_MAX)
            return "a word has more than 8 brackets";
        skip(&rest, (size_t)(open - rest.text) + 1);
        close = memchr(rest.text, ']', rest.n);
        if (!close)
            return "a bracket is not closed";
        w->inside[w->n++] = (struct piece){ rest.text, (size_t)(close - rest.text) };
        skip(&rest, (size_t)(close - rest.text) + 1);
    }
}

/* Cut, check and count. */
static const char *examine(struct word *w)
{
    const char *wrong = cut(w);
    size_t length = 0;

    w->count = 1;
    for (int i = 0; i <= w->n && !wrong; i++) {
        int64_t count = 1;
        size_t longest = 0;
        wrong = literal_wrong(w, i);
        if (!wrong && i < w->n)
            wrong = measure(w->inside[i], &count, &longest);
        length += w->literal[i].n + longest;
        w->count *= count; /* both at most HOSTLIST_MAX */
        if (!wrong && w->count > HOSTLIST_MAX)
            wrong = "more than 131072 hosts";
        if (!wrong && length > HOSTLIST_NAME_MAX)
            wrong = "a host name is longer than 255 bytes";
    }
    return wrong;
}

/* The next word of *at, cut; 0 at the end, -1 with err. */
static int next_word(const char **at, struct word *w, struct err *err)
{
    const char *wrong, *p = *at;
    int depth = 0;

    p += strspn(p, ", \t\r\n");
    if (!*p)
        return 0;
    w->whole.text = p;
    for (; *p && (depth || !strchr(", \t\r\n", *p)); p++)
        depth = *p == '[' ? 1 : *p == ']' ? 0 : depth;
    w->whole.n = (size_t)(p - w->whole.text);
    *at = p;
    wrong = examine(w);
    return wrong ? refuse(&w->whole, err, wrong) : 1;
}

int hostlist_count(const char *text, int *n, struct err *err)
{
    struct piece all = { text, strlen(text) };
    const char *at = text;
    struct word w;
    int64_t sum = 0;
    int rc;

    if (all.n > HOSTLIST_TEXT_MAX)
        return refuse(&all, err, "longer than 1 MiB");
    while ((rc = next_word(&at, &w, err)) > 0) {
        sum += w.count;
        if (sum > HOSTLIST_MAX)
            return refuse(&all, err, "more than 131072 hosts");
    }
    if (rc == 0 && sum == 0)
        return refuse(&all, err, "names no host");
    if (rc == 0)
        *n = (int)sum;
    return rc;
}

/* --- making the names ---------------------------------------------------------- */

static void restart(struct cursor *c, struct piece inside)
{
    c->rest = inside;
    (void)next_range(c); /* examined before */
}

/* One number on; 0 when the bracket starts again. */
static int step(struct cursor *c, struct piece inside)
{
    if (c->now < c->hi) {
        c->now++;
        return 1;
    }
    if (c->rest.n) {
        (void)next_range(c);
        return 1;
    }
    restart(c, inside);
    return 0;
}

/* Slurm's order: the last bracket, then the first, the second, ... */
static int step_word(const struct word *w, struct cursor *c)
{
    if (w->n == 0)
        return 0;
    if (step(&c[w->n - 1], w->inside[w->n - 1]))
        return 1;
    for (int i = 0; i < w->n - 1; i++)
        if (step(&c[i], w->inside[i]))
            return 1;
    return 0;
}

/* names has room for them. */
static void expand_word(const struct word *w, struct strlist *names)
{
    struct cursor c[HOSTLIST_BRACKETS_MAX];
    char name[HOSTLIST_NAME_MAX + 1];

    for (int i = 0; i < w->n; i++)
        restart(&c[i], w->inside[i]);
    do {
        size_t n = 0;
        for (int i = 0; i <= w->n; i++) {
            memcpy(name + n, w->literal[i].text, w->literal[i].n);
            n += w->literal[i].n;
            if (i < w->n)
                n += (size_t)snprintf(name + n, sizeof(name) - n, "%0*llu", c[i].width,
                                      (unsigned long long)c[i].now);
        }
        name[n] = '\0';
        names->item[names->n++] = xstrdup(name);
    } while (step_word(w, c));
}

int hostlist_expand(const char *text, struct strlist *names, struct err *err)
{
    struct strlist made = { 0 };
    const char *at = text;
    struct word w;
    int n = 0;

    if (hostlist_count(text, &n, err) < 0)
        return -1;
    made.item = xcalloc((size_t)n, sizeof(*made.item));
    while (next_word(&at, &w, err) > 0)
        expand_word(&w, &made);
    *names = made;
    return 0;
}

int hostlist_name_valid(const char *name)
{
    size_t n = strlen(name);

    for (size_t i = 0; i < n; i++)
        if (!is_name_char(name[i]))
            return 0;
    return n > 0 && n <= HOSTLIST_NAME_MAX && *name != '-';
}
