/* Orders that files and topology addresses give. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "recipes/yaml.h"
#include "topology/hostlist.h"
#include "topology/slurm_job.h"

/* --- hostfiles -------------------------------------------------------------------- */

struct reader {
    const char *where;
    int line;
    const char **sorted; /* the allocation; NULL: any host will do */
    int n_sorted;
    struct strlist *ranks;
    int room; /* of ranks */
    struct err *err;
};

static int compare_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int allocated(const struct reader *r, const char *host)
{
    return !r->sorted || bsearch(&host, r->sorted, (size_t)r->n_sorted,
                                 sizeof(*r->sorted), compare_text) != NULL;
}

/* "HOST*3" is cut to HOST; 1 without a star, -1 for a count that is none. */
static long take_count(char *word)
{
    char *star = strchr(word, '*'), *end;
    long n;

    if (!star)
        return 1;
    *star++ = '\0';
    n = isdigit((unsigned char)*star) ? strtol(star, &end, 10) : -1;
    return n >= 1 && n <= HOSTLIST_MAX && !*end ? n : -1;
}

static int add_host(struct reader *r, const char *host, long times)
{
    if (!allocated(r, host))
        return err_set(r->err, ERR_USAGE,
                       "%s:%d: host %s is not in the allocation: take its line out, or "
                       "allocate it",
                       r->where, r->line, host);
    if (times > HOSTLIST_MAX - r->ranks->n)
        return err_set(r->err, ERR_USAGE, "%s:%d: more than %d tasks", r->where,
                       r->line, HOSTLIST_MAX);
    for (long i = 0; i < times; i++) {
        if (r->ranks->n == r->room) {
            r->room = r->room ? 2 * r->room : 64;
            r->ranks->item =
                xrealloc(r->ranks->item, (size_t)r->room, sizeof(*r->ranks->item));
        }
        r->ranks->item[r->ranks->n++] = xstrdup(host);
    }
    return 0;
}

/* One entry of a line: a host, a host list, either of them *N. */
static int read_entry(struct reader *r, char *word)
{
    long times = take_count(word);
    struct strlist names = { 0 };
    int rc = 0;

    if (times < 0)
        return err_set(r->err, ERR_USAGE, "%s:%d: behind %.60s* stands no count",
                       r->where, r->line, word);
    if (hostlist_expand(word, &names, r->err) < 0)
        return err_wrap(r->err, "%s:%d", r->where, r->line);
    for (int i = 0; i < names.n && rc == 0; i++)
        rc = add_host(r, names.item[i], times);
    strlist_release(&names);
    return rc;
}

static int read_line(struct reader *r, char *line)
{
    int depth = 0, rc = 0;

    line[strcspn(line, "#\r")] = '\0';
    for (char *p = line, *next; rc == 0; p = next) {
        p += strspn(p, ", \t");
        for (next = p; *next && (depth || !strchr(", \t", *next)); next++)
            depth = *next == '[' ? 1 : *next == ']' ? 0 : depth;
        if (next == p)
            break;
        if (*next)
            *next++ = '\0';
        rc = read_entry(r, p);
    }
    return rc;
}

int slurm_hostfile_parse(const char *text, const char *where,
                         const struct strlist *allocation, struct strlist *ranks,
                         struct err *err)
{
    struct strlist made = { 0 };
    struct reader r = { .where = where, .line = 1, .ranks = &made, .err = err };
    char *copy = xstrdup(text);
    int rc = 0;

    if (allocation) {
        r.sorted = xcalloc((size_t)allocation->n + 1, sizeof(*r.sorted));
        r.n_sorted = allocation->n;
        for (int i = 0; i < allocation->n; i++)
            r.sorted[i] = allocation->item[i];
        qsort(r.sorted, (size_t)r.n_sorted, sizeof(*r.sorted), compare_text);
    }
    for (char *line = copy, *next; line && rc == 0; line = next, r.line++) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        rc = read_line(&r, line);
    }
    if (rc == 0 && made.n == 0)
        rc = err_set(err, ERR_USAGE, "%s names no host", where);
    free(copy);
    free(r.sorted);
    if (rc == 0)
        *ranks = made;
    else
        strlist_release(&made);
    return rc;
}

int slurm_hostfile_read(const char *path, const struct strlist *allocation,
                        struct strlist *ranks, struct err *err)
{
    char *text;
    size_t len;
    int rc;

    if (yaml_read_file(path, HOSTLIST_TEXT_MAX, &text, &len, err) < 0)
        return err_wrap(err, "hostfile");
    rc = strlen(text) == len ? slurm_hostfile_parse(text, path, allocation, ranks, err)
                             : err_set(err, ERR_USAGE, "%s: holds a NUL byte", path);
    free(text);
    return rc;
}

/* --- SLURM_TOPOLOGY_ADDR ------------------------------------------------------------ */

/* Up to the next '.' outside brackets; the last part is all that is left. */
static size_t part_length(const char *text, int last)
{
    size_t n = 0;
    int depth = 0;

    for (; text[n] && (last || depth || text[n] != '.'); n++)
        depth = text[n] == '[' ? 1 : text[n] == ']' ? 0 : depth;
    return n;
}

static int read_level(const char **addr, const char **pattern,
                      struct slurm_level *level, struct err *err)
{
    size_t kind = strcspn(*pattern, "."), n;
    int last = (*pattern)[kind] == '\0', rc;
    char *list;

    n = part_length(*addr, last);
    if (kind == 0 || kind >= sizeof(level->kind) || n == 0 ||
        (!last && ((*addr)[n] == '\0' || (*pattern)[kind + 1] == '\0')))
        return err_set(err, ERR_USAGE,
                       "it does not have the levels that the pattern names");
    snprintf(level->kind, sizeof(level->kind), "%.*s", (int)kind, *pattern);
    list = xstrndup(*addr, n);
    rc = hostlist_expand(list, &level->names, err);
    free(list);
    *addr += n + !last;
    *pattern += kind + !last;
    return rc;
}

int slurm_topology_addr(const char *addr, const char *pattern,
                        struct slurm_level level[SLURM_LEVELS_MAX], int *n,
                        struct err *err)
{
    const char *a = addr, *p = pattern;
    int made = 0, rc = 0;

    do {
        if (made == SLURM_LEVELS_MAX)
            rc = err_set(err, ERR_USAGE, "more than %d levels", SLURM_LEVELS_MAX);
        else
            rc = read_level(&a, &p, &level[made], err);
        made += rc == 0;
    } while (rc == 0 && *p);
    if (rc < 0) {
        slurm_levels_release(level, made);
        return err_wrap(err, "SLURM_TOPOLOGY_ADDR '%.80s' by '%.80s'", addr, pattern);
    }
    *n = made;
    return 0;
}

void slurm_levels_release(struct slurm_level *level, int n)
{
    for (int i = 0; i < n; i++)
        strlist_release(&level[i].names);
}
