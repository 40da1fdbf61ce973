/* kvtable.h - (rank, key) -> bytes, in memory. */
#ifndef TRAINER_KVTABLE_H
#define TRAINER_KVTABLE_H

#include <stddef.h>

struct err;
struct kvtable;

struct kvtable *kvtable_new(void);
void kvtable_free(struct kvtable *t); /* NULL is fine */
void kvtable_put(struct kvtable *t, int rank, const char *key, const void *bytes,
                 size_t n); /* copies; the last put of a key counts */
/* *out is the caller's to free(); it has a zero byte after its n. */
int kvtable_get(const struct kvtable *t, int rank, const char *key, void **out,
                size_t *n, struct err *err);

#endif
