/* kvserver.h - the key-value store that rank 0 keeps for the env wireup.
 *
 * One thread, one poll loop.  When the deadline of a fence passes, or a rank
 * that has met the others goes away without a farewell, every rank waiting (and
 * each that still comes) gets KV_FAIL with the ranks that are missing and, as far
 * as anyone of their node came, their host. */
#ifndef TRAINER_KVSERVER_H
#define TRAINER_KVSERVER_H

struct err;
struct kvserver;
struct kvdial;

/* Listen (kvdial_listen) and serve `world` ranks, local_world a node (-1
 * unknown). */
int kvserver_start(struct kvserver **out, struct kvdial *where, int world,
                   int local_world, struct err *err);
/* Lets the others leave first, linger_ms at most.  NULL is fine. */
void kvserver_stop(struct kvserver *s, int linger_ms);

#endif
