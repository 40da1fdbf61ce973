/* trees.h - machines for the tests of this folder: recorded /sys trees, made-up
 * clusters, files. */
#ifndef UNIT_TREES_H
#define UNIT_TREES_H

#include <unistd.h>

#include "base/js.h"
#include "base/mem.h"
#include "recipes/recipe.h"
#include "test.h"
#include "topology/source.h"
#include "topology/topology.h"

static inline char *tree_dir(void)
{
    char *dir = xstrdup("/tmp/muster-topology-XXXXXX");

    if (!mkdtemp(dir))
        fail_msg("mkdtemp %s", dir);
    return dir;
}

static inline void tree_run(const char *fmt, ...)
{
    char *command;
    va_list ap;

    va_start(ap, fmt);
    command = xvasprintf(fmt, ap);
    va_end(ap);
    if (system(command) != 0)
        fail_msg("%s", command);
    free(command);
}

/* A tree of tests/trees/make.sh; free the path with tree_remove(). */
static inline char *tree_make(const char *shape)
{
    char *dir = tree_dir();

    tree_run("sh tests/trees/make.sh %s %s", shape, dir);
    return dir;
}

static inline void tree_remove(char *dir)
{
    tree_run("rm -rf %s", dir);
    free(dir);
}

/* `nodes` nodes of `gpus` GPUs and `nics` NICs (0 GPUs: 4 CPUs), as a specification
 * gives them. */
static inline struct topology *tree_cluster(int nodes, int gpus, int nics)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;
    char *text =
        xasprintf("nodes: {count: %d, prefix: n}\n"
                  "cpu: {sockets: 1, cores: %d, threads: %d, numa_nodes: %d}\n"
                  "gpus: {per_node: %d, name: NVIDIA H200, memory: 141GiB, sm: 90, "
                  "nvlinks: 18, nvlink_gbytes_per_s: 450}\n"
                  "nics: {per_node: %d, gbits_per_s: 400}\n",
                  nodes, gpus ? gpus * 2 : 4, gpus ? gpus * 2 : 4,
                  gpus > 1 && gpus % 2 == 0 ? 2 : 1, gpus, nics);

    if (topology_from_spec_text(text, strlen(text), "cluster", &t, &err) < 0)
        fail_msg("%s\n%s", err_text(&err), text);
    free(text);
    return t;
}

static inline char *tree_json(const struct topology *t)
{
    struct js *o = topology_json(t);
    char *line = js_line(o);

    js_free(o);
    return line;
}

/* Is there a finding of this severity about `object` whose text holds `part`? */
static inline int tree_found(const struct topology *t, enum severity s,
                             const char *object, const char *part)
{
    for (int i = 0; i < t->n_findings; i++)
        if (t->findings[i].severity == s && strstr(t->findings[i].object, object) &&
            strstr(t->findings[i].text, part))
            return 1;
    return 0;
}

#endif
