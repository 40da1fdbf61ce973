#include "launcher/launch_batch.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/js.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/guard.h"
#include "launcher/launch.h"
#include "launcher/launch_args.h"
#include "launcher/run_dir.h"
#include "launcher/secret.h"
#include "launcher/secret_recipe.h"
#include "launcher/slurm_cmd.h"
#include "launcher/slurm_options.h"
#include "launcher/slurm_step.h"
#include "launcher/store.h"

static const char script[] = "#!/bin/sh\nexec \"$@\"\n";

/* ---- the command ---- */

static void add(struct strlist *argv, const char *option, const char *value)
{
    char *word = xasprintf("%s%s", option, value);

    strlist_add(argv, word);
    free(word);
}

/* Slurm fills in %j and the like in names of files. */
static void add_file(struct strlist *argv, const char *option, const char *dir,
                     const char *name)
{
    struct str s = STR_INIT;

    for (const char *c = dir; *c; c++)
        str_addf(&s, *c == '%' ? "%%%c" : "%c", *c);
    str_addf(&s, "/%s", name);
    add(argv, option, s.text);
    str_release(&s);
}

/* What cannot be saved begins anew in a new allocation: nobody asked for that. */
static int may_go_on(const struct launch *l)
{
    const struct recipe *r = &l->recipe;

    return !l->a->command && r->cluster.device != DEVICE_SIM && *r->checkpoint.folder &&
           r->cluster.slurm_requeue > 0;
}

/* Where "--" stands among the words, or behind the last. */
static int end_of_options(const struct launch *l)
{
    int i = 2;

    while (l->argv[i] && !str_eq(l->argv[i], "--"))
        i++;
    return i;
}

/* The options of sbatch, the script, and what it executes. */
static int command(const struct launch *l, int world, const char *dir,
                   struct strlist *argv, struct err *err)
{
    char *self = slurm_self(err);

    if (!self)
        return -1;
    strlist_add(argv, "sbatch");
    strlist_add(argv, "--parsable");
    add_file(argv, "--output=", dir, "launch.log");
    strlist_add(argv, "--open-mode=append");
    strlist_add(argv, "--export=ALL");
    strlist_add(argv, may_go_on(l) ? "--requeue" : "--no-requeue");
    if (slurm_batch_options(&l->recipe, world, argv, err) < 0) {
        free(self);
        return -1;
    }
    add(argv, dir, "/batch.sh");
    strlist_add(argv, self);
    strlist_add(argv, "launch");
    strlist_add(argv, "--batch");
    strlist_add(argv, dir);
    for (int i = 2; l->argv[i]; i++)
        if (i > end_of_options(l) || !str_eq(l->argv[i], "--dry-run"))
            strlist_add(argv, l->argv[i]);
    argv->item = xrealloc(argv->item, (size_t)argv->n + 1, sizeof(*argv->item));
    argv->item[argv->n] = NULL;
    free(self);
    return 0;
}

int launch_submit_dry(struct launch *l, int world, struct err *err)
{
    struct strlist argv = { 0 };
    struct str s = STR_INIT;
    int rc = command(l, world, "RUN_DIR", &argv, err);

    if (rc == 0) {
        secret_add_command(&s, argv.item);
        printf("%s\n# RUN_DIR/batch.sh:\n%s# whose job is the same launch inside its "
               "allocation, with RUN_DIR/recipe.yaml\n",
               s.text, script);
    }
    str_release(&s);
    strlist_release(&argv);
    return rc;
}

/* ---- submitting ---- */

static int write_files(const struct launch *l, const char *dir, struct err *err)
{
    struct js *o = js_document("batch"), *argv = js_array();
    char *recipe = recipe_text(&l->recipe), *cwd = getcwd(NULL, 0);
    struct strlist clean = { 0 };
    int rc;

    js_put_str(o, "cwd", cwd);
    secret_clean_command(l->argv + 1, &clean);
    for (int i = 0; i < clean.n; i++)
        js_push(argv, js_string(clean.item[i]));
    strlist_release(&clean);
    js_put(o, "argv", argv);
    rc = run_dir_write_json(dir, "batch.json", o, err);
    if (rc == 0)
        rc = run_dir_write(dir, "recipe.yaml", recipe, err);
    if (rc == 0)
        rc = run_dir_write(dir, "batch.sh", script, err);
    js_free(o);
    free(recipe);
    free(cwd);
    return rc;
}

/* An array would be many jobs in the folder of one run. */
static int check_environment(const char *dir, struct err *err)
{
    const char *array = getenv("SBATCH_ARRAY_INX");

    if (array && *array)
        return err_set(err, ERR_USAGE,
                       "SBATCH_ARRAY_INX is %s: a run is one job, unset it (for many "
                       "runs start muster once for each)",
                       array);
    if (strchr(dir, '\\'))
        return err_set(err, ERR_USAGE,
                       "%s: Slurm cannot write to a folder with \\ in its name: set "
                       "MUSTER_HOME to another",
                       dir);
    return 0;
}

/* "123" or "123;cluster". */
static int submit(struct strlist *argv, char **job, struct err *err)
{
    struct str out = STR_INIT;
    int rc = slurm_cmd_read(argv->item, SLURM_CMD_MS, &out, err);

    if (rc == 0 && (!out.text || out.text[0] < '1' || out.text[0] > '9'))
        rc = err_set(err, ERR_SYSTEM, "sbatch names no job: '%.100s'",
                     out.text ? out.text : "");
    if (rc == 0)
        *job = xstrndup(out.text, strspn(out.text, "0123456789"));
    str_release(&out);
    return rc;
}

static int note(const struct launch *l, const char *id, const char *dir,
                const char *job, int world, struct err *err)
{
    char *recipe = secret_recipe_text(&l->recipe);
    const struct store_run r = { .id = id,
                                 .dir = dir,
                                 .name = l->recipe.name,
                                 .recipe = recipe,
                                 .job = job,
                                 .batch = 1,
                                 .world = world };
    struct store *s = NULL;
    int rc = store_open(NULL, &s, err);

    if (rc == 0)
        rc = store_run_submit(s, &r, err);
    store_close(s);
    free(recipe);
    return rc;
}

static void say(const struct launch *l, const char *id, const char *dir,
                const char *job)
{
    struct js *o;

    if (l->a->json) {
        o = js_document("launch");
        js_put_str(o, "run", id);
        js_put_str(o, "dir", dir);
        js_put_str(o, "job", job);
        js_put_str(o, "state", "pending");
        js_print(o, stdout);
        js_free(o);
        return;
    }
    printf("%s\n", id);
    fflush(stdout);
    log_info(
        "run %s is job %s of Slurm; muster runs, logs --follow and stop work on it", id,
        job);
}

/* The job may be there when sbatch did not answer: then its folder stays. */
static int give_up(const char *dir, struct err *err)
{
    if (err->code == ERR_TIMEOUT)
        return err_wrap(err, "the job may have been submitted all the same (squeue "
                             "--me --name=muster)");
    guard_remove_tree(dir);
    return -1;
}

int launch_submit(struct launch *l, int world, struct err *err)
{
    char *id = NULL, *dir = NULL, *job = NULL, *real = NULL;
    struct strlist argv = { 0 };
    struct err why = ERR_INIT;
    int rc = -1;

    if (run_dir_make(l->recipe.name, &id, &dir, err) < 0)
        return -1;
    real = realpath(dir, NULL);
    if (!real || check_environment(real, err) < 0 || write_files(l, real, err) < 0 ||
        command(l, world, real, &argv, err) < 0) {
        guard_remove_tree(dir);
        goto out;
    }
    if (!may_go_on(l) && !l->a->command)
        log_warn("nothing is saved before the time limit: %s",
                 l->recipe.cluster.device == DEVICE_SIM ? "the ranks are simulated"
                 : *l->recipe.checkpoint.folder         ? "cluster.slurm.requeue is 0, "
                                                          "the run will not go on by itself"
                                                        : "checkpoint.folder is empty");
    rc = submit(&argv, &job, err);
    if (rc < 0) {
        give_up(real, err);
        goto out;
    }
    if (note(l, id, real, job, world, &why) < 0)
        log_warn("%s is not in the store yet: %s", id, err_text(&why));
    say(l, id, real, job);
out:
    err_release(&why);
    strlist_release(&argv);
    free(real);
    free(job);
    free(id);
    free(dir);
    return rc;
}
