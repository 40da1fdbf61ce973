#include "launcher/slurm_alloc.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/proc.h"
#include "launcher/slurm_cmd.h"
#include "launcher/slurm_nodes.h"
#include "recipes/recipe.h"

/* The pid of the salloc that a launch runs under. */
#define SALLOC_PID "MUSTER_SALLOC_PID"

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

/* The most GPUs a node has, by `sinfo -o %G`: "gpu:b200:8(S:0-1)" a line; 0 none. */
static int most_gpus(const char *text)
{
    int most = 0;

    for (const char *at = text; (at = strstr(at, "gpu:")); at += 4) {
        const char *p = at + 4;
        if (*p < '0' || *p > '9')
            p += strcspn(p, ":,(\n") + (p[strcspn(p, ":,(\n")] == ':');
        if (*p >= '0' && *p <= '9' && strtol(p, NULL, 10) > most)
            most = (int)strtol(p, NULL, 10);
    }
    return most;
}

static int per_node(const struct recipe *r, int *n, struct err *err)
{
    char *argv[] = { (char *)"sinfo", (char *)"-h", (char *)"-o", (char *)"%G", NULL };
    struct str text = STR_INIT;
    int rc = 0;

    *n = r && r->cluster.gpus_per_node > 0 ? r->cluster.gpus_per_node : 0;
    if (*n)
        return 0;
    if (slurm_cmd_read(argv, SLURM_CMD_MS, &text, err) < 0)
        return err_wrap(err, "how many GPUs has a node?");
    *n = text.text ? most_gpus(text.text) : 0;
    if (!*n)
        rc = err_set(err, ERR_MISSING,
                     "sinfo shows no node with GPUs: set cluster.gpus_per_node");
    str_release(&text);
    return rc;
}

static void add(struct strlist *argv, const char *option, int n)
{
    char text[64];

    snprintf(text, sizeof(text), "%s%d", option, n);
    strlist_add(argv, text);
}

int slurm_allocate(const struct recipe *r, int world, char *const *argv,
                   struct err *err)
{
    struct strlist all = { 0 };
    char *salloc = proc_find("salloc", getenv("PATH"), err), pid[16];
    int gpus, nodes;

    if (!salloc)
        return err_wrap(err, "cluster.backend: slurm");
    if (per_node(r, &gpus, err) < 0) {
        free(salloc);
        return -1;
    }
    gpus = gpus < world ? gpus : world;
    nodes = (world + gpus - 1) / gpus;
    strlist_add(&all, "salloc");
    add(&all, "--nodes=", nodes);
    add(&all, "--ntasks-per-node=", gpus);
    add(&all, "--gres=gpu:", gpus);
    strlist_add(&all, "--job-name=muster");
    for (int i = 0; r && i < r->cluster.slurm_args.n; i++)
        strlist_add(&all, r->cluster.slurm_args.item[i]);
    for (int i = 0; argv[i]; i++)
        strlist_add(&all, argv[i]);
    all.item = xrealloc(all.item, (size_t)all.n + 1, sizeof(*all.item));
    all.item[all.n] = NULL;
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    setenv(SALLOC_PID, pid, 1);
    execv(salloc, all.item);
    err_set(err, ERR_SYSTEM, "%s: %m", salloc);
    free(salloc);
    strlist_release(&all);
    return -1;
}

void slurm_release(void)
{
    const char *text = getenv(SALLOC_PID), *job = getenv("SLURM_JOB_ID");
    long pid = text ? strtol(text, NULL, 10) : 0;
    char *argv[] = { (char *)"scancel", (char *)job, NULL };
    struct str out = STR_INIT;

    if (pid > 1 && job && kill((pid_t)pid, 0) < 0 && errno == ESRCH)
        slurm_cmd_read(argv, SLURM_CMD_MS, &out, NULL);
    str_release(&out);
}
