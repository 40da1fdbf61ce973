/* launch_nodes.h - which hosts a launch runs on, and the agents there. */
#ifndef LAUNCHER_LAUNCH_NODES_H
#define LAUNCHER_LAUNCH_NODES_H

struct err;
struct machines_ask;
struct nodes;
struct placement;
struct topology;

/* Open agents on the hosts that were asked for (--hosts, --hostfile, else cluster.hosts
 * unless cluster.backend says otherwise) and see their machines; *nodes is NULL and
 * *topology untouched when none were.
 *
 * For tests: MUSTER_TEST_LOCAL_AGENTS=N takes N agents on this machine for N hosts
 * (n1, n2, ...; root). */
int launch_nodes_open(const struct machines_ask *ask, struct nodes **nodes,
                      struct topology **topology, struct err *err);

/* No host gets more ranks than its slots, where they were said. */
int launch_nodes_check(const struct nodes *nodes, const struct placement *p,
                       struct err *err);

#endif
