#include <stddef.h>

#include "base/file.h"
#include "launcher/ssh_copy_state.h"

enum { IN_FLIGHT = 64, HELD_MAX = 8 * SSH_COPY_CHUNK };

static size_t begin(struct ssh_copy *c, enum sftp_type type)
{
    c->in_flight++;
    return sftp_begin(&c->out, type, c->next_id++);
}

void ssh_copy_ask_path(struct ssh_copy *c, enum sftp_type type, const char *path)
{
    size_t b = begin(c, type);

    sftp_add_text(&c->out, path);
    sftp_end(&c->out, b);
}

void ssh_copy_ask_mkdir(struct ssh_copy *c, const char *path)
{
    size_t b = begin(c, SFTP_MKDIR);

    sftp_add_text(&c->out, path);
    sftp_add_u32(&c->out, SFTP_ATTR_MODE);
    sftp_add_u32(&c->out, 0700);
    sftp_end(&c->out, b);
}

void ssh_copy_ask_open(struct ssh_copy *c, const struct ssh_copy_item *i)
{
    size_t b = begin(c, SFTP_OPEN);

    sftp_add_text(&c->out, i->tmp);
    sftp_add_u32(&c->out, SFTP_OPEN_WRITE | SFTP_OPEN_CREATE | SFTP_OPEN_ONLY_NEW);
    sftp_add_u32(&c->out, SFTP_ATTR_MODE);
    sftp_add_u32(&c->out, 0600);
    sftp_end(&c->out, b);
}

void ssh_copy_ask_mode(struct ssh_copy *c, const struct ssh_copy_item *i)
{
    size_t b = begin(c, SFTP_FSETSTAT);

    sftp_add_bytes(&c->out, c->handle, c->handle_bytes);
    sftp_add_u32(&c->out, SFTP_ATTR_MODE);
    sftp_add_u32(&c->out, (uint32_t)i->mode);
    sftp_end(&c->out, b);
}

void ssh_copy_ask_close(struct ssh_copy *c)
{
    size_t b = begin(c, SFTP_CLOSE);

    sftp_add_bytes(&c->out, c->handle, c->handle_bytes);
    sftp_end(&c->out, b);
}

void ssh_copy_ask_room(struct ssh_copy *c)
{
    size_t b = begin(c, SFTP_EXTENDED);

    sftp_add_text(&c->out, "statvfs@openssh.com");
    sftp_add_text(&c->out, c->folder);
    sftp_end(&c->out, b);
}

void ssh_copy_ask_rename(struct ssh_copy *c, const struct ssh_copy_item *i)
{
    size_t b = begin(c, c->posix_rename ? SFTP_EXTENDED : SFTP_RENAME);

    if (c->posix_rename)
        sftp_add_text(&c->out, "posix-rename@openssh.com");
    sftp_add_text(&c->out, i->tmp);
    sftp_add_text(&c->out, i->to);
    sftp_end(&c->out, b);
}

int ssh_copy_ask_writes(struct ssh_copy *c, const struct ssh_copy_item *i,
                        struct err *err)
{
    char buf[SSH_COPY_CHUNK];

    while (c->sent < c->bytes && c->in_flight < IN_FLIGHT && c->out.len < HELD_MAX) {
        size_t n = c->bytes - c->sent < SSH_COPY_CHUNK ? (size_t)(c->bytes - c->sent)
                                                       : SSH_COPY_CHUNK,
               b;
        if (file_read(c->fd, i->from, buf, n, c->sent, err) < 0)
            return -1;
        b = begin(c, SFTP_WRITE);
        sftp_add_bytes(&c->out, c->handle, c->handle_bytes);
        sftp_add_u64(&c->out, (uint64_t)c->sent);
        sftp_add_bytes(&c->out, buf, n);
        sftp_end(&c->out, b);
        c->sent += (int64_t)n;
        c->total += (int64_t)n;
    }
    return 0;
}
