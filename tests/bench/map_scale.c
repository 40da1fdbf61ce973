/* map_scale NODES SHARD - how long the mapping of NODES nodes of 8 GPUs takes, whose
 * rails hang on ragged leaves (1 to 40 nodes) that are listed in no order, below pods of
 * 8 leaves; shard groups of SHARD ranks, as many as fit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/err.h"
#include "base/str.h"
#include "recipes/recipe.h"
#include "topology/place.h"
#include "topology/place_map.h"
#include "topology/source.h"
#include "topology/topology.h"

enum { RAILS = 8, LEAVES_OF_A_POD = 8 };

static unsigned long long seed = 7;

static int below(int n)
{
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (int)((seed >> 33) % (unsigned long long)n);
}

static double processor_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void add_switches(struct topology *t, int groups)
{
    int leaves = groups * RAILS;
    int pods = (groups + LEAVES_OF_A_POD - 1) / LEAVES_OF_A_POD;

    for (int i = 0; i < leaves + pods + 1; i++) {
        struct fabric_switch *w = topology_add_switch(t);
        snprintf(w->name, sizeof(w->name), "switch%d", i);
        w->level = i < leaves ? 0 : i < leaves + pods ? 1 : 2;
    }
    for (int i = 0; i < leaves + pods; i++) {
        struct fabric_link *l = topology_add_link(t);
        l->from = i;
        l->to = i < leaves ? leaves + i / RAILS / LEAVES_OF_A_POD : leaves + pods;
        l->count = 16;
        l->gbits_per_s = 400;
    }
}

/* Groups of leaves of 1 to 40 nodes; then the nodes are shuffled over them. */
static void add_fabric(struct topology *t)
{
    int *group = calloc((size_t)t->n_nodes, sizeof(*group)), groups = 0;

    for (int i = 0, left = 0; group && i < t->n_nodes; i++, left--) {
        if (left == 0) {
            left = 1 + below(40);
            groups++;
        }
        group[i] = groups - 1;
    }
    for (int i = t->n_nodes - 1; group && i > 0; i--) {
        int k = below(i + 1), other = group[k];
        group[k] = group[i];
        group[i] = other;
    }
    for (int i = 0; group && i < t->n_nodes; i++)
        for (int k = 0; k < RAILS; k++)
            t->nodes[i].nics[k].leaf = group[i] * RAILS + k;
    add_switches(t, groups);
    free(group);
}

static struct topology *cluster(int nodes)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;
    char text[512];

    snprintf(
        text, sizeof(text),
        "nodes: {count: %d, prefix: n}\n"
        "cpu: {sockets: 2, cores: 96, threads: 192, numa_nodes: 2}\n"
        "gpus: {per_node: 8, name: NVIDIA H200, memory: 141GiB, sm: 90, nvlinks: 18,"
        " nvlink_gbytes_per_s: 450, pcie_gbytes_per_s: 48}\n"
        "nics: {per_node: 8, gbits_per_s: 400}\n",
        nodes);
    if (topology_from_spec_text(text, strlen(text), "bench", &t, &err) < 0) {
        fprintf(stderr, "%s\n", err_text(&err));
        exit(1);
    }
    add_fabric(t);
    return t;
}

static void print_row(const struct topology *t, const struct placement *p, double place,
                      double told)
{
    struct place_map m;
    struct rusage used;
    int leaf;

    getrusage(RUSAGE_SELF, &used);
    place_map_make(p, t, &m);
    leaf = place_tiers_leaf(m.tiers);
    printf("| %d | %d | %d | %d x %d | %d | %ld | %ld | %.3f | %.3f | %ld |\n",
           t->n_nodes, p->world, m.tiers->units[leaf], p->replicate_degree,
           p->shard_degree, m.tiers->n, m.shard.crossing[leaf], m.shard.bound[leaf],
           place, told, used.ru_maxrss / 1024);
    place_map_release(&m);
}

int main(int argc, char **argv)
{
    int nodes = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 2048;
    int shard = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 16;
    struct topology *t = cluster(nodes);
    struct placement *p = NULL;
    struct strlist why = { 0 };
    struct place_map m;
    struct err err = ERR_INIT;
    struct recipe r;
    double start, placed;

    recipe_init(&r);
    r.parallelism.data_parallel_shard_degree = shard;
    r.parallelism.data_parallel_replicate_degree = -1;
    r.training.local_batch_size = 1;
    r.training.global_batch_size = -1;
    start = processor_s();
    if (placement_make(&r, t, nodes * 8 / shard * shard, &p, &err) < 0) {
        fprintf(stderr, "%s\n", err_text(&err));
        return 1;
    }
    placed = processor_s() - start;
    start = processor_s();
    place_map_make(p, t, &m);
    place_map_explain(&m, p, t, &why);
    print_row(t, p, placed, processor_s() - start);
    strlist_release(&why);
    place_map_release(&m);
    placement_free(p);
    recipe_release(&r);
    topology_free(t);
    return 0;
}
