#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "topology/emit.h"
#include "topology/slurm_fabric.h"
#include "topology/topology.h"

/* clang-format off */
static const struct words {
    const char *name;                  /* topology.conf */
    const char *plugin, *list, *entry; /* topology.yaml */
} words[] = {
    [SLURM_SWITCH] = { "SwitchName", "tree", "switches", "switch" },
    [SLURM_BLOCK] = { "BlockName", "block", "blocks", "block" },
    [SLURM_RING] = { "RingName", "ring", "rings", "ring" },
};
/* clang-format on */

static void put_head(const struct topology *t, const char *file, FILE *fp)
{
    fprintf(fp, "# %s for Slurm, by muster from %s%s\n", file, t->source,
            t->simulated ? " (simulated: described, not looked at)" : "");
    if (t->by_guid)
        fputs("# Nodes are called what their ports say, which proves nothing: compare "
              "them with slurm.conf.\n",
              fp);
}

static void put_conf(const struct slurm_fabric *f, FILE *fp)
{
    for (int i = 0; i < f->n; i++) {
        const struct slurm_entry *e = &f->entry[i];
        if (e->comment)
            fprintf(fp, "# %s\n", e->comment);
        fprintf(fp, "%s=%s", words[e->kind].name, e->name);
        if (e->nodes)
            fprintf(fp, " Nodes=%s", e->nodes);
        if (e->below)
            fprintf(fp, " Switches=%s", e->below);
        if (e->speed)
            fprintf(fp, " LinkSpeed=%d", e->speed);
        fputs("\n", fp);
    }
    for (int i = 0; i < f->n_sizes; i++)
        fprintf(fp, "%s%d%s", i ? "," : "BlockSizes=", f->size[i],
                i + 1 < f->n_sizes ? "" : "\n");
}

int topology_emit_slurmconf(const struct topology *t, FILE *fp, struct err *err)
{
    struct slurm_fabric f;

    if (slurm_fabric_of(t, &f, err) < 0)
        return -1;
    put_head(t, "topology.conf", fp);
    put_conf(&f, fp);
    slurm_fabric_release(&f);
    return 0;
}

/* Names are quoted: a switch called 1 or on is a text. */
static void put_yaml(const struct slurm_fabric *f, FILE *fp)
{
    const struct words *w = &words[f->entry[0].kind];

    fprintf(fp, "- topology: muster\n  cluster_default: true\n  %s:\n", w->plugin);
    for (int i = 0; i < f->n_sizes; i++)
        fprintf(fp, "%s      - %d\n", i ? "" : "    block_sizes:\n", f->size[i]);
    fprintf(fp, "    %s:\n", w->list);
    for (int i = 0; i < f->n; i++) {
        const struct slurm_entry *e = &f->entry[i];
        if (e->comment)
            fprintf(fp, "      # %s\n", e->comment);
        fprintf(fp, "      - %s: \"%s\"\n", w->entry, e->name);
        if (e->nodes)
            fprintf(fp, "        nodes: \"%s\"\n", e->nodes);
        if (e->below)
            fprintf(fp, "        children: \"%s\"\n", e->below);
    }
}

int topology_emit_slurmyaml(const struct topology *t, FILE *fp, struct err *err)
{
    struct slurm_fabric f;

    if (slurm_fabric_of(t, &f, err) < 0)
        return -1;
    put_head(t, "topology.yaml", fp);
    put_yaml(&f, fp);
    slurm_fabric_release(&f);
    return 0;
}
