/* ssh_copy.h - files to a host's private folder, through its sshd's SFTP.
 *
 * The folder is made with mode 0700, parents too, and must be one: a folder that others
 * may enter, a link or a file in its place is refused.  Every file is written beside its
 * name and renamed, so that it is absent or whole.  A file that has its size there is
 * left alone: name the folder by what is in it (a hash).
 *
 *     ssh_copy_start(link, ".cache/muster/4f2a", files, 3, &copy, &err);
 *     loop: ssh_link_step(link, &err); rc = ssh_copy_step(copy, &err); poll, at most a
 *           second, so that a host that falls silent is noticed
 *     ssh_copy_free(copy); */
#ifndef LAUNCHER_SSH_COPY_H
#define LAUNCHER_SSH_COPY_H

#include <stdint.h>

struct err;
struct ssh_copy;
struct ssh_link;

struct ssh_copy_file {
    const char *from; /* path here: a regular file */
    const char *name; /* in the folder; no '/' in it */
    int mode;         /* 0700 or 0600: nothing for others */
};

/* The link is open.  `folder`: absolute, or below the remote home.  Strings are copied.
 * ERR_MISSING: a file is not here. */
int ssh_copy_start(struct ssh_link *link, const char *folder,
                   const struct ssh_copy_file *files, int n, struct ssh_copy **out,
                   struct err *err);

/* 1 all is there, 0 not yet, -1.  ERR_TIMEOUT: no reply for 30 s; ERR_FAILED: the folder
 * is not private; ERR_SYSTEM: it cannot be written, or there is no SFTP. */
int ssh_copy_step(struct ssh_copy *c, struct err *err);

/* Bytes of files sent so far. */
int64_t ssh_copy_bytes(const struct ssh_copy *c);

/* Before the link's ssh_link_free(). */
void ssh_copy_free(struct ssh_copy *c);

#endif
