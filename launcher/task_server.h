/* task_server.h - where the agents of a run connect (task_wire.h).
 *
 * One descriptor to poll, one call when it can be read.  Strangers, who do not know
 * the key, are dropped; so is a second agent of one rank. */
#ifndef LAUNCHER_TASK_SERVER_H
#define LAUNCHER_TASK_SERVER_H

#include <stddef.h>

#include "launcher/task_wire.h"

struct task_server;
struct err;
struct js;

struct task_server_calls {
    /* HELLO of a rank that was not there yet; 0, or -1 to drop it. */
    int (*hello)(void *arg, int rank, const struct js *about);
    void (*frame)(void *arg, int rank, enum task_frame type, const char *bytes,
                  size_t n);
    /* The connection ended before EXIT or FAILED. */
    void (*lost)(void *arg, int rank);
    /* Frames of which this says 1 come when no socket has more to read, yet before other
     * frames of the same rank except OUT and ERR.  NULL: every frame comes at once. */
    int (*can_wait)(enum task_frame type, const char *bytes, size_t n);
};

/* `key`: the text of MUSTER_JOB_KEY; copied, as the calls are. */
int task_server_open(struct task_server **out, int world, const char *key,
                     const struct task_server_calls *calls, void *arg, struct err *err);
void task_server_close(struct task_server *s); /* NULL is fine */

int task_server_fd(const struct task_server *s);
void task_server_poll(struct task_server *s);
/* TASK_AT for the agents: this host's addresses (no loopback, no bridge of
 * containers) in front, its name, loopback last; the caller's to free(). */
char *task_server_at(const struct task_server *s);

/* Queue a frame for a rank; nothing when it has no connection. */
void task_server_send(struct task_server *s, int rank, enum task_frame type,
                      const char *bytes, size_t n);
void task_server_start(struct task_server *s, int rank, const struct task_start *st);
int task_server_has(const struct task_server *s, int rank);

#endif
