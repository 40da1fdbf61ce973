/* node.h - the launcher's end of the agents, one a node.
 *
 * An agent is reached through a child of ours that speaks frames (frame.h) on its
 * stdin and stdout: `muster agent serve` on this machine, or `muster agent ssh HOST`,
 * which carries the same stream to a host.  What it prints on stderr is why it failed.
 * The agents stay for several runs. */
#ifndef LAUNCHER_NODE_H
#define LAUNCHER_NODE_H

#include <stdint.h>

#include "base/str.h"
#include "launcher/agent_wire.h"
#include "launcher/frame.h"
#include "launcher/proc.h"

struct beat;
struct err;
struct net_look;
struct topology;

/* A line "NODE_PROGRESS sent total" (bytes) on the stderr of a carrier: it copies muster to
 * the host. */
#define NODE_PROGRESS "\001muster-copies "

struct node_link {
    char *name;        /* the host as the user wrote it */
    struct proc proc;  /* its stdout is what we read; pid 0: none */
    int write_fd;      /* its stdin; -1 closed */
    struct beat *beat; /* of all; stream `at` is this one, once it has greeted */
    int at;
    struct frame_in from;
    struct frame_out to;
    struct agent_hello hello; /* valid when greeted */
    int greeted, lost;
    int slots; /* ranks it may have; 0: not said */
    int busy;  /* its run reads what it says; else nodes_idle() does */
    int64_t heard_at;
    int64_t ready_by;        /* it must have greeted; copying puts it off */
    int64_t copied, to_copy; /* bytes; 0: nothing is copied */
    struct str words;        /* the end of what it printed on stderr */
};

struct nodes {
    int n;
    struct node_link *link;
    struct beat *beat; /* says that we are alive, whatever we do */
    int local;         /* agents on this machine, for tests */
    int left_out;      /* hosts that failed, and spares stand for */
};

/* Start an agent on every host and hear who they are.  All that fail are named at once;
 * so are two hosts that are one machine, one name on two machines, another build.
 * Hosts without this build get it copied (agent_copy.h), with lines that say how far it
 * is.  ready_ms: until all must have answered, where nothing is copied.  Up to `spare`
 * hosts that fail by themselves are left out, with a warning. */
int nodes_open(const struct strlist *hosts, int64_t ready_ms, int spare,
               struct nodes **out, struct err *err);
/* `n` agents on this machine that call themselves n1, n2, ... (for tests; root). */
int nodes_open_local(int n, struct nodes **out, struct err *err);
/* Ends them, and what they run; NULL is fine. */
void nodes_close(struct nodes *nodes);

/* The machines as the agents see them, nodes[i] is link[i]'s.  *out is the caller's. */
int nodes_topology(const struct nodes *nodes, struct topology **out, struct err *err);

/* One machine's JSON (one node) as a topology; `name` is for messages. */
int node_topology(const char *text, const char *name, struct topology **out,
                  struct err *err);
/* Its node and findings into t; `more` is freed.  Not topology_merge(): hosts that are
 * containers of one machine have its boot id. */
void node_append(struct topology *t, struct topology *more);

/* What programs on several hosts need to know: NAME=VALUE for run_request.defaults;
 * `master`: the node of rank 0.  Adds to *out. */
void nodes_settings(const struct nodes *nodes, int master, struct strlist *out);
/* The network of a node, as its agent sees it. */
void nodes_net(const struct nodes *nodes, int node, struct net_look *out);

/* Call it now and then: hears those that have no run. */
void nodes_idle(struct nodes *nodes);
/* It does not play any more: its stream ends, and its carrier is told to. */
void node_hang_up(struct node_link *l);

/* Send what waits; a link that takes nothing any more is lost. */
void node_flush(struct node_link *l);
/* Read what is there: 1 something, 0 nothing, -1 it is lost. */
int node_read(struct node_link *l);
/* After it was lost: "it died of signal 9 (Killed)", with its last words.  Waits a
 * moment for its end.  The caller's to free(). */
char *node_why_lost(struct node_link *l);

#endif
