#include "trainer/kvtable.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

struct entry {
    struct entry *next;
    int rank;
    char *key;
    char *bytes;
    size_t n;
};

struct kvtable {
    struct entry *bucket[4096];
};

/* FNV-1a over the key, the rank mixed in. */
static size_t slot(int rank, const char *key)
{
    uint32_t h = 2166136261u ^ (uint32_t)rank * 2654435761u;

    while (*key)
        h = (h ^ (unsigned char)*key++) * 16777619u;
    return h % 4096;
}

static struct entry *find(const struct kvtable *t, int rank, const char *key)
{
    struct entry *e = t->bucket[slot(rank, key)];

    while (e && (e->rank != rank || strcmp(e->key, key) != 0))
        e = e->next;
    return e;
}

static char *copy_of(const void *bytes, size_t n)
{
    char *copy = xcalloc(n + 1, 1);

    if (n)
        memcpy(copy, bytes, n);
    return copy;
}

struct kvtable *kvtable_new(void)
{
    return xcalloc(1, sizeof(struct kvtable));
}

void kvtable_put(struct kvtable *t, int rank, const char *key, const void *bytes,
                 size_t n)
{
    struct entry *e = find(t, rank, key);

    if (!e) {
        size_t at = slot(rank, key);

        e = xcalloc(1, sizeof(*e));
        e->rank = rank;
        e->key = xstrdup(key);
        e->next = t->bucket[at];
        t->bucket[at] = e;
    }
    free(e->bytes);
    e->bytes = copy_of(bytes, n);
    e->n = n;
}

int kvtable_get(const struct kvtable *t, int rank, const char *key, void **out,
                size_t *n, struct err *err)
{
    const struct entry *e = find(t, rank, key);

    if (!e)
        return err_set(err, ERR_FAILED,
                       "rank %d published no '%s' before the last fence", rank, key);
    *out = copy_of(e->bytes, e->n);
    *n = e->n;
    return 0;
}

void kvtable_free(struct kvtable *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < ARRAY_LEN(t->bucket); i++)
        for (struct entry *e = t->bucket[i], *next; e; e = next) {
            next = e->next;
            free(e->key);
            free(e->bytes);
            free(e);
        }
    free(t);
}
