#include "trainer/coll.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/str.h"
#include "trainer/module.h"
#include "trainer/ops.h"

/* The module that an ops table came from holds its collectives too. */
static int find_in_module(const struct ops *ops, const char *symbol,
                          const struct coll_ops **out, struct err *err)
{
    Dl_info where;
    void *module = NULL;
    const void *found = NULL;

    if (dladdr(ops, &where) && where.dli_fname)
        module = dlopen(where.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    if (module) {
        found = dlsym(module, symbol);
        dlclose(module); /* the ops loader keeps it */
    }
    if (!found)
        return err_set(
            err, ERR_MISSING,
            "%s ranks need NCCL, and this build has none: install libnccl-dev "
            "and build again, or use one rank",
            ops->name);
    *out = found;
    return 0;
}

static int find_mpi(const struct coll_ops **out, struct err *err)
{
    char *path = module_path("muster-mpi.so", NULL);
    const void *found = module_find(path, "coll_mpi", 1, err);

    free(path);
    if (!found)
        return err_wrap(err,
                        "CPU ranks meet through MPI (apt-get install libopenmpi3)");
    *out = found;
    return 0;
}

int coll_find(const struct ops *ops, int world, const struct coll_ops **out,
              struct err *err)
{
    if (world == 1) {
        *out = &coll_self;
        return 0;
    }
    if (str_eq(ops->name, "cpu"))
        return find_mpi(out, err);
    return find_in_module(ops, "coll_nccl", out, err);
}

int64_t coll_scratch_bytes(const char *name, int ranks)
{
    return ranks > 1 && str_eq(name, "mpi") ? COLL_SCRATCH : 0;
}
