/* hostfile.h - which hosts, in which order: from a recipe, a file or --hosts.
 *
 * A file has a host a line: "NAME", "NAME slots=8" (Open MPI), "NAME:8" (MPICH);
 * "max_slots=" is read and left; '#' begins a comment.  A list is "n1,n2:4,n[3-5]".  A
 * NAME may be "user@host"; an IPv6 address stands in brackets when slots follow.
 * The order is kept: it is the order of the ranks (case B13).  A host named twice is
 * refused, with both places. */
#ifndef LAUNCHER_HOSTFILE_H
#define LAUNCHER_HOSTFILE_H

struct err;
struct strlist;

enum { HOSTFILE_SLOTS = 4096, HOSTFILE_HOSTS = 65536 };

struct host {
    char *name; /* owned */
    int slots;  /* ranks that may run there; 0: not said */
    int line;   /* in the file, or the place in the list, from 1 */
};

struct hosts {
    struct host *item;
    int n;
};

/* ERR_USAGE lists all problems, "FILE:LINE: ..." each; ERR_MISSING: no such file.  No
 * host at all is a problem, too. */
int hostfile_read(const char *path, struct hosts *out, struct err *err);
/* `from`: what messages call it ("--hosts"). */
int hostfile_list(const char *text, const char *from, struct hosts *out,
                  struct err *err);
/* cluster.hosts: each item as in a list. */
int hostfile_recipe(const struct strlist *items, struct hosts *out, struct err *err);
void hosts_release(struct hosts *h);

#endif
