/* kvmeet.h - who has come to the fence under way; no sockets in here. */
#ifndef TRAINER_KVMEET_H
#define TRAINER_KVMEET_H

#include <stdint.h>

#include "base/err.h"

struct kvmember {
    char host[64];
    int node_rank; /* -1 unknown */
    int here, fenced;
};

struct kvmeet {
    int world, local_world; /* local_world -1: unknown */
    struct kvmember *member;
    char what[64]; /* the fence under way */
    int arrived;
    int64_t begun_ms, deadline_ms;
    int left;           /* 1 + a rank that said farewell; 0 none */
    struct err failure; /* set: why no fence can succeed any more */
};

void kvmeet_init(struct kvmeet *m, int world, int local_world);
void kvmeet_release(struct kvmeet *m);

/* A rank introduces itself; refused when its world differs or its place is taken. */
int kvmeet_join(struct kvmeet *m, int64_t rank, long world, long node_rank,
                const char *host, struct err *err);
/* 1 when all have come: call kvmeet_next() after telling them. */
int kvmeet_arrive(struct kvmeet *m, int rank, const char *what, int64_t timeout_ms,
                  int64_t now_ms);
void kvmeet_next(struct kvmeet *m);
/* The deadline has passed: sets failure and returns 1, once. */
int kvmeet_late(struct kvmeet *m, int64_t now_ms);
/* A rank went away without a farewell: the same. */
int kvmeet_lost(struct kvmeet *m, int rank);
/* A rank said farewell: the same when others wait for it, now or later. */
int kvmeet_bye(struct kvmeet *m, int rank);

#endif
