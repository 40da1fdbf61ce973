#include "trainer/module.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

enum { HIGHEST = 3 };

char *module_path(const char *name, const char *set)
{
    const char *given = set ? getenv(set) : NULL;
    char self[4096], *path = NULL, *first = NULL;
    ssize_t n;

    if (given && *given)
        return xstrdup(given);
    n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    if (strrchr(self, '/'))
        *strrchr(self, '/') = '\0'; /* the program's name */
    for (int up = 0; up < HIGHEST && strrchr(self, '/'); up++) {
        *strrchr(self, '/') = '\0';
        path = xasprintf("%s/lib/%s", self, name);
        if (access(path, F_OK) == 0) {
            free(first);
            return path;
        }
        if (first)
            free(path);
        else
            first = path;
    }
    return first ? first : xasprintf("lib/%s", name);
}

const void *module_find(const char *path, const char *symbol, int global,
                        struct err *err)
{
    void *module = dlopen(path, RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL));
    const void *found = module ? dlsym(module, symbol) : NULL;

    if (!module)
        err_set(err, ERR_MISSING, "%s", dlerror());
    else if (!found)
        err_set(err, ERR_MISSING, "%s holds no %s; build it again with `make`", path,
                symbol);
    return found;
}
