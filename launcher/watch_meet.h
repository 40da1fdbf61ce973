/* watch_meet.h - the meetings of ranks: who has arrived where, how often.
 *
 * A stage may be met at many times (a fence a step): the k-th meeting of a stage
 * is complete when every rank has arrived k times.  Inner to watch. */
#ifndef LAUNCHER_WATCH_MEET_H
#define LAUNCHER_WATCH_MEET_H

#include <stdint.h>

struct meetings;

struct meetings *meetings_new(int world);
void meetings_free(struct meetings *m);

/* A meeting that waits from now on, though nobody is there yet. */
void meetings_open(struct meetings *m, const char *stage, int64_t now);
/* A stage beyond the 32nd is not followed. */
void meetings_arrive(struct meetings *m, const char *stage, int rank, int64_t now);
/* The rank goes, and waits nowhere any more.  A meeting whose every arrived rank
 * has gone is over. */
void meetings_leave(struct meetings *m, int rank);
void meetings_shift(struct meetings *m, int64_t ms);

/* The stage of a meeting that opened at `before` or earlier and is not complete;
 * NULL: none.  Borrowed. */
const char *meetings_late(const struct meetings *m, int64_t before);
int meetings_misses(const struct meetings *m, const char *stage, int rank);
int64_t meetings_oldest(const struct meetings *m); /* -1: none is open */

#endif
