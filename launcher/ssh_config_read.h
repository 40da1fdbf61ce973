/* ssh_config_read.h - inside of ssh_config: files, blocks and keywords. */
#ifndef LAUNCHER_SSH_CONFIG_READ_H
#define LAUNCHER_SSH_CONFIG_READ_H

#include <pwd.h>

#include "launcher/ssh_config.h"

enum { SSH_CONFIG_DEPTH = 16 };

struct ssh_reader {
    const char *name; /* the host asked for */
    struct ssh_host
        *h; /* filled, first value wins; host, user NULL and port 0 if not */
    const char *home, *local_user; /* borrowed */
    int no_jump;                   /* ProxyCommand none stood before any ProxyJump */
    int final;                     /* the second pass, asked for by "Match final" */
    int want_final;
    struct err *err; /* all problems */
    int problems;
    int stop; /* nothing more is read */
};

/* Where a line stands, and whether its block applies. */
struct ssh_place {
    const char *file;
    int line;
    int user_file; /* relative Includes start at ~/.ssh, not /etc/ssh; '~' means home */
    int depth;     /* of Includes */
    int never;     /* an Include of a block that does not apply */
    int active;
};

enum ssh_read_flags { SSH_READ_USER = 1, SSH_READ_CHECK = 2, SSH_READ_MUST = 4 };

/* ssh_config_read.c: a file, its Includes.  Absent: fine, unless SSH_READ_MUST. */
void ssh_config_read(struct ssh_reader *r, const char *file, int flags);
void ssh_config_include(struct ssh_reader *r, struct ssh_place *p,
                        const struct strlist *args);
void ssh_config_problem(struct ssh_reader *r, const struct ssh_place *p,
                        const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* ssh_config_block.c: Host and Match decide p->active. */
void ssh_config_on_host(struct ssh_reader *r, struct ssh_place *p,
                        const struct strlist *args);
void ssh_config_on_match(struct ssh_reader *r, struct ssh_place *p,
                         const struct strlist *args);

/* ssh_config_key.c: one line's keyword, in lower case, and its arguments. */
void ssh_config_line(struct ssh_reader *r, struct ssh_place *p, const char *keyword,
                     const char *rest);

/* ssh_config_path.c: HostName's tokens, %h and %%.  The caller's to free(); NULL: there
 * is another. */
char *ssh_config_host_name(const char *text, const char *name);

#endif
