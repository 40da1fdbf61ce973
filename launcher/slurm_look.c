/* slurm_look.c - what Slurm says of nodes and switches, as a topology. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "launcher/slurm_ask.h"
#include "launcher/slurm_nodes.h"
#include "topology/slurm_record.h"
#include "topology/source.h"
#include "topology/topology.h"

/* --- nodes ------------------------------------------------------------------------- */

/* A node of a running job is in use, or drains; down is what it must not be. */
static void take_state(struct slurm_node *n, const char *state)
{
    static const char *const words[] = { "DOWN", "NOT_RESPONDING", "FAIL",
                                         "POWERED_DOWN", "POWERING_DOWN" };
    int down = strchr(state, '*') != NULL;

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        down |= strstr(state, words[i]) != NULL;
    if (down)
        snprintf(n->down, sizeof(n->down), "%.159s", state);
}

static int64_t whole(const struct slurm_record *r, const char *key)
{
    const char *text = slurm_record_get(r, key);

    return text && isdigit((unsigned char)*text) ? strtoll(text, NULL, 10) : -1;
}

static void take_node(struct slurm_node *n, const struct slurm_record *r)
{
    const char *state = slurm_record_get(r, "State");
    const char *why = slurm_record_get(r, "Reason");
    int64_t mb = whole(r, "RealMemory");

    n->sockets = whole(r, "Sockets") > 0 ? (int)whole(r, "Sockets") : 0;
    if (n->memory_bytes < 0 && mb > 0 && mb < INT64_MAX >> 20)
        n->memory_bytes = mb << 20;
    if (state)
        take_state(n, state);
    if (*n->down && why)
        snprintf(n->down + strlen(n->down), sizeof(n->down) - strlen(n->down),
                 " (%.80s)", why);
}

int slurm_place_nodes(struct slurm_place *p, const char *text, size_t len,
                      struct err *err)
{
    struct slurm_records all;

    if (slurm_records_parse(text, len, "scontrol show node", &all, err) < 0)
        return -1;
    for (int i = 0; i < all.n; i++) {
        const char *name = slurm_record_get(&all.record[i], "NodeName");
        for (int k = 0; name && k < p->nodes.n; k++)
            if (str_eq(p->nodes.item[k], name))
                take_node(&p->node[k], &all.record[i]);
    }
    slurm_records_release(&all);
    return 0;
}

/* --- switches ---------------------------------------------------------------------- */

int slurm_place_fabric(struct topology *t, const char *text, size_t len,
                       struct err *err)
{
    struct topology *f;

    if (topology_from_slurmconf_text(text, len, "scontrol show topology", &f, err) < 0)
        return -1;
    for (int i = 0; i < t->n_nodes; i++)
        for (int k = 0; k < f->n_nodes && t->nodes[i].leaf < 0; k++)
            if (str_eq(t->nodes[i].name, f->nodes[k].name))
                t->nodes[i].leaf = f->nodes[k].leaf;
    t->switches = f->switches;
    t->n_switches = f->n_switches;
    t->links = f->links;
    t->n_links = f->n_links;
    f->switches = NULL;
    f->links = NULL;
    f->n_switches = f->n_links = 0;
    topology_free(f);
    return 0;
}

/* A cluster without a topology plugin shows none: then all nodes are alike. */
void slurm_add_fabric(struct topology *t)
{
    struct str text = STR_INIT;
    struct err e = ERR_INIT;

    if (slurm_ask(SLURM_ASK_TOPOLOGY, NULL, SLURM_ASK_MS, &text, &e) == 0 && text.len &&
        strstr(text.text, "Name=") &&
        slurm_place_fabric(t, text.text, text.len, &e) < 0)
        log_warn("Slurm's topology is not used: %s", err_text(&e));
    err_release(&e);
    str_release(&text);
}

/* --- the topology -------------------------------------------------------------------- */

void slurm_name_gpu(struct gpu *g, const char *type)
{
    snprintf(g->name, sizeof(g->name), "%.63s", type);
    for (char *c = g->name; *c; c++)
        *c = (char)toupper((unsigned char)*c);
}

static void add_node(struct topology *t, const char *name,
                     const struct slurm_node *from)
{
    struct node *n = topology_add_node(t);

    snprintf(n->name, sizeof(n->name), "%s", name);
    n->cores = n->threads = from->cpus > 0 ? from->cpus : -1;
    n->sockets = from->sockets > 0 ? from->sockets : -1;
    n->memory_bytes = from->memory_bytes;
    n->slots = from->tasks > 0 ? from->tasks : -1;
    for (int g = 0; g < from->gpus; g++) {
        struct gpu *gpu = topology_add_gpu(n);
        gpu->index = from->index[g];
        slurm_name_gpu(gpu, from->gpu_type);
    }
}

struct topology *slurm_topology(const struct slurm_place *p)
{
    struct topology *t = topology_new("slurm", 0);

    t->unseen = 1;
    for (int i = 0; i < p->nodes.n; i++) {
        if (!*p->node[i].down) {
            add_node(t, p->nodes.item[i], &p->node[i]);
            continue;
        }
        log_warn("node %s of job %s is left out: it is %s", p->nodes.item[i], p->job,
                 p->node[i].down);
        topology_find(t, SEVERITY_FAIL, p->nodes.item[i], "it is %s", p->node[i].down);
    }
    if (t->n_nodes > 1)
        slurm_add_fabric(t);
    return t;
}
