#include "trainer/ops.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "trainer/module.h"

static int find_cuda(const struct ops **out, struct err *err)
{
    char *path = module_path("muster-cuda.so", "MUSTER_CUDA_MODULE");
    const struct ops *found;
    int rc = 0;

    if (access(path, R_OK) != 0) {
        rc = err_set(
            err, ERR_MISSING,
            "device 'cuda': %s is not there; build it with `make CUDA=1` (needs "
            "nvcc), or use `cluster.device: cpu`",
            path);
        goto out;
    }
    found = module_find(path, "ops_cuda", 0, err);
    if (found) {
        *out = found;
    } else {
        rc = -1;
        err_wrap(err, "device 'cuda' (install the CUDA libraries that are missing, or "
                      "use `cluster.device: cpu`)");
    }
out:
    free(path);
    return rc;
}

int ops_find(const char *name, const struct ops **out, struct err *err)
{
    if (str_eq(name, "cuda"))
        return find_cuda(out, err);
    if (!str_eq(name, "cpu"))
        return err_set(err, ERR_USAGE, "device '%s' is not one of cpu, cuda", name);
    *out = &ops_cpu;
    return 0;
}
