#include "launcher/output.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/echo.h"
#include "launcher/line.h"

enum { WORDS = 400, LOOK_BYTES = 4 << 20 };

struct stream {
    struct output *of;
    enum output_stream which;
    struct line_buffer kept, shown; /* shown apart: a terminal sees redraws */
    char last[WORDS + 1];
};

struct output {
    struct output_spec spec;
    char *path, *prefix;
    int file;
    int why;              /* errno of what ended the keeping: a write, EFBIG, ENOSPC */
    int64_t kept, looked; /* bytes written; and then when free space was looked at */
    struct str block;
    struct stream stream[2];
};

struct output *output_new(const struct output_spec *s)
{
    struct output *o = xcalloc(1, sizeof(*o));

    o->spec = *s;
    if (o->spec.limit <= 0)
        o->spec.limit = OUTPUT_LIMIT;
    o->file = -1;
    o->path = xstrdup(s->path);
    o->prefix = xasprintf("%s:%d: ", s->host, s->rank);
    for (int i = 0; i < 2; i++) {
        o->stream[i].of = o;
        o->stream[i].which = (enum output_stream)i;
        o->stream[i].shown.redraws = s->terminal[i];
    }
    return o;
}

static void remember(struct stream *s, const char *bytes, size_t n)
{
    while (n && isspace((unsigned char)bytes[n - 1]))
        n--;
    while (n && isspace((unsigned char)*bytes)) {
        bytes++;
        n--;
    }
    if (!n)
        return;
    n = n < WORDS ? n : WORDS;
    memcpy(s->last, bytes, n);
    s->last[n] = '\0';
}

static void keep_line(void *arg, const char *bytes, size_t n)
{
    struct stream *s = arg;

    str_add(&s->of->block, bytes, n);
    remember(s, bytes, n);
}

static void show_line(void *arg, const char *bytes, size_t n)
{
    struct stream *s = arg;

    echo_line(s->of->spec.echo, s->of->spec.fd[s->which], s->of->prefix, bytes, n);
}

/* Looked at every so often: a rank that prints without end must not fill the disk. */
static int no_room(struct output *o, size_t more)
{
    struct statvfs fs;

    if (o->kept + (int64_t)more > o->spec.limit)
        return EFBIG;
    if (o->kept + (int64_t)more < o->looked + LOOK_BYTES)
        return 0;
    o->looked = o->kept;
    return fstatvfs(o->file, &fs) == 0 &&
                   (int64_t)(fs.f_bavail * fs.f_frsize) < OUTPUT_SPARE_BYTES
               ? ENOSPC
               : 0;
}

static void stop_keeping(struct output *o, int why)
{
    char *text =
        xasprintf("warning: from here on the output of rank %d is not kept: %s: "
                  "%s",
                  o->spec.rank, o->path, strerror(why));

    o->why = why;
    if (o->spec.echo)
        echo_line(o->spec.echo, STDERR_FILENO, "muster: ", text, strlen(text));
    free(text);
}

static int write_all(struct output *o)
{
    const char *at = o->block.text;
    size_t left = o->block.len;

    while (left) {
        ssize_t k = write(o->file, at, left);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return errno;
        at += k;
        left -= (size_t)k;
    }
    o->kept += (int64_t)o->block.len;
    return 0;
}

/* With the first bytes: of many ranks most say nothing, and to make hundreds of files
 * takes longer than to start their ranks. */
static int make_file(struct output *o)
{
    if (o->file < 0)
        o->file = open(o->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    return o->file < 0 ? errno : 0;
}

static void write_block(struct output *o)
{
    int why;

    if (!o->why && o->block.len) {
        why = make_file(o);
        if (!why)
            why = no_room(o, o->block.len);
        if (!why)
            why = write_all(o);
        if (why)
            stop_keeping(o, why);
    }
    str_clear(&o->block);
}

void output_bytes(struct output *o, enum output_stream which, const char *bytes,
                  size_t n)
{
    struct stream *s = &o->stream[which];

    line_feed(&s->kept, bytes, n, keep_line, s);
    write_block(o);
    if (o->spec.echo)
        line_feed(&s->shown, bytes, n, show_line, s);
}

void output_end(struct output *o, enum output_stream which)
{
    struct stream *s = &o->stream[which];

    line_finish(&s->kept, keep_line, s);
    write_block(o);
    if (o->spec.echo)
        line_finish(&s->shown, show_line, s);
}

const char *output_last_words(const struct output *o)
{
    const struct stream *err = &o->stream[OUTPUT_ERR];

    return *err->last ? err->last : o->stream[OUTPUT_OUT].last;
}

int output_close(struct output *o, struct err *err)
{
    int why;

    if (!o)
        return 0;
    why = o->why;
    if (o->file >= 0 && close(o->file) < 0 && !why)
        why = errno;
    if (why)
        err_set(err, ERR_SYSTEM, "%s: %s", o->path, strerror(why));
    for (int i = 0; i < 2; i++) {
        str_release(&o->stream[i].kept.held);
        str_release(&o->stream[i].shown.held);
    }
    str_release(&o->block);
    free(o->path);
    free(o->prefix);
    free(o);
    return why ? -1 : 0;
}
