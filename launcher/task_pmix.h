/* task_pmix.h - has a rank met its PMIx server?  Seen from outside the rank's own code:
 * the server of the step listens on a port of this node (PMIX_SERVER_URI*), and a
 * process that has called PMIx_Init keeps a connection to it until PMIx_Finalize. */
#ifndef LAUNCHER_TASK_PMIX_H
#define LAUNCHER_TASK_PMIX_H

/* Of the task's server, by its environment; 0: it has none, or not over TCP. */
int task_pmix_port(void);
/* The port in "NAME;tcp4://127.0.0.1:PORT"; 0: none. */
int task_pmix_uri_port(const char *uri);

/* Is any descendant of the caller connected to this port of 127.0.0.1? */
int task_pmix_is_met(int port);

#endif
