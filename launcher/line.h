/* line.h - cut a stream of bytes into whole lines.
 *
 * Bytes pass unchanged, newline included; invalid UTF-8 and NUL are bytes like
 * others.  A line longer than LINE_LIMIT is handed on in pieces.  A progress bar
 * redraws with '\r' and no newline: for a terminal (`redraws`), what stands
 * before the last lone '\r' of a read is handed on as a line, so that the bar is
 * seen moving, and of a line only what its last lone '\r' leaves; else '\r' is a
 * byte like others (case C18). */
#ifndef LAUNCHER_LINE_H
#define LAUNCHER_LINE_H

#include <stddef.h>

#include "base/str.h"

enum { LINE_LIMIT = 1 << 20 };

struct line_buffer {
    struct str held; /* begun, not ended */
    int redraws;
};

/* `n` bytes with a '\n' at the end, except for a piece of a line that is too
 * long, a redrawn line or the last one. */
typedef void (*line_fn)(void *arg, const char *bytes, size_t n);

void line_feed(struct line_buffer *b, const char *bytes, size_t n, line_fn fn,
               void *arg);
void line_finish(struct line_buffer *b, line_fn fn, void *arg); /* end of stream */

#endif
