#include "launcher/launch.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/str.h"
#include "launcher/launch_args.h"
#include "launcher/slurm_hold.h"
#include "launcher/slurm_nodes.h"
#include "launcher/slurm_options.h"

int launch_is_outside(struct launch *l, int *yes, struct err *err)
{
    *yes = 0;
    if (!l->a->recipe || l->a->batch || l->a->where.hosts || l->a->where.hostfile)
        return 0;
    if (launch_load_recipe(l, err) < 0)
        return -1;
    *yes = slurm_hold_is_wanted(&l->recipe);
    return 0;
}

int launch_hold(struct launch *l, int *signo, struct err *err)
{
    int world;

    *signo = 0;
    if (slurm_hold_world(&l->recipe, l->a->gpus, &world, err) < 0)
        return -1;
    return slurm_hold_open(&l->recipe, world, &l->hold, signo, err);
}

/* Nodes that nobody has given yet, of job JOB. */
static void stand_in(struct launch *l, int nodes, int per_node)
{
    struct slurm_place *p = &l->machines.slurm;
    struct strlist names = { 0 };
    char name[32];

    for (int i = 0; i < nodes; i++) {
        snprintf(name, sizeof(name), "NODE%d", i + 1);
        strlist_add(&names, name);
    }
    slurm_place_init(p, "JOB", "NODES", &names);
    for (int i = 0; i < nodes; i++)
        for (p->node[i].gpus = 0; p->node[i].gpus < per_node; p->node[i].gpus++)
            p->node[i].index[p->node[i].gpus] = p->node[i].gpus;
    strlist_release(&names);
    l->machines.in_slurm = 1;
    l->machines.topology = slurm_topology(p);
}

int launch_outside_dry(struct launch *l, struct err *err)
{
    struct str line = STR_INIT, why = STR_INIT;
    int world, nodes, per_node, rc = -1;

    if (slurm_hold_world(&l->recipe, l->a->gpus, &world, err) == 0 &&
        slurm_hold_line(&l->recipe, world, &line, &why, err) == 0 &&
        slurm_shape(&l->recipe, world, &nodes, &per_node, err) == 0) {
        if (!l->a->json)
            printf(
                "# nodes are %s\n%s\n# then, with the job's number and nodes for JOB "
                "and NODE1 to NODE%d:\n",
                why.text, line.text, nodes + l->recipe.cluster.spares);
        stand_in(l, nodes + l->recipe.cluster.spares, per_node);
        rc = 0;
    }
    str_release(&line);
    str_release(&why);
    return rc;
}
