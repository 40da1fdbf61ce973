#include "launcher/hostfile.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "topology/hostlist.h"

enum { FILE_LIMIT = 4 << 20, PROBLEM_LIMIT = 20 };

struct reading {
    struct hosts hosts;
    const char *from;
    int line;    /* of the word at hand */
    int is_file; /* messages name a line */
    struct err *err;
    int problems;
};

static void problem(struct reading *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void problem(struct reading *r, const char *fmt, ...)
{
    va_list ap;
    char *text;

    if (r->problems++ >= PROBLEM_LIMIT)
        return;
    va_start(ap, fmt);
    text = xvasprintf(fmt, ap);
    va_end(ap);
    if (r->is_file)
        err_append(r->err, ERR_USAGE, "%s:%d: %s", r->from, r->line, text);
    else
        err_append(r->err, ERR_USAGE, "%s: %s", r->from, text);
    free(text);
}

/* 1..HOSTFILE_SLOTS from all of `text`, or 0. */
static int slots_of(const char *text)
{
    char *end;
    long v = isdigit((unsigned char)*text) ? strtol(text, &end, 10) : 0;

    return v < 1 || v > HOSTFILE_SLOTS || *end ? 0 : (int)v;
}

static void add_host(struct reading *r, const char *name, int slots)
{
    struct hosts *h = &r->hosts;

    if (h->n >= HOSTFILE_HOSTS) {
        problem(r, "over %d hosts", HOSTFILE_HOSTS);
        return;
    }
    if (h->n % 64 == 0)
        h->item = xrealloc(h->item, (size_t)h->n + 64, sizeof(*h->item));
    h->item[h->n++] = (struct host){ xstrdup(name), slots, r->line };
}

/* "name", "n[1-4]", "user@name", each with ":SLOTS" perhaps; "[address]:SLOTS". */
static void add_word(struct reading *r, const char *word, int slots)
{
    const char *close = strrchr(word, ']'), *colon = strrchr(word, ':');
    int address = word[0] == '[' && strchr(word, ':') && close;
    struct strlist names = { 0 };
    struct err why = ERR_INIT;
    char *base;

    /* an address without brackets has several colons, and no slots */
    if (colon && (colon < close || (!close && strchr(word, ':') != colon)))
        colon = NULL;
    if (colon && !(slots = slots_of(colon + 1))) {
        problem(r, "'%s': behind ':' stands the number of slots, 1 to %d", word,
                HOSTFILE_SLOTS);
        return;
    }
    base = xstrndup(word, colon ? (size_t)(colon - word) : strlen(word));
    if (address) {
        base[strlen(base) - 1] = '\0';
        strlist_add(&names, base + 1);
    } else if (hostlist_expand(base, &names, &why) < 0) {
        problem(r, "%s", err_text(&why));
    }
    for (int i = 0; i < names.n; i++)
        if (hostlist_name_valid(names.item[i]))
            add_host(r, names.item[i], slots);
        else
            problem(r, "'%s' is not a host's name", names.item[i]);
    strlist_release(&names);
    err_release(&why);
    free(base);
}

/* --- what is wrong with all of them ------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    const struct host *x = a, *y = b;
    int c = strcmp(x->name, y->name);

    return c ? c : (x->line > y->line) - (x->line < y->line);
}

static void find_twice(struct reading *r)
{
    struct hosts *h = &r->hosts;
    struct host *sorted = xcalloc((size_t)h->n + 1, sizeof(*sorted));

    for (int i = 0; i < h->n; i++)
        sorted[i] = h->item[i];
    qsort(sorted, (size_t)h->n, sizeof(*sorted), by_name);
    for (int i = 1; i < h->n; i++) {
        if (strcmp(sorted[i - 1].name, sorted[i].name) != 0)
            continue;
        r->line = sorted[i].line;
        problem(r, "%s is named twice (%s %d and %d); give it once, with slots=",
                sorted[i].name, r->is_file ? "lines" : "places", sorted[i - 1].line,
                sorted[i].line);
    }
    free(sorted);
}

static int finish(struct reading *r, struct hosts *out)
{
    find_twice(r);
    if (r->hosts.n == 0 && r->problems == 0) {
        r->problems++;
        err_set(r->err, ERR_USAGE, "%s: no host", r->from);
    }
    if (r->problems) {
        hosts_release(&r->hosts);
        return -1;
    }
    *out = r->hosts;
    return 0;
}

/* --- files -------------------------------------------------------------------------- */

/* "slots=8": 1 and *slots; "max_slots=9": 1; else 0. */
static int read_setting(struct reading *r, const char *word, int *slots)
{
    static const char *const names[] = { "slots=", "max_slots=", "max-slots=" };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        size_t n = strlen(names[i]);
        int v;
        if (strncmp(word, names[i], n) != 0)
            continue;
        v = slots_of(word + n);
        if (!v)
            problem(r, "'%s': slots are a number, 1 to %d", word, HOSTFILE_SLOTS);
        else if (i == 0)
            *slots = v;
        return 1;
    }
    return 0;
}

static void read_line(struct reading *r, char *line)
{
    char *host = NULL, *at = line, *word;
    int slots = 0;

    line[strcspn(line, "#")] = '\0';
    while ((word = strsep(&at, " \t\r\f\v"))) {
        if (!*word)
            continue;
        if (!host)
            host = word;
        else if (!read_setting(r, word, &slots))
            problem(r, "'%s' is neither slots= nor max_slots=", word);
    }
    if (host && strchr(host, ',') && !strchr(host, '['))
        problem(r, "'%s': one host a line", host);
    else if (host)
        add_word(r, host, slots);
}

int hostfile_read(const char *path, struct hosts *out, struct err *err)
{
    struct reading r = { .from = path, .is_file = 1, .err = err };
    int64_t bytes = 0;
    char *text, *at, *line;
    int fd;

    if (file_open(path, &fd, &bytes, err) < 0)
        return -1;
    if (bytes > FILE_LIMIT) {
        close(fd);
        return err_set(err, ERR_USAGE, "%s: over %d bytes; is it a hostfile?", path,
                       FILE_LIMIT);
    }
    at = text = xcalloc((size_t)bytes + 1, 1);
    if (file_read(fd, path, text, (size_t)bytes, 0, err) < 0) {
        free(text);
        close(fd);
        return -1;
    }
    close(fd);
    if (strlen(text) != (size_t)bytes)
        problem(&r, "there is a NUL byte in it");
    while ((line = strsep(&at, "\n"))) {
        r.line++;
        read_line(&r, line);
    }
    free(text);
    return finish(&r, out);
}

/* --- lists -------------------------------------------------------------------------- */

/* The length of the word before the next comma that stands outside brackets. */
static size_t word_length(const char *s)
{
    size_t n = 0;
    int inside = 0;

    for (; s[n] && (inside || s[n] != ','); n++)
        inside = s[n] == '[' ? 1 : s[n] == ']' ? 0 : inside;
    return n;
}

static void add_list(struct reading *r, const char *text)
{
    for (const char *s = text;; s++) {
        size_t n = word_length(s);
        char *word = xstrndup(s, n);
        r->line++;
        if (*word)
            add_word(r, word, 0);
        else
            problem(r, "'%s': nothing stands at place %d", text, r->line);
        free(word);
        s += n;
        if (!*s)
            return;
    }
}

int hostfile_list(const char *text, const char *from, struct hosts *out,
                  struct err *err)
{
    struct reading r = { .from = from, .err = err };

    add_list(&r, text);
    return finish(&r, out);
}

int hostfile_recipe(const struct strlist *items, struct hosts *out, struct err *err)
{
    struct reading r = { .from = "cluster.hosts", .err = err };

    for (int i = 0; i < items->n; i++)
        add_list(&r, items->item[i]);
    return finish(&r, out);
}

void hosts_release(struct hosts *h)
{
    for (int i = 0; i < h->n; i++)
        free(h->item[i].name);
    free(h->item);
    memset(h, 0, sizeof(*h));
}
