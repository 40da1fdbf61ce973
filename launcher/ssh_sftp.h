/* ssh_sftp.h - the few SFTP packets that copying a file needs, as bytes.
 *
 * draft-ietf-secsh-filexfer-02 (version 3, what OpenSSH speaks).  libssh 0.10 has a
 * client, too, but each of its calls waits without a deadline, one request at a time,
 * and none can be driven by a loop over many hosts. */
#ifndef LAUNCHER_SSH_SFTP_H
#define LAUNCHER_SSH_SFTP_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct err;

enum sftp_type {
    SFTP_INIT = 1,
    SFTP_VERSION = 2,
    SFTP_OPEN = 3,
    SFTP_CLOSE = 4,
    SFTP_WRITE = 6,
    SFTP_LSTAT = 7,
    SFTP_FSETSTAT = 10,
    SFTP_REMOVE = 13,
    SFTP_MKDIR = 14,
    SFTP_RENAME = 18,
    SFTP_STATUS = 101,
    SFTP_HANDLE = 102,
    SFTP_ATTRS = 105,
    SFTP_EXTENDED = 200,
    SFTP_EXTENDED_REPLY = 201, /* here: of statvfs@openssh.com */
};

enum { SFTP_ATTR_SIZE = 1, SFTP_ATTR_MODE = 4 };
enum { SFTP_OPEN_WRITE = 2, SFTP_OPEN_CREATE = 8, SFTP_OPEN_ONLY_NEW = 32 };
enum { SFTP_OK = 0, SFTP_NO_SUCH_FILE = 2 };
enum { SFTP_PACKET_MAX = 256 * 1024 };

/* --- requests: begin, the fields in order, end -------------------------------------- */

/* `id` is left out for SFTP_INIT.  The value goes to sftp_end(). */
size_t sftp_begin(struct str *out, enum sftp_type type, uint32_t id);
void sftp_add_u32(struct str *out, uint32_t v);
void sftp_add_u64(struct str *out, uint64_t v);
void sftp_add_bytes(struct str *out, const void *bytes,
                    size_t n); /* with their length */
void sftp_add_text(struct str *out, const char *text);
void sftp_end(struct str *out, size_t begin); /* writes the length */

/* --- replies ------------------------------------------------------------------------ */

struct sftp_reply {
    size_t bytes; /* of the packet, its length included: to be dropped from `in` */
    enum sftp_type type;
    uint32_t id;
    uint32_t status; /* SFTP_STATUS */
    char message[256];
    uint8_t handle[256]; /* SFTP_HANDLE */
    size_t handle_bytes;
    int has_size, has_mode; /* SFTP_ATTRS */
    uint64_t size;
    uint32_t mode;
    uint32_t version; /* SFTP_VERSION */
    int posix_rename; /* it renames over a file that exists */
    int statvfs;      /* it tells how much room there is */
    uint64_t room;    /* SFTP_EXTENDED_REPLY: bytes free for the user */
};

/* The first packet of `in`: 1; 0 it is not whole yet; -1 it is none (ERR_SYSTEM).
 * Packets of other types have their type and id only. */
int sftp_parse(const struct str *in, struct sftp_reply *out, struct err *err);
void sftp_drop(struct str *in, const struct sftp_reply *r);

#endif
