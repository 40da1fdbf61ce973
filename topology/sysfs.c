#include "topology/sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

static void trim(char *line)
{
    size_t lead = strspn(line, " \t"), n;

    memmove(line, line + lead, strlen(line + lead) + 1);
    n = strlen(line);
    while (n && strchr(" \t\r\n", line[n - 1]))
        line[--n] = '\0';
}

static char *__attribute__((format(printf, 2, 0)))
path_below(const struct sysfs *s, const char *fmt, va_list ap)
{
    char *tail = xvasprintf(fmt, ap), *path = xasprintf("%s%s", s->root, tail);

    free(tail);
    return path;
}

/* One read: files of sysfs and procfs give a line of this length whole. */
static int read_first_line(const char *path, char *out, size_t n)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, out, n - 1) : -1;

    out[got > 0 ? got : 0] = '\0'; /* an unset speed is EINVAL on read */
    if (fd < 0)
        return -1;
    close(fd);
    out[strcspn(out, "\n")] = '\0';
    trim(out);
    return out[0] ? 0 : -1;
}

int sysfs_read(const struct sysfs *s, char *out, size_t n, const char *fmt, ...)
{
    char *path;
    va_list ap;
    int rc;

    va_start(ap, fmt);
    path = path_below(s, fmt, ap);
    va_end(ap);
    rc = read_first_line(path, out, n);
    free(path);
    return rc;
}

long sysfs_number(const struct sysfs *s, long unknown, const char *fmt, ...)
{
    char *path, text[64], *end;
    va_list ap;
    long value;
    int rc;

    va_start(ap, fmt);
    path = path_below(s, fmt, ap);
    va_end(ap);
    rc = read_first_line(path, text, sizeof(text));
    free(path);
    if (rc < 0)
        return unknown;
    errno = 0;
    value = strtol(text, &end, 0);
    return end == text || *end || errno ? unknown : value;
}

int sysfs_exists(const struct sysfs *s, const char *fmt, ...)
{
    char *path;
    va_list ap;
    int yes;

    va_start(ap, fmt);
    path = path_below(s, fmt, ap);
    va_end(ap);
    yes = access(path, F_OK) == 0;
    free(path);
    return yes;
}

static int not_dot(const struct dirent *d)
{
    return d->d_name[0] != '.';
}

char **sysfs_list(const struct sysfs *s, const char *fmt, ...)
{
    struct dirent **entry = NULL;
    char *path, **names;
    va_list ap;
    int n;

    va_start(ap, fmt);
    path = path_below(s, fmt, ap);
    va_end(ap);
    n = scandir(path, &entry, not_dot, versionsort);
    free(path);
    names = xcalloc((size_t)(n > 0 ? n : 0) + 1, sizeof(*names));
    for (int i = 0; i < n; i++) {
        names[i] = xstrdup(entry[i]->d_name);
        free(entry[i]);
    }
    free(entry);
    return names;
}

void sysfs_list_free(char **names)
{
    for (char **p = names; *p; p++)
        free(*p);
    free(names);
}

int sysfs_value(const struct sysfs *s, const char *key, char *out, size_t n,
                const char *fmt, ...)
{
    char *path, *line = NULL;
    size_t room = 0, len = strlen(key);
    va_list ap;
    FILE *fp;
    int rc = -1;

    va_start(ap, fmt);
    path = path_below(s, fmt, ap);
    va_end(ap);
    fp = fopen(path, "re");
    free(path);
    out[0] = '\0';
    if (!fp)
        return -1;
    while (rc < 0 && getline(&line, &room, fp) >= 0) {
        const char *rest;
        trim(line);
        if (strncmp(line, key, len) != 0)
            continue;
        rest = line + len + strspn(line + len, " \t");
        if (*rest != ':' && *rest != '=') /* "model" is not "model name" */
            continue;
        snprintf(out, n, "%s", rest + 1);
        trim(out);
        rc = 0;
    }
    free(line);
    fclose(fp);
    return rc;
}
