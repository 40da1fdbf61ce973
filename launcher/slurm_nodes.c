#include "launcher/slurm_nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "launcher/slurm_ask.h"
#include "topology/cpulist.h"
#include "topology/hostlist.h"
#include "topology/slurm_gres.h"
#include "topology/slurm_job.h"

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
static void take_gpus(struct slurm_node *n, const char *text)
{
    struct cpulist where = { { 0 } }, one;
    struct gres gres;
    int64_t count;

    n->gpus = 0;
    if (gres_parse(text, &gres, NULL) < 0)
        return;
    count = gres_whole_gpus(&gres);
    for (int i = 0; i < gres.n; i++) {
        if (!str_eq(gres.item[i].name, "gpu") || gres.item[i].mig)
            continue;
        snprintf(n->gpu_type, sizeof(n->gpu_type), "%s", gres.item[i].type);
        gres_where(&gres.item[i], &one);
        for (int c = 0; c < CPULIST_MAX; c++)
            if (cpulist_has(&one, c))
                cpulist_add(&where, c);
    }
    gres_release(&gres);
    if (count < 1 || count > (int64_t)ARRAY_LEN(n->index))
        return;
    for (int c = 0; c < CPULIST_MAX && n->gpus < count; c++)
        if (cpulist_has(&where, c))
            n->index[n->gpus++] = c;
    if (n->gpus < count) /* not told */
        for (n->gpus = 0; n->gpus < count; n->gpus++)
            n->index[n->gpus] = n->gpus;
}

static struct slurm_node *find(const struct slurm_place *p, const char *name)
{
    for (int i = 0; i < p->nodes.n; i++)
        if (str_eq(p->nodes.item[i], name))
            return &p->node[i];
    return NULL;
}

int slurm_place_line(struct slurm_place *p, const char *line)
{
    char list[4096], cpus[1024], gres[1024] = "", mem[32] = "";
    struct strlist names = { 0 };
    struct cpulist set;

    if (field(line, "Nodes=", list, sizeof(list)) < 0 ||
        field(line, "CPU_IDs=", cpus, sizeof(cpus)) < 0 ||
        hostlist_expand(list, &names, NULL) < 0)
        return -1;
    field(line, "GRES=", gres, sizeof(gres));
    field(line, "Mem=", mem, sizeof(mem));
    for (int i = 0; i < names.n; i++) {
        struct slurm_node *n = find(p, names.item[i]);
        if (!n)
            continue;
        take_gpus(n, gres);
        n->cpus = cpulist_parse(cpus, &set) == 0 ? cpulist_count(&set) : 0;
        if (strtoll(mem, NULL, 10) > 0)
            n->memory_bytes = strtoll(mem, NULL, 10) << 20;
    }
    strlist_release(&names);
    return 0;
}

static int take_job(struct slurm_place *p, char *text, struct err *err)
{
    int found = 0;

    for (char *line = text, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        found += slurm_place_line(p, line) == 0;
    }
    if (found)
        return 0;
    return err_set(err, ERR_FAILED,
                   "scontrol show job -d %s names no node of the job: is it running?",
                   p->job);
}

static int ask_job(struct slurm_place *p, struct err *err)
{
    struct str text = STR_INIT;
    int rc = slurm_ask(SLURM_ASK_JOB, p->job, SLURM_ASK_MS, &text, err);

    if (rc == 0)
        rc = take_job(p, text.text, err);
    str_release(&text);
    return rc;
}

static int ask_nodes(struct slurm_place *p, struct err *err)
{
    struct str text = STR_INIT;
    int rc = slurm_ask(SLURM_ASK_NODES, p->list, SLURM_ASK_MS, &text, err);

    if (rc == 0)
        rc = slurm_place_nodes(p, text.text ? text.text : "", text.len, err);
    str_release(&text);
    return rc;
}

/* Tasks of each node, where the job asked for a number of them (salloc -n, or
 * --ntasks-per-node); else Slurm counts CPUs there. */
static int take_tasks(struct slurm_place *p, struct err *err)
{
    const char *text = said("SLURM_TASKS_PER_NODE");
    int *tasks, n;

    if (!text || (!said("SLURM_NTASKS") && !said("SLURM_NTASKS_PER_NODE")))
        return 0;
    if (slurm_tasks_per_node(text, p->nodes.n, -1, &tasks, &n, err) < 0)
        return err_wrap(err, "SLURM_TASKS_PER_NODE");
    for (int i = 0; i < n; i++)
        p->node[i].tasks = tasks[i];
    free(tasks);
    return 0;
}

int slurm_place_read(struct slurm_place *out, struct err *err)
{
    const char *list = said("SLURM_JOB_NODELIST");
    struct strlist nodes = { 0 };
    struct slurm_place p;

    if (slurm_is_inside() && said("SLURM_HET_SIZE"))
        return err_set(err, ERR_USAGE,
                       "job %s is heterogeneous (SLURM_HET_SIZE is %s): muster runs in "
                       "jobs of one component",
                       said("SLURM_JOB_ID"), said("SLURM_HET_SIZE"));
    if (!slurm_is_inside() || !list)
        return err_set(err, ERR_MISSING,
                       "there is no Slurm allocation here (SLURM_JOB_ID, "
                       "SLURM_JOB_NODELIST)");
    if (hostlist_expand(list, &nodes, err) < 0)
        return err_wrap(err, "SLURM_JOB_NODELIST");
    slurm_place_init(&p, said("SLURM_JOB_ID"), list, &nodes);
    strlist_release(&nodes);
    if (take_tasks(&p, err) < 0 || slurm_ask_ahead(p.job, p.list, err) < 0 ||
        ask_job(&p, err) < 0 || ask_nodes(&p, err) < 0) {
        slurm_place_release(&p);
        return -1;
    }
    *out = p;
    return 0;
}

void slurm_place_init(struct slurm_place *p, const char *job, const char *list,
                      const struct strlist *nodes)
{
    *p = (struct slurm_place){ .job = xstrdup(job), .list = xstrdup(list) };
    strlist_copy(&p->nodes, nodes);
    p->node = xcalloc((size_t)nodes->n + 1, sizeof(*p->node));
    for (int i = 0; i < nodes->n; i++)
        p->node[i].memory_bytes = -1;
}

void slurm_place_release(struct slurm_place *p)
{
    free(p->job);
    free(p->list);
    free(p->node);
    strlist_release(&p->nodes);
    *p = (struct slurm_place){ 0 };
}
