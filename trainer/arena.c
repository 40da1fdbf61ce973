#include "trainer/arena.h"

#include "base/err.h"
#include "trainer/memplan.h"
#include "trainer/ops.h"

int arena_init(struct arena *a, const struct ops *ops, struct dev *dev,
               const struct memplan *plan, struct err *err)
{
    void *base = NULL;

    if (ops->alloc(dev, (size_t)plan->arena_bytes, &base, err))
        return err_wrap(err, "arena of %.1f MiB", (double)plan->arena_bytes / 1048576);
    *a = (struct arena){ ops, dev, base, plan->arena_bytes, 0 };
    return 0;
}

void arena_release(struct arena *a)
{
    if (a->base)
        a->ops->free(a->dev, a->base);
    *a = (struct arena){ 0 };
}

int arena_take(struct arena *a, int64_t bytes, const char *what, void **out,
               struct err *err)
{
    int64_t need = mem_align(bytes);

    if (need > a->bytes - a->used)
        return err_set(err, ERR_FAILED,
                       "arena: %s needs %lld bytes, %lld of %lld are left: the memory "
                       "plan is wrong, please report it",
                       what, (long long)need, (long long)(a->bytes - a->used),
                       (long long)a->bytes);
    *out = (char *)a->base + a->used;
    a->used += need;
    return 0;
}
