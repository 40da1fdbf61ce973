/* ibnet_source.h - the source "ibnet" without a file: the InfiniBand fabric of this
 * machine, by libibnetdisc in a process of its own, else by the command ibnetdiscover. */
#ifndef LAUNCHER_IBNET_SOURCE_H
#define LAUNCHER_IBNET_SOURCE_H

struct err;
struct topology;

enum { IBNET_SOURCE_MS = 300000 }; /* 10,000 ports answer within it */

/* ERR_MISSING: no InfiniBand adapter here, or neither library nor command; ERR_FAILED
 * with the last words of the one that was asked; ERR_TIMEOUT. */
int topology_from_ibnet_live(struct topology **out, struct err *err);

/* That process: `muster agent ibnet`. */
int ibnet_source_helper(struct err *err);

#endif
