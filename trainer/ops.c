#include "trainer/ops.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

/* The module's path: MUSTER_CUDA_MODULE, or ../lib beside this program's folder.
 * The caller's to free. */
static char *module_path(void)
{
    const char *set = getenv("MUSTER_CUDA_MODULE");
    char self[4096];
    ssize_t n;

    if (set && *set)
        return xstrdup(set);
    n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    for (int cut = 0; n > 0 && cut < 2;)
        cut += self[--n] == '/'; /* the name, then bin */
    self[n > 0 ? n : 0] = '\0';
    return xasprintf("%s/lib/muster-cuda.so", self);
}

static int find_cuda(const struct ops **out, struct err *err)
{
    char *path = module_path();
    void *module;
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
    module =
        dlopen(path, RTLD_NOW | RTLD_LOCAL); /* stays loaded: tables point into it */
    if (!module) {
        rc = err_set(err, ERR_MISSING,
                     "device 'cuda': %s; install the CUDA libraries it names, or use "
                     "`cluster.device: cpu`",
                     dlerror());
        goto out;
    }
    found = dlsym(module, "ops_cuda");
    if (!found)
        rc = err_set(err, ERR_MISSING,
                     "device 'cuda': %s holds no ops_cuda; build it again with `make`",
                     path);
    else
        *out = found;
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
