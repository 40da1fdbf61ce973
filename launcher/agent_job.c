#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "launcher/agent_copied.h"
#include "launcher/agent_files.h"
#include "launcher/agent_state.h"
#include "launcher/guard.h"
#include "launcher/pmix_server.h"
#include "launcher/rank_env.h"
#include "launcher/sweep.h"
#include "launcher/task_bind.h"
#include "launcher/task_state.h"

/* ---- the server ---- */

static int open_server(struct agent *a, struct err *err)
{
    const struct agent_job *j = &a->job;
    struct pmixd_config c = { .nspace = j->run,
                              .node = j->node,
                              .n_nodes = j->n_nodes,
                              .node_name = (const char *const *)j->nodes.item,
                              .world = j->world,
                              .node_of = j->node_of };

    c.tmpdir = guard_tmpdir(err);
    a->tmpdir = c.tmpdir ? guard_make_folder(GUARD_TMP, err) : NULL;
    c.job_dir = a->tmpdir;
    if (!a->tmpdir || pmixd_open(&a->server, &c, err) < 0)
        return -1;
    agent_follow(a->epoll, pmixd_fd(a->server), AGENT_SERVER, 0);
    a->shmdir = guard_make_folder(GUARD_SHM, NULL);
    return 0;
}

int agent_job_open(struct agent *a, struct err *err)
{
    struct agent_job *j = &a->job;

    a->mark = xasprintf("MUSTER_AGENT=%s.%d", j->run, j->node);
    a->proc = xcalloc((size_t)j->n_ranks + 1, sizeof(*a->proc));
    for (int i = 0; i < j->n_ranks; i++)
        a->proc[i] = (struct proc){ .out = -1, .err = -1, .event = -1 };
    a->alive = 0;
    a->left = -1;
    if (agent_files_check(j, err) < 0 || open_server(a, err) < 0 ||
        agent_files_write(j, a->tmpdir, err) < 0)
        return -1;
    a->phase = AGENT_READY;
    return 0;
}

/* ---- starting ---- */

/* muster's own programs stand beside it; others are found as the ranks would. */
static char *find_program(const struct agent_job *j, struct err *err)
{
    char self[PATH_MAX], *path, *found;
    const char *search = NULL;
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (!*j->program) {
        if (j->n_ranks)
            search = env_get(&j->ranks[0].env, "PATH");
        return proc_find(j->argv.item[0], search, err);
    }
    self[n > 0 ? n : 0] = '\0';
    path = xasprintf("%.*s/%s", (int)(n > 0 ? strrchr(self, '/') - self : 0), self,
                     j->program);
    found = proc_find(path, NULL, err);
    free(path);
    return found;
}

static void finish_env(const struct agent *a, struct env *env,
                       const struct rank_env_start *start)
{
    const char *guard = getenv("MUSTER_GUARD");

    rank_env_finish(env, start);
    if (*a->job.program)
        agent_copied_env(env);
    if (guard)
        env_set(env, "MUSTER_GUARD", guard);
    env_set(env, "MUSTER_AGENT", strchr(a->mark, '=') + 1);
}

static struct proc_spec spec_of(const struct agent *a, const char *program, int i)
{
    return (struct proc_spec){ .program = program,
                               .argv = a->job.argv.item,
                               .env = a->job.ranks[i].env.item,
                               .stdin_fd = -1,
                               .cpus = a->job.ranks[i].cpus,
                               .before = &a->before };
}

static int spawn_rank(struct agent *a, const char *program, int i, struct err *err)
{
    struct agent_rank *r = &a->job.ranks[i];
    struct proc_spec s;
    int rc;

    if (pmixd_set_env(a->server, r->rank, &r->env, err) < 0)
        return -1;
    s = spec_of(a, program, i);
    if (agent_stdin_open(a, r->rank, &s.stdin_fd, err) < 0)
        return -1;
    rc = proc_spawn(&a->proc[i], &s, err);
    if (s.stdin_fd >= 0)
        close(s.stdin_fd);
    if (rc < 0)
        return -1;
    a->alive++;
    agent_follow(a->outputs, a->proc[i].out, AGENT_OUT, i);
    agent_follow(a->outputs, a->proc[i].err, AGENT_ERR, i);
    agent_follow(a->epoll, a->proc[i].event, AGENT_EVENTS, i);
    return 0;
}

/* How it really runs, before anything that it says itself. */
static void say_task(struct agent *a, int i)
{
    const struct agent_rank *r = &a->job.ranks[i];
    struct task_bound bound = { .by = "nobody" };
    char *line;

    snprintf(bound.cpus, sizeof(bound.cpus), "%s", r->cpus);
    if (*bound.cpus)
        bound.by = "muster";
    line = task_state_line(a->proc[i].pid, &bound, &r->env);
    agent_rank_put(a, AGENT_EVENTS, r->rank, line, strlen(line));
    free(line);
}

/* *i: which failed. */
static int start_all(struct agent *a, const struct rank_env_start *start,
                     const char *program, int *i, struct err *err)
{
    for (*i = 0; *i < a->job.n_ranks; ++*i) {
        finish_env(a, &a->job.ranks[*i].env, start);
        if (spawn_rank(a, program, *i, err) < 0)
            return -1;
    }
    for (*i = 0; *i < a->job.n_ranks; ++*i) {
        struct proc_spec s = spec_of(a, program, *i);
        if (proc_started(&a->proc[*i], &s, err) < 0)
            return -1;
        say_task(a, *i);
    }
    return 0;
}

/* The launcher counts the end of every rank, of one that never was as well. */
static void end_unborn(struct agent *a)
{
    for (int i = 0; i < a->job.n_ranks; i++) {
        if (a->proc[i].pid)
            continue;
        frame_begin(&a->to, FRAME_EXIT);
        frame_add_u32(&a->to, (uint32_t)a->job.ranks[i].rank);
        frame_add_u32(&a->to, 127 << 8);
        frame_end(&a->to, NULL);
    }
}

void agent_job_start(struct agent *a, int port)
{
    struct rank_env_start start = { .run = a->job.run,
                                    .shm = a->shmdir,
                                    .master_port = port };
    struct err err = ERR_INIT;
    char *program = find_program(&a->job, &err);
    int i = -1;

    snprintf(start.job_key, sizeof(start.job_key), "%s", a->job.job_key);
    a->phase = AGENT_RUNNING;
    if (program && start_all(a, &start, program, &i, &err) == 0) {
        frame_put(&a->to, FRAME_STARTED);
    } else {
        agent_failed(a, &err, i < 0 ? -1 : a->job.ranks[i].rank);
        end_unborn(a);
    }
    if (a->alive == 0) {
        a->left = -1; /* say it, though it is 0 */
        agent_rank_look(a);
    }
    err_release(&err);
    free(program);
}

/* ---- its end ---- */

static void remove_folder(char **path)
{
    if (*path)
        guard_remove_tree(*path);
    free(*path);
    *path = NULL;
}

void agent_job_close(struct agent *a)
{
    for (int i = 0; a->proc && i < a->job.n_ranks; i++)
        proc_close(&a->proc[i]);
    agent_stdin_close(a);
    if (a->server)
        agent_pmix_forget(a);
    pmixd_close(a->server);
    a->server = NULL;
    remove_folder(&a->tmpdir);
    remove_folder(&a->shmdir);
    agent_job_release(&a->job);
    free(a->proc);
    free(a->mark);
    a->proc = NULL;
    a->mark = NULL;
    a->phase = AGENT_IDLE;
}

void agent_job_abandon(struct agent *a, int grace_ms)
{
    if (a->phase == AGENT_RUNNING)
        sweep_end(a->mark, grace_ms);
    agent_job_close(a);
}
