/* agent_ssh.h - the stream of an agent, carried to a host. */
#ifndef LAUNCHER_AGENT_SSH_H
#define LAUNCHER_AGENT_SSH_H

struct err;

/* Run `muster agent serve` of this very path on the host and carry in, out and err
 * both ways until one side ends.  0 when the agent ended well.  The remote shell gets
 * one line; what it says itself goes to fd 2. */
int agent_ssh(const char *host, int in, int out, struct err *err);

#endif
