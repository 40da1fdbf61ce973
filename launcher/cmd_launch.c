/* muster launch - a recipe or a command on many ranks. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/js.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/cmd.h"
#include "launcher/guard.h"
#include "launcher/launch_args.h"
#include "launcher/launch_check.h"
#include "launcher/machines.h"
#include "launcher/preflight.h"
#include "launcher/run.h"
#include "launcher/run_command.h"
#include "launcher/slurm_alloc.h"
#include "launcher/slurm_step.h"
#include "recipes/recipe.h"
#include "topology/place.h"
#include "topology/topology.h"

/* What a launch is about, made from its arguments. */
struct launch {
    const struct launch_args *a;
    struct recipe recipe;
    int has_recipe;
    struct machines machines;
    struct placement *placement;
    char **argv; /* as muster got it */
    int report;  /* --detach: where the starter waits for the run's name; -1 */
};

/* ---- recipe, machine, placement ---- */

/* Once: it may come through a pipe. */
static int load_recipe(struct launch *l, struct err *err)
{
    const struct launch_args *a = l->a;

    if (!a->recipe || l->has_recipe)
        return 0;
    if (recipe_load(a->recipe, &l->recipe, err) < 0)
        return -1;
    l->has_recipe = 1;
    for (int i = 0; i < a->sets.n; i++) {
        char *key = xstrdup(a->sets.item[i]), *eq = strchr(key, '=');
        int rc;
        *eq = '\0';
        rc = recipe_set(&l->recipe, key, eq + 1, err);
        free(key);
        if (rc < 0)
            return err_wrap(err, "--set");
    }
    return recipe_validate(&l->recipe, a->recipe, err);
}

static int prepare(struct launch *l, struct err *err)
{
    struct machines_ask ask = { NULL, l->a->cluster, l->a->hosts, l->a->hostfile };
    int world;

    if (load_recipe(l, err) < 0)
        return -1;
    ask.recipe = l->has_recipe ? &l->recipe : NULL;
    if (machines_open(&ask, &l->machines, err) < 0)
        return -1;
    world = machines_world(&l->machines, ask.recipe, l->a->gpus);
    if (l->a->stdin_rank >= world)
        return err_set(err, ERR_USAGE, "--stdin %d: the ranks are 0 to %d",
                       l->a->stdin_rank, world - 1);
    if (placement_make(ask.recipe, l->machines.topology, world, &l->placement, err) < 0)
        return l->a->gpus ? -1
                          : err_wrap(err, "on %d rank%s (--gpus N says how many)",
                                     world, str_s(world));
    return machines_settle(&l->machines, l->placement, err);
}

static void release(struct launch *l)
{
    placement_free(l->placement);
    machines_close(&l->machines);
    if (l->has_recipe)
        recipe_release(&l->recipe);
}

static int64_t said(int64_t ms, int64_t def)
{
    return ms >= 0 ? ms : def;
}

static struct run_request request_of(struct launch *l)
{
    const struct launch_args *a = l->a;

    struct run_request q = {
        .recipe = l->has_recipe ? &l->recipe : NULL,
        .placement = l->placement,
        .command = a->command,
        .resume = a->resume,
        .quiet = a->quiet || a->detach,
        .lines_to_stderr = a->json,
        .give_stdin = a->stdin_rank >= 0,
        .stdin_rank = a->stdin_rank,
        .start_timeout_ms = said(a->start_timeout_ms, 120000),
        .silence_timeout_ms = said(a->silence_timeout_ms, a->command ? 0 : 120000),
        .grace_ms = said(a->grace_ms, RUN_GRACE_MS),
        .stop_grace_ms = said(a->grace_ms, a->command ? RUN_GRACE_MS : 30000),
    };

    machines_request(&l->machines, &q);
    return q;
}

/* ---- --dry-run ---- */

static int dry_run(const struct run_request *q, int json, struct err *err)
{
    struct js *plan;
    char *text;

    if (json) {
        plan = run_plan_json(q, NULL, err);
        if (!plan)
            return -1;
        js_print(plan, stdout);
        js_free(plan);
        return 0;
    }
    text = run_dry(q, err);
    if (!text)
        return -1;
    fputs(text, stdout);
    free(text);
    return 0;
}

/* ---- the run ---- */

/* With --detach: the run has started, so its starter may go; from here on muster's
 * own words go into the run's folder. */
static int on_event(void *arg, const struct js *e)
{
    struct launch *l = arg;
    char *path;
    int log;

    if (l->report < 0 || !str_eq(js_str(e, "event", ""), "start"))
        return 0;
    path = xasprintf("%s/launch.log", js_str(e, "dir", "."));
    log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    free(path);
    if (log >= 0) {
        dup2(log, STDOUT_FILENO);
        dup2(log, STDERR_FILENO);
        close(log);
    }
    dprintf(l->report, "%s\n%s\n", js_str(e, "run", "?"), js_str(e, "dir", "?"));
    close(l->report);
    l->report = -1;
    return 0;
}

static void add_numbers(struct str *s, const struct run_result *r)
{
    if (r->steps >= 0)
        str_addf(s, "; %lld step%s", (long long)r->steps, str_s(r->steps));
    if (!isnan(r->loss_first))
        str_addf(s, "; loss %.4f to %.4f", r->loss_first, r->loss_last);
    if (!isnan(r->tokens_per_s_per_gpu))
        str_addf(s, "; %.0f tokens/s/GPU", r->tokens_per_s_per_gpu);
    if (!isnan(r->mfu_reference))
        str_addf(s, "; MFU %.1f %% (reference) %.1f %% (causal)", r->mfu_reference,
                 r->mfu_causal);
    if (!isnan(r->memory_percent))
        str_addf(s, "; memory %.1f %%", r->memory_percent);
}

static void show_result(const struct run_result *r, int json)
{
    struct str s = STR_INIT;
    struct js *o;

    if (r->reason)
        str_addf(&s, "run %s %s: %s", r->id,
                 str_eq(r->cause, "stopped") ? "was stopped" : "failed", r->reason);
    else
        str_addf(&s, "run %s is done, %d rank%s", r->id, r->world,
                 r->world == 1 ? "" : "s");
    if (r->simulated)
        str_adds(&s, "; simulated");
    add_numbers(&s, r);
    str_addf(&s, "; %s", r->dir);
    log_info("%s", s.text);
    str_release(&s);
    if (!json)
        return;
    o = run_result_json(r);
    js_print(o, stdout);
    js_free(o);
}

/* A command has no recipe to check against; simulated machines and ranks are not
 * here; the trials of a climb are checked once, by the climb. */
static int check(const struct launch *l, struct err *err)
{
    const struct preflight q = { .recipe_path = l->a->recipe,
                                 .sets = &l->a->sets,
                                 .recipe = &l->recipe,
                                 .machines = &l->machines,
                                 .placement = l->placement,
                                 .level = l->recipe.checks.level };

    if (!l->has_recipe || l->a->no_check || l->machines.topology->simulated ||
        l->recipe.cluster.device == DEVICE_SIM || getenv("MUSTER_CLIMB"))
        return 0;
    return launch_check(&q, err);
}

/* Nothing was started: with --json that is an object too, without a run. */
static int refuse(const struct launch *l, const struct err *err)
{
    struct js *o;

    if (!l->a->json || l->report >= 0)
        return -1;
    o = js_document("launch");
    js_put_str(o, "run", NULL);
    js_put_int(o, "status", (int)err->code);
    js_put_str(o, "cause", "refused");
    js_put_str(o, "reason", err_text(err));
    js_put(o, "rank_status", js_array());
    js_print(o, stdout);
    js_free(o);
    return -1;
}

static int launch(struct launch *l, struct err *err)
{
    struct run_request q;
    struct run_result result;
    int status;

    if (prepare(l, err) < 0)
        return refuse(l, err);
    q = request_of(l);
    if (l->a->dry_run)
        return dry_run(&q, l->a->json, err);
    if (check(l, err) < 0)
        return refuse(l, err);
    q.event = on_event;
    q.event_arg = l;
    if (run_execute(&q, &result, err) < 0)
        return refuse(l, err);
    show_result(&result, l->a->json);
    status = result.status;
    run_result_release(&result);
    return status;
}

static int guarded_launch(struct launch *l, struct err *err)
{
    const struct launch_args *a = l->a;
    struct guard_options o = { .grace_ms = (int)said(a->grace_ms, RUN_GRACE_MS),
                               .pump_stdin = a->stdin_rank >= 0 && isatty(STDIN_FILENO),
                               .leave_terminal = a->detach };
    int status = 0, rc;

    rc = a->dry_run ? 0 : guard_enter(&o, &status, err);
    if (rc != 0)
        return rc < 0 ? -1 : status;
    status = launch(l, err);
    release(l);
    slurm_release();
    guard_leave();
    return status;
}

/* ---- --detach ---- */

static int wait_for_start(pid_t child, int fd, int json, struct err *err)
{
    FILE *fp = fdopen(fd, "r");
    char *id = NULL, *dir = NULL;
    size_t n = 0, m = 0;
    int raw = 0, status = 0;

    if (fp && getline(&id, &n, fp) > 0 && getline(&dir, &m, fp) > 0) {
        id[strcspn(id, "\n")] = dir[strcspn(dir, "\n")] = '\0';
        if (json) {
            struct js *o = js_document("launch");
            js_put_str(o, "run", id);
            js_put_str(o, "dir", dir);
            js_print(o, stdout);
            js_free(o);
        } else {
            printf("%s\n", id);
        }
    } else {
        waitpid(child, &raw, 0);
        status = WIFEXITED(raw) ? WEXITSTATUS(raw)
                                : err_set(err, ERR_SYSTEM, "the detached launch died");
    }
    free(id);
    free(dir);
    if (fp)
        fclose(fp);
    return status;
}

static int detach(struct launch *l, struct err *err)
{
    int fd[2], null;
    pid_t child;

    if (pipe2(fd, O_CLOEXEC) < 0)
        return err_set(err, ERR_SYSTEM, "pipe: %m");
    fflush(NULL);
    child = fork();
    if (child < 0)
        return err_set(err, ERR_SYSTEM, "fork: %m");
    if (child > 0) {
        close(fd[1]);
        return wait_for_start(child, fd[0], l->a->json, err);
    }
    close(fd[0]);
    setsid();
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, STDIN_FILENO);
    close(null);
    l->report = fd[1];
    return guarded_launch(l, err);
}

/* ---- nodes from Slurm ---- */

static int from_outside(struct launch *l, struct err *err)
{
    const struct recipe *r = &l->recipe;
    int world = l->a->gpus, accumulation, shard, replicate;
    char *self;

    if (l->a->detach)
        return err_set(err, ERR_USAGE,
                       "--detach: outside an allocation submit it yourself: sbatch "
                       "--wrap 'muster launch ...'");
    if (!world) {
        shard = r->parallelism.data_parallel_shard_degree;
        replicate = r->parallelism.data_parallel_replicate_degree;
        world = shard > 0 && replicate > 0 ? shard * replicate : 0;
    }
    if (!world)
        return err_set(err, ERR_USAGE,
                       "--gpus N is missing: how many shall Slurm be asked for?");
    if (recipe_layout(r, world, &shard, &replicate, &accumulation, err) < 0)
        return -1;
    self = slurm_self(err);
    if (!self)
        return -1;
    l->argv[0] = self;
    return slurm_allocate(r, world, l->argv, err);
}

/* Nothing but the wish for Slurm, without an allocation, is decided here. */
static int is_from_outside(struct launch *l, int *yes, struct err *err)
{
    *yes = 0;
    if (!l->a->recipe || l->a->dry_run || slurm_is_inside())
        return 0;
    if (load_recipe(l, err) < 0)
        return refuse(l, err);
    *yes = l->recipe.cluster.backend == BACKEND_SLURM;
    return 0;
}

static int run(int argc, char **argv, struct err *err)
{
    struct launch_args a;
    struct launch l = { .a = &a, .report = -1 };
    char **whole = xcalloc((size_t)argc + 2, sizeof(*whole));
    int rc, outside = 0;

    whole[1] = (char *)"launch";
    for (int i = 1; i < argc; i++)
        whole[i + 1] = argv[i];
    l.argv = whole;
    rc = launch_args_parse(argc, argv, &a, err);
    if (rc != 0) {
        free(whole);
        return rc < 0 ? -1 : 0;
    }
    if (is_from_outside(&l, &outside, err) < 0)
        return -1;
    if (outside)
        return from_outside(&l, err);
    free(whole);
    rc = a.detach && !a.dry_run ? detach(&l, err) : guarded_launch(&l, err);
    launch_args_release(&a);
    return rc;
}

const struct cmd cmd_launch = { "launch", "start a recipe or a command on many ranks",
                                run, 0 };
