/* file.h - regular files by descriptor: whole reads and writes, atomic replacement.
 *
 * A file that others may read is written beside its name and renamed:
 *   struct file_beside b;
 *   file_beside_open(&b, path, &err)      creates PATH.tmp
 *   file_write(b.fd, b.tmp, ..., &err)
 *   file_beside_commit(&b, &err)          fsync, rename, fsync of the folder
 *   file_beside_abandon(&b)               instead; removes PATH.tmp
 * so PATH is absent, old or complete, whatever happens.  All sizes are 64 bit. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stddef.h>
#include <stdint.h>

struct err;

/* Open an existing regular file for reading; *fd is the caller's to close().
 * ERR_MISSING when absent, ERR_USAGE when it is a folder, pipe or device. */
int file_open(const char *path, int *fd, int64_t *bytes, struct err *err);

/* Exactly n bytes at `at`; ERR_USAGE when the file ends before. */
int file_read(int fd, const char *path, void *out, size_t n, int64_t at,
              struct err *err);
int file_write(int fd, const char *path, const void *bytes, size_t n, int64_t at,
               struct err *err);

struct file_beside {
    int fd;
    char *path, *tmp; /* owned */
};

int file_beside_open(struct file_beside *b, const char *path, struct err *err);
/* Releases b either way; on failure PATH.tmp is removed. */
int file_beside_commit(struct file_beside *b, struct err *err);
void file_beside_abandon(struct file_beside *b);

#endif
