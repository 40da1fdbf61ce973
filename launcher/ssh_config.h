/* ssh_config.h - what ~/.ssh/config says about a host, as `ssh -G HOST` reads it.
 *
 * Read: Host (patterns, '!'), Match (all, host, originalhost, user, localuser, final,
 * canonical), Include, HostName, Port, User, IdentityFile, IdentitiesOnly,
 * IdentityAgent, ProxyJump, UserKnownHostsFile, GlobalKnownHostsFile, HostKeyAlias,
 * ConnectTimeout, AddressFamily.  The first value of a keyword wins; IdentityFile adds
 * up.  First the user's file, then /etc/ssh/ssh_config; a named file replaces both.
 *
 * Refused, since leaving them out would reach another machine: ProxyCommand, Match
 * exec and other criteria, CanonicalizeHostname, BindAddress, BindInterface.  Other
 * keywords are skipped: they do not change whom we talk to; keys that are not known
 * are refused whatever StrictHostKeyChecking says.  All problems of the files are
 * listed at once, FILE:LINE each (ERR_USAGE). */
#ifndef LAUNCHER_SSH_CONFIG_H
#define LAUNCHER_SSH_CONFIG_H

#include "base/str.h"

struct err;

struct ssh_host {
    char *name; /* as asked for: what Host patterns and %n see */
    char *host; /* HostName, or the name, in lower case: what is connected to */
    char *user; /* there; the local user's name unless given */
    int port;
    char *jump;              /* ProxyJump: "[user@]host[:port],..."; NULL: none */
    struct strlist identity; /* key files, as written ("~/.ssh/id_ed25519") */
    int identity_given;      /* 0: identity holds the default names */
    int identities_only;     /* do not ask the agent */
    char *agent;             /* its socket, as written; NULL: SSH_AUTH_SOCK */
    struct strlist user_known, global_known; /* known_hosts files, as written */
    char *key_alias;                         /* name in known_hosts, or NULL */
    int timeout_s;                           /* ConnectTimeout, 0: not given */
    char *family;                            /* "inet", "inet6" or NULL */
};

/* The hosts to pass, one behind the other; the last is the one asked for. */
struct ssh_route {
    struct ssh_host *hop;
    int n;
};

/* `address`: "[user@]host[:port]"; user and port beat the files.  `file`: instead of
 * the user's and the system's file; NULL: those.  "none": no file.
 * ERR_MISSING: `file` is not there. */
int ssh_config_host(const char *address, const char *file, struct ssh_host *out,
                    struct err *err);
void ssh_host_release(struct ssh_host *h);

/* The host and its jumps, each looked up by itself (a jump does not inherit the
 * target's port or user, case C10).  ERR_USAGE: jumps in a circle. */
int ssh_route_make(const char *address, const char *file, struct ssh_route *out,
                   struct err *err);
void ssh_route_release(struct ssh_route *r);

/* A path as written in a file, for use: '~', ${VAR}, %d %h %i %k %L %l %n %p %r %u
 * %%.  NULL: ERR_USAGE names what is not known.  The caller's to free(). */
char *ssh_config_path(const struct ssh_host *h, const char *text, struct err *err);

#endif
