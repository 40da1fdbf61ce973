/* muster launch - a recipe or a command on many ranks. */
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "launcher/cmd.h"
#include "launcher/guard.h"
#include "launcher/launch.h"
#include "launcher/launch_args.h"
#include "launcher/launch_batch.h"
#include "launcher/launch_check.h"
#include "launcher/preflight.h"
#include "launcher/slurm_hold.h"
#include "launcher/slurm_setup.h"
#include "topology/topology.h"

/* A command has no recipe to check against; simulated machines and ranks are not
 * here; the trials of a climb are checked once, by the climb. */
static int check(const struct launch *l, struct strlist *bad, struct err *err)
{
    const struct strlist none = { 0 };
    const struct preflight q = { .recipe_path =
                                     l->recipe_path ? l->recipe_path : l->a->recipe,
                                 .sets = l->recipe_path ? &none : &l->a->sets,
                                 .recipe = &l->recipe,
                                 .machines = &l->machines,
                                 .placement = l->placement,
                                 .level = l->recipe.checks.level };

    if (!l->has_recipe || l->a->no_check || l->machines.topology->simulated ||
        l->recipe.cluster.device == DEVICE_SIM || getenv("MUSTER_CLIMB"))
        return 0;
    return launch_check(&q, bad, err);
}

/* Until they pass, or no spare is left for a node that does not. */
static int checked(struct launch *l, struct err *err)
{
    int rc = 0, again = 1;

    while (again > 0) {
        struct strlist bad = { 0 };
        rc = check(l, &bad, err);
        again = rc < 0 ? launch_swap_checked(l, &bad, err) : 0;
        strlist_release(&bad);
    }
    return rc;
}

/* Until a run ended that is not tried again: its status, or -1. */
static int run_it(struct launch *l, struct err *err)
{
    struct run_result result;
    int again, status;

    do {
        struct run_request q = launch_request(l);
        q.event = launch_on_event;
        q.event_arg = l;
        if (run_execute(&q, &result, err) < 0)
            return launch_refuse(l, err);
        again = launch_again(l, &result, err);
        if (again == 0)
            launch_show_result(l, &result);
        status = result.status;
        run_result_release(&result);
    } while (again > 0);
    return again < 0 ? launch_refuse(l, err) : status;
}

/* In a batch job the recipe and what to go on from lie in the run's folder. */
static int prepare(struct launch *l, struct err *err)
{
    if (l->a->batch &&
        (launch_batch_enter(l, err) < 0 || launch_load_recipe(l, err) < 0 ||
         launch_batch_resume(l, err) < 0))
        return -1;
    return launch_prepare(l, err);
}

/* Once for all trials of a climb: by the climb. */
static int set_up(struct launch *l, int timeout_ms, struct err *err)
{
    struct strlist bad = { 0 };
    int rc;

    if (!l->has_recipe || getenv("MUSTER_CLIMB"))
        return 0;
    rc = slurm_setup(&l->machines, &l->recipe, timeout_ms, &bad, err);
    if (rc < 0)
        rc = launch_swap_set_up(l, &bad, err);
    strlist_release(&bad);
    return rc;
}

static int go_on(struct launch *l, struct err *err)
{
    struct run_request q;
    int signo = 0;

    if (l->outside && !l->a->dry_run && launch_hold(l, &signo, err) < 0)
        return signo ? launch_stopped(l, signo, err) : launch_refuse(l, err);
    if ((l->outside && l->a->dry_run && launch_outside_dry(l, err) < 0) ||
        prepare(l, err) < 0)
        return launch_refuse(l, err);
    if (l->a->dry_run) {
        q = launch_request(l);
        return launch_dry_run(&q, l->a->json, err);
    }
    if (set_up(l, (int)launch_request(l).start_timeout_ms, err) < 0 ||
        checked(l, err) < 0)
        return launch_refuse(l, err);
    return run_it(l, err);
}

static int guarded_launch(struct launch *l, struct err *err)
{
    const struct launch_args *a = l->a;
    struct guard_options o = { .grace_ms = (int)launch_said(a->grace_ms, RUN_GRACE_MS),
                               .pump_stdin = a->stdin_rank >= 0 && isatty(STDIN_FILENO),
                               .leave_terminal = a->detach };
    int status = 0, rc;

    rc = a->dry_run ? 0 : guard_enter(&o, &status, err);
    if (rc == 0)
        status = go_on(l, err);
    launch_release(l);
    if (rc != 0)
        return rc < 0 ? -1 : status;
    guard_leave();
    return status;
}

/* Outside an allocation the nodes are asked for by the launcher itself. */
static int detached(struct launch *l, struct err *err)
{
    int world, rc;

    if (!l->outside)
        return launch_detach(l, guarded_launch, err);
    if (slurm_hold_world(&l->recipe, l->a->gpus, &world, err) < 0)
        rc = launch_refuse(l, err);
    else if (l->a->dry_run)
        rc = launch_submit_dry(l, world, err);
    else
        rc = launch_submit(l, world, err) < 0 ? launch_refuse(l, err) : 0;
    launch_release(l);
    return rc;
}

static int run(int argc, char **argv, struct err *err)
{
    struct launch_args a;
    struct launch l = { .a = &a, .report = -1 };
    char **whole = xcalloc((size_t)argc + 2, sizeof(*whole));
    int rc;

    whole[1] = (char *)"launch";
    for (int i = 1; i < argc; i++)
        whole[i + 1] = argv[i];
    l.argv = whole;
    rc = launch_args_parse(argc, argv, &a, err);
    if (rc != 0) {
        free(whole);
        return rc < 0 ? -1 : 0;
    }
    rc = launch_is_outside(&l, &l.outside, err) < 0 ? launch_refuse(&l, err)
         : a.detach && (l.outside || !a.dry_run)    ? detached(&l, err)
                                                    : guarded_launch(&l, err);
    free(whole);
    launch_args_release(&a);
    return rc;
}

const struct cmd cmd_launch = { "launch", "start a recipe or a command on many ranks",
                                run, 0 };
