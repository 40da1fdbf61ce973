/* settle.h - bring the store in step with what really runs, before it is shown. */
#ifndef LAUNCHER_SETTLE_H
#define LAUNCHER_SETTLE_H

struct err;
struct js;
struct store;

/* store_settle(), and for runs in jobs of Slurm what Slurm says of them.  When it does
 * not answer, that is a warning, and they stay as they are. */
int settle(struct store *s, struct err *err);

/* The same for one run, on and on while it is waited for: `row` of store_run(). */
void settle_one(struct store *s, const struct js *row);

/* The row says that it waits or runs.  Without a job it only runs while its muster
 * lives on this host. */
int settle_goes_on(const struct js *row);

#endif
