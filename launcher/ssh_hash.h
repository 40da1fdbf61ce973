/* ssh_hash.h - the one use of libcrypto: hashed names of known_hosts.
 *
 * sshd(8): "|1|SALT|HASH", both base64 of 20 bytes, HASH = HMAC-SHA1(SALT, name). */
#ifndef LAUNCHER_SSH_HASH_H
#define LAUNCHER_SSH_HASH_H

#include <stddef.h>
#include <stdint.h>

enum { SSH_HASH_BYTES = 20 };

/* 0; -1: this build has no libcrypto. */
int ssh_hash_name(const uint8_t salt[SSH_HASH_BYTES], const char *name,
                  uint8_t out[SSH_HASH_BYTES]);

/* Base64 of n characters into at most `room` bytes; the number of bytes, or -1: it is
 * none, or longer than that. */
long ssh_base64(const char *text, size_t n, uint8_t *out, size_t room);

#endif
