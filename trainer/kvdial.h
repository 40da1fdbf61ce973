/* kvdial.h - reach the store of rank 0: tries with growing naps, since rank 0
 * may start later, and proves on both sides that it is this job's. */
#ifndef TRAINER_KVDIAL_H
#define TRAINER_KVDIAL_H

#include <sys/socket.h>

#include "trainer/kvwire.h"

struct err;

struct kvdial {
    char master[256];
    int port;
    struct kv_key key;
    struct sockaddr_storage at; /* rank 0: where its store listens; else zero */
    int spread;                 /* added to the first nap, ms: not all at once */
};

/* A connected nonblocking socket after the handshake; -1 with err. */
int kvdial_reach(const struct kvdial *k, int64_t deadline_ms, struct err *err);

/* A socket that listens at master:port, where that is one of this host's own
 * addresses, else at all of them; fills k->at with where rank 0 connects. */
int kvdial_listen(struct kvdial *k, struct err *err);

/* poll() for `events` until the deadline: 0 or -1. */
int kvdial_wait(int fd, short events, int64_t deadline_ms);
int kvdial_write(int fd, const void *from, size_t n, int64_t deadline_ms);

#endif
