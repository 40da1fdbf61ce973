/* Names back to a list, and names that repeat. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "topology/hostlist.h"

/* Names that follow each other: prefix and a range, or one name as it is. */
struct run {
    const char *prefix;
    size_t n;
    int numbered, width;
    uint64_t lo, hi;
};

static struct run run_of(const char *name)
{
    size_t len = strlen(name), n = len;
    struct run r = { name, len, 0, 0, 0, 0 };
    unsigned long long v;

    while (n > 0 && isdigit((unsigned char)name[n - 1]))
        n--;
    errno = 0;
    v = strtoull(name + n, NULL, 10);
    if (n < len && errno == 0 && v < UINT64_MAX) {
        r.numbered = 1;
        r.n = n;
        r.width = (int)(len - n);
        r.lo = r.hi = v;
    }
    return r;
}

static size_t digits(uint64_t v)
{
    size_t n = 1;

    while ((v /= 10))
        n++;
    return n;
}

static int same_prefix(const struct run *a, const struct run *b)
{
    return a->numbered && b->numbered && a->n == b->n &&
           memcmp(a->prefix, b->prefix, a->n) == 0;
}

/* Is b the number after a, written to a's width? */
static int follows(const struct run *a, const struct run *b)
{
    size_t n = digits(b->lo);

    return same_prefix(a, b) && b->lo == a->hi + 1 &&
           b->hi - a->lo < HOSTLIST_RANGE_MAX &&
           (size_t)b->width == (n > (size_t)a->width ? n : (size_t)a->width);
}

static void add_range(struct str *s, const struct run *r)
{
    str_addf(s, "%0*llu", r->width, (unsigned long long)r->lo);
    if (r->hi > r->lo)
        str_addf(s, "-%0*llu", r->width, (unsigned long long)r->hi);
}

/* Runs i to j-1 have one prefix. */
static void add_group(struct str *s, const struct run *r, int i, int j)
{
    int brackets = j - i > 1 || r[i].hi > r[i].lo;

    str_adds(s, s->len ? "," : "");
    str_add(s, r[i].prefix, r[i].n);
    if (!r[i].numbered)
        return;
    str_adds(s, brackets ? "[" : "");
    for (int k = i; k < j; k++) {
        str_adds(s, k > i ? "," : "");
        add_range(s, &r[k]);
    }
    str_adds(s, brackets ? "]" : "");
}

char *hostlist_fold(const struct strlist *names)
{
    struct run *runs = xcalloc((size_t)names->n + 1, sizeof(*runs));
    struct str s = STR_INIT;
    int n = 0;

    for (int i = 0; i < names->n; i++) {
        struct run r = run_of(names->item[i]);
        if (n && follows(&runs[n - 1], &r))
            runs[n - 1].hi = r.lo;
        else
            runs[n++] = r;
    }
    for (int i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && same_prefix(&runs[i], &runs[j]); j++)
            ;
        add_group(&s, runs, i, j);
    }
    free(runs);
    return str_take(&s);
}

/* --- repeats --------------------------------------------------------------------- */

struct place {
    const char *name;
    int i;
};

static int compare_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    int c = strcmp(x->name, y->name);

    return c ? c : (x->i > y->i) - (x->i < y->i);
}

int hostlist_unique(struct strlist *names, struct strlist *repeated)
{
    struct place *sorted = xcalloc((size_t)names->n + 1, sizeof(*sorted));
    char *drop = xcalloc((size_t)names->n + 1, 1);
    int kept = 0, n = names->n;

    for (int i = 0; i < n; i++)
        sorted[i] = (struct place){ names->item[i], i };
    qsort(sorted, (size_t)n, sizeof(*sorted), compare_place);
    for (int i = 1; i < n; i++)
        if (strcmp(sorted[i].name, sorted[i - 1].name) == 0)
            drop[sorted[i].i] = drop[sorted[i - 1].i] ? 2 : 1; /* 1: its first repeat */
    for (int i = 0; i < n; i++) {
        if (drop[i] == 1 && repeated)
            strlist_add(repeated, names->item[i]);
        if (drop[i])
            free(names->item[i]);
        else
            names->item[kept++] = names->item[i];
    }
    names->n = kept;
    free(sorted);
    free(drop);
    return n - kept;
}
