/* wireup_method.h - internal: what one way of wiring up provides.
 *
 * open() finds rank and world (local_rank, local_world, node_rank: -1 when the
 * method does not know) and the way to the others; it need not wait for them.
 * host and boot_id of *self are filled before. */
#ifndef TRAINER_WIREUP_METHOD_H
#define TRAINER_WIREUP_METHOD_H

#include "trainer/wireup.h"

struct wireup_method {
    const char *name;
    int gets_here; /* what a fence exchanged lies on this node: get() asks nobody else */
    int (*present)(void); /* does the environment speak this method? */
    int (*open)(void **link, struct wireup_self *self, int timeout_ms, struct err *err);
    int (*put)(void *link, const char *key, const void *bytes, size_t n,
               struct err *err);
    int (*get)(void *link, int rank, const char *key, void **out, size_t *n,
               struct err *err);
    int (*fence)(void *link, const char *what, int timeout_ms, struct err *err);
    void (*close)(void *link);
};

extern const struct wireup_method wireup_pmix, wireup_env, wireup_single;

#endif
