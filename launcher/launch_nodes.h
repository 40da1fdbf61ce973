/* launch_nodes.h - which hosts a launch runs on, and the agents there. */
#ifndef LAUNCHER_LAUNCH_NODES_H
#define LAUNCHER_LAUNCH_NODES_H

struct err;
struct launch_args;
struct nodes;
struct recipe;
struct topology;

/* Open agents on the hosts that were asked for and see their machines; *nodes is NULL
 * and *topology untouched when none were.  r: NULL for a command.
 *
 * For tests: MUSTER_TEST_LOCAL_AGENTS=N takes N agents on this machine for N hosts
 * (n1, n2, ...; root). */
int launch_nodes_open(const struct launch_args *a, const struct recipe *r,
                      struct nodes **nodes, struct topology **topology,
                      struct err *err);

#endif
