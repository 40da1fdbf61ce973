#include "launcher/frame.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"

enum { HEAD = 8, SMALL = 64, TEXT = 1 << 16, BLOB = 1 << 28, READ_MOST = 1 << 20 };

static const struct {
    const char *name;
    size_t limit;
} types[FRAME_TYPES] = {
    [FRAME_HELLO] = { "HELLO", 16 << 20 },
    [FRAME_READY] = { "READY", SMALL },
    [FRAME_STARTED] = { "STARTED", SMALL },
    [FRAME_FAILED] = { "FAILED", TEXT },
    [FRAME_OUT] = { "OUT", TEXT },
    [FRAME_ERR] = { "ERR", TEXT },
    [FRAME_EVENTS] = { "EVENTS", TEXT },
    [FRAME_PMIX] = { "PMIX", TEXT },
    [FRAME_FENCE] = { "FENCE", BLOB },
    [FRAME_MODEX] = { "MODEX", SMALL },
    [FRAME_FETCHED] = { "FETCHED", BLOB },
    [FRAME_EXIT] = { "EXIT", SMALL },
    [FRAME_EMPTY] = { "EMPTY", SMALL },
    [FRAME_CLOSED] = { "CLOSED", SMALL },
    [FRAME_WARN] = { "WARN", TEXT },
    [FRAME_JOB] = { "JOB", BLOB },
    [FRAME_GO] = { "GO", TEXT },
    [FRAME_FENCE_DONE] = { "FENCE_DONE", BLOB },
    [FRAME_MODEX_DONE] = { "MODEX_DONE", BLOB },
    [FRAME_FETCH] = { "FETCH", SMALL },
    [FRAME_SIGNAL] = { "SIGNAL", SMALL },
    [FRAME_END] = { "END", SMALL },
    [FRAME_HOLD] = { "HOLD", SMALL },
    [FRAME_CLOSE] = { "CLOSE", SMALL },
    [FRAME_TAKEN] = { "TAKEN", SMALL },
    [FRAME_STDIN] = { "STDIN", TEXT },
    [FRAME_ALIVE] = { "ALIVE", SMALL },
};

const char *frame_name(uint32_t type)
{
    return type < FRAME_TYPES && types[type].name ? types[type].name : "?";
}

size_t frame_limit(uint32_t type)
{
    return type < FRAME_TYPES ? types[type].limit : 0;
}

/* ---- numbers ---- */

static void put_u32(unsigned char *to, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(v >> 8 * i);
}

static uint32_t get_u32(const unsigned char *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* ---- writing ---- */

void frame_begin(struct frame_out *o, enum frame_type type)
{
    char head[HEAD] = { 0 };

    put_u32((unsigned char *)head + 4, type);
    o->begun = o->bytes.len;
    str_add(&o->bytes, head, HEAD);
}

void frame_add_u32(struct frame_out *o, uint32_t v)
{
    unsigned char b[4];

    put_u32(b, v);
    str_add(&o->bytes, (const char *)b, sizeof(b));
}

void frame_add_u64(struct frame_out *o, uint64_t v)
{
    frame_add_u32(o, (uint32_t)v);
    frame_add_u32(o, (uint32_t)(v >> 32));
}

void frame_add_piece(struct frame_out *o, const void *bytes, size_t n)
{
    /* A length that does not fit is over any limit: frame_end() drops the frame. */
    frame_add_u32(o, n > UINT32_MAX ? UINT32_MAX : (uint32_t)n);
    if (n)
        str_add(&o->bytes, bytes, n);
}

void frame_add_text(struct frame_out *o, const char *text)
{
    frame_add_piece(o, text ? text : "", text ? strlen(text) + 1 : 1);
}

int frame_end(struct frame_out *o, struct err *err)
{
    unsigned char *head = (unsigned char *)o->bytes.text + o->begun;
    size_t n = o->bytes.len - o->begun - HEAD;
    uint32_t type = get_u32(head + 4);

    if (n <= frame_limit(type)) {
        put_u32(head, (uint32_t)n);
        return 0;
    }
    o->bytes.len = o->begun;
    return err_set(err, ERR_SYSTEM,
                   "a %s message of %zu bytes is too large, the limit is %zu",
                   frame_name(type), n, frame_limit(type));
}

void frame_put(struct frame_out *o, enum frame_type type)
{
    frame_begin(o, type);
    frame_end(o, NULL);
}

void frame_put_u32(struct frame_out *o, enum frame_type type, uint32_t v)
{
    frame_begin(o, type);
    frame_add_u32(o, v);
    frame_end(o, NULL);
}

size_t frame_pending(const struct frame_out *o)
{
    return o->bytes.len - o->sent;
}

/* Keep the buffer as small as what waits in it. */
static void forget_sent(struct frame_out *o)
{
    if (o->sent == o->bytes.len) {
        str_clear(&o->bytes);
        o->sent = 0;
    } else if (o->sent > (1 << 20) && o->sent > o->bytes.len / 2) {
        memmove(o->bytes.text, o->bytes.text + o->sent, o->bytes.len - o->sent);
        o->bytes.len -= o->sent;
        o->sent = 0;
    }
}

int frame_flush(struct frame_out *o, int fd)
{
    int rc = 0;

    while (frame_pending(o)) {
        ssize_t n = write(fd, o->bytes.text + o->sent, frame_pending(o));
        if (n > 0) {
            o->sent += (size_t)n;
        } else if (n < 0 && errno != EINTR) {
            rc = errno == EAGAIN ? 0 : -1;
            break;
        }
    }
    forget_sent(o);
    return rc;
}

void frame_out_release(struct frame_out *o)
{
    str_release(&o->bytes);
    *o = (struct frame_out){ .sent = 0 };
}

/* ---- reading ---- */

void frame_feed(struct frame_in *in, const void *bytes, size_t n)
{
    if (in->used == in->bytes.len) {
        str_clear(&in->bytes);
        in->used = 0;
    } else if (in->used > (1 << 20)) {
        memmove(in->bytes.text, in->bytes.text + in->used, in->bytes.len - in->used);
        in->bytes.len -= in->used;
        in->used = 0;
    }
    str_add(&in->bytes, bytes, n);
}

int frame_read(struct frame_in *in, int fd)
{
    char buf[1 << 16];
    size_t all = 0;

    while (all < READ_MOST) {
        ssize_t n = read(fd, buf, sizeof(buf));
        if (n > 0) {
            frame_feed(in, buf, (size_t)n);
            all += (size_t)n;
        } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
            return all ? 1 : -1; /* the end shows again at the next call */
        } else if (errno == EAGAIN) {
            break;
        }
    }
    return all > 0;
}

/* The first printable words of what came instead of a greeting. */
static int no_greeting(const struct frame_in *in, struct err *err)
{
    struct str s = STR_INIT;
    int rc;

    for (size_t i = 0; i < in->bytes.len && s.len < 120; i++) {
        char c = in->bytes.text[i];
        if (c >= ' ' && c <= '~')
            str_add(&s, &c, 1);
        else if (c == '\n' && s.len)
            str_add(&s, " ", 1);
    }
    rc = err_set(err, ERR_FAILED,
                 "it printed this where muster's agent should have answered: %s",
                 s.len ? s.text : "(nothing readable)");
    str_release(&s);
    return rc;
}

static int find_greeting(struct frame_in *in, struct err *err)
{
    const size_t n = sizeof(FRAME_GREETING) - 1;
    const char *at =
        in->bytes.len ? memmem(in->bytes.text, in->bytes.len, FRAME_GREETING, n) : NULL;

    if (at) {
        in->used = (size_t)(at - in->bytes.text) + n;
        in->greeted = 1;
        return 1;
    }
    return in->bytes.len > FRAME_NOISE ? no_greeting(in, err) : 0;
}

int frame_next(struct frame_in *in, struct frame *f, struct err *err)
{
    const unsigned char *head;
    uint32_t n, type;
    int rc = in->greeted ? 1 : find_greeting(in, err);

    if (rc <= 0 || in->bytes.len - in->used < HEAD)
        return rc < 0 ? -1 : 0;
    head = (const unsigned char *)in->bytes.text + in->used;
    n = get_u32(head);
    type = get_u32(head + 4);
    if (!frame_limit(type) || n > frame_limit(type))
        return err_set(err, ERR_FAILED,
                       "a message of type %u and %u bytes is none of muster's (is "
                       "something else writing to the stream?)",
                       type, n);
    if (in->bytes.len - in->used - HEAD < n)
        return 0;
    *f = (struct frame){ .type = type, .at = head + HEAD, .left = n };
    in->used += HEAD + (size_t)n;
    return 1;
}

void frame_in_release(struct frame_in *in)
{
    str_release(&in->bytes);
    *in = (struct frame_in){ .used = 0 };
}

/* ---- the parts of a frame ---- */

static const unsigned char *take(struct frame *f, size_t n)
{
    const unsigned char *at = f->at;

    if (f->bad || n > f->left) {
        f->bad = 1;
        return NULL;
    }
    f->at += n;
    f->left -= n;
    return at;
}

uint32_t frame_u32(struct frame *f)
{
    const unsigned char *at = take(f, 4);

    return at ? get_u32(at) : 0;
}

uint64_t frame_u64(struct frame *f)
{
    uint64_t low = frame_u32(f);

    return low | (uint64_t)frame_u32(f) << 32;
}

const char *frame_piece(struct frame *f, size_t *n)
{
    const char *at;

    *n = frame_u32(f);
    at = (const char *)take(f, *n);
    if (!at)
        *n = 0;
    return at;
}

const char *frame_text(struct frame *f)
{
    size_t n;
    const char *at = frame_piece(f, &n);

    if (at && n > 0 && memchr(at, '\0', n) == at + n - 1)
        return at;
    f->bad = 1;
    return "";
}

int frame_done(const struct frame *f, struct err *err)
{
    if (!f->bad && f->left == 0)
        return 0;
    return err_set(err, ERR_FAILED, "a %s message is malformed", frame_name(f->type));
}
