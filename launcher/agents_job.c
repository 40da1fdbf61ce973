#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "launcher/agent_wire.h"
#include "launcher/agents_state.h"
#include "launcher/node.h"
#include "launcher/rank_env.h"
#include "launcher/run_state.h"
#include "launcher/secret_recipe.h"
#include "recipes/recipe.h"
#include "topology/place.h"
#include "topology/topology.h"
#include "trainer/data.h"

static int fill_ranks(const struct run *run, struct agent_job *j, struct err *err)
{
    j->ranks = xcalloc((size_t)run->world, sizeof(*j->ranks));
    for (int r = 0; r < run->world; r++) {
        struct agent_rank *a = &j->ranks[j->n_ranks];
        if (j->node_of[r] != j->node)
            continue;
        if (rank_env_build(&a->env, environ, run->q, r, err) < 0)
            return -1;
        a->rank = r;
        a->cpus = xstrdup(rank_cpus(run->q, r));
        j->n_ranks++;
    }
    return 0;
}

/* Ranks read the recipe from a file of their own node; only checkpoints, profiles and
 * data need a file system that all share. */
static void fill_training(const struct run *run, struct agent_job *j)
{
    const struct recipe *r = run->q->recipe;
    const char *folder = r->checkpoint.folder;
    struct stat st;

    j->program = xstrdup("muster-train");
    j->dir = xstrdup((*folder && *folder != '/') || run->q->profile ? run->dir : "");
    j->file = xasprintf("%s/recipe.yaml", run->dir);
    j->text = secret_recipe_text(r);
    /* What matches nothing here may be on the hosts: the ranks will say. */
    for (int i = 0; i < r->data.path.n; i++)
        data_files(r->data.path.item[i], &j->needs, NULL);
    for (int i = 0; i < r->data.validation_path.n; i++)
        data_files(r->data.validation_path.item[i], &j->needs, NULL);
    j->need_bytes = xcalloc((size_t)j->needs.n + 1, sizeof(*j->need_bytes));
    for (int i = 0; i < j->needs.n; i++)
        j->need_bytes[i] = stat(j->needs.item[i], &st) == 0 ? st.st_size : 0;
}

static void fill_command(const struct run_request *q, struct agent_job *j)
{
    j->program = xstrdup(q->program ? q->program : "");
    j->dir = xstrdup("");
    j->file = xstrdup(q->reads ? q->reads : "");
    j->text = q->reads ? secret_recipe_text(q->recipe) : xstrdup("");
}

int agents_put_job(const struct run *run, const struct run_launch *l,
                   const char *job_key, int n, struct err *err)
{
    const struct run_request *q = run->q;
    const struct placement *p = q->placement;
    const struct agents *a = run->backend_data;
    struct agent_job j = { .run = xstrdup(run->id),
                           .cwd = getcwd(NULL, 0),
                           .job_key = xstrdup(job_key),
                           .grace_ms = (int)q->grace_ms,
                           .stdin_rank = q->give_stdin ? q->stdin_rank : -1,
                           .node = n,
                           .n_nodes = p->n_nodes,
                           .world = run->world,
                           .node_of = a->node_of };
    int rc;

    strlist_copy(&j.argv, &l->argv);
    for (int i = 0; i < p->n_nodes; i++)
        strlist_add(&j.nodes, q->topology->nodes[p->order[i]].name);
    if (q->command)
        fill_command(q, &j);
    else
        fill_training(run, &j);
    rc = fill_ranks(run, &j, err);
    if (rc == 0)
        rc = agent_job_put(&a->member[n].link->to, &j, err);
    j.node_of = NULL; /* borrowed */
    agent_job_release(&j);
    return rc;
}
