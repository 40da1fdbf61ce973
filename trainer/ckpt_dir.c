#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "trainer/ckpt.h"

static const char marker[] = "complete";

char *ckpt_dir_path(const char *folder, int64_t step)
{
    return xasprintf("%s/step-%08lld", folder, (long long)step);
}

int ckpt_dir_complete(const char *dir)
{
    char *path = xasprintf("%s/%s", dir, marker);
    int there = access(path, F_OK) == 0;

    free(path);
    return there;
}

/* The step of "step-00000010", or -1. */
static int64_t step_of(const char *name)
{
    char *end;
    long long v;

    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9')
        return -1;
    errno = 0;
    v = strtoll(name + 5, &end, 10);
    return *end || errno ? -1 : v;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

int ckpt_dir_list(const char *folder, int64_t **steps)
{
    DIR *d = opendir(folder);
    int64_t *found = xcalloc(1, sizeof(*found));
    int n = 0;

    for (const struct dirent *e; d && (e = readdir(d));) { /* NOLINT: one thread */
        int64_t step = step_of(e->d_name);
        char *dir = xasprintf("%s/%s", folder, e->d_name);

        if (step >= 0 && ckpt_dir_complete(dir)) {
            found = xrealloc(found, (size_t)n + 1, sizeof(*found));
            found[n++] = step;
        }
        free(dir);
    }
    if (d)
        closedir(d);
    if (n)
        qsort(found, (size_t)n, sizeof(*found), by_value);
    *steps = found;
    return n;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

static void remove_tree(const char *path)
{
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int make_folders(const char *path, struct err *err)
{
    char *copy = xstrdup(path);
    int rc = 0;

    for (char *at = strchr(copy + 1, '/'); rc == 0; at = strchr(at + 1, '/')) {
        if (at)
            *at = '\0';
        if (mkdir(copy, 0777) != 0 && errno != EEXIST)
            rc = err_set(err, ERR_SYSTEM, "%s: cannot make the folder: %s", copy,
                         strerror(errno));
        if (!at)
            break;
        *at = '/';
    }
    free(copy);
    return rc;
}

int ckpt_dir_begin(const char *dir, struct err *err)
{
    char *tmp = xasprintf("%s.tmp", dir);
    int rc;

    remove_tree(tmp);
    rc = make_folders(tmp, err);
    free(tmp);
    return rc;
}

static int sync_path(const char *path, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int rc = 0;

    if (fd < 0 || fsync(fd) != 0)
        rc =
            err_set(err, ERR_SYSTEM, "%s: cannot be synced: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return rc;
}

static int write_marker(const char *tmp, int64_t checksum, struct err *err)
{
    char *path = xasprintf("%s/%s", tmp, marker);
    FILE *fp = fopen(path, "we");
    int rc = 0;

    if (!fp || fprintf(fp, "%016llx\n", (unsigned long long)checksum) < 0 ||
        fflush(fp) != 0 || fsync(fileno(fp)) != 0)
        rc = err_set(err, ERR_SYSTEM, "%s: cannot be written: %s", path,
                     strerror(errno));
    if (fp)
        fclose(fp);
    free(path);
    return rc;
}

int ckpt_dir_checksum(const char *dir, int64_t *checksum, struct err *err)
{
    char *path = xasprintf("%s/%s", dir, marker), line[32] = "", *end = line;
    FILE *fp = fopen(path, "re");
    int rc = 0;

    if (fp && fgets(line, sizeof(line), fp))
        *checksum = (int64_t)strtoull(line, &end, 16);
    if (end != line + 16 || *end != '\n')
        rc = err_set(err, ERR_USAGE, "%s: no checksum of index.json in it", path);
    if (fp)
        fclose(fp);
    free(path);
    return rc;
}

/* rename() onto a full folder fails, so an older one of this step steps aside. */
static int swap_in(const char *tmp, const char *dir, struct err *err)
{
    char *old = xasprintf("%s.old.tmp", dir);
    int rc = 0;

    remove_tree(old);
    if (rename(dir, old) != 0 && errno != ENOENT)
        rc = err_set(err, ERR_SYSTEM, "%s: cannot be replaced: %s", dir,
                     strerror(errno));
    if (rc == 0 && rename(tmp, dir) != 0)
        rc = err_set(err, ERR_SYSTEM, "%s: cannot be renamed to %s: %s", tmp, dir,
                     strerror(errno));
    remove_tree(old);
    free(old);
    return rc;
}

int ckpt_dir_publish(const char *dir, int64_t checksum, struct err *err)
{
    char *tmp = xasprintf("%s.tmp", dir);
    char *parent = xasprintf("%s/..", dir);
    int rc = -1;

    if (sync_path(tmp, err) || write_marker(tmp, checksum, err) ||
        sync_path(tmp, err) || swap_in(tmp, dir, err) || sync_path(parent, err))
        goto out;
    rc = 0;
out:
    free(tmp);
    free(parent);
    return rc;
}

static void drop_half_written(const char *folder)
{
    DIR *d = opendir(folder);

    for (const struct dirent *e; d && (e = readdir(d));) { /* NOLINT: one thread */
        size_t n = strlen(e->d_name);
        char *dir = xasprintf("%s/%s", folder, e->d_name);

        if (strncmp(e->d_name, "step-", 5) == 0 && n > 4 &&
            strcmp(e->d_name + n - 4, ".tmp") == 0)
            remove_tree(dir);
        free(dir);
    }
    if (d)
        closedir(d);
}

void ckpt_dir_prune(const char *folder, int keep)
{
    int64_t *steps;
    int n = ckpt_dir_list(folder, &steps);

    for (int i = 0; keep > 0 && i < n - keep; i++) {
        char *dir = ckpt_dir_path(folder, steps[i]);

        remove_tree(dir);
        free(dir);
    }
    free(steps);
    drop_half_written(folder);
}
