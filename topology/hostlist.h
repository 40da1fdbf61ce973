/* hostlist.h - lists of host names as Slurm writes them: "gn[01-04,07],login".
 *
 * Words stand between commas or blanks.  A bracket holds numbers and ranges; the
 * zeros in front of a range's first number give its width.  Several brackets are
 * their product in Slurm's order: the last runs fastest, then the first, the second,
 * ... (`x[0-1][0-1]-[0-1]` is x00-0 x00-1 x10-0 x10-1 x01-0 ...).  Order and
 * repeats are kept; what Slurm accepts in silence and means otherwise (`n[1-2`, a
 * range that ends at 2^64-1, `n[3-]`) is refused, and so is text after the last
 * bracket, as Slurm does.  Checked against scontrol 22.05.8.
 *
 * Everything is bounded and counted before the first allocation. */
#ifndef TOPOLOGY_HOSTLIST_H
#define TOPOLOGY_HOSTLIST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct err;
struct strlist;

enum {
    HOSTLIST_TEXT_MAX = 1 << 20, /* bytes of a list */
    HOSTLIST_RANGE_MAX = 65536,  /* numbers of one range, as in Slurm */
    HOSTLIST_MAX = 131072,       /* hosts of a list */
    HOSTLIST_NAME_MAX = 255,     /* bytes of a name */
    HOSTLIST_BRACKETS_MAX = 8    /* of a word */
};

/* The names; *names is replaced on success and is the caller's to release.  A list
 * without a single host is an error.  Code ERR_USAGE. */
int hostlist_expand(const char *text, struct strlist *names, struct err *err);

/* How many names hostlist_expand() would give, without making them. */
int hostlist_count(const char *text, int *n, struct err *err);

/* The shortest list in the given order, as Slurm folds: a name joins the range before
 * it when it is that range's next number written to the same width.  Expanding it
 * gives exactly the names again.  "" for none; free(). */
char *hostlist_fold(const struct strlist *names);

/* Keep the first of each name; repeats are taken out and named once each in *repeated
 * (appended; may be NULL).  Returns how many were taken out. */
int hostlist_unique(struct strlist *names, struct strlist *repeated);

/* Is this one host's name: letters, digits and ._:@- (not - in front)? */
int hostlist_name_valid(const char *name);

#ifdef __cplusplus
}
#endif
#endif
