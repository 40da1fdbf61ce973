#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/echo.h"
#include "launcher/env.h"
#include "launcher/guard.h"
#include "launcher/output.h"
#include "launcher/pmix_server.h"
#include "launcher/rank_env.h"
#include "launcher/run_command.h"
#include "launcher/run_dir.h"
#include "launcher/run_state.h"
#include "launcher/secret.h"
#include "launcher/store.h"
#include "recipes/recipe.h"
#include "topology/place.h"
#include "topology/topology.h"

const char *run_host(const struct run *run, int rank)
{
    return run->plan[rank].host;
}

/* ---- the plan ---- */

static void fill_plan(struct run *run)
{
    const struct run_request *q = run->q;
    int shown =
        getenv("CUDA_VISIBLE_DEVICES") != NULL; /* then indices are the user's */

    gethostname(run->self, sizeof(run->self) - 1);
    run->plan = xcalloc((size_t)run->world, sizeof(*run->plan));
    for (int r = 0; r < run->world; r++) {
        const struct place *at = &q->placement->rank[r];
        const struct node *node = &q->topology->nodes[at->node];
        run->plan[r].host = q->topology->simulated ? run->self : node->name;
        run->plan[r].busid =
            rank_uses_gpu(q, r) && !shown ? node->gpus[at->gpu].busid : "";
        run->plan[r].cpus = rank_cpus(q, r);
    }
}

static void make_watch(struct run *run)
{
    const struct watch_config c = { .world = run->world,
                                    .rank = run->plan,
                                    .meet_timeout_ms = run->q->start_timeout_ms,
                                    .silence_timeout_ms = run->q->silence_timeout_ms,
                                    .expect_arrival = !run->q->command };

    run->watch = watch_new(&c, clock_ms());
}

/* ---- files ---- */

static struct js *run_json(const struct run *run)
{
    struct js *o = js_document("run"), *argv = js_array();
    const struct run_request *q = run->q;
    char *cwd = getcwd(NULL, 0);
    struct str line = STR_INIT;
    struct utsname host;

    uname(&host);
    js_put_str(o, "run", run->id);
    js_put_int(o, "pid", getpid());
    js_put_int(o, "guardian", guard_pid() ? guard_pid() : -1);
    js_put_str(o, "host", host.nodename);
    js_put_real(o, "started", clock_wall_s());
    js_put_int(o, "world", run->world);
    js_put_str(o, "parent", q->parent);
    js_put_str(o, "resume", q->resume);
    js_put_str(o, "cwd", cwd);
    if (q->command)
        secret_add_command(&line, q->command);
    js_put_str(o, "command", line.text);
    js_free(argv);
    str_release(&line);
    free(cwd);
    return o;
}

static int write_files(struct run *run, struct err *err)
{
    char *recipe = run->q->recipe ? recipe_text(run->q->recipe) : NULL, *path;
    struct js *plan = NULL, *about = run_json(run);
    int rc = -1;

    if (recipe && run_dir_write(run->dir, "recipe.yaml", recipe, err) < 0)
        goto out;
    plan = run_plan_json(run->q, run->dir, err);
    if (!plan || run_dir_write_json(run->dir, "plan.json", plan, err) < 0 ||
        run_dir_write_json(run->dir, "run.json", about, err) < 0)
        goto out;
    path = xasprintf("%s/events.jsonl", run->dir);
    run->events = fopen(path, "we");
    if (!run->events)
        err_set(err, ERR_SYSTEM, "%s: %m", path);
    free(path);
    rc = run->events ? 0 : -1;
out:
    js_free(plan);
    js_free(about);
    free(recipe);
    return rc;
}

/* ---- descriptors ---- */

static void follow(int epoll, int fd, enum run_source source, int rank)
{
    struct epoll_event e = { .events = EPOLLIN,
                             .data.u64 = (uint64_t)source << 32 | (uint32_t)rank };

    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
}

static int open_loop(struct run *run, struct err *err)
{
    static const int caught[] = { SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
                                  SIGUSR2, SIGTSTP, SIGCONT, SIGCHLD };
    struct sigaction now;
    sigset_t set;

    signal(SIGCHLD, SIG_DFL); /* ignored, it would hide how ranks ended */
    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_LEN(caught); i++)
        if (sigaction(caught[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&set, caught[i]);
    sigaddset(&set, SIGPIPE); /* never delivered here: a lost reader is an errno */
    proc_prepare(&run->before, &set, run->world);
    sigdelset(&set, SIGPIPE);
    run->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    run->epoll = epoll_create1(EPOLL_CLOEXEC);
    run->outputs = epoll_create1(EPOLL_CLOEXEC);
    if (run->signals < 0 || run->epoll < 0 || run->outputs < 0)
        return err_set(err, ERR_SYSTEM, "epoll: %m");
    follow(run->epoll, run->signals, RUN_SIGNALS, 0);
    follow(run->epoll, run->outputs, RUN_OUTPUTS, 0);
    run->listening = 1;
    return run->q->quiet ? 0 : echo_open(&run->echo, err);
}

static int open_output(struct run *run, int rank, struct err *err)
{
    int to = run->q->lines_to_stderr ? STDERR_FILENO : STDOUT_FILENO;
    char *path = xasprintf("%s/ranks/%s.%d.log", run->dir, run_host(run, rank), rank);
    struct output_spec s = {
        .host = run_host(run, rank),
        .rank = rank,
        .path = path,
        .echo = run->echo,
        .fd = { to, STDERR_FILENO },
        .terminal = { isatty(to), isatty(STDERR_FILENO) },
    };
    int rc = output_open(&run->rank[rank].output, &s, err);

    free(path);
    return rc;
}

/* ---- the PMIx server ---- */

static int start_server(struct run *run, struct err *err)
{
    int *node_of = xcalloc((size_t)run->world, sizeof(*node_of));
    const char *name = run_host(run, 0);
    struct pmixd_config c = { .nspace = run->id,
                              .n_nodes = 1,
                              .node_name = &name,
                              .world = run->world,
                              .node_of = node_of };
    int rc;

    c.tmpdir = guard_tmpdir(err);
    run->tmpdir = c.tmpdir ? guard_make_folder(GUARD_TMP, err) : NULL;
    rc = run->tmpdir ? 0 : -1;
    c.job_dir = run->tmpdir;
    if (rc == 0)
        rc = pmixd_open(&run->server, &c, err);
    if (rc == 0)
        follow(run->epoll, pmixd_fd(run->server), RUN_SERVER, 0);
    free(node_of);
    return rc;
}

static void remove_folder(char **path)
{
    if (*path)
        guard_remove_tree(*path);
    free(*path);
    *path = NULL;
}

void run_stop_server(struct run *run)
{
    pmixd_close(run->server);
    run->server = NULL;
    remove_folder(&run->tmpdir);
    remove_folder(&run->shmdir);
}

/* ---- the ranks ---- */

struct launch {
    struct strlist argv;
    char *program;
    struct rank_env_start start;
};

static struct proc_spec spec_of(const struct run *run, const struct launch *l, int rank)
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

static int fork_rank(struct run *run, const struct launch *l, int rank, struct err *err)
{
    struct proc_spec s = spec_of(run, l, rank);
    struct run_rank *r = &run->rank[rank];
    struct env env = ENV_INIT;
    int rc = -1;

    if (rank_env_build(&env, environ, run->q, rank, err) < 0)
        return -1;
    rank_env_finish(&env, &l->start);
    if (pmixd_set_env(run->server, rank, &env, err) < 0)
        goto out;
    s.env = env.item;
    if (proc_spawn(&r->proc, &s, err) < 0)
        goto out;
    run->alive++;
    follow(run->outputs, r->proc.out, RUN_OUT, rank);
    follow(run->outputs, r->proc.err, RUN_ERR, rank);
    follow(run->epoll, r->proc.event, RUN_EVENTS, rank);
    rc = 0;
out:
    env_release(&env);
    return rc;
}

/* Fork all before waiting for any: they start side by side.  On failure *rank says
 * which one. */
static int start_ranks(struct run *run, const struct launch *l, int *rank,
                       struct err *err)
{
    struct proc_spec s;

    for (*rank = 0; *rank < run->world; ++*rank)
        if (fork_rank(run, l, *rank, err) < 0)
            return -1;
    for (*rank = 0; *rank < run->world; ++*rank) {
        s = spec_of(run, l, *rank);
        if (proc_started(&run->rank[*rank].proc, &s, err) < 0)
            return -1;
    }
    return 0;
}

static void start_all(struct run *run, const struct launch *l)
{
    struct err err = ERR_INIT;
    struct js *o = js_object();
    int rank;

    if (start_ranks(run, l, &rank, &err) < 0) {
        err_wrap(&err, "rank %d on %s", rank, run_host(run, rank));
        run_end(run, (int)err.code, "start", rank, err_text(&err));
    }
    err_release(&err);
    js_put_str(o, "run", run->id);
    js_put_str(o, "dir", run->dir);
    js_put_int(o, "world", run->world);
    run_event_note(run, -1, "start", o);
}

static int check_nodes(const struct run *run, struct err *err)
{
    if (run->q->placement->n_nodes <= 1)
        return 0;
    return err_set(
        err, ERR_MISSING,
        "the placement needs %d nodes, and this backend starts ranks on this "
        "machine only: use fewer GPUs, or the ssh or slurm backend",
        run->q->placement->n_nodes);
}

int run_start(struct run *run, struct err *err)
{
    struct launch l = { .program = NULL };
    int rc = -1;

    if (check_nodes(run, err) < 0)
        return -1;
    fill_plan(run);
    /* Before the folder is made: a wrong command leaves nothing behind. */
    if (run_command(run->q, "", &l.argv, &l.program, err) < 0 ||
        run_dir_make(run_name(run->q), &run->id, &run->dir, err) < 0)
        goto out;
    strlist_release(&l.argv);
    free(l.program);
    l.program = NULL;
    run->mark = xasprintf("MUSTER_RUN=%s", run->id);
    run_result_init(run->result, run->id, run->dir, run->world);
    if (run_command(run->q, run->dir, &l.argv, &l.program, err) < 0 ||
        write_files(run, err) < 0 || open_loop(run, err) < 0)
        goto out;
    for (int r = 0; r < run->world; r++)
        if (open_output(run, r, err) < 0)
            goto out;
    if (start_server(run, err) < 0)
        goto out;
    store_note_start(run->id, run->dir, run->q);
    run->shmdir = guard_make_folder(GUARD_SHM, NULL);
    rank_env_choose(&l.start, run->id, run->shmdir);
    make_watch(run);
    start_all(run, &l);
    rc = 0;
out:
    strlist_release(&l.argv);
    free(l.program);
    return rc;
}
