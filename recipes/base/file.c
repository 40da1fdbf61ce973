#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"

int file_open(const char *path, int *fd, int64_t *bytes, struct err *err)
{
    struct stat st;
    /* O_NONBLOCK: a named pipe must be refused, not waited for. */
    int f = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (f < 0)
        return err_set(err,
                       errno == ENOENT || errno == ENOTDIR ? ERR_MISSING : ERR_SYSTEM,
                       "%s: %m", path);
    if (fstat(f, &st) != 0) {
        err_set(err, ERR_SYSTEM, "%s: %m", path);
        close(f);
        return -1;
    }
    if (!S_ISREG(st.st_mode)) {
        close(f);
        return err_set(err, ERR_USAGE, "%s: is %s, not a regular file", path,
                       S_ISDIR(st.st_mode) ? "a folder" : "a pipe or device");
    }
    *fd = f;
    *bytes = st.st_size;
    return 0;
}

int file_read(int fd, const char *path, void *out, size_t n, int64_t at,
              struct err *err)
{
    char *to = out;

    while (n > 0) {
        ssize_t got = pread(fd, to, n, at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_set(err, ERR_SYSTEM, "%s: reading at byte %lld: %m", path,
                           (long long)at);
        if (got == 0)
            return err_set(
                err, ERR_USAGE,
                "%s: ends at byte %lld, %zu bytes early: it was cut while in "
                "use",
                path, (long long)at, n);
        to += got;
        at += got;
        n -= (size_t)got;
    }
    return 0;
}

int file_write(int fd, const char *path, const void *bytes, size_t n, int64_t at,
               struct err *err)
{
    const char *from = bytes;

    while (n > 0) {
        ssize_t put = pwrite(fd, from, n, at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return err_set(err, ERR_SYSTEM, "%s: writing at byte %lld: %m", path,
                           (long long)at);
        from += put;
        at += put;
        n -= (size_t)put;
    }
    return 0;
}

static void release(struct file_beside *b)
{
    if (b->fd >= 0)
        close(b->fd);
    free(b->path);
    free(b->tmp);
    *b = (struct file_beside){ -1, NULL, NULL };
}

int file_beside_open(struct file_beside *b, const char *path, struct err *err)
{
    char *tmp = xasprintf("%s.tmp", path);
    int fd = open(tmp, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

    if (fd < 0) {
        err_set(err, errno == ENOENT || errno == ENOTDIR ? ERR_MISSING : ERR_SYSTEM,
                "%s: cannot be created: %m", tmp);
        free(tmp);
        return -1;
    }
    *b = (struct file_beside){ fd, xstrdup(path), tmp };
    return 0;
}

/* After a rename the folder's entry must reach the disk too.  File systems that
 * cannot sync a folder say EINVAL; the rename stands. */
static int sync_folder(const char *path, struct err *err)
{
    const char *slash = strrchr(path, '/');
    char *folder = !slash          ? xstrdup(".")
                   : slash == path ? xstrdup("/")
                                   : xstrndup(path, (size_t)(slash - path));
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;

    if (fd >= 0 && fsync(fd) != 0 && errno != EINVAL)
        rc = err_set(err, ERR_SYSTEM, "%s: fsync: %m", folder);
    if (fd >= 0)
        close(fd);
    free(folder);
    return rc;
}

int file_beside_commit(struct file_beside *b, struct err *err)
{
    int rc = -1;

    if (fsync(b->fd) != 0) {
        err_set(err, ERR_SYSTEM, "%s: fsync: %m", b->tmp);
        goto out;
    }
    if (rename(b->tmp, b->path) != 0) {
        err_set(err, ERR_SYSTEM, "%s: cannot be renamed to %s: %m", b->tmp, b->path);
        goto out;
    }
    rc = sync_folder(b->path, err);
    release(b);
    return rc;
out:
    file_beside_abandon(b);
    return rc;
}

void file_beside_abandon(struct file_beside *b)
{
    if (b->tmp)
        unlink(b->tmp);
    release(b);
}
