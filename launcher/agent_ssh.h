/* agent_ssh.h - the stream of an agent, carried to a host. */
#ifndef LAUNCHER_AGENT_SSH_H
#define LAUNCHER_AGENT_SSH_H

struct err;

/* Run `muster agent serve` on the host and carry in, out and err both ways until one
 * side ends.  It is the program at this very path there, or, where that is none of this
 * build, one that is copied to the host before (agent_copy.h).  0 when the agent ended
 * well.  What the remote side says goes to fd 2, and lines of NODE_PROGRESS (node.h)
 * while it is being copied. */
int agent_ssh(const char *host, int in, int out, struct err *err);

#endif
