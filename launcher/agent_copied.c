#include "launcher/agent_copied.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/bundle.h"
#include "launcher/env.h"
#include "launcher/guard.h"

enum { TOUCH_MS = 60000, OLD_S = 3600 };

static const char name[] = "MUSTER_COPIED";

/* Settings that programs in the folder get: where the rest of it is. */
static const struct {
    const char *name;
    enum bundle_kind where;
    int is_path; /* goes before what is there */
} settings[] = {
    { "LD_LIBRARY_PATH", BUNDLE_LIB, 1 },
    { "OMPI_MCA_mca_base_component_path", BUNDLE_MPI, 0 },
    { "PMIX_MCA_mca_base_component_path", BUNDLE_PMIX, 0 },
};

void agent_copied_command(struct str *s, const char *id)
{
    str_addf(s, "d=$HOME/%s/%s; export %s=\"$d\"", AGENT_COPIED_FOLDER, id, name);
    for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
        const char *n = settings[i].name;
        str_addf(s, " %s=\"$d/%s", n, bundle_folder(settings[i].where));
        if (settings[i].is_path)
            str_addf(s, "${%s:+:$%s}", n, n);
        str_adds(s, "\"");
    }
    str_addf(s, "; exec \"$d/%s/muster\" agent serve", bundle_folder(BUNDLE_BIN));
}

int agent_copied(void)
{
    return getenv(name) != NULL;
}

void agent_copied_env(struct env *env)
{
    const char *folder = getenv(name), *old;

    if (!folder)
        return;
    for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
        const char *where = bundle_folder(settings[i].where);
        old = settings[i].is_path ? env_get(env, settings[i].name) : NULL;
        env_setf(env, settings[i].name, "%s/%s%s%s", folder, where,
                 old && *old ? ":" : "", old ? old : "");
    }
}

void agent_copied_touch(void)
{
    static int64_t at;
    const char *folder = getenv(name);

    if (!folder || (at && clock_ms() - at < TOUCH_MS))
        return;
    at = clock_ms();
    utimensat(AT_FDCWD, folder, NULL, 0);
}

/* Ours, as its name says, and old. */
static int is_old(int dir, const char *entry, const char *own)
{
    struct stat st;

    return strlen(entry) == 16 && strspn(entry, "0123456789abcdef") == 16 &&
           !str_eq(entry, own) && fstatat(dir, entry, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISDIR(st.st_mode) && st.st_uid == getuid() &&
           st.st_mtim.tv_sec + OLD_S < time(NULL);
}

void agent_copied_clean(void)
{
    const char *folder = getenv(name), *slash = folder ? strrchr(folder, '/') : NULL;
    char *parent;
    DIR *d;

    if (!slash)
        return;
    parent = xstrndup(folder, (size_t)(slash - folder));
    d = opendir(parent);
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        char *path;
        if (!is_old(dirfd(d), e->d_name, slash + 1))
            continue;
        path = xasprintf("%s/%s", parent, e->d_name);
        guard_remove_tree(path);
        free(path);
    }
    if (d)
        closedir(d);
    free(parent);
}
