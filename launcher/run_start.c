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
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/backend.h"
#include "launcher/echo.h"
#include "launcher/guard.h"
#include "launcher/output.h"
#include "launcher/rank_env.h"
#include "launcher/run_command.h"
#include "launcher/run_dir.h"
#include "launcher/run_state.h"
#include "launcher/secret.h"
#include "launcher/secret_recipe.h"
#include "launcher/slurm_nodes.h"
#include "launcher/store.h"
#include "recipes/recipe.h"
#include "recipes/value.h"
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

static struct js *net_lines(const struct run_request *q)
{
    struct js *a = js_array();

    for (int i = 0; q->net_said && i < q->net_said->n; i++) {
        js_push(a, js_string(q->net_said->item[i]));
        if (q->verbose)
            log_info("%s", q->net_said->item[i]);
    }
    return a;
}

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
    if (q->slurm)
        js_put_str(o, "job", q->slurm->job);
    if (q->part)
        js_put_int(o, "attempt", q->part->attempt);
    js_put_str(o, "cwd", cwd);
    if (q->command)
        secret_add_command(&line, q->command);
    js_put_str(o, "command", line.text);
    js_put(o, "network", net_lines(q));
    js_free(argv);
    str_release(&line);
    free(cwd);
    return o;
}

static int write_files(struct run *run, struct err *err)
{
    const struct recipe *r = run->q->recipe;
    int starts_again = run->q->part && run->q->part->batch;
    char *recipe = !r             ? NULL
                   : starts_again ? recipe_text(r)
                                  : secret_recipe_text(r),
         *path;
    struct js *about = run_json(run);
    int rc = -1;

    if ((recipe && run_dir_write(run->dir, "recipe.yaml", recipe, err) < 0) ||
        run_dir_write_json(run->dir, "run.json", about, err) < 0)
        goto out;
    path = xasprintf("%s/events.jsonl", run->dir);
    run->events = fopen(path, run->q->part ? "ae" : "we");
    if (!run->events)
        err_set(err, ERR_SYSTEM, "%s: %m", path);
    free(path);
    rc = run->events ? 0 : -1;
out:
    js_free(about);
    free(recipe);
    return rc;
}

/* What no rank waits for: the plan in full and the entry in the store, while srun, agents
 * and ranks come up. */
static void record(struct run *run)
{
    struct err err = ERR_INIT;
    struct js *plan = run_plan_json(run->q, run->dir, &err);

    if (!plan || run_dir_write_json(run->dir, "plan.json", plan, &err) < 0)
        run_end(run, (int)err.code, "start", -1, err_text(&err));
    err_release(&err);
    js_free(plan);
    store_note_start(run->id, run->dir, run->q);
}

/* ---- descriptors ---- */

void run_follow(int epoll, int fd, enum run_source source, int id)
{
    struct epoll_event e = { .events = EPOLLIN,
                             .data.u64 = (uint64_t)source << 32 | (uint32_t)id };

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
    run_follow(run->epoll, run->signals, RUN_SIGNALS, 0);
    run_follow(run->epoll, run->outputs, RUN_OUTPUTS, 0);
    run->listening = 1;
    return run->q->quiet ? 0 : echo_open(&run->echo, err);
}

/* MUSTER_LOG_LIMIT: bytes that are kept of one rank, as "64MiB". */
static int64_t log_limit(void)
{
    const char *text = getenv("MUSTER_LOG_LIMIT");
    int64_t bytes = 0;

    return text && value_size(text, &bytes, NULL) == 0 ? bytes : 0;
}

static void open_output(struct run *run, int rank)
{
    int to = run->q->lines_to_stderr ? STDERR_FILENO : STDOUT_FILENO;
    char *path = xasprintf("%s/ranks/%s.%d.log", run->dir, run_host(run, rank), rank);
    struct output_spec s = {
        .host = run_host(run, rank),
        .rank = rank,
        .path = path,
        .limit = log_limit(),
        .echo = run->echo,
        .fd = { to, STDERR_FILENO },
        .terminal = { isatty(to), isatty(STDERR_FILENO) },
    };

    run->rank[rank].output = output_new(&s);
    free(path);
}

/* ---- the ranks ---- */

static void start_all(struct run *run, const struct run_launch *l)
{
    struct err err = ERR_INIT;
    struct js *o = js_object();
    int rank = -1;

    if (run->backend->start(run, l, &rank, &err) < 0) {
        if (rank >= 0)
            err_wrap(&err, "rank %d on %s", rank, run_host(run, rank));
        run_end(run, (int)err.code, "start", rank, err_text(&err));
    }
    err_release(&err);
    js_put_str(o, "run", run->id);
    js_put_str(o, "dir", run->dir);
    js_put_int(o, "world", run->world);
    if (run->q->part)
        js_put_int(o, "attempt", run->q->part->attempt);
    run_event_note(run, -1, "start", o);
}

static int make_dir(struct run *run, struct err *err)
{
    if (run->q->part)
        return run_dir_take(run->q->part->dir, &run->id, &run->dir, err);
    return run_dir_make(run_name(run->q), &run->id, &run->dir, err);
}

int run_start(struct run *run, struct err *err)
{
    struct run_launch l = { .program = NULL };
    int rc = -1;

    run->backend = backend_choose(run->q);
    if (run->backend->check(run->q, err) < 0)
        return -1;
    fill_plan(run);
    /* Before the folder is made: a wrong command leaves nothing behind. */
    if (run_command(run->q, "", &l.argv, &l.program, err) < 0 || make_dir(run, err) < 0)
        goto out;
    strlist_release(&l.argv);
    free(l.program);
    l.program = NULL;
    run->mark = xasprintf("MUSTER_RUN=%s", run->id);
    run_result_init(run->result, run->id, run->dir, run->world);
    run->result->simulated = run_is_simulated(run->q);
    if (run->q->attempts)
        run->result->attempts = js_ref(run->q->attempts);
    if (run_command(run->q, run->dir, &l.argv, &l.program, err) < 0 ||
        write_files(run, err) < 0 || open_loop(run, err) < 0)
        goto out;
    for (int r = 0; r < run->world; r++)
        open_output(run, r);
    if (run->backend->prepare(run, err) < 0)
        goto out;
    make_watch(run);
    start_all(run, &l);
    record(run);
    rc = 0;
out:
    strlist_release(&l.argv);
    free(l.program);
    return rc;
}
