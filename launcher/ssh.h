/* ssh.h - the only door to libssh: connections, remote programs, their streams.
 *
 * Nothing here waits, except for a name server and the local agent: a link is driven
 * by the caller's loop, many at a time:
 *
 *     ssh_route_make("node1", NULL, &route, &err);
 *     ssh_link_start(&route, 10000, &link, &err);
 *     for (;;) {
 *         ssh_link_step(link, &err);           goes on as far as it can; -1: it is lost
 *         ... ssh_run_read/write until they give 0 ...
 *         timeout = ssh_link_poll(link, &pollfd);   0 while bytes still move inside
 *         poll(&pollfd, 1, timeout);
 *     }
 *
 * Jumps (ProxyJump) are direct-tcpip channels of the link before: no shell and no
 * program is started here.  Each hop's host key is checked by ssh_known.h's reader,
 * always, before any key of ours is used.  Ways in: key files and the agent; never
 * passwords.  Without libssh at build time every call that starts something fails with
 * ERR_MISSING (ssh_absent.c). */
#ifndef LAUNCHER_SSH_H
#define LAUNCHER_SSH_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "launcher/ssh_config.h"

struct err;
struct ssh_link;
struct ssh_run;
struct str;

/* Does this build have libssh? */
int ssh_available(void);

/* --- links ----------------------------------------------------------------------------
 * ssh_link_start() takes the route over (success or not).  It fails at once only for what is wrong here; what the
 * other side does comes from ssh_link_step().  open_ms: until it must be open. */
int ssh_link_start(struct ssh_route *route, int64_t open_ms, struct ssh_link **out,
                   struct err *err);

/* 1 open, 0 not yet, -1 failed or lost, and it stays so.  ERR_FAILED: the host refuses
 * us or we refuse its key; ERR_TIMEOUT: no answer until the deadline; ERR_SYSTEM: no
 * way there, or the connection was lost; ERR_MISSING: no such name. */
int ssh_link_step(struct ssh_link *l, struct err *err);

/* What to wait for: one descriptor and its events (ask anew before every wait: while
 * connecting it changes).  The value is the longest wait in ms, -1: none. */
int ssh_link_poll(const struct ssh_link *l, struct pollfd *p);

/* Step and wait until it is open; 0 or -1. */
int ssh_link_open(struct ssh_link *l, struct err *err);

/* "node1" or "node1 (10.99.0.1 port 2200)"; borrowed. */
const char *ssh_link_name(const struct ssh_link *l);
/* This end's and the other end's address, numeric; "" until connected; of the first hop
 * when there are jumps.  Borrowed. */
const char *ssh_link_local_address(const struct ssh_link *l);
const char *ssh_link_address(const struct ssh_link *l);

/* Ends its runs as well (their pointers die). */
void ssh_link_free(struct ssh_link *l);

/* --- runs: one remote program each -----------------------------------------------------
 * Append "exec ARGV..." as one line for the remote user's shell (POSIX): every word
 * arrives byte for byte (case C17), and the program takes the shell's place, so that
 * its signals and its status are seen. */
void ssh_add_command(struct str *s, char *const *argv);

/* Start a command line on an open link; NULL and ERR_USAGE when the link is not open.
 * Reading and writing may begin at once.  A refusal shows in ssh_run_state(). */
struct ssh_run *ssh_run_start(struct ssh_link *l, const char *command, struct err *err);
/* The same for a subsystem of sshd ("sftp"). */
struct ssh_run *ssh_run_subsystem(struct ssh_link *l, const char *name,
                                  struct err *err);

enum ssh_stream { SSH_STDOUT, SSH_STDERR };

/* Bytes read; 0: none by now; -1: its end, all was read. */
ssize_t ssh_run_read(struct ssh_run *r, enum ssh_stream stream, void *buf, size_t n);
/* Bytes taken over, 0: none by now; -1: it does not read any more.  A program of which
 * nothing is to be read from stdin gets ssh_run_end_input() first: its stdin is then
 * at the end, and never another program's (case C12). */
ssize_t ssh_run_write(struct ssh_run *r, const void *buf, size_t n);
void ssh_run_end_input(struct ssh_run *r);
/* Ask sshd to signal it (OpenSSH since 7.9; it cannot be told whether it did). */
int ssh_run_signal(struct ssh_run *r, int signo);

enum ssh_run_state {
    SSH_RUN_STARTING,
    SSH_RUN_RUNNING,
    SSH_RUN_ENDED, /* its status is known; streams may hold bytes still */
    SSH_RUN_LOST, /* the channel closed without a status: the connection or sshd died */
    SSH_RUN_REFUSED /* it was never started */
};

enum ssh_run_state ssh_run_state(const struct ssh_run *r);
/* Exit status, or 128+n for signal n, as for a local rank; -1 when not known. */
int ssh_run_status(const struct ssh_run *r);
/* The signal as the host names it ("KILL", "SEGV"), or NULL. */
const char *ssh_run_signal_name(const struct ssh_run *r);
/* Why it was refused or lost; "" else.  Borrowed. */
const char *ssh_run_reason(const struct ssh_run *r);
/* Closes the channel; the remote program sees its streams closed, and gets no signal. */
void ssh_run_free(struct ssh_run *r);

#endif
