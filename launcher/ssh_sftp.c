#include "launcher/ssh_sftp.h"

#include <string.h>

#include "base/err.h"

/* --- requests ----------------------------------------------------------------------- */

static void put_u32(uint8_t *to, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(v >> (24 - 8 * i));
}

void sftp_add_u32(struct str *out, uint32_t v)
{
    uint8_t b[4];

    put_u32(b, v);
    str_add(out, (const char *)b, sizeof(b));
}

void sftp_add_u64(struct str *out, uint64_t v)
{
    sftp_add_u32(out, (uint32_t)(v >> 32));
    sftp_add_u32(out, (uint32_t)v);
}

void sftp_add_bytes(struct str *out, const void *bytes, size_t n)
{
    sftp_add_u32(out, (uint32_t)n);
    str_add(out, bytes, n);
}

void sftp_add_text(struct str *out, const char *text)
{
    sftp_add_bytes(out, text, strlen(text));
}

size_t sftp_begin(struct str *out, enum sftp_type type, uint32_t id)
{
    size_t begin = out->len;
    char t = (char)type;

    sftp_add_u32(out, 0);
    str_add(out, &t, 1);
    if (type != SFTP_INIT)
        sftp_add_u32(out, id);
    return begin;
}

void sftp_end(struct str *out, size_t begin)
{
    put_u32((uint8_t *)out->text + begin, (uint32_t)(out->len - begin - 4));
}

/* --- replies ------------------------------------------------------------------------ */

/* What is left of a packet; `bad` once it was too short. */
struct rest {
    const uint8_t *at;
    size_t n;
    int bad;
};

static const uint8_t *take(struct rest *r, size_t n)
{
    const uint8_t *at = r->at;

    if (r->bad || n > r->n) {
        r->bad = 1;
        return NULL;
    }
    r->at += n;
    r->n -= n;
    return at;
}

static uint32_t take_u32(struct rest *r)
{
    const uint8_t *b = take(r, 4);

    return b ? (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3]
             : 0;
}

static uint64_t take_u64(struct rest *r)
{
    uint64_t high = take_u32(r);

    return high << 32 | take_u32(r);
}

static const uint8_t *take_bytes(struct rest *r, size_t *n)
{
    *n = take_u32(r);
    return take(r, *n);
}

static void parse_status(struct rest *r, struct sftp_reply *out)
{
    const uint8_t *text;
    size_t n;

    out->status = take_u32(r);
    if (r->n == 0)
        return; /* version 2 had no message */
    text = take_bytes(r, &n);
    if (!text)
        return;
    if (n >= sizeof(out->message))
        n = sizeof(out->message) - 1;
    memcpy(out->message, text, n);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)out->message[i] < ' ')
            out->message[i] = '?';
}

static void parse_handle(struct rest *r, struct sftp_reply *out)
{
    size_t n;
    const uint8_t *h = take_bytes(r, &n);

    if (!h || n > sizeof(out->handle)) {
        r->bad = 1;
        return;
    }
    memcpy(out->handle, h, n);
    out->handle_bytes = n;
}

static void parse_attrs(struct rest *r, struct sftp_reply *out)
{
    uint32_t flags = take_u32(r);

    if (flags & SFTP_ATTR_SIZE) {
        out->size = take_u64(r);
        out->has_size = 1;
    }
    if (flags & 2)
        take(r, 8); /* owner and group */
    if (flags & SFTP_ATTR_MODE) {
        out->mode = take_u32(r);
        out->has_mode = 1;
    }
}

static int is_text(const uint8_t *bytes, size_t n, const char *text)
{
    return bytes && n == strlen(text) && memcmp(bytes, text, n) == 0;
}

/* Pairs of name and value follow the version. */
static void parse_version(struct rest *r, struct sftp_reply *out)
{
    while (r->n && !r->bad) {
        size_t n, m;
        const uint8_t *name = take_bytes(r, &n);
        const uint8_t *value = take_bytes(r, &m);
        out->posix_rename |=
            is_text(name, n, "posix-rename@openssh.com") && is_text(value, m, "1");
        out->statvfs |=
            is_text(name, n, "statvfs@openssh.com") && is_text(value, m, "2");
    }
}

/* f_bsize, f_frsize, f_blocks, f_bfree, f_bavail and six more. */
static void parse_room(struct rest *r, struct sftp_reply *out)
{
    uint64_t unit, blocks;

    take_u64(r);
    unit = take_u64(r);
    take(r, 16);
    blocks = take_u64(r);
    out->room = unit && blocks > UINT64_MAX / unit ? UINT64_MAX : unit * blocks;
}

int sftp_parse(const struct str *in, struct sftp_reply *out, struct err *err)
{
    struct rest r = { (const uint8_t *)in->text, in->len, 0 };
    uint32_t length;

    if (in->len < 4)
        return 0;
    length = take_u32(&r);
    if (length < 5 || length > SFTP_PACKET_MAX)
        return err_set(err, ERR_SYSTEM,
                       "what answers is no SFTP server (does the remote shell print "
                       "something at login?)");
    if (r.n < length)
        return 0;
    r.n = length;
    memset(out, 0, sizeof(*out));
    out->bytes = 4 + (size_t)length;
    out->type = *take(&r, 1);
    out->id = take_u32(&r);
    switch (out->type) {
    case SFTP_VERSION:
        out->version = out->id;
        parse_version(&r, out);
        break;
    case SFTP_STATUS:
        parse_status(&r, out);
        break;
    case SFTP_HANDLE:
        parse_handle(&r, out);
        break;
    case SFTP_ATTRS:
        parse_attrs(&r, out);
        break;
    case SFTP_EXTENDED_REPLY:
        parse_room(&r, out);
        break;
    default:
        break;
    }
    return r.bad ? err_set(err, ERR_SYSTEM, "an SFTP reply is cut short") : 1;
}

void sftp_drop(struct str *in, const struct sftp_reply *r)
{
    in->len -= r->bytes;
    memmove(in->text, in->text + r->bytes, in->len);
}
