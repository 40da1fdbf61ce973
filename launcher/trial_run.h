/* trial_run.h - a trial of a climb as a `muster launch` of its own.
 *
 * A process for each: a trial that dies takes nothing with it, leaves nothing behind
 * for the next one's measurement, and goes through what a user's launch goes through.
 * It has its own guardian, and gets SIGTERM when the climb dies of anything.
 */
#ifndef LAUNCHER_TRIAL_RUN_H
#define LAUNCHER_TRIAL_RUN_H

#include "launcher/climb.h"

struct machines_ask;

/* INT, TERM and HUP, unless ignored, from now on end the running trial, and let
 * the next one not start.  Once, before the first. */
void trial_run_catch_signals(void);
/* The first such signal; 0: none came. */
int trial_run_signal(void);

/* where: the machines, as `muster launch` takes them.  0 with *out filled, or -1 when
 * it could not be tried at all. */
int trial_run(const struct recipe *at, int gpus, const struct machines_ask *where,
              const char *climb, struct trial *out, struct err *err);

/* *out from the `launch` object. */
void trial_read(const struct js *launch, struct trial *out);

#endif
