/* ssh_known.h - known_hosts: is this the key that the host had before?
 *
 * Format: sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT".  Our own reader decides, since
 * libssh 0.10 does not heed @revoked and negated patterns.  Names: plain, hashed
 * (|1|salt|hash), "[host]:port", '*', '?' and '!' patterns.  @revoked beats all.
 * @cert-authority lines are counted, not believed: certificates of hosts are not
 * supported.  On a port other than 22, a plain entry with the very key will do, as it
 * does for OpenSSH. */
#ifndef LAUNCHER_SSH_KNOWN_H
#define LAUNCHER_SSH_KNOWN_H

#include "base/str.h"

struct err;

enum ssh_known_verdict {
    SSH_KNOWN_UNKNOWN, /* no entry for the host */
    SSH_KNOWN_OTHER,   /* entries of other key types only */
    SSH_KNOWN_CHANGED, /* another key of this type */
    SSH_KNOWN_OK,
    SSH_KNOWN_REVOKED,
};

struct ssh_known {
    enum ssh_known_verdict verdict;
    char *file; /* with `line`: the entry that decided, or NULL; owned */
    int line;
    char *type;      /* its key type; owned */
    int authorities; /* @cert-authority lines for this host, left out */
    int unreadable;  /* lines left out: no entry, or hashed without libcrypto */
};

/* `files`: paths; absent ones are skipped, unreadable ones fail (ERR_SYSTEM).  `host`:
 * the name or HostKeyAlias; port 0: the name stands alone (an alias).  `key`: type
 * ("ssh-ed25519") and base64 text. */
int ssh_known_check(const struct strlist *files, const char *host, int port,
                    const char *type, const char *key, struct ssh_known *out,
                    struct err *err);
void ssh_known_release(struct ssh_known *k);

/* Key types that the files have for the host, in order, each once; not of @revoked and
 * @cert-authority lines: the types to ask the server for. */
int ssh_known_types(const struct strlist *files, const char *host, int port,
                    struct strlist *out, struct err *err);

/* "host", or "[host]:port" when the port is neither 0 nor 22: how the host is named in
 * known_hosts.  In lower case; the caller's to free(). */
char *ssh_known_name(const char *host, int port);

#endif
