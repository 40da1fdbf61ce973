/* machines.h - the machines that a command is about, and how ranks get there.
 *
 * One answer for launch, check, plan and climb: hosts that were named (agents over
 * SSH), else the Slurm allocation that we are in, else a cluster file, else this
 * machine. */
#ifndef LAUNCHER_MACHINES_H
#define LAUNCHER_MACHINES_H

#include "base/str.h"
#include "launcher/slurm_nodes.h"

struct err;
struct nodes;
struct placement;
struct recipe;
struct run_request;
struct topology;

/* What was asked for; NULL: not said. */
struct machines_ask {
    const struct recipe *recipe;
    const char *cluster; /* a file; over the recipe's */
    const char *hosts, *hostfile;
    int spares;        /* so many hosts may be missing */
    int64_t answer_ms; /* hosts must answer within 30 s, or this where it is less; 0 */
};

/* Options --hosts and --hostfile in a table of argp, and what they give: 1 when the key
 * was one of them. */
enum { MACHINES_HOSTS = 0x4000, MACHINES_HOSTFILE };
#define MACHINES_OPTIONS(group)                                          \
    { "hosts",                                                           \
      MACHINES_HOSTS,                                                    \
      "LIST",                                                            \
      0,                                                                 \
      "these hosts over SSH (a,b,n[1-4]; user@host; the order is kept)", \
      group },                                                           \
    {                                                                    \
        "hostfile", MACHINES_HOSTFILE, "FILE", 0,                        \
            "the same, a host a line (NAME [slots=N])", group            \
    }
int machines_take(struct machines_ask *ask, int key, const char *arg);

/* Not two of them and --cluster. */
int machines_ask_check(const struct machines_ask *ask, struct err *err);

/* The same as words of a command line: "--hosts", LIST ...; adds to *argv. */
void machines_add_words(const struct machines_ask *ask, struct strlist *argv);

struct machines {
    struct topology *topology;
    struct nodes *nodes;      /* agents on the hosts; NULL: none */
    struct slurm_place slurm; /* in_slurm: the nodes of this allocation */
    int in_slurm;
    /* By machines_place(): settings of all ranks; of those of each topology node, for
     * the network; and why, a line each. */
    struct strlist defaults, *net, net_said;
};

/* -1: *out holds nothing. */
int machines_open(const struct machines_ask *ask, struct machines *out,
                  struct err *err);
void machines_close(struct machines *m); /* zeroed is fine */

/* It was only looked at: end the agents; the topology stays. */
void machines_leave(struct machines *m);

/* placement_make() on them, with what to ask for when they do not suffice; then: do the
 * hosts take it, and what must their ranks know of the network?  r: NULL for a command.
 */
int machines_place(struct machines *m, const struct recipe *r, int world,
                   struct placement **out, struct err *err);
/* Append that cure to a refusal of placement_make(); returns -1. */
int machines_cure(const struct machines *m, const struct recipe *r, int world,
                  struct err *err);

/* How many ranks: `gpus` (0: not said), else what the recipe's degrees make, else every
 * GPU there is, else every slot that nodes came with, else one shard group, else one. */
int machines_world(const struct machines *m, const struct recipe *r, int gpus);

/* Fill in where a run takes place; borrowed. */
void machines_request(const struct machines *m, struct run_request *q);

#endif
