#include "launcher/slurm_source.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "launcher/slurm_ask.h"
#include "launcher/slurm_nodes.h"
#include "launcher/slurm_options.h"
#include "topology/slurm_gres.h"
#include "topology/slurm_record.h"
#include "topology/slurm_state.h"
#include "topology/topology.h"

enum { GPUS_MAX = 1024 };

static int64_t whole(const struct slurm_record *r, const char *key)
{
    const char *text = slurm_record_get(r, key);

    return text && isdigit((unsigned char)*text) ? strtoll(text, NULL, 10) : -1;
}

/* "gpu:b200:8(S:0-1)": 8 of B200. */
static void add_gpus(struct node *n, const char *text)
{
    struct gres gres;

    if (!text || gres_parse(text, &gres, NULL) < 0)
        return;
    for (int i = 0; i < gres.n; i++) {
        const struct gres_item *item = &gres.item[i];
        if (!str_eq(item->name, "gpu") || item->mig)
            continue;
        for (int64_t k = 0; k < item->count && n->n_gpus < GPUS_MAX; k++) {
            struct gpu *gpu = topology_add_gpu(n);
            gpu->index = n->n_gpus - 1;
            slurm_name_gpu(gpu, item->type);
        }
    }
    gres_release(&gres);
}

static void add_state(struct topology *t, const char *name,
                      const struct slurm_record *r)
{
    const char *text = slurm_record_get(r, "State");
    const char *reason = slurm_record_get(r, "Reason");
    struct slurm_state state;

    slurm_state_parse(text ? text : "", &state);
    if (state.use == SLURM_USE_NO)
        topology_find(t, SEVERITY_FAIL, name, "cannot be used: it is %s%s%s%s",
                      state.why, reason ? " (" : "", reason ? reason : "",
                      reason ? ")" : "");
    else if (state.use == SLURM_USE_INSIDE)
        topology_find(t, SEVERITY_NOTE, name, "%s", state.why);
}

static void add_node(struct topology *t, const char *name, const struct slurm_record *r)
{
    struct node *n = topology_add_node(t);
    int64_t mb = whole(r, "RealMemory"), threads = whole(r, "ThreadsPerCore");

    snprintf(n->name, sizeof(n->name), "%s", name);
    n->sockets = (int)whole(r, "Sockets");
    n->threads = (int)whole(r, "CPUTot");
    n->cores = n->threads > 0 && threads > 0 ? n->threads / (int)threads : n->threads;
    if (mb > 0 && mb < INT64_MAX >> 20)
        n->memory_bytes = mb << 20;
    add_gpus(n, slurm_record_get(r, "Gres"));
    add_state(t, name, r);
}

int topology_from_slurm_nodes(const char *text, size_t len, const char *partition,
                              struct topology **out, struct err *err)
{
    struct topology *t = topology_new("slurm", 0);
    struct slurm_records all = { 0 };
    int rc = slurm_records_parse(text, len, "Slurm's nodes", &all, err);

    t->unseen = 1;
    for (int i = 0; rc == 0 && i < all.n; i++) {
        const char *name = slurm_record_get(&all.record[i], "NodeName");
        const char *parts = slurm_record_get(&all.record[i], "Partitions");
        if (name && (!partition || !*partition || slurm_lists_meet(parts, partition)))
            add_node(t, name, &all.record[i]);
    }
    if (rc == 0 && t->n_nodes == 0)
        rc = err_set(err, ERR_FAILED, "Slurm shows no nodes%s%s",
                     partition && *partition ? " in partition " : "",
                     partition && *partition ? partition : "");
    slurm_records_release(&all);
    if (rc < 0) {
        topology_free(t);
        return -1;
    }
    *out = t;
    return 0;
}

int topology_from_slurm(const char *partition, struct topology **out, struct err *err)
{
    struct str text = STR_INIT;
    int rc = slurm_ask(SLURM_ASK_NODES, NULL, SLURM_ASK_MS, &text, err);

    if (rc == 0)
        rc = topology_from_slurm_nodes(text.text ? text.text : "", text.len, partition,
                                       out, err);
    if (rc == 0)
        slurm_add_fabric(*out);
    str_release(&text);
    return rc;
}
