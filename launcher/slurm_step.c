#include "launcher/slurm_step.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/rank_env.h"
#include "launcher/run.h"
#include "launcher/slurm_nodes.h"
#include "launcher/slurm_options.h"
#include "recipes/recipe.h"
#include "topology/place.h"
#include "topology/topology.h"

enum { HASH_WORLD = 256 };

static void add_number(struct strlist *argv, const char *option, int n)
{
    char text[64];

    snprintf(text, sizeof(text), "%s=%d", option, n);
    strlist_add(argv, text);
}

static const char *node_of(const struct run_request *q, int rank)
{
    return q->topology->nodes[q->placement->rank[rank].node].name;
}

/* The light program in our lib/muster, as long as it is there. */
static void add_agent(struct strlist *argv, const char *self)
{
    int bin = (int)(strrchr(self, '/') - self), above = bin;
    char *light;

    while (above > 0 && self[above - 1] != '/')
        above--;
    light = xasprintf("%.*slib/muster/muster-agent", above, self);
    if (access(light, X_OK) == 0) {
        strlist_add(argv, light);
    } else {
        strlist_add(argv, self);
        strlist_add(argv, "agent");
    }
    strlist_add(argv, "exec");
    free(light);
}

void slurm_step_argv(const struct run_request *q, const char *self,
                     struct strlist *argv)
{
    static const char *const fixed[] = {
        "--distribution=arbitrary",
        "--mpi=pmix",
        "--overlap",
        "--overcommit",
        "--export=ALL",
        "--cpu-bind=none",
        "--wait=0",
        "--kill-on-bad-exit=0",
    };
    char *job = xasprintf("--jobid=%s", q->slurm->job);

    strlist_add(argv, "srun");
    strlist_add(argv, job);
    add_number(argv, "--nodes", q->placement->n_nodes);
    add_number(argv, "--ntasks", q->placement->world);
    for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
        strlist_add(argv, fixed[i]);
    if (q->give_stdin)
        add_number(argv, "--input", q->stdin_rank); /* a task is a rank */
    else
        strlist_add(argv, "--input=none");
    slurm_step_options(q->recipe, argv);
    add_agent(argv, self);
    argv->item = xrealloc(argv->item, (size_t)argv->n + 1, sizeof(*argv->item));
    argv->item[argv->n] = NULL;
    free(job);
}

void slurm_step_hosts(const struct run_request *q, struct str *text)
{
    for (int r = 0; r < q->placement->world; r++)
        str_addf(text, "%s\n", node_of(q, r));
}

void slurm_step_env(char *const *base, const char *hostfile, struct env *out)
{
    static const char *const options[] = {
        "SLURM_NTASKS",
        "SLURM_NPROCS",
        "SLURM_TASKS_PER_NODE=",
        "SLURM_DISTRIBUTION",
        "SLURM_EXPORT_ENV=",
        "SLURM_CPU_BIND",
        "SLURM_STEP",
        "SLURM_PROCID=",
        "SLURM_LOCALID=",
        "SLURM_NODEID=",
        "SLURM_GTIDS=",
        "SLURM_TASK_PID=",
        "SLURM_CPUS_PER_",
        "SLURM_TRES_PER_TASK",
        "SLURM_GPUS_PER_TASK",
        "SLURM_GPU_BIND",
        "SLURM_MPI_TYPE=",
        "SLURM_KILL_BAD_EXIT=",
        "PMIX_",
        "PMI_",
    };

    env_copy(out, base);
    for (size_t i = 0; i < ARRAY_LEN(options); i++)
        env_drop(out, options[i]);
    env_set(out, "SLURM_HOSTFILE", hostfile);
    env_default(out, "SLURM_PMIX_FENCE", "ring");
}

/* What rank_env.h gives ranks that share one host, or knows of this one, when the user
 * did not set it. */
static void drop_local(struct env *e, const struct env *base)
{
    static const char *const local[] = { "JSM_JSRUN_PORT", "OMPI_MCA_pml",
                                         "OMPI_MCA_btl", "OMPI_MCA_btl_tcp_if_include",
                                         "OPENBLAS_NUM_THREADS" };

    for (size_t i = 0; i < ARRAY_LEN(local); i++) {
        char *item = xasprintf("%s=", local[i]);
        if (!env_get(base, local[i]))
            env_drop(e, item);
        free(item);
    }
}

static void add_setting(struct env *e, const char *setting)
{
    size_t n = strcspn(setting, "=");
    char *name = xstrndup(setting, n);

    env_set(e, name, setting + n + 1);
    free(name);
}

/* What ranks publish, PMIx keeps in files that the ranks of a node map, or gives to each:
 * that costs less to start with, until the world is large (tests/bench/RESULTS.md). */
static void choose_pmix_store(const struct run_request *q, struct env *out)
{
    if (!q->command && q->placement->world <= HASH_WORLD)
        env_default(out, "PMIX_MCA_gds", "hash");
}

int slurm_rank_env(const struct run_request *q, int rank, struct env *out,
                   struct err *err)
{
    struct env base;
    int rc;

    env_copy(&base, environ);
    for (int i = 0; q->recipe && i < q->recipe->cluster.slurm_env.n; i++)
        add_setting(&base, q->recipe->cluster.slurm_env.item[i]);
    env_default(&base, "MASTER_ADDR", node_of(q, 0));
    rc = rank_env_build(out, base.item, q, rank, err);
    if (rc == 0) {
        drop_local(out, &base);
        choose_pmix_store(q, out);
    }
    env_release(&base);
    return rc;
}

char *slurm_self(struct err *err)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (n > 0)
        return xstrndup(self, (size_t)n);
    err_set(err, ERR_SYSTEM, "/proc/self/exe: %m");
    return NULL;
}
