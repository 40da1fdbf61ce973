/* launch_job.c - `muster launch` in the batch job that launch_batch.c submitted. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/js.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/launch.h"
#include "launcher/launch_args.h"
#include "launcher/launch_batch.h"
#include "launcher/run_dir.h"
#include "launcher/slurm_nodes.h"
#include "launcher/store.h"

/* DIR is HOME/runs/ID. */
static void set_home(const char *dir)
{
    char *home = xstrdup(dir);

    for (int i = 0; i < 2 && strrchr(home, '/'); i++)
        *strrchr(home, '/') = '\0';
    setenv("MUSTER_HOME", home, 1);
    free(home);
}

int launch_batch_enter(struct launch *l, struct err *err)
{
    const char *dir = l->a->batch, *again = getenv("SLURM_RESTART_COUNT"), *cwd;
    int n = again ? (int)strtol(again, NULL, 10) : 0;
    char *path = xasprintf("%s/batch.json", dir);
    struct js *about = NULL;
    int rc = -1;

    if (!slurm_is_inside()) {
        err_set(err, ERR_USAGE, "--batch is for the job that --detach submits");
    } else if (js_load(path, &about, err) < 0) {
        err_wrap(err, "is MUSTER_HOME on a file system that the nodes have too?");
    } else {
        cwd = js_str(about, "cwd", ".");
        set_home(dir);
        l->part = (struct run_part){
            .dir = dir, .attempt = n, .requeues = n, .from_step = -1, .batch = 1
        };
        l->recipe_path = xasprintf("%s/recipe.yaml", dir);
        rc = chdir(cwd);
        if (rc < 0)
            err_set(err, ERR_MISSING,
                    "%s: %m on this node: submit from a folder that all nodes have",
                    cwd);
    }
    js_free(about);
    free(path);
    return rc;
}

/* The first time it begins where the user said; what lies in a shared folder of
 * checkpoints is another run's then. */
int launch_batch_resume(struct launch *l, struct err *err)
{
    const struct recipe *r = &l->recipe;

    if (l->part.requeues == 0 || l->a->command)
        return 0;
    if (l->part.requeues > r->cluster.slurm_requeue)
        return err_set(err, ERR_FAILED,
                       "the job was requeued %d times, cluster.slurm.requeue allows %d",
                       l->part.requeues, r->cluster.slurm_requeue);
    l->part.from_step = run_checkpoint(r, l->part.dir, &l->resume);
    if (l->resume)
        log_info("requeue %d: going on from step %lld", l->part.requeues,
                 (long long)l->part.from_step);
    return 0;
}

void launch_batch_refused(const char *dir, struct js *result)
{
    const char *id = strrchr(dir, '/') ? strrchr(dir, '/') + 1 : dir;
    struct err err = ERR_INIT;
    struct store *s = NULL;

    js_put_str(result, "run", id);
    if (run_dir_write_json(dir, "result.json", result, &err) < 0 ||
        store_open(NULL, &s, &err) < 0 || store_run_end(s, id, result, &err) < 0)
        log_warn("that it was refused is not in the store: %s", err_text(&err));
    store_close(s);
    err_release(&err);
}
