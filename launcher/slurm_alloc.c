#include "launcher/slurm_alloc.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/str.h"
#include "launcher/proc.h"
#include "launcher/slurm_nodes.h"
#include "recipes/recipe.h"
#include "topology/hostlist.h"

int slurm_is_wanted(const struct recipe *r, const char *cluster_file)
{
    enum backend b = r ? r->cluster.backend : BACKEND_AUTO;
    char *srun;

    if (b != BACKEND_AUTO || !slurm_is_inside() || (cluster_file && *cluster_file))
        return b == BACKEND_SLURM;
    srun = proc_find("srun", getenv("PATH"), NULL);
    free(srun);
    return srun != NULL;
}

/* Inside an allocation too, nodes that the recipe excludes get no ranks. */
static int leave_out(struct slurm_place *p, const char *list, struct err *err)
{
    struct strlist names = { 0 };

    if (!*list)
        return 0;
    if (hostlist_expand(list, &names, err) < 0)
        return err_wrap(err, "cluster.slurm.exclude");
    for (int i = 0; i < names.n; i++)
        for (int k = 0; k < p->nodes.n; k++)
            if (str_eq(names.item[i], p->nodes.item[k]))
                snprintf(p->node[k].down, sizeof(p->node[k].down),
                         "excluded (cluster.slurm.exclude)");
    strlist_release(&names);
    return 0;
}

int slurm_machines(const struct recipe *r, const char *cluster_file,
                   struct slurm_place *place, struct topology **t, struct err *err)
{
    if (!slurm_is_wanted(r, cluster_file))
        return 0;
    if (cluster_file && *cluster_file)
        return err_set(err, ERR_USAGE,
                       "cluster.backend: slurm takes its nodes from Slurm; the cluster "
                       "file %s cannot stand beside it yet",
                       cluster_file);
    if (slurm_place_read(place, err) < 0)
        return -1;
    if (r && leave_out(place, r->cluster.slurm_exclude, err) < 0) {
        slurm_place_release(place);
        return -1;
    }
    *t = slurm_topology(place);
    return 1;
}
