/* pool.h - a few threads that share out the units of one loop.
 *
 * Which worker runs a unit is left to chance, so units must not depend on it:
 * results are the same for every number of threads. */
#ifndef TRAINER_POOL_H
#define TRAINER_POOL_H

struct err;
struct pool;

/* unit: 0 .. n-1; worker: 0 .. threads-1, the caller's own thread is 0. */
typedef void pool_fn(void *arg, int unit, int worker);

/* `threads` counts the caller's thread. */
int pool_new(struct pool **out, int threads, struct err *err);
void pool_free(struct pool *p); /* NULL is fine */
int pool_threads(const struct pool *p);

/* Run every unit and return when all are done.  Not reentrant: a unit must not
 * call pool_run() on its own pool. */
void pool_run(struct pool *p, int n, pool_fn *fn, void *arg);

#endif
