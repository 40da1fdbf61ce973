#include "topology/nvml.h"

#include <dlfcn.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

#define LIBRARY "libnvidia-ml.so.1"

static int find_functions(struct nvml *n, struct err *err)
{
    const struct {
        int need;
        const char *symbol;
        void *slot;
    } wanted[] = {
#define X(need, member, symbol, arguments) { need, #symbol, &n->member },
        NVML_FUNCTIONS(X)
#undef X
#define X(member, symbol) { 0, #symbol, &n->member },
            NVML_NUMBERS(X)
#undef X
                { 1, "nvmlErrorString", &n->error_text },
    };

    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        void *found = dlsym(n->library, wanted[i].symbol);
        if (!found && wanted[i].need)
            return err_set(err, ERR_MISSING,
                           LIBRARY " lacks %s: install a newer NVIDIA driver",
                           wanted[i].symbol);
        memcpy(wanted[i].slot, &found, sizeof(found));
    }
    return 0;
}

static int start(struct nvml *n, struct err *err)
{
    int status = n->init();

    if (status == NVML_OK)
        return 0;
    if (status == NVML_DRIVER_NOT_LOADED || status == NVML_LIBRARY_NOT_FOUND)
        return err_set(err, ERR_MISSING,
                       "the NVIDIA driver is installed but not running: %s (modprobe "
                       "nvidia, or wait for it after boot)",
                       n->error_text(status));
    return err_set(err, ERR_SYSTEM,
                   "nvmlInit: %s (status %d): the driver in the kernel and " LIBRARY
                   " must be of one version",
                   n->error_text(status), status);
}

int nvml_open(struct nvml *n, struct err *err)
{
    memset(n, 0, sizeof(*n));
    n->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!n->library)
        return err_set(err, ERR_MISSING,
                       "no NVIDIA driver here (%s): install it to use GPUs", dlerror());
    if (find_functions(n, err) == 0 && start(n, err) == 0)
        return 0;
    dlclose(n->library);
    n->library = NULL;
    return -1;
}

void nvml_close(struct nvml *n)
{
    if (!n->library)
        return;
    n->shutdown();
    dlclose(n->library);
    n->library = NULL;
}
