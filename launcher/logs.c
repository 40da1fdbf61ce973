#include "launcher/logs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

struct rank_log {
    char *prefix; /* "host:3 " */
    int rank, fd;
    struct str partial; /* a line that has not ended yet */
};

struct logs {
    char *folder;
    int rank; /* wanted; -1 all */
    int n;
    struct rank_log *log;
};

/* "HOST.RANK.log"; the host may hold points. */
static int read_name(const char *name, char **host, int *rank)
{
    size_t n = strlen(name);
    const char *dot;
    char *end;

    if (n < 5 || strcmp(name + n - 4, ".log") != 0)
        return 0;
    dot = memrchr(name, '.', n - 4);
    if (!dot || dot == name || dot[1] < '0' || dot[1] > '9')
        return 0;
    *rank = (int)strtol(dot + 1, &end, 10);
    if (strcmp(end, ".log") != 0)
        return 0;
    *host = xstrndup(name, (size_t)(dot - name));
    return 1;
}

static int by_rank(const void *a, const void *b)
{
    const struct rank_log *x = a, *y = b;

    return (x->rank > y->rank) - (x->rank < y->rank);
}

static int is_known(const struct logs *l, const char *prefix)
{
    for (int i = 0; i < l->n; i++)
        if (strcmp(l->log[i].prefix, prefix) == 0)
            return 1;
    return 0;
}

static void add_file(struct logs *l, int folder, const char *name)
{
    char *host, *prefix;
    int rank;

    if (!read_name(name, &host, &rank))
        return;
    prefix = xasprintf("%s:%d: ", host, rank);
    free(host);
    if ((l->rank >= 0 && rank != l->rank) || is_known(l, prefix)) {
        free(prefix);
        return;
    }
    l->log = xrealloc(l->log, (size_t)l->n + 1, sizeof(*l->log));
    l->log[l->n++] = (struct rank_log){
        .prefix = prefix, .rank = rank, .fd = openat(folder, name, O_RDONLY | O_CLOEXEC)
    };
}

static int look(struct logs *l, struct err *err)
{
    DIR *d = opendir(l->folder);
    const struct dirent *e;

    if (!d)
        return errno == ENOENT ? 0 : err_set(err, ERR_SYSTEM, "%s: %m", l->folder);
    while ((e = readdir(d)) != NULL)
        add_file(l, dirfd(d), e->d_name);
    closedir(d);
    qsort(l->log, (size_t)l->n, sizeof(*l->log), by_rank);
    return 0;
}

struct logs *logs_open(const char *dir, int rank)
{
    struct logs *l = xcalloc(1, sizeof(*l));

    l->folder = xasprintf("%s/ranks", dir);
    l->rank = rank;
    l->log = xcalloc(1, sizeof(*l->log));
    return l;
}

/* Whole lines of bytes[n], with what was left over before. */
static long write_lines(struct rank_log *g, const char *bytes, size_t n, FILE *to)
{
    long written = 0;

    while (n) {
        const char *end = memchr(bytes, '\n', n);
        size_t take = end ? (size_t)(end - bytes) + 1 : n;
        str_add(&g->partial, bytes, take);
        bytes += take;
        n -= take;
        if (!end)
            break;
        fputs(g->prefix, to);
        fwrite(g->partial.text, 1, g->partial.len, to);
        written += (long)g->partial.len;
        str_clear(&g->partial);
    }
    return written;
}

static long write_new(struct rank_log *g, FILE *to, int last)
{
    char bytes[65536];
    long written = 0;
    ssize_t n;

    if (g->fd < 0)
        return 0;
    while ((n = read(g->fd, bytes, sizeof(bytes))) > 0)
        written += write_lines(g, bytes, (size_t)n, to);
    if (last && g->partial.len)
        written += write_lines(g, "\n", 1, to);
    return written;
}

long logs_write(struct logs *l, FILE *to, int last, struct err *err)
{
    long written = 0;

    if (look(l, err) < 0)
        return -1;
    for (int i = 0; i < l->n; i++)
        written += write_new(&l->log[i], to, last);
    if (fflush(to) != 0)
        return err_set(err, ERR_SYSTEM, "cannot write the log: %m");
    return written;
}

int logs_count(const struct logs *l)
{
    return l->n;
}

void logs_close(struct logs *l)
{
    for (int i = 0; i < l->n; i++) {
        if (l->log[i].fd >= 0)
            close(l->log[i].fd);
        free(l->log[i].prefix);
        str_release(&l->log[i].partial);
    }
    free(l->log);
    free(l->folder);
    free(l);
}
