/* beat.h - says ALIVE (frame.h) from a thread of its own.
 *
 * The other side takes us for lost when it has heard nothing for a while.  Our loop may be
 * away for longer than that without anything being wrong: it starts ranks, it waits for a
 * library, the machine is loaded.  The thread only sleeps and writes, so it comes in time.
 * A process that is stopped says nothing, its thread neither. */
#ifndef LAUNCHER_BEAT_H
#define LAUNCHER_BEAT_H

struct beat;
struct err;
struct frame_out;

/* For `n` streams, none of them open.  ERR_SYSTEM. */
int beat_new(int n, struct beat **out, struct err *err);
/* Stream i is said to be alive from here on: an ALIVE where nothing else has gone for
 * FRAME_ALIVE_MS.  fd is nonblocking, and the caller's. */
void beat_open(struct beat *b, int i, int fd);
/* frame_flush() to its fd: all that is written to it goes this way. */
int beat_flush(struct beat *b, int i, struct frame_out *o);
/* Before its fd is closed.  A stream that is not open is fine. */
void beat_close(struct beat *b, int i);
void beat_free(struct beat *b); /* NULL is fine */

#endif
