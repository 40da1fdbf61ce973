#include "launcher/slurm_container.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/proc.h"
#include "launcher/run.h"
#include "launcher/slurm_step.h"
#include "recipes/recipe.h"

static int is_wanted(const struct recipe *r, enum container runtime)
{
    return r && *r->cluster.container_image && r->cluster.container == runtime;
}

int slurm_container_is_used(const struct recipe *r)
{
    return r && *r->cluster.container_image;
}

/* apptainer looks in the image's PATH itself; inside Pyxis's container env(1) does. */
char *slurm_container_program(const struct recipe *r, const char *name,
                              struct strlist *argv)
{
    if (strchr(name, '/') || r->cluster.container == CONTAINER_APPTAINER)
        return xstrdup(name);
    strlist_add(argv, "env");
    return xstrdup("/usr/bin/env");
}

static void add_folder(struct strlist *mounts, const char *path, size_t n)
{
    char *one = xasprintf("%.*s:%.*s", (int)n, path, (int)n, path);

    for (int i = 0; i < mounts->n; i++)
        if (str_eq(mounts->item[i], one)) {
            free(one);
            return;
        }
    strlist_add(mounts, one);
    free(one);
}

/* What muster needs, then what the recipe says. */
static void all_mounts(const struct recipe *r, struct strlist *mounts)
{
    char *self = slurm_self(NULL), *here = getcwd(NULL, 0), *home = run_home(NULL);
    char *slash = self ? strrchr(self, '/') : NULL;

    if (slash)
        add_folder(mounts, self, (size_t)(slash - self));
    if (slash) { /* PREFIX/lib/muster, where its other programs are */
        while (slash > self && slash[-1] != '/')
            slash--;
        *slash = '\0';
        slash = xasprintf("%slib/muster", self);
        if (access(slash, X_OK) == 0)
            add_folder(mounts, slash, strlen(slash));
        free(slash);
    }
    if (here)
        add_folder(mounts, here, strlen(here));
    if (home)
        add_folder(mounts, home, strlen(home));
    for (int i = 0; i < r->cluster.container_mounts.n; i++)
        strlist_add(mounts, r->cluster.container_mounts.item[i]);
    free(self);
    free(here);
    free(home);
}

void slurm_container_options(const struct recipe *r, struct strlist *out)
{
    struct strlist mounts = { 0 };
    struct str list = STR_INIT;
    char *word;

    if (!is_wanted(r, CONTAINER_PYXIS))
        return;
    all_mounts(r, &mounts);
    for (int i = 0; i < mounts.n; i++)
        str_addf(&list, "%s%s", i ? "," : "", mounts.item[i]);
    word = xasprintf("--container-image=%s", r->cluster.container_image);
    strlist_add(out, word);
    free(word);
    word = xasprintf("--container-mounts=%s", list.text ? list.text : "");
    strlist_add(out, word);
    free(word);
    str_release(&list);
    strlist_release(&mounts);
}

static char *find_runtime(struct err *err)
{
    char *path = proc_find("apptainer", getenv("PATH"), err);

    if (!path && (path = proc_find("singularity", getenv("PATH"), NULL)))
        err_release(err);
    if (!path)
        err_wrap(err, "cluster.slurm.container_runtime");
    return path;
}

int slurm_container_wrap(const struct recipe *r, struct strlist *argv, char **program,
                         struct err *err)
{
    struct strlist all = { 0 }, mounts = { 0 };
    char *runtime;

    if (!is_wanted(r, CONTAINER_APPTAINER))
        return 0;
    runtime = find_runtime(err);
    if (!runtime)
        return -1;
    strlist_add(&all, runtime);
    strlist_add(&all, "exec");
    if (r->cluster.device != DEVICE_CPU && r->cluster.device != DEVICE_SIM)
        strlist_add(&all, "--nv");
    all_mounts(r, &mounts);
    for (int i = 0; i < mounts.n; i++) {
        strlist_add(&all, "--bind");
        strlist_add(&all, mounts.item[i]);
    }
    strlist_add(&all, r->cluster.container_image);
    strlist_add(&all, *program);
    for (int i = 1; i < argv->n; i++)
        strlist_add(&all, argv->item[i]);
    strlist_release(&mounts);
    strlist_release(argv);
    free(*program);
    *argv = all;
    *program = runtime;
    return 0;
}
