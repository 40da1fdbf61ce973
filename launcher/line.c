#include "launcher/line.h"

#include <string.h>

/* On a terminal only what the last lone '\r' leaves of a line, behind its prefix. */
static void give(const struct line_buffer *b, const char *bytes, size_t n, line_fn fn,
                 void *arg)
{
    size_t end = n;
    const char *cr;

    while (end && (bytes[end - 1] == '\n' || bytes[end - 1] == '\r'))
        end--;
    cr = b->redraws && end ? memrchr(bytes, '\r', end) : NULL;
    if (cr)
        n -= (size_t)(cr + 1 - bytes);
    fn(arg, cr ? cr + 1 : bytes, n);
}

static void hand_on(struct line_buffer *b, const char *bytes, size_t n, line_fn fn,
                    void *arg)
{
    if (b->held.len == 0) {
        give(b, bytes, n, fn, arg);
        return;
    }
    str_add(&b->held, bytes, n);
    give(b, b->held.text, b->held.len, fn, arg);
    str_clear(&b->held);
}

/* The last redraw in bytes[n], without its '\r'; NULL when there is none.  A '\r'
 * at the very end may belong to a "\r\n" whose second half is still to come. */
static const char *last_redraw(const char *bytes, size_t n, size_t *len)
{
    const char *end = n > 1 ? memrchr(bytes, '\r', n - 1) : NULL;
    const char *start;

    if (!end || end == bytes)
        return NULL;
    start = memrchr(bytes, '\r', (size_t)(end - bytes));
    start = start ? start + 1 : bytes;
    *len = (size_t)(end - start);
    return start;
}

static void show_redraw(struct line_buffer *b, line_fn fn, void *arg)
{
    size_t len = 0, kept;
    const char *bar = last_redraw(b->held.text, b->held.len, &len);

    if (!bar)
        return;
    if (len)
        fn(arg, bar, len);
    kept = b->held.len - (size_t)(bar + len + 1 - b->held.text);
    memmove(b->held.text, b->held.text + b->held.len - kept, kept);
    b->held.len = kept;
}

void line_feed(struct line_buffer *b, const char *bytes, size_t n, line_fn fn,
               void *arg)
{
    const char *end = bytes + n, *nl;

    while (bytes < end && (nl = memchr(bytes, '\n', (size_t)(end - bytes)))) {
        hand_on(b, bytes, (size_t)(nl + 1 - bytes), fn, arg);
        bytes = nl + 1;
    }
    if (bytes < end)
        str_add(&b->held, bytes, (size_t)(end - bytes));
    if (b->redraws && b->held.len)
        show_redraw(b, fn, arg);
    if (b->held.len >= LINE_LIMIT)
        line_finish(b, fn, arg);
}

void line_finish(struct line_buffer *b, line_fn fn, void *arg)
{
    if (b->held.len)
        give(b, b->held.text, b->held.len, fn, arg);
    str_clear(&b->held);
}
