#include "launcher/agent_files.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"
#include "launcher/agent_wire.h"

enum { LISTED = 5 };

static int check_data(const struct agent_job *j, struct err *err)
{
    struct err all = ERR_INIT;
    struct stat st;
    int missing = 0;

    for (int i = 0; i < j->needs.n; i++) {
        const char *path = j->needs.item[i];
        int there = access(path, R_OK) == 0 && stat(path, &st) == 0;
        if (there && st.st_size == j->need_bytes[i])
            continue;
        if (missing++ >= LISTED)
            continue;
        if (there)
            err_more(&all, ERR_MISSING, "%s: %lld bytes there, %lld here", path,
                     (long long)st.st_size, (long long)j->need_bytes[i]);
        else
            err_more(&all, ERR_MISSING, "%s: %m", path);
    }
    if (!missing)
        return 0;
    if (missing > LISTED)
        err_more(&all, ERR_MISSING, "and %d more", missing - LISTED);
    err_set(
        err, ERR_MISSING,
        "%d of %d files of data.path cannot be read there, or are others (each host "
        "reads them at the "
        "same path: put them on a file system that all share, or a copy on each):\n%s",
        missing, j->needs.n, err_text(&all));
    err_release(&all);
    return -1;
}

int agent_files_check(const struct agent_job *j, struct err *err)
{
    if (chdir(j->cwd) < 0)
        return err_set(err, ERR_MISSING,
                       "%s: %m (ranks start where muster was started: the folder must "
                       "be there on every node)",
                       j->cwd);
    if (*j->dir && access(j->dir, X_OK) < 0)
        return err_set(
            err, ERR_MISSING,
            "%s: %m (checkpoint.folder lies in the run's folder: MUSTER_HOME "
            "must be on a file system that all nodes share, or "
            "checkpoint.folder an absolute path on one)",
            j->dir);
    return check_data(j, err);
}

int agent_files_write(struct agent_job *j, const char *folder, struct err *err)
{
    struct file_beside b;
    const char *slash = strrchr(j->file, '/');
    char *path;
    int rc;

    if (!*j->file)
        return 0;
    path = xasprintf("%s/%s", folder, slash ? slash + 1 : j->file);
    rc = file_beside_open(&b, path, err);
    if (rc == 0 && file_write(b.fd, b.tmp, j->text, strlen(j->text), 0, err) < 0) {
        file_beside_abandon(&b);
        rc = -1;
    }
    if (rc == 0)
        rc = file_beside_commit(&b, err);
    for (int i = 0; i < j->argv.n && rc == 0; i++)
        if (strcmp(j->argv.item[i], j->file) == 0) {
            free(j->argv.item[i]);
            j->argv.item[i] = xstrdup(path);
        }
    free(path);
    return rc;
}
