/* echo.h - write to a terminal or pipe without ever waiting for it.
 *
 * A thread of its own does the writing, from a queue of at most ECHO_LIMIT
 * bytes.  A reader that is slow makes echo_full() true: the caller may then stop
 * reading its ranks for a while.  Lines that still find no room are dropped and
 * counted (the ranks' files have them), so a stopped terminal (Ctrl-S) never
 * stops a run.  A reader that went away (`| head`) is reported, and what is still
 * written to it is dropped uncounted. */
#ifndef LAUNCHER_ECHO_H
#define LAUNCHER_ECHO_H

#include <stddef.h>

struct err;
struct echo;

enum { ECHO_LIMIT = 16 << 20 };

int echo_open(struct echo **out, struct err *err);
/* One whole line to descriptor `fd` (1 or 2); a '\n' is added when it has none. */
void echo_line(struct echo *e, int fd, const char *prefix, const char *bytes, size_t n);
int echo_full(struct echo *e); /* over half of the room is taken */
/* Nobody reads descriptor `fd` any more (EPIPE; not a terminal that hung up). */
int echo_reader_gone(struct echo *e, int fd);
/* Write what is queued; gives up when the reader takes nothing for patience_ms.
 * Returns how many lines nobody got to see.  NULL is fine. */
long echo_close(struct echo *e, int patience_ms);

#endif
