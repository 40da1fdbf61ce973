/* wireup_single.c - rank 0 of 1: what it puts is what it gets. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "trainer/kvtable.h"
#include "trainer/wireup_method.h"
#include "trainer/wireup_rules.h"

static int single_present(void)
{
    return 1;
}

static int single_open(void **link, struct wireup_self *self, int timeout_ms,
                       struct err *err)
{
    (void)timeout_ms;
    if (wireup_refuse_singleton(err))
        return -1;
    self->rank = self->local_rank = self->node_rank = 0;
    self->world = self->local_world = 1;
    *link = kvtable_new();
    log_info("no launcher found: running as rank 0 of 1");
    return 0;
}

static int single_put(void *link, const char *key, const void *bytes, size_t n,
                      struct err *err)
{
    (void)err;
    kvtable_put(link, 0, key, bytes, n);
    return 0;
}

static int single_get(void *link, int rank, const char *key, void **out, size_t *n,
                      struct err *err)
{
    return kvtable_get(link, rank, key, out, n, err);
}

static int single_fence(void *link, const char *what, int timeout_ms, struct err *err)
{
    (void)link, (void)what, (void)timeout_ms, (void)err;
    return 0;
}

static void single_close(void *link)
{
    kvtable_free(link);
}

const struct wireup_method wireup_single = {
    .name = "single",
    .present = single_present,
    .open = single_open,
    .put = single_put,
    .get = single_get,
    .fence = single_fence,
    .close = single_close,
};
