/* logs.h - what the ranks of a run wrote, read from its folder.
 *
 * DIR/ranks/HOST.RANK.log holds a rank's whole output.  Lines are written whole,
 * prefixed "HOST:RANK ", bytes unchanged; a last line without an end gets one. */
#ifndef LAUNCHER_LOGS_H
#define LAUNCHER_LOGS_H

#include <stdio.h>

struct err;

struct logs;

/* rank -1: all ranks, in order of rank. */
struct logs *logs_open(const char *dir, int rank);
/* Write what is new; last: partial lines too.  Looks for new files each time.
 * Returns bytes written, or -1. */
long logs_write(struct logs *l, FILE *to, int last, struct err *err);
/* Files seen so far. */
int logs_count(const struct logs *l);
void logs_close(struct logs *l);

#endif
