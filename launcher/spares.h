/* spares.h - nodes held back (--spares, cluster.spares), to take the place of bad ones.
 *
 * A spare is a node of the topology that is set aside; so is a bad one.  Placements
 * leave both out. */
#ifndef LAUNCHER_SPARES_H
#define LAUNCHER_SPARES_H

struct err;
struct js;
struct placement;
struct str;
struct strlist;
struct topology;

/* Before the number of ranks is known: hold the last k nodes back, all but one at
 * most. */
void spares_reserve(struct topology *t, int k);
/* After the placement: k nodes that it does not use, each with as many GPUs as the node
 * of the placement that has most ranks, and where it stands for most nodes of the run in
 * its NVLink domain, then leaf, then pod (used nodes by spares there, as seats are dealt
 * out by D'Hondt); the first listed among equals.  ERR_USAGE: there are fewer. */
int spares_choose(struct topology *t, const struct placement *p, int k,
                  struct err *err);
int spares_left(const struct topology *t);
/* Of these nodes, by name, those that no rank is placed on are bad from now on: their
 * number, and what is left of the spares serves on. */
int spares_drop(struct topology *t, const struct placement *p,
                const struct strlist *names);

/* The nodes of the ranks with blamed[rank] are bad, and as many spares come into
 * use, each the nearest one (domain, leaf, pod).
 * 0: none is blamed, or all nodes of several are (then it is not a node's fault), or
 * too few spares are left: nothing was changed.  Else their number. */
int spares_swap(struct topology *t, const struct placement *p, const char *blamed);

/* "n3, n4"; nothing when there are none. */
void spares_add_names(const struct topology *t, struct str *s);
struct js *spares_json(const struct topology *t); /* an array of names */

/* "node n2 is replaced by n3", of the placements before and after a swap. */
void spares_add_change(const struct topology *t, const struct placement *before,
                       const struct placement *after, struct str *s);

#endif
