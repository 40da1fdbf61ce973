/* pmix_server.h - the only door to the PMIx server library.
 *
 * Hosts the ranks of one job that run on this node, and tells the launcher's loop
 * what they do.  The library calls us on its own thread; everything it says is
 * queued and pmixd_fd() becomes readable, so that the launcher's state has one
 * thread only.
 *
 * Several nodes: give each node's server the same nspace, map and world.  The
 * library settles by itself what concerns one node only.  A fence over several
 * nodes arrives as PMIXD_FENCE with this node's blob; the answer, for
 * pmixd_fence_done(), is the plain concatenation of the blobs of all nodes that
 * take part, in any order.  PMIXD_MODEX asks for data of a rank elsewhere; the
 * server of its node gets it with pmixd_fetch() and the asking one answers with
 * pmixd_modex_done().  A server must outlive its own ranks until all nodes are
 * done.  (PMIx 4 and 5.  In Slurm 22.05 a fence without PMIX_COLLECT_DATA is no
 * barrier; ours is one always.)
 *
 * One job a process at a time: the library has no handles.  The library itself is
 * started by the first pmixd_open() and ended when the process exits, since libpmix
 * 4.2 aborts the process when it is started a second time.  The prefix is pmixd_
 * because libpmix exports pmix_server_*. */
#ifndef LAUNCHER_PMIX_SERVER_H
#define LAUNCHER_PMIX_SERVER_H

#include <stddef.h>

#include "launcher/env.h"

struct err;
struct pmixd;

struct pmixd_config {
    const char *nspace;
    const char *tmpdir;  /* exists, mode 0700, and stays until the process exits */
    const char *job_dir; /* the same, for this job; stays until pmixd_close() */
    int node, n_nodes;
    const char *const *node_name; /* [n_nodes], each another name */
    int world;
    const int *node_of; /* [world] */
};

enum pmixd_what {
    PMIXD_CONNECTED, /* a rank called PMIx_Init (MPI_Init does) */
    PMIXD_FINALIZED, /* ... and PMIx_Finalize */
    PMIXD_ABORTED,   /* PMIx_Abort (MPI_Abort): status, text */
    PMIXD_FENCE,     /* ticket, blob, ranks[n_ranks] (none: all) */
    PMIXD_MODEX,     /* ticket; rank: whose data is wanted */
    PMIXD_FETCHED,   /* answer to pmixd_fetch(): ticket of that call, status, blob */
};

struct pmixd_event {
    enum pmixd_what what;
    int rank, status;
    char *text; /* owned, may be NULL */
    char *blob; /* owned */
    size_t blob_len;
    int *ranks; /* owned */
    int n_ranks;
    void *ticket; /* hand it back exactly once */
    struct pmixd_event *next;
};

int pmixd_open(struct pmixd **out, const struct pmixd_config *c, struct err *err);
/* No rank of this node may be running any more.  NULL is fine. */
void pmixd_close(struct pmixd *s);

/* Set what a rank of this node needs to find the server. */
int pmixd_set_env(struct pmixd *s, int rank, struct env *env, struct err *err);

int pmixd_fd(const struct pmixd *s); /* poll it for reading */
/* The next event, or NULL; the caller's pmixd_event_free(). */
struct pmixd_event *pmixd_next(struct pmixd *s);
void pmixd_event_free(struct pmixd_event *e);

/* Answers.  `blob` is copied; status 0 good, else a PMIx status. */
void pmixd_fence_done(void *ticket, int status, const char *blob, size_t len);
void pmixd_modex_done(void *ticket, int status, const char *blob, size_t len);
int pmixd_fetch(struct pmixd *s, int rank, void *ticket, struct err *err);
extern const int pmixd_not_found; /* the status for data that nobody has */

#endif
