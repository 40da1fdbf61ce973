#include "launcher/ssh_copy_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"
#include "launcher/ssh.h"

enum { CHUNK = SSH_COPY_CHUNK, SILENCE_MS = 30000 };

/* --- the way through ---------------------------------------------------------------- */

static const struct ssh_copy_item *item_of(const struct ssh_copy *c)
{
    return &c->item[c->at];
}

/* The next part of the folder; 0: all were asked for. */
static int ask_folder(struct ssh_copy *c)
{
    const char *rest = c->folder + c->made;
    char *part;

    rest += strspn(rest, "/");
    if (!*rest)
        return 0;
    c->made = (size_t)(rest - c->folder) + strcspn(rest, "/");
    part = xstrndup(c->folder, c->made);
    ssh_copy_ask_mkdir(c, part);
    free(part);
    return 1;
}

static void look_at_next(struct ssh_copy *c)
{
    c->stage = c->at < c->n ? STAGE_LOOK : STAGE_DONE;
    if (c->stage == STAGE_LOOK)
        ssh_copy_ask_path(c, SFTP_LSTAT, item_of(c)->to);
}

static int cannot(const struct ssh_copy *c, const char *path, const char *what,
                  const struct sftp_reply *r, struct err *err)
{
    return err_set(err, ERR_SYSTEM, "%s: %s cannot be %s: %s", ssh_link_name(c->link),
                   path, what, r->message[0] ? r->message : "no reason given");
}

static int on_version(struct ssh_copy *c, const struct sftp_reply *r, struct err *err)
{
    if (r->type != SFTP_VERSION || r->version < 3)
        return err_set(err, ERR_SYSTEM, "%s: its SFTP server is too old",
                       ssh_link_name(c->link));
    c->posix_rename = r->posix_rename;
    c->statvfs = r->statvfs;
    c->stage = STAGE_FOLDERS;
    ask_folder(c);
    return 0;
}

static int on_folders(struct ssh_copy *c, const struct sftp_reply *r, struct err *err)
{
    (void)r;
    (void)err;
    if (ask_folder(c))
        return 0;
    c->stage = STAGE_FOLDER;
    ssh_copy_ask_path(c, SFTP_LSTAT, c->folder);
    return 0;
}

static int on_folder(struct ssh_copy *c, const struct sftp_reply *r, struct err *err)
{
    if (r->type != SFTP_ATTRS || !r->has_mode)
        return cannot(c, c->folder, "made", r, err);
    if (!S_ISDIR(r->mode) || (r->mode & 077))
        return err_set(err, ERR_FAILED,
                       "%s: %s is not a private folder (mode %o): remove it, or chmod "
                       "700 it",
                       ssh_link_name(c->link), c->folder, r->mode);
    look_at_next(c);
    return 0;
}

static int on_look(struct ssh_copy *c, const struct sftp_reply *r, struct err *err)
{
    const struct ssh_copy_item *i = item_of(c);

    if (file_open(i->from, &c->fd, &c->bytes, err) < 0)
        return -1;
    if (r->type == SFTP_ATTRS && r->has_size && r->size == (uint64_t)c->bytes &&
        S_ISREG(r->mode) && (r->mode & 07777) == (uint32_t)i->mode) {
        close(c->fd);
        c->fd = -1;
        c->at++;
        look_at_next(c);
        return 0;
    }
    c->sent = 0;
    c->stage = STAGE_OPEN;
    ssh_copy_ask_open(c, i);
    return 0;
}

static int on_open(struct ssh_copy *c, const struct sftp_reply *r, struct err *err)
{
    if (r->type != SFTP_HANDLE)
        return cannot(c, item_of(c)->tmp, "made", r, err);
    memcpy(c->handle, r->handle, r->handle_bytes);
    c->handle_bytes = r->handle_bytes;
    c->stage = STAGE_WRITE;
    return 0;
}

/* --- a write failed: leave nothing half, and say why ----------------------------------- */

/* Not a word of SFTP tells a full disk from another fault: how much is free does. */
static int full(struct ssh_copy *c, const struct sftp_reply *r, struct err *err)
{
    int64_t all = 0, free_mib = (int64_t)(r->room >> 20);

    for (int i = 0; i < c->n; i++)
        all += c->item[i].bytes;
    all = (all + (1 << 20) - 1) >> 20;
    if (r->type == SFTP_EXTENDED_REPLY && free_mib < all)
        return err_set(err, ERR_SYSTEM,
                       "%s: %s cannot be written, the disk is full: %lld MiB are free "
                       "there, %lld MiB are needed; make room, or install muster there",
                       ssh_link_name(c->link), item_of(c)->to, (long long)free_mib,
                       (long long)all);
    return err_set(err, c->why.code, "%s (is a quota used up? %lld MiB are needed)",
                   err_text(&c->why), (long long)all);
}

static int on_room(struct ssh_copy *c, const struct sftp_reply *r, struct err *err)
{
    return full(c, r, err);
}

static int on_remove(struct ssh_copy *c, const struct sftp_reply *r, struct err *err)
{
    if (!c->statvfs)
        return full(c, r, err);
    c->stage = STAGE_ROOM;
    ssh_copy_ask_room(c);
    return 0;
}

static int on_drain(struct ssh_copy *c, const struct sftp_reply *r, struct err *err)
{
    (void)r;
    (void)err;
    if (c->in_flight)
        return 0;
    c->stage = STAGE_REMOVE;
    ssh_copy_ask_path(c, SFTP_REMOVE, item_of(c)->tmp);
    return 0;
}

static int fail(struct ssh_copy *c, const char *what, const struct sftp_reply *r)
{
    cannot(c, item_of(c)->tmp, what, r, &c->why);
    c->stage = STAGE_DRAIN;
    ssh_copy_ask_close(c);
    return 0;
}

static int on_write(struct ssh_copy *c, const struct sftp_reply *r, struct err *err)
{
    (void)err;
    return r->type != SFTP_STATUS || r->status != SFTP_OK ? fail(c, "written", r) : 0;
}

static int on_mode(struct ssh_copy *c, const struct sftp_reply *r, struct err *err)
{
    if (r->type != SFTP_STATUS || r->status != SFTP_OK)
        return cannot(c, item_of(c)->tmp, "given its mode", r, err);
    c->stage = STAGE_CLOSE;
    ssh_copy_ask_close(c);
    return 0;
}

static int on_close(struct ssh_copy *c, const struct sftp_reply *r, struct err *err)
{
    (void)err;
    if (r->type != SFTP_STATUS || r->status != SFTP_OK)
        return fail(c, "closed", r);
    close(c->fd);
    c->fd = -1;
    c->stage = STAGE_RENAME;
    ssh_copy_ask_rename(c, item_of(c));
    return 0;
}

static int on_rename(struct ssh_copy *c, const struct sftp_reply *r, struct err *err)
{
    if (r->type != SFTP_STATUS || r->status != SFTP_OK)
        return cannot(c, item_of(c)->to, "put in its place", r, err);
    c->at++;
    look_at_next(c);
    return 0;
}

static int (*const on_reply[])(struct ssh_copy *c, const struct sftp_reply *r,
                               struct err *err) = {
    [STAGE_VERSION] = on_version, [STAGE_FOLDERS] = on_folders,
    [STAGE_FOLDER] = on_folder,   [STAGE_LOOK] = on_look,
    [STAGE_OPEN] = on_open,       [STAGE_WRITE] = on_write,
    [STAGE_MODE] = on_mode,       [STAGE_CLOSE] = on_close,
    [STAGE_RENAME] = on_rename,   [STAGE_DRAIN] = on_drain,
    [STAGE_REMOVE] = on_remove,   [STAGE_ROOM] = on_room,
};

static int take_replies(struct ssh_copy *c, struct err *err)
{
    struct sftp_reply r;
    int rc;

    while ((rc = sftp_parse(&c->in, &r, err)) == 1) {
        sftp_drop(&c->in, &r);
        if (c->in_flight == 0 || c->stage == STAGE_DONE)
            return err_set(err, ERR_SYSTEM, "%s: an SFTP reply to nothing",
                           ssh_link_name(c->link));
        c->in_flight--;
        c->heard_ms = clock_ms();
        if (on_reply[c->stage](c, &r, err) < 0)
            return -1;
    }
    return rc < 0 ? err_wrap(err, "%s", ssh_link_name(c->link)) : 0;
}

/* --- bytes -------------------------------------------------------------------------- */

static int read_replies(struct ssh_copy *c, struct err *err)
{
    char buf[CHUNK];
    ssize_t n;

    while ((n = ssh_run_read(c->run, SSH_STDERR, buf, sizeof(buf))) > 0)
        if (c->complaint.len < 1000)
            str_add(&c->complaint, buf, (size_t)n);
    while ((n = ssh_run_read(c->run, SSH_STDOUT, buf, sizeof(buf))) > 0) {
        str_add(&c->in, buf, (size_t)n);
        if (take_replies(c, err) < 0)
            return -1;
    }
    if (n == 0 || c->stage == STAGE_DONE)
        return 0;
    if (ssh_run_state(c->run) == SSH_RUN_REFUSED)
        return err_set(err, ERR_SYSTEM,
                       "%s: its sshd offers no SFTP (%s): set `Subsystem sftp "
                       "internal-sftp` in sshd_config, or install muster there",
                       ssh_link_name(c->link), ssh_run_reason(c->run));
    return err_set(err, ERR_SYSTEM, "%s: SFTP ended before its end%s%s",
                   ssh_link_name(c->link), c->complaint.len ? ": " : "",
                   c->complaint.len ? c->complaint.text : "");
}

static void write_requests(struct ssh_copy *c)
{
    ssize_t n;

    while (c->out.len && (n = ssh_run_write(c->run, c->out.text, c->out.len)) > 0) {
        c->out.len -= (size_t)n;
        memmove(c->out.text, c->out.text + n, c->out.len);
    }
}

int ssh_copy_step(struct ssh_copy *c, struct err *err)
{
    if (read_replies(c, err) < 0)
        return -1;
    if (c->stage == STAGE_WRITE) {
        if (ssh_copy_ask_writes(c, item_of(c), err) < 0)
            return -1;
        if (c->sent == c->bytes && c->in_flight == 0) {
            c->stage = STAGE_MODE;
            ssh_copy_ask_mode(c, item_of(c));
        }
    }
    write_requests(c);
    if (c->stage != STAGE_DONE && clock_ms() - c->heard_ms > SILENCE_MS)
        return err_set(err, ERR_TIMEOUT, "%s: SFTP has not answered for %d s",
                       ssh_link_name(c->link), SILENCE_MS / 1000);
    return c->stage == STAGE_DONE;
}

int64_t ssh_copy_bytes(const struct ssh_copy *c)
{
    return c->total;
}

/* --- begin and end ------------------------------------------------------------------ */

static void add_item(struct ssh_copy *c, const struct ssh_copy_file *f)
{
    struct ssh_copy_item *i = &c->item[c->n++];
    uint64_t mark = 0;
    struct stat st;

    if (getrandom(&mark, sizeof(mark), 0) < 0)
        mark = (uint64_t)clock_ms() ^ (uint64_t)getpid() << 32;
    i->from = xstrdup(f->from);
    i->to = xasprintf("%s/%s", c->folder, f->name);
    i->tmp = xasprintf("%s.%016llx", i->to, (unsigned long long)mark);
    i->mode = f->mode & 0700;
    i->bytes = stat(f->from, &st) == 0 ? st.st_size : 0;
}

int ssh_copy_start(struct ssh_link *link, const char *folder,
                   const struct ssh_copy_file *files, int n, struct ssh_copy **out,
                   struct err *err)
{
    struct ssh_run *run;
    struct ssh_copy *c;
    size_t b;

    for (int i = 0; i < n; i++)
        if (access(files[i].from, R_OK) < 0)
            return err_set(err, ERR_MISSING, "%s: %s", files[i].from, strerror(errno));
    run = ssh_run_subsystem(link, "sftp", err);
    if (!run)
        return -1;
    c = xcalloc(1, sizeof(*c));
    c->link = link;
    c->run = run;
    c->folder = xstrdup(folder);
    c->item = xcalloc((size_t)n + 1, sizeof(*c->item));
    c->fd = -1;
    c->heard_ms = clock_ms();
    for (int i = 0; i < n; i++)
        add_item(c, &files[i]);
    b = sftp_begin(&c->out, SFTP_INIT, 0);
    sftp_add_u32(&c->out, 3);
    sftp_end(&c->out, b);
    c->in_flight = 1;
    *out = c;
    return 0;
}

void ssh_copy_free(struct ssh_copy *c)
{
    if (!c)
        return;
    ssh_run_free(c->run);
    err_release(&c->why);
    if (c->fd >= 0)
        close(c->fd);
    for (int i = 0; i < c->n; i++) {
        free(c->item[i].from);
        free(c->item[i].to);
        free(c->item[i].tmp);
    }
    free(c->item);
    free(c->folder);
    str_release(&c->out);
    str_release(&c->in);
    str_release(&c->complaint);
    free(c);
}
