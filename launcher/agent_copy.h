/* agent_copy.h - this build brought to a host that has none. */
#ifndef LAUNCHER_AGENT_COPY_H
#define LAUNCHER_AGENT_COPY_H

#include <stdint.h>

struct err;
struct ssh_link;
struct str;

/* On an open link: look at the host, copy what it needs (bundle.h) to its private
 * folder, or find it there, and append to *command the line that starts the agent
 * there.  `progress` is told while bytes go over, twice a second at most.  `in`: when
 * it is at its end nobody wants this any more (ERR_SYSTEM).  ERR_FAILED: the host's
 * system, architecture, glibc or file system is not fit for it; else see ssh_copy.h. */
int agent_copy(struct ssh_link *link, const char *host, int in,
               void (*progress)(int64_t sent, int64_t total), struct str *command,
               struct err *err);

#endif
