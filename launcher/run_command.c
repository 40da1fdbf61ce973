#include "launcher/run_command.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/plan.h"
#include "launcher/proc.h"
#include "launcher/rank_env.h"
#include "launcher/run.h"
#include "launcher/secret.h"
#include "launcher/slurm_container.h"
#include "launcher/slurm_setup.h"
#include "launcher/slurm_step.h"
#include "launcher/spares.h"
#include "recipes/recipe.h"
#include "topology/place.h"
#include "topology/topology.h"

const char *run_name(const struct run_request *q)
{
    const char *slash;

    if (!q->command)
        return q->recipe->name;
    slash = strrchr(q->command[0], '/');
    return slash ? slash + 1 : q->command[0];
}

/* muster-train stands beside muster, else in PATH. */
static char *find_trainer(struct err *err)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash, *path = NULL;

    if (n > 0) {
        self[n] = '\0';
        slash = strrchr(self, '/');
        path = xasprintf("%.*s/muster-train", (int)(slash - self), self);
        if (access(path, X_OK) == 0)
            return path;
        free(path);
    }
    return proc_find("muster-train", getenv("PATH"), err);
}

static void add_training(const struct run_request *q, const char *dir,
                         const char *program, struct strlist *argv)
{
    char *recipe = xasprintf("%s/recipe.yaml", dir ? dir : "RUN_DIR");

    strlist_add(argv, program);
    strlist_add(argv, "--recipe");
    strlist_add(argv, recipe);
    strlist_add(argv, "--run-dir");
    strlist_add(argv, dir ? dir : "RUN_DIR");
    if (q->resume) {
        strlist_add(argv, "--resume");
        strlist_add(argv, q->resume);
    }
    if (q->profile) {
        strlist_add(argv, "--profile");
        strlist_add(argv, q->profile);
    }
    free(recipe);
}

static char *find_program(const struct run_request *q, struct strlist *argv,
                          struct err *err)
{
    if (!q->command)
        return find_trainer(err);
    if (q->slurm && slurm_container_is_used(q->recipe))
        return slurm_container_program(q->recipe, q->command[0], argv);
    return proc_find(q->command[0], getenv("PATH"), err);
}

int run_command(const struct run_request *q, const char *dir, struct strlist *argv,
                char **program, struct err *err)
{
    char *found = find_program(q, argv, err);

    if (!found)
        return -1;
    if (!q->command)
        add_training(q, dir, found, argv);
    for (int i = 0; q->command && q->command[i]; i++)
        strlist_add(argv, q->command[i]);
    if (q->slurm && slurm_container_wrap(q->recipe, argv, &found, err) < 0) {
        free(found);
        return -1;
    }
    argv->item = xrealloc(argv->item, (size_t)argv->n + 1, sizeof(*argv->item));
    argv->item[argv->n] = NULL;
    *program = found;
    return 0;
}

/* ---- showing it ---- */

/* What differs from the user's environment, as arguments of env(1). */
static void add_changes(struct str *s, const struct env *e)
{
    for (char **v = environ; *v; v++) {
        char *name = xstrndup(*v, strcspn(*v, "="));
        if (!env_get(e, name)) {
            str_adds(s, " -u ");
            shell_add_word(s, name);
        }
        free(name);
    }
    for (int i = 0; i < e->n; i++) {
        int there = 0;
        for (char **v = environ; *v && !there; v++)
            there = (*v)[0] == e->item[i][0] && strcmp(*v, e->item[i]) == 0;
        if (there)
            continue;
        str_adds(s, " ");
        secret_add_setting(s, e->item[i]);
    }
}

/* One line for sh: env NAME=VALUE ... program argument ... */
static char *command_line(const struct run_request *q, int rank, char *const *argv,
                          struct err *err)
{
    struct str s = STR_INIT;
    struct env e;
    int rc = q->slurm ? slurm_rank_env(q, rank, &e, err)
                      : rank_env_build(&e, environ, q, rank, err);

    if (rc < 0)
        return NULL;
    str_adds(&s, "env");
    add_changes(&s, &e);
    str_adds(&s, " ");
    secret_add_command(&s, argv);
    env_release(&e);
    return str_take(&s);
}

static const char *node_name(const struct run_request *q, int rank)
{
    return q->topology->nodes[q->placement->rank[rank].node].name;
}

static struct js *rank_json(const struct run_request *q, int r)
{
    struct js *one = js_object();

    js_put_int(one, "rank", r);
    js_put_str(one, "node", node_name(q, r));
    js_put_int(one, "gpu", rank_uses_gpu(q, r) ? q->placement->rank[r].gpu : -1);
    js_put_str(one, "cpus", rank_cpus(q, r));
    return one;
}

/* What `muster plan` says of a training run: memory and predicted speed, to lie
 * beside the result.  A command has no more than its placement. */
static struct js *placed_json(const struct run_request *q)
{
    struct js *o, *ranks;
    struct plan plan;

    if (!q->command && plan_make(q->recipe, q->topology, q->placement->world, NULL,
                                 &plan, NULL) == 0) {
        o = plan_json(&plan);
        plan_release(&plan);
        return o;
    }
    o = js_document("plan");
    ranks = js_array();
    for (int r = 0; r < q->placement->world; r++)
        js_push(ranks, rank_json(q, r));
    js_put_int(o, "world", q->placement->world);
    js_put(o, "ranks", ranks);
    return o;
}

struct js *run_plan_json(const struct run_request *q, const char *dir, struct err *err)
{
    struct js *o = placed_json(q), *commands = js_array();
    struct strlist argv = { 0 };
    char *program = NULL, *line;
    int ok = run_command(q, dir, &argv, &program, err) == 0;

    js_put(o, "commands", commands);
    js_put(o, "spares", spares_json(q->topology));
    for (int r = 0; ok && r < q->placement->world; r++) {
        line = command_line(q, r, argv.item, err);
        ok = line != NULL;
        if (line)
            js_push(commands, js_string(line));
        free(line);
    }
    strlist_release(&argv);
    free(program);
    if (ok)
        return o;
    js_free(o);
    return NULL;
}

static void add_local_head(struct str *s, const char *program)
{
    str_adds(s, "# starts ");
    shell_add_word(s, program);
    str_adds(s, "; added at the start: PMIX_* (the PMIx server of the run), "
                "MASTER_PORT\n# (a free port, unless set), MUSTER_RUN, "
                "MUSTER_JOB_KEY, MUSTER_EVENT_FD, MUSTER_GUARD,\n# "
                "OMPI_MCA_btl_vader_backing_directory (unless set)\n");
}

char *run_step_line(const struct run_request *q, struct err *err)
{
    struct strlist argv = { 0 };
    char *self = slurm_self(err);
    struct str s = STR_INIT;

    if (!self)
        return NULL;
    slurm_step_argv(q, self, &argv);
    str_adds(&s, "SLURM_HOSTFILE=RUN_DIR/hosts SLURM_PMIX_FENCE=ring ");
    secret_add_command(&s, argv.item);
    strlist_release(&argv);
    free(self);
    return str_take(&s);
}

static void add_setup(struct str *s, const struct run_request *q)
{
    struct strlist argv = { 0 };
    char *self;

    if (!q->recipe || !q->recipe->cluster.slurm_setup.n)
        return;
    self = slurm_self(NULL);
    slurm_setup_argv(q->slurm, q->topology, q->recipe, self, &argv);
    str_adds(s, "# first, once on each node\n");
    secret_add_command(s, argv.item);
    str_adds(s, "\n");
    strlist_release(&argv);
    free(self);
}

static int add_slurm_head(struct str *s, const struct run_request *q,
                          const char *program, struct err *err)
{
    char *line = run_step_line(q, err);

    if (!line)
        return -1;
    add_setup(s, q);
    str_addf(s, "# one step; RUN_DIR/hosts names the node of each rank\n%s", line);
    free(line);
    str_adds(s, "\n# whose tasks start ");
    shell_add_word(s, program);
    str_adds(s,
             " with the environment below, sent by muster; what the step gives\n"
             "# each task (PMIX_*, SLURM_*, CUDA_VISIBLE_DEVICES) is set over it; "
             "added at the start:\n# MASTER_PORT (free on rank 0's node, unless set), "
             "MUSTER_RUN, MUSTER_JOB_KEY, MUSTER_EVENT_FD,\n# "
             "OPENBLAS_NUM_THREADS (CPUs of the rank, unless set)\n");
    str_adds(s, q->no_bind
                    ? "# ranks stay on the CPUs that Slurm gives them\n"
                    : "# srun binds nothing (--cpu-bind=none): the agent beside "
                      "each rank binds it to CPUs\n# near its GPU, or to an equal "
                      "share of those the task may use\n");
    return 0;
}

/* What is told to libraries about the network, and what the user told them. */
static void add_net(struct str *s, const struct run_request *q)
{
    static const char *const users[] = { "NCCL_SOCKET_IFNAME",
                                         "GLOO_SOCKET_IFNAME",
                                         "OMPI_MCA_btl_tcp_if_include",
                                         "OMPI_MCA_btl_tcp_if_exclude",
                                         "NCCL_IB_HCA",
                                         "UCX_NET_DEVICES",
                                         "MASTER_ADDR" };

    for (int i = 0; q->net_said && i < q->net_said->n; i++)
        str_addf(s, "# %s\n", q->net_said->item[i]);
    if (q->slurm && q->placement->n_nodes > 1)
        str_adds(s, "# on a node where a library would take docker0 or its like, "
                    "NCCL_SOCKET_IFNAME,\n# GLOO_SOCKET_IFNAME or "
                    "OMPI_MCA_btl_tcp_if_include is set there (run with -v)\n");
    for (size_t i = 0; i < ARRAY_LEN(users); i++)
        if (getenv(users[i]))
            str_addf(s, "# %s=%s is yours and stays\n", users[i], getenv(users[i]));
}

char *run_dry(const struct run_request *q, struct err *err)
{
    struct strlist argv = { 0 };
    struct str s = STR_INIT;
    char *program = NULL, *line;
    int ok = run_command(q, NULL, &argv, &program, err) == 0;

    if (ok && q->slurm)
        ok = add_slurm_head(&s, q, program, err) == 0;
    else if (ok)
        add_local_head(&s, program);
    if (ok)
        add_net(&s, q);
    for (int r = 0; ok && r < q->placement->world; r++) {
        const char *cpus = rank_cpus(q, r);
        line = command_line(q, r, argv.item, err);
        ok = line != NULL;
        if (line)
            str_addf(&s, "# rank %d on %s%s%s\n%s\n", r, node_name(q, r),
                     *cpus ? ", CPUs " : "", cpus, line);
        free(line);
    }
    strlist_release(&argv);
    free(program);
    if (ok)
        return str_take(&s);
    str_release(&s);
    return NULL;
}
