#include "launcher/slurm_alloc.h"

#include <stdlib.h>

#include "base/err.h"
#include "launcher/proc.h"
#include "launcher/slurm_nodes.h"
#include "recipes/recipe.h"

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
    *t = slurm_topology(place);
    return 1;
}
