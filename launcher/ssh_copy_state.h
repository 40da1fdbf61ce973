/* ssh_copy_state.h - a copy while it goes on.  Inner to ssh_copy.c and ssh_copy_*.c. */
#ifndef LAUNCHER_SSH_COPY_STATE_H
#define LAUNCHER_SSH_COPY_STATE_H

#include "base/err.h"
#include "base/str.h"
#include "launcher/ssh_copy.h"
#include "launcher/ssh_sftp.h"

enum { SSH_COPY_CHUNK = 32 * 1024 };

enum ssh_copy_stage {
    STAGE_VERSION,
    STAGE_FOLDERS, /* mkdir of every part; whether it was there shows at the end */
    STAGE_FOLDER,  /* lstat of the whole */
    STAGE_LOOK,    /* lstat of a file */
    STAGE_OPEN,
    STAGE_WRITE,
    STAGE_MODE,
    STAGE_CLOSE,
    STAGE_RENAME,
    STAGE_DRAIN,  /* a write failed: replies to those behind it */
    STAGE_REMOVE, /* what was written of the file */
    STAGE_ROOM,   /* how much is free there */
    STAGE_DONE,
};

struct ssh_copy_item {
    char *from, *to, *tmp; /* owned; remote paths whole */
    int mode;
    int64_t bytes;
};

struct ssh_copy {
    struct ssh_link *link;
    struct ssh_run *run;
    char *folder;
    struct ssh_copy_item *item;
    int n, at;
    enum ssh_copy_stage stage;
    size_t made; /* of `folder`: characters whose mkdir was sent */
    struct str out, in, complaint;
    uint32_t next_id;
    int in_flight;
    int posix_rename, statvfs;
    struct err why; /* a write failed */
    uint8_t handle[256];
    size_t handle_bytes;
    int fd; /* of item[at] here */
    int64_t bytes, sent, total;
    int64_t heard_ms;
};

/* ssh_copy_ask.c: one request each into c->out, counted in c->in_flight. */
void ssh_copy_ask_path(struct ssh_copy *c, enum sftp_type type, const char *path);
void ssh_copy_ask_mkdir(struct ssh_copy *c, const char *path);
void ssh_copy_ask_open(struct ssh_copy *c, const struct ssh_copy_item *i);
void ssh_copy_ask_mode(struct ssh_copy *c, const struct ssh_copy_item *i);
void ssh_copy_ask_close(struct ssh_copy *c);
void ssh_copy_ask_rename(struct ssh_copy *c, const struct ssh_copy_item *i);
void ssh_copy_ask_room(struct ssh_copy *c); /* how much is free in the folder */
/* As many blocks as may be on the way; -1: the file cannot be read. */
int ssh_copy_ask_writes(struct ssh_copy *c, const struct ssh_copy_item *i,
                        struct err *err);

#endif
