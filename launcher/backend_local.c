/* backend_local.c - ranks as children of the launcher, with a PMIx server in it. */
#include "launcher/backend.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "launcher/env.h"
#include "launcher/guard.h"
#include "launcher/pmix_server.h"
#include "launcher/rank_env.h"
#include "launcher/run_command.h"
#include "launcher/run_state.h"
#include "launcher/sweep.h"
#include "launcher/task_bind.h"
#include "launcher/task_state.h"
#include "topology/place.h"

struct local {
    struct pmixd *server;
    char *tmpdir, *shmdir; /* shmdir: NULL where there is no /dev/shm */
    struct env *env;       /* [world] of the ranks */
};

static int local_check(const struct run_request *q, struct err *err)
{
    if (q->placement->n_nodes <= 1)
        return 0;
    return err_set(
        err, ERR_MISSING,
        "the placement needs %d nodes, and this backend starts ranks on this "
        "machine only: use fewer GPUs, or the ssh or slurm backend",
        q->placement->n_nodes);
}

/* ---- the PMIx server ---- */

static int local_prepare(struct run *run, struct err *err)
{
    struct local *local = run->backend_data = xcalloc(1, sizeof(*local));
    int *node_of = xcalloc((size_t)run->world, sizeof(*node_of));
    const char *name = run_host(run, 0);
    struct pmixd_config c = { .nspace = run->id,
                              .n_nodes = 1,
                              .node_name = &name,
                              .world = run->world,
                              .node_of = node_of };
    int rc;

    c.tmpdir = guard_tmpdir(err);
    local->tmpdir = c.tmpdir ? guard_make_folder(GUARD_TMP, err) : NULL;
    rc = local->tmpdir ? 0 : -1;
    c.job_dir = local->tmpdir;
    if (rc == 0)
        rc = pmixd_open(&local->server, &c, err);
    if (rc == 0) {
        run_follow(run->epoll, pmixd_fd(local->server), RUN_BACKEND, 0);
        local->shmdir = guard_make_folder(GUARD_SHM, NULL);
    }
    free(node_of);
    return rc;
}

static void note_abort(struct run *run, const struct pmixd_event *e)
{
    struct js *o = js_object();

    js_put_int(o, "status", e->status);
    js_put_str(o, "text", e->text);
    run_event_note(run, e->rank, "abort", o);
    watch_abort(run->watch, e->rank, e->status, e->text);
}

/* All ranks are on this node, so a fence is complete with this node's part, and
 * nobody has data that this server has not. */
static void take_event(struct run *run, struct pmixd_event *e)
{
    switch (e->what) {
    case PMIXD_CONNECTED:
        watch_pmix(run->watch, e->rank, WATCH_CONNECTED, clock_ms());
        run_event_note(run, e->rank, "connected", NULL);
        break;
    case PMIXD_FINALIZED:
        watch_pmix(run->watch, e->rank, WATCH_FINALIZED, clock_ms());
        run_event_note(run, e->rank, "finalized", NULL);
        break;
    case PMIXD_ABORTED:
        note_abort(run, e);
        break;
    case PMIXD_FENCE:
        pmixd_fence_done(e->ticket, 0, e->blob, e->blob_len);
        break;
    case PMIXD_MODEX:
        pmixd_modex_done(e->ticket, pmixd_not_found, NULL, 0);
        break;
    case PMIXD_FETCHED: /* nobody asked */
        break;
    }
    pmixd_event_free(e);
}

static void local_ready(struct run *run, int id)
{
    struct local *local = run->backend_data;
    struct pmixd_event *e;

    (void)id;
    while ((e = pmixd_next(local->server)))
        take_event(run, e);
}

static void remove_folder(char **path)
{
    if (*path)
        guard_remove_tree(*path);
    free(*path);
    *path = NULL;
}

static void local_close(struct run *run)
{
    struct local *local = run->backend_data;

    if (!local)
        return;
    for (int r = 0; local->env && r < run->world; r++)
        env_release(&local->env[r]);
    free(local->env);
    pmixd_close(local->server);
    remove_folder(&local->tmpdir);
    remove_folder(&local->shmdir);
    free(local);
    run->backend_data = NULL;
}

/* ---- the ranks ---- */

static struct proc_spec spec_of(const struct run *run, const struct run_launch *l,
                                int rank)
{
    const struct run_request *q = run->q;

    return (struct proc_spec){
        .program = l->program,
        .argv = l->argv.item,
        .stdin_fd = q->give_stdin && q->stdin_rank == rank ? STDIN_FILENO : -1,
        .cpus = run->plan[rank].cpus,
        .before = &run->before,
    };
}

static int spawn_rank(struct run *run, const struct run_launch *l,
                      const struct rank_env_start *start, int rank, struct err *err)
{
    const struct local *local = run->backend_data;
    struct proc_spec s = spec_of(run, l, rank);
    struct run_rank *r = &run->rank[rank];
    struct env *env = &local->env[rank];

    if (rank_env_build(env, environ, run->q, rank, err) < 0)
        return -1;
    rank_env_finish(env, start);
    if (pmixd_set_env(local->server, rank, env, err) < 0)
        return -1;
    s.env = env->item;
    if (proc_spawn(&r->proc, &s, err) < 0)
        return -1;
    run->alive++;
    run_follow(run->outputs, r->proc.out, RUN_OUT, rank);
    run_follow(run->outputs, r->proc.err, RUN_ERR, rank);
    run_follow(run->epoll, r->proc.event, RUN_EVENTS, rank);
    return 0;
}

/* How it really runs: read from its process, once the program is in it. */
static void note_task(struct run *run, const struct env *env, int rank)
{
    struct task_bound bound = { .by = "nobody" };

    snprintf(bound.cpus, sizeof(bound.cpus), "%s", run->plan[rank].cpus);
    if (*bound.cpus)
        bound.by = "muster";
    run_event_note(run, rank, "task",
                   task_state(run->rank[rank].proc.pid, &bound, env));
}

static int local_start(struct run *run, const struct run_launch *l, int *rank,
                       struct err *err)
{
    struct local *local = run->backend_data;
    struct rank_env_start start;
    struct proc_spec s;

    local->env = xcalloc((size_t)run->world, sizeof(*local->env));

    rank_env_choose(&start, run->id, local->shmdir);
    for (*rank = 0; *rank < run->world; ++*rank)
        if (spawn_rank(run, l, &start, *rank, err) < 0)
            return -1;
    for (*rank = 0; *rank < run->world; ++*rank) {
        s = spec_of(run, l, *rank);
        if (proc_started(&run->rank[*rank].proc, &s, err) < 0)
            return -1;
        note_task(run, &local->env[*rank], *rank);
    }
    return 0;
}

/* What the server knows of a rank comes before its end. */
static void local_child(struct run *run, pid_t pid, int wait_status)
{
    for (int r = 0; r < run->world; r++)
        if (run->rank[r].proc.pid == pid && !run->rank[r].proc.ended) {
            local_ready(run, 0);
            run_rank_ended(run, r, wait_status);
        }
}

static void local_signal(struct run *run, int signo)
{
    for (int r = 0; r < run->world; r++)
        proc_signal(&run->rank[r].proc, signo);
}

static void local_end(struct run *run, int signo)
{
    for (int r = 0; r < run->world; r++)
        run->rank[r].sent_away |= run->rank[r].proc.pid > 0 && !run->rank[r].proc.ended;
    sweep_signal(run->mark, signo);
}

static int local_is_empty(const struct run *run)
{
    struct sweep_process *left;
    int n = sweep_find(run->mark, &left);

    free(left);
    return n == 0;
}

const struct run_backend backend_local = {
    .name = "local",
    .check = local_check,
    .prepare = local_prepare,
    .start = local_start,
    .ready = local_ready,
    .child = local_child,
    .signal = local_signal,
    .end = local_end,
    .is_empty = local_is_empty,
    .close = local_close,
};
