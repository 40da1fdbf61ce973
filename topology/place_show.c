/* A placement as text and as JSON. */
#include <stdlib.h>
#include <string.h>

#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "topology/place.h"
#include "topology/place_order.h"
#include "topology/topology.h"

/* The device as its driver numbers it. */
static int device_index(const struct placement *p, const struct topology *t, int rank)
{
    const struct place *at = &p->rank[rank];

    return p->on_gpus ? t->nodes[at->node].gpus[at->gpu].index : at->gpu;
}

static void print_group(const int *group, int n, FILE *fp)
{
    int step = n > 1 ? group[1] - group[0] : 1;

    if (n > 4)
        fprintf(fp, " {%d %d .. %d}", group[0], group[0] + step, group[n - 1]);
    else {
        fprintf(fp, " {");
        for (int i = 0; i < n; i++)
            fprintf(fp, "%s%d", i ? " " : "", group[i]);
        fprintf(fp, "}");
    }
}

enum { GROUPS_SHOWN = 8 };

static void print_groups(const struct placement *p, FILE *fp)
{
    int *group = xcalloc((size_t)p->world, sizeof(*group)), n;

    fprintf(fp, "shard groups      %d of %d:", p->replicate_degree, p->shard_degree);
    for (int i = 0; i < p->replicate_degree && i < GROUPS_SHOWN; i++) {
        n = placement_shard_group(p, i * p->shard_degree, group);
        print_group(group, n, fp);
    }
    fprintf(fp, "%s\nreplicate groups  %d of %d:",
            p->replicate_degree > GROUPS_SHOWN ? " ..." : "", p->shard_degree,
            p->replicate_degree);
    for (int i = 0; i < p->shard_degree && i < GROUPS_SHOWN; i++) {
        n = placement_replicate_group(p, i, group);
        print_group(group, n, fp);
    }
    fprintf(fp, "%s\n", p->shard_degree > GROUPS_SHOWN ? " ..." : "");
    free(group);
}

static void print_rank(const struct placement *p, const struct topology *t, int i,
                       FILE *fp)
{
    const struct place *at = &p->rank[i];
    const struct node *n = &t->nodes[at->node];

    fprintf(fp, "%5d  %-16s %-4s %3d  %-8s %-20s %5d %9d\n", i, n->name,
            p->on_gpus ? "gpu" : "slot", device_index(p, t, i),
            at->nic >= 0 ? n->nics[at->nic].name : "-",
            at->cpus[0] ? at->cpus
            : t->unseen ? "chosen there"
                        : "unbound",
            at->shard, at->replicate);
}

/* Which ranks are below which leaf; nothing where leaves are not known. */
static void print_leaves(const struct placement *p, const struct topology *t, FILE *fp)
{
    for (int i = 0, first = 0, lines = 0; i < p->world && lines <= GROUPS_SHOWN; i++) {
        int leaf = place_leaf(t, p->rank[i].node);
        int next = i + 1 < p->world ? place_leaf(t, p->rank[i + 1].node) : -2;
        if (leaf == next)
            continue;
        if (leaf >= 0 && ++lines <= GROUPS_SHOWN)
            fprintf(fp, "leaf              %s: ranks %d to %d\n",
                    t->switches[leaf].name, first, i);
        else if (leaf >= 0)
            fprintf(fp, "leaf              ...\n");
        first = i + 1;
    }
}

void placement_print(const struct placement *p, const struct topology *t, FILE *fp)
{
    fprintf(fp, " rank  node             device    nic      cpus                 shard "
                "replicate\n");
    for (int i = 0; i < p->world; i++)
        print_rank(p, t, i, fp);
    print_leaves(p, t, fp);
    print_groups(p, fp);
}

static struct js *groups_json(const struct placement *p, int shard)
{
    int *group = xcalloc((size_t)p->world, sizeof(*group));
    int count = shard ? p->replicate_degree : p->shard_degree;
    struct js *list = js_array();

    for (int i = 0; i < count; i++) {
        struct js *one = js_array();
        int n = shard ? placement_shard_group(p, i * p->shard_degree, group)
                      : placement_replicate_group(p, i, group);
        for (int k = 0; k < n; k++)
            js_push(one, js_int(group[k]));
        js_push(list, one);
    }
    free(group);
    return list;
}

static struct js *rank_json(const struct placement *p, const struct topology *t, int i)
{
    const struct place *at = &p->rank[i];
    const struct node *n = &t->nodes[at->node];
    int leaf = place_leaf(t, at->node);
    struct js *o = js_object();

    js_put_int(o, "rank", i);
    js_put_str(o, "node", n->name);
    js_put_str(o, "leaf", leaf >= 0 ? t->switches[leaf].name : NULL);
    js_put_int(o, "gpu", device_index(p, t, i));
    js_put_str(o, "cpus", at->cpus);
    js_put_str(o, "nic", at->nic >= 0 ? n->nics[at->nic].name : NULL);
    js_put_str(o, "busid", p->on_gpus ? n->gpus[at->gpu].busid : "");
    js_put_int(o, "local_rank", at->local_rank);
    js_put_int(o, "shard", at->shard);
    js_put_int(o, "replicate", at->replicate);
    return o;
}

struct js *placement_json(const struct placement *p, const struct topology *t)
{
    struct js *o = js_object(), *groups = js_object(), *ranks = js_array();

    js_put_int(o, "world", p->world);
    js_put_int(o, "shard_degree", p->shard_degree);
    js_put_int(o, "replicate_degree", p->replicate_degree);
    js_put_int(o, "accumulation", p->accumulation);
    js_put_str(o, "device", p->on_gpus ? "gpu" : "cpu");
    js_put(groups, "shard", groups_json(p, 1));
    js_put(groups, "replicate", groups_json(p, 0));
    js_put(o, "groups", groups);
    for (int i = 0; i < p->world; i++)
        js_push(ranks, rank_json(p, t, i));
    js_put(o, "ranks", ranks);
    return o;
}
