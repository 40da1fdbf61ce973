/* agent_door.h - the sshd that let an agent in: is it still there?
 *
 * The listening sshd is the topmost sshd above us in the tree of processes.  When it
 * dies, the one below it is adopted by another process; a run does not mind, but nobody
 * gets in any more.  An sshd that was only started anew, or that a service manager starts
 * for every connection, is not missed: before a word is said its port is tried. */
#ifndef LAUNCHER_AGENT_DOOR_H
#define LAUNCHER_AGENT_DOOR_H

#include <stdint.h>
#include <sys/types.h>

struct agent_door {
    pid_t listener, below; /* 0: there is nothing to look at (any more) */
    int64_t look_at, try_at;
};

void agent_door_find(struct agent_door *d);
/* Call it often.  1, once: nobody gets in any more. */
int agent_door_closed(struct agent_door *d, int64_t now);

#endif
