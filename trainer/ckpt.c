#include "trainer/ckpt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/js.h"
#include "base/mem.h"
#include "recipes/recipe.h"
#include "trainer/heartbeat.h"
#include "trainer/meter.h"
#include "trainer/ops.h"
#include "trainer/units.h"

/* Tell the launcher whom to ask for the reason. */
static int blame(int rank, const char *what, struct err *err)
{
    struct js *o = js_object();

    err_set(err, ERR_FAILED, "%s: rank %d could not; its message says why", what, rank);
    js_put_int(o, "code", ERR_FAILED);
    js_put_str(o, "text", err_text(err));
    js_put_int(o, "because_of", rank);
    heartbeat_send("error", o);
    return -1;
}

/* All ranks go on or none: the others say who could not. */
static int agree(const struct ckpt *c, int rc, const char *what, struct err *err)
{
    struct err other = ERR_INIT;
    int first;

    if (meter_agree(c->meter, rc, &first, rc ? &other : err)) {
        err_release(&other);
        return -1;
    }
    if (rc || first < 0)
        return rc;
    return blame(first, what, err);
}

static int write_index(const struct ckpt *c, const char *tmp, const struct ckpt_at *at,
                       int64_t *checksum, struct err *err)
{
    char *path = xasprintf("%s/index.json", tmp);
    struct js *index = ckpt_index_make(c, at);
    char *text = js_line(index);
    struct file_beside b;
    int rc = -1;

    *checksum = ckpt_checksum(text, (int64_t)strlen(text));
    if (file_beside_open(&b, path, err))
        goto out;
    if (file_write(b.fd, b.tmp, text, strlen(text), 0, err))
        file_beside_abandon(&b);
    else
        rc = file_beside_commit(&b, err);
out:
    free(text);
    js_free(index);
    free(path);
    return rc;
}

static int publish(const struct ckpt *c, const char *folder, const char *dir,
                   const struct ckpt_at *at, struct err *err)
{
    char *tmp = xasprintf("%s.tmp", dir);
    int64_t checksum;
    int rc = -1;

    if (write_index(c, tmp, at, &checksum, err) == 0)
        rc = ckpt_dir_publish(dir, checksum, err);
    if (rc == 0)
        ckpt_dir_prune(folder, c->recipe->checkpoint.keep);
    free(tmp);
    return rc;
}

int ckpt_save(const struct ckpt *c, const char *folder, const struct ckpt_at *at,
              struct err *err)
{
    char *dir = ckpt_dir_path(folder, at->step);
    char *tmp = xasprintf("%s.tmp", dir);
    int rc = c->rank == 0 ? ckpt_dir_begin(dir, err) : 0;

    rc = agree(c, rc, dir, err);
    if (rc == 0) {
        if (c->replica_rank == 0)
            rc = ckpt_shard_write(c, tmp, err);
        rc = agree(c, rc, dir, err);
    }
    if (rc == 0) {
        if (c->rank == 0)
            rc = publish(c, folder, dir, at, err);
        rc = agree(c, rc, dir, err);
    }
    free(tmp);
    free(dir);
    return rc ? err_wrap(err, "saving step %lld", (long long)at->step) : 0;
}

/* One checkpoint, or the newest complete of a folder: the step, -1 for `path`
 * itself, or an error. */
static int choose(const char *path, int64_t *step, struct err *err)
{
    char *index = xasprintf("%s/index.json", path);
    int64_t *steps;
    int itself = access(index, F_OK) == 0, n;

    free(index);
    if (itself && !ckpt_dir_complete(path))
        return err_set(err, ERR_USAGE,
                       "%s: not complete (no file \"complete\" in it): it was cut off "
                       "while being written",
                       path);
    *step = -1;
    if (itself)
        return 0;
    n = ckpt_dir_list(path, &steps);
    if (n)
        *step = steps[n - 1];
    free(steps);
    return n ? 0
             : err_set(err, ERR_MISSING,
                       "%s: no complete checkpoint here (folders step-N with a file "
                       "\"complete\")",
                       path);
}

/* Rank 0 looks, so that a folder that changes cannot split the ranks. */
static int choose_together(const struct ckpt *c, const char *path, int64_t *step,
                           struct err *err)
{
    struct step_record mine = { 0 };
    int rc = c->rank == 0 ? choose(path, step, err) : 0;

    if (agree(c, rc, path, err))
        return -1;
    mine.sumsq = c->rank == 0 ? (double)*step : 0;
    if (meter_share(c->meter, &mine, err))
        return -1;
    *step = (int64_t)c->meter->all[0].sumsq;
    return 0;
}

static int load_shards(const struct ckpt *c, const char *dir, struct ckpt_at *at,
                       struct err *err)
{
    char *path = xasprintf("%s/index.json", dir);
    struct js *index = NULL;
    int rc = -1, shard;

    if (ckpt_index_load(dir, &index, err) ||
        ckpt_index_read(c, index, path, at, &shard, err))
        goto out;
    for (int from = 0; from < shard; from++)
        if (ckpt_shard_read(c, dir, from, shard, err))
            goto out;
    if (c->weights)
        c->ops->from_f32(c->dev, c->weights, c->state[0], c->units->shard_count);
    rc = c->ops->status(c->dev, err);
out:
    js_free(index);
    free(path);
    return rc;
}

int ckpt_load(const struct ckpt *c, const char *path, struct ckpt_at *at, char **dir,
              struct err *err)
{
    int64_t step = -1;
    char *found;

    if (choose_together(c, path, &step, err))
        return err_wrap(err, "resuming");
    found = step < 0 ? xstrdup(path) : ckpt_dir_path(path, step);
    if (agree(c, load_shards(c, found, at, err), found, err)) {
        free(found);
        return err_wrap(err, "resuming");
    }
    *dir = found;
    return 0;
}
