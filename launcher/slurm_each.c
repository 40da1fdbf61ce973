#include "launcher/slurm_each.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "launcher/slurm_nodes.h"
#include "topology/hostlist.h"
#include "topology/topology.h"

static void add(struct strlist *argv, const char *option, const char *text)
{
    char *word = xasprintf("%s%s", option, text);

    strlist_add(argv, word);
    free(word);
}

static char *node_list(const struct topology *t)
{
    struct strlist names = { 0 };
    char *list;

    for (int i = 0; i < t->n_nodes; i++)
        strlist_add(&names, t->nodes[i].name);
    list = hostlist_fold(&names);
    strlist_release(&names);
    return list;
}

void slurm_each_node(const struct slurm_place *p, const struct topology *t,
                     const char *const *options, const char *self, const char *what,
                     struct strlist *argv)
{
    char *list = node_list(t), count[16];

    snprintf(count, sizeof(count), "%d", t->n_nodes);
    strlist_add(argv, "srun");
    add(argv, "--jobid=", p->job);
    add(argv, "--nodes=", count);
    add(argv, "--ntasks=", count);
    add(argv, "--nodelist=", list);
    for (; *options; options++)
        strlist_add(argv, *options);
    strlist_add(argv, self);
    strlist_add(argv, "agent");
    strlist_add(argv, what);
    free(list);
}

void slurm_each_end(struct strlist *argv)
{
    argv->item = xrealloc(argv->item, (size_t)argv->n + 1, sizeof(*argv->item));
    argv->item[argv->n] = NULL;
}
