/* slurm_ping.h - is Slurm's controller there?  `scontrol ping` now and then, beside a
 * run: the run does not need the controller, but its end and its user do. */
#ifndef LAUNCHER_SLURM_PING_H
#define LAUNCHER_SLURM_PING_H

#include <stdint.h>

#include "launcher/proc.h"

struct slurm_ping {
    struct proc proc; /* pid 0: none is under way */
    int64_t next, begun;
    char text[1024];
    size_t n;
    int down; /* the last answer */
};

enum slurm_ping_news { PING_SAME, PING_DOWN, PING_UP };

void slurm_ping_init(struct slurm_ping *p, int64_t now);
void slurm_ping_release(struct slurm_ping *p);
/* Start one when it is time, end one that is late.  1: it was started, and
 * p->proc.out is to be followed. */
int slurm_ping_tick(struct slurm_ping *p, const struct proc_before *before,
                    int64_t now);
void slurm_ping_read(struct slurm_ping *p); /* p->proc.out can be read */
/* A child ended.  Is it this one, and what does it mean? */
enum slurm_ping_news slurm_ping_child(struct slurm_ping *p, int pid, int wait_status,
                                      int64_t now);

#endif
