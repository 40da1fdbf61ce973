#include "launcher/slurm_nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "launcher/slurm_cmd.h"
#include "topology/cpulist.h"
#include "topology/hostlist.h"
#include "topology/slurm_gres.h"
#include "topology/topology.h"

static const char *said(const char *name)
{
    const char *text = getenv(name);

    return text && *text ? text : NULL;
}

int slurm_is_inside(void)
{
    return said("SLURM_JOB_ID") != NULL;
}

/* ---- what the job was given ---- */

/* The value of " KEY=" in a line, up to a blank; 0 or -1. */
static int field(const char *line, const char *key, char *out, size_t size)
{
    const char *at = strstr(line, key);

    if (!at || (at > line && at[-1] != ' '))
        return -1;
    at += strlen(key);
    snprintf(out, size, "%.*s", (int)strcspn(at, " \n"), at);
    return 0;
}

/* Whole GPUs of "gpu:b200:8(IDX:0-7),shard:2"; MIG slices are none. */
static int gpus_of(const char *text)
{
    struct gres gres;
    int64_t n;

    if (gres_parse(text, &gres, NULL) < 0)
        return 0;
    n = gres_whole_gpus(&gres);
    gres_release(&gres);
    return n > 0 && n <= 1024 ? (int)n : 0;
}

static int index_of(const struct strlist *names, const char *name)
{
    for (int i = 0; i < names->n; i++)
        if (str_eq(names->item[i], name))
            return i;
    return -1;
}

int slurm_place_line(struct slurm_place *p, const char *line)
{
    char list[4096], cpus[1024], gres[1024] = "";
    struct strlist names = { 0 };
    struct cpulist set;

    if (field(line, "Nodes=", list, sizeof(list)) < 0 ||
        field(line, "CPU_IDs=", cpus, sizeof(cpus)) < 0 ||
        hostlist_expand(list, &names, NULL) < 0)
        return -1;
    field(line, "GRES=", gres, sizeof(gres));
    for (int i = 0; i < names.n; i++) {
        int at = index_of(&p->nodes, names.item[i]);
        if (at < 0)
            continue;
        p->gpus[at] = gpus_of(gres);
        p->cpus[at] = cpulist_parse(cpus, &set) == 0 ? cpulist_count(&set) : 0;
    }
    strlist_release(&names);
    return 0;
}

static int ask(struct slurm_place *p, struct err *err)
{
    char *argv[] = { (char *)"scontrol", (char *)"show", (char *)"job",
                     (char *)"-d",       p->job,         NULL };
    struct str text = STR_INIT;
    int found = 0;

    if (slurm_cmd_read(argv, SLURM_CMD_MS, &text, err) < 0)
        return -1;
    for (char *line = text.text, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        found += slurm_place_line(p, line) == 0;
    }
    str_release(&text);
    if (found)
        return 0;
    return err_set(err, ERR_FAILED,
                   "scontrol show job -d %s names no node of the job: is it running?",
                   p->job);
}

int slurm_place_read(struct slurm_place *out, struct err *err)
{
    const char *list = said("SLURM_JOB_NODELIST");
    struct slurm_place p = { 0 };

    if (!slurm_is_inside() || !list)
        return err_set(err, ERR_MISSING,
                       "there is no Slurm allocation here (SLURM_JOB_ID, "
                       "SLURM_JOB_NODELIST)");
    if (said("SLURM_HET_SIZE"))
        return err_set(err, ERR_USAGE,
                       "job %s is heterogeneous (SLURM_HET_SIZE is %s): muster runs in "
                       "jobs of one component",
                       said("SLURM_JOB_ID"), said("SLURM_HET_SIZE"));
    if (hostlist_expand(list, &p.nodes, err) < 0)
        return err_wrap(err, "SLURM_JOB_NODELIST");
    p.job = xstrdup(said("SLURM_JOB_ID"));
    p.gpus = xcalloc((size_t)p.nodes.n, sizeof(*p.gpus));
    p.cpus = xcalloc((size_t)p.nodes.n, sizeof(*p.cpus));
    if (ask(&p, err) < 0) {
        slurm_place_release(&p);
        return -1;
    }
    *out = p;
    return 0;
}

void slurm_place_release(struct slurm_place *p)
{
    free(p->job);
    free(p->gpus);
    free(p->cpus);
    strlist_release(&p->nodes);
    *p = (struct slurm_place){ 0 };
}

/* ---- as a topology ---- */

struct topology *slurm_topology(const struct slurm_place *p)
{
    struct topology *t = topology_new("slurm", 0);

    for (int i = 0; i < p->nodes.n; i++) {
        struct node *n = topology_add_node(t);
        snprintf(n->name, sizeof(n->name), "%s", p->nodes.item[i]);
        n->cores = n->threads = p->cpus[i] > 0 ? p->cpus[i] : -1;
        for (int g = 0; g < p->gpus[i]; g++)
            topology_add_gpu(n)->index = g;
    }
    return t;
}
