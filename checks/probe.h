/* probe.h - internal: one rank of a preflight check, and the parts it measures. */
#ifndef CHECKS_PROBE_H
#define CHECKS_PROBE_H

#include "base/str.h"
#include "checks/bench.h"
#include "recipes/recipe.h"
#include "trainer/units.h"

struct coll;
struct dev;
struct measures;
struct wireup;
struct wireup_self;

struct probe_options {
    const char *recipe, *device;
    struct strlist sets;
    enum level level;
};

struct probe {
    const struct probe_options *o;
    struct recipe recipe;
    struct wireup *wireup;
    const struct wireup_self *self;
    struct dev *dev;
    int shard, replicate;
    struct coll *world;
    struct bench bench; /* its group changes */
    struct units units;
};

/* Report them ("measure" events), and release. */
void probe_send(struct measures *l);

/* probe_host.c: this machine (its first rank), and the clocks of all. */
void probe_host(struct probe *p);
int probe_clock(struct probe *p, struct err *err);

/* probe_groups.c: buffers, communicators, results and, from standard on, speed of
 * the recipe's shard and replicate groups; all groups of a kind at the same time. */
int probe_groups(struct probe *p, struct err *err);
/* The largest whole buffer whose collective is timed. */
int64_t probe_step_bytes(const struct probe *p);

#endif
