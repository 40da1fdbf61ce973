/* backend_slurm.c - ranks as tasks of one Slurm step, an agent beside each. */
#include "launcher/backend.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/js.h"
#include "base/log.h"
#include "base/mem.h"
#include "launcher/run_dir.h"
#include "launcher/run_limit.h"
#include "launcher/run_state.h"
#include "launcher/slurm_nodes.h"
#include "launcher/slurm_state.h"
#include "launcher/slurm_step.h"
#include "recipes/recipe.h"
#include "topology/place.h"

static int slurm_check(const struct run_request *q, struct err *err)
{
    char *srun = proc_find("srun", getenv("PATH"), err);

    if (!srun)
        return -1;
    free(srun);
    (void)q;
    return 0;
}

/* ---- what agents say ---- */

/* NULL: the task is where the plan wants it; else why not, the caller's to free(). */
static char *off_plan(const struct run *run, int rank, const struct js *about)
{
    const char *node = js_str(about, "node", "");
    int64_t pmix = js_get_int(about, "pmix_rank", -1);

    if (pmix < 0)
        return xasprintf(
            "rank %d on %s has no PMIx server: srun --mpi=pmix did not provide one "
            "(`srun --mpi=list` names the plugins; it needs libpmix at run time)",
            rank, node);
    if (pmix != rank)
        return xasprintf("task %d on %s is rank %lld of PMIx: the order of ranks is "
                         "not the plan's",
                         rank, node, (long long)pmix);
    if (!str_eq(node, run_host(run, rank)))
        return xasprintf("rank %d runs on %s, but the plan puts it on %s: srun did not "
                         "follow the hostfile",
                         rank, node, run_host(run, rank));
    return NULL;
}

static int on_hello(void *arg, int rank, const struct js *about)
{
    struct run *run = arg;
    struct slurm *s = run->backend_data;
    char *why = off_plan(run, rank, about);

    s->there[rank] = 1;
    run->result->begun = memchr(s->there, 0, (size_t)run->world) == NULL;
    run_event_note(run, rank, "agent", js_ref((struct js *)about));
    if (why)
        run_end(run, ERR_FAILED, "start", rank, why);
    free(why);
    if (rank == 0)
        slurm_take_master(run, js_get(about, "master"));
    if (run->phase == RUN_GOING)
        slurm_begin(run, rank);
    else
        task_server_send(s->agents, rank, TASK_SIGNAL, "\x09", 1);
    return 0;
}

static void take_failure(struct run *run, int rank, const char *bytes, size_t n)
{
    struct js *o = NULL;
    char *why;

    if (js_parse(bytes, n, "failure", &o, NULL) < 0)
        o = js_object();
    why = xasprintf("rank %d on %s: %s", rank, run_host(run, rank),
                    js_str(o, "text", "could not be started"));
    run_end(run, (int)js_get_int(o, "code", ERR_SYSTEM), "start", rank, why);
    run->rank[rank].sent_away = 1;
    run_rank_ended(run, rank, W_EXITCODE(127, 0));
    free(why);
    js_free(o);
}

/* Who sent it does not say so: the time limit, scancel, a preemption. */
static void take_signal(struct run *run, int rank, int signo)
{
    char *why;

    if (run_limit_take(run, signo))
        return;
    if (signo == SIGUSR1 || signo == SIGUSR2 || run->phase != RUN_GOING)
        return;
    why =
        xasprintf("Slurm ended the step: signal %d (%s) at rank %d on %s (time limit, "
                  "scancel or preemption)",
                  signo, strsignal(signo), rank, run_host(run, rank));
    run_end(run, 128 + signo, "stopped", -1, why);
    free(why);
}

static void take_exit(struct run *run, int rank, const char *bytes, size_t n)
{
    const struct slurm *s = run->backend_data;
    struct js *o = NULL;
    int raw = W_EXITCODE(ERR_SYSTEM, 0);

    if (js_parse(bytes, n, "exit", &o, NULL) == 0)
        raw = (int)js_get_int(o, "wait_status", raw);
    js_free(o);
    if (raw != 0) {
        slurm_fault_exit(s->fault, rank, raw);
        slurm_wait_for_others(run);
    }
    run_rank_ended(run, rank, raw);
}

/* What a rank reports in passing, and an end that is none's fault. */
static int can_wait(enum task_frame type, const char *bytes, size_t n)
{
    struct js *o = NULL;
    int ok = type == TASK_EVENT;

    if (type == TASK_EXIT && js_parse(bytes, n, "exit", &o, NULL) == 0)
        ok = js_get_int(o, "wait_status", -1) == 0;
    js_free(o);
    return ok;
}

static void on_frame(void *arg, int rank, enum task_frame type, const char *bytes,
                     size_t n)
{
    struct run *run = arg;
    const struct slurm *s = run->backend_data;

    if (run->rank[rank].proc.ended)
        return;
    if (type == TASK_OUT || type == TASK_ERR)
        slurm_fault_printed(s->fault, bytes, n);
    if (type == TASK_OUT)
        run_rank_bytes(run, rank, RUN_OUT, bytes, n);
    else if (type == TASK_ERR)
        run_rank_bytes(run, rank, RUN_ERR, bytes, n);
    else if (type == TASK_EVENT)
        run_rank_bytes(run, rank, RUN_EVENTS, bytes, n);
    else if (type == TASK_FAILED)
        take_failure(run, rank, bytes, n);
    else if (type == TASK_SIGNAL)
        take_signal(run, rank, task_frame_signal(bytes, n));
    else if (type == TASK_PMIX && n == 1)
        slurm_pmix(run, rank, bytes[0]);
    else if (type == TASK_GONE)
        slurm_gone(run, rank, bytes, n);
    else if (type == TASK_EXIT)
        take_exit(run, rank, bytes, n);
}

void slurm_give_up_rank(struct run *run, int rank)
{
    if (run->rank[rank].proc.ended)
        return;
    run->rank[rank].sent_away = 1;
    run_rank_ended(run, rank, SIGKILL);
}

static void on_lost(void *arg, int rank)
{
    slurm_lost(arg, rank);
}

/* ---- srun ---- */

static int is_complaint(const char *line)
{
    return strstr(line, "error") || strstr(line, "unrecognized") ||
           strstr(line, "invalid");
}

static void take_line(void *arg, const char *bytes, size_t n)
{
    struct run *run = arg;
    struct slurm *s = run->backend_data;
    char line[1024];

    while (n && (bytes[n - 1] == '\n' || bytes[n - 1] == '\r'))
        n--;
    snprintf(line, sizeof(line), "%.*s", (int)n, bytes);
    if (is_complaint(line))
        snprintf(s->words, sizeof(s->words), "%.*s", (int)sizeof(s->words) - 1, line);
    slurm_line(run, line);
}

static void read_srun(struct run *run, int *fd)
{
    struct slurm *s = run->backend_data;
    char buf[8192];
    ssize_t n;

    while (*fd >= 0 && (n = read(*fd, buf, sizeof(buf))) >= 0) {
        if (n == 0) {
            close(*fd);
            *fd = -1;
            return;
        }
        (void)!write(s->logged, buf, (size_t)n);
        line_feed(&s->line, buf, (size_t)n, take_line, run);
    }
}

static int open_files(struct run *run, struct slurm *s, struct err *err)
{
    struct str hosts = STR_INIT;
    int rc;

    s->hostfile = xasprintf("%s/hosts", run->dir);
    s->log = xasprintf("%s/srun.log", run->dir);
    slurm_step_hosts(run->q, &hosts);
    rc = run_dir_write(run->dir, "hosts", hosts.text, err);
    str_release(&hosts);
    s->logged = open(s->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (rc == 0 && s->logged < 0)
        rc = err_set(err, ERR_SYSTEM, "%s: %m", s->log);
    return rc;
}

static int slurm_prepare(struct run *run, struct err *err)
{
    static const struct task_server_calls calls = { on_hello, on_frame, on_lost,
                                                    can_wait };
    struct slurm *s = run->backend_data = xcalloc(1, sizeof(*s));

    s->srun = (struct proc){ .out = -1, .err = -1, .event = -1 };
    s->there = xcalloc((size_t)run->world, 1);
    s->gone = xcalloc((size_t)run->world, 1);
    s->pmix = xcalloc((size_t)run->world, 1);
    s->host = xcalloc((size_t)run->world, sizeof(*s->host));
    for (int r = 0; r < run->world; r++)
        s->host[r] = run_host(run, r);
    s->fault = slurm_fault_new(run->world, s->host);
    slurm_ping_init(&s->ping, clock_ms());
    s->logged = -1;
    rank_env_choose(&s->start, run->id, NULL);
    if (open_files(run, s, err) < 0 ||
        task_server_open(&s->agents, run->world, s->start.job_key, &calls, run, err) <
            0)
        return -1;
    run_follow(run->outputs, task_server_fd(s->agents), RUN_BACKEND, READY_AGENTS);
    return 0;
}

/* Names that an agent inherits through srun and no rank shall have. */
static void note_dropped(struct task_start *what, const struct env *rank)
{
    for (char **v = environ; *v; v++) {
        char *name = xstrndup(*v, strcspn(*v, "="));
        if (!env_get(rank, name))
            strlist_add(&what->drop, name);
        free(name);
    }
}

static int make_start(struct run *run, const struct run_launch *l, struct err *err)
{
    struct slurm *s = run->backend_data;
    struct env env;

    if (slurm_rank_env(run->q, 0, &env, err) < 0)
        return -1;
    note_dropped(&s->what, &env);
    env_release(&env);
    strlist_copy(&s->what.argv, &l->argv);
    s->what.program = xstrdup(l->program);
    s->what.cwd = getcwd(NULL, 0);
    s->what.look_ms = slurm_pmix_look_ms(run);
    s->what.grace_ms = run->q->grace_ms > 0 ? run->q->grace_ms : RUN_GRACE_MS;
    return s->what.cwd ? 0 : err_set(err, ERR_SYSTEM, "the current folder: %m");
}

static int start_srun(struct run *run, struct err *err)
{
    struct slurm *s = run->backend_data;
    struct proc_spec spec = { .stdin_fd = run->q->give_stdin ? STDIN_FILENO : -1,
                              .cpus = "",
                              .before = &run->before };
    struct strlist argv = { 0 };
    char *self = slurm_self(err), *at = task_server_at(s->agents), *program = NULL;
    struct env env;
    int rc = -1;

    slurm_step_env(environ, s->hostfile, &env);
    env_set(&env, TASK_AT, at);
    if (run->q->give_stdin)
        env_setf(&env, TASK_STDIN, "%d", run->q->stdin_rank);
    env_set(&env, "MUSTER_JOB_KEY", s->start.job_key);
    program = self ? proc_find("srun", getenv("PATH"), err) : NULL;
    if (program) {
        slurm_step_argv(run->q, self, &argv);
        spec.program = program;
        spec.argv = argv.item;
        spec.env = env.item;
        rc = proc_spawn(&s->srun, &spec, err);
        if (rc == 0)
            rc = proc_started(&s->srun, &spec, err);
    }
    env_release(&env);
    strlist_release(&argv);
    free(program);
    free(self);
    free(at);
    return rc;
}

static int slurm_start(struct run *run, const struct run_launch *l, int *rank,
                       struct err *err)
{
    struct slurm *s = run->backend_data;

    *rank = -1;
    s->begun = clock_ms();
    if (make_start(run, l, err) < 0 || start_srun(run, err) < 0)
        return -1;
    run->alive = run->world;
    run_follow(run->outputs, s->srun.out, RUN_BACKEND, READY_OUT);
    run_follow(run->outputs, s->srun.err, RUN_BACKEND, READY_ERR);
    return 0;
}

static void slurm_ready(struct run *run, int id)
{
    struct slurm *s = run->backend_data;

    if (id == READY_AGENTS)
        task_server_poll(s->agents);
    else if (id == READY_PING)
        slurm_ping_read(&s->ping);
    else
        read_srun(run, id == READY_OUT ? &s->srun.out : &s->srun.err);
}

static void never_came(struct run *run)
{
    struct slurm *s = run->backend_data;
    char *why =
        xasprintf("srun ended with status %d before all ranks were there%s%s; %s",
                  s->srun.status, *s->words ? ": " : "", s->words, s->log);

    for (int r = 0; r < run->world; r++) {
        if (s->there[r] || run->rank[r].proc.ended)
            continue;
        if (slurm_fault_due(s->fault)) { /* there is a better reason to come */
            s->gone[r] = 1;
            continue;
        }
        run_end(run, ERR_FAILED, "start", -1, why);
        slurm_give_up_rank(run, r);
    }
    free(why);
}

static void tell_of_controller(enum slurm_ping_news news)
{
    if (news == PING_DOWN)
        log_warn("Slurm's controller does not answer (scontrol ping); the run goes on, "
                 "the end of its job waits for the controller");
    else if (news == PING_UP)
        log_info("Slurm's controller answers again");
}

/* Tasks that never came will not come any more; the others' last words are on their
 * way. */
static void slurm_child(struct run *run, pid_t pid, int wait_status)
{
    struct slurm *s = run->backend_data;

    tell_of_controller(slurm_ping_child(&s->ping, pid, wait_status, clock_ms()));
    if (pid != s->srun.pid || s->srun.ended)
        return;
    read_srun(run, &s->srun.out);
    read_srun(run, &s->srun.err);
    proc_reaped(&s->srun, wait_status);
    slurm_srun_ended(run);
    never_came(run);
}

/* ---- doing something to ranks ---- */

static void send_all(struct run *run, int signo)
{
    struct slurm *s = run->backend_data;
    char byte = (char)signo;

    for (int r = 0; r < run->world; r++)
        if (!run->rank[r].proc.ended)
            task_server_send(s->agents, r, TASK_SIGNAL, &byte, 1);
}

int slurm_any_there(const struct run *run)
{
    const struct slurm *s = run->backend_data;

    for (int r = 0; r < run->world; r++)
        if (task_server_has(s->agents, r))
            return 1;
    return 0;
}

void slurm_tell_srun(struct run *run, int signo)
{
    struct slurm *s = run->backend_data;

    proc_signal(&s->srun, signo);
    if (s->srun.pid > 0 && !s->told)
        s->told = clock_ms();
}

/* TERM makes srun kill the step at once: see slurm_tick(). */
static void slurm_end(struct run *run, int signo)
{
    struct slurm *s = run->backend_data;

    for (int r = 0; r < run->world; r++)
        run->rank[r].sent_away |= !run->rank[r].proc.ended;
    send_all(run, signo);
    if (signo == SIGKILL && !s->told)
        slurm_tell_srun(run, SIGTERM);
}

static int slurm_is_empty(const struct run *run)
{
    const struct slurm *s = run->backend_data;

    return s->srun.pid == 0 || s->srun.ended;
}

static void slurm_close(struct run *run)
{
    struct slurm *s = run->backend_data;

    if (!s)
        return;
    task_server_close(s->agents);
    proc_close(&s->srun);
    if (s->logged >= 0)
        close(s->logged);
    s->what.cpus = NULL;
    task_start_release(&s->what);
    str_release(&s->line.held);
    slurm_fault_free(s->fault);
    slurm_ping_release(&s->ping);
    free(s->host);
    free(s->gone);
    free(s->pmix);
    free(s->there);
    free(s->hostfile);
    free(s->log);
    free(s);
    run->backend_data = NULL;
}

const struct run_backend backend_slurm = {
    .name = "slurm",
    .check = slurm_check,
    .prepare = slurm_prepare,
    .start = slurm_start,
    .ready = slurm_ready,
    .child = slurm_child,
    .signal = send_all,
    .end = slurm_end,
    .is_empty = slurm_is_empty,
    .tick = slurm_tick,
    .close = slurm_close,
};
