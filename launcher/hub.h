/* hub.h - the launcher's part in PMIx over several nodes: who waits for whom.
 *
 * Pure: told what the servers of the nodes ask, it says what to answer to which, by
 * calls of `answer` during the call that completed it.
 *
 * fence  Matched by its participants (a set of ranks, in any order; none: all).  The
 *        k-th fence of a node over a set belongs to the k-th of every other node that
 *        has ranks of the set; when all are there, each gets the concatenation of all
 *        blobs.  So it is a barrier whether data is collected or not.
 * modex  A node wants the data of a rank elsewhere: the rank's node is asked, with a
 *        route of ours for a ticket, and its answer goes to the one that asked.
 *
 * Blobs are opaque.  Nodes are not trusted: a rank that is none, a set without a rank
 * of the node that asks, a route that was not given to it are ERR_FAILED. */
#ifndef LAUNCHER_HUB_H
#define LAUNCHER_HUB_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct hub;
struct str;

enum hub_kind {
    HUB_FENCE_DONE, /* ticket, blob */
    HUB_FETCH,      /* route in `ticket`, rank */
    HUB_MODEX_DONE, /* ticket, status, blob */
};

struct hub_answer {
    enum hub_kind kind;
    int node; /* to this one */
    uint64_t ticket;
    int rank, status;
    const char *blob; /* borrowed for the call */
    size_t len;
};

typedef void (*hub_fn)(void *arg, const struct hub_answer *a);

/* node_of[world] is copied.  not_found: the status of data that nobody has. */
struct hub *hub_new(int n_nodes, int world, const int *node_of, int not_found,
                    hub_fn answer, void *arg);
void hub_free(struct hub *h); /* NULL is fine; what waits gets no answer */

struct hub_fence {
    uint64_t ticket;
    const int *ranks; /* [n_ranks]; 0: all */
    int n_ranks;
    const char *blob;
    size_t len;
};

/* All is borrowed for the call. */
int hub_fence(struct hub *h, int node, const struct hub_fence *f, struct err *err);
int hub_modex(struct hub *h, int node, uint64_t ticket, int rank, struct err *err);
int hub_fetched(struct hub *h, int node, uint64_t route, int status, const char *blob,
                size_t len, struct err *err);

/* Nodes that a fence still waits for, the oldest fence first: fills nodes[n_nodes],
 * returns how many; 0: no fence is open. */
int hub_missing(const struct hub *h, int *nodes);

#endif
