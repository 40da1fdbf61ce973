/* Topology as a text tree.  Nodes that differ in nothing but names are printed
 * once, with the others named beside it. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "topology/topology.h"

static void say_bytes(char *out, size_t n, int64_t bytes)
{
    if (bytes < 0)
        snprintf(out, n, "memory unknown");
    else if (bytes >= 10LL << 30)
        snprintf(out, n, "%.0f GiB", (double)bytes / (double)(1LL << 30));
    else
        snprintf(out, n, "%.0f MiB", (double)bytes / (double)(1LL << 20));
}

static void add_count(struct str *s, int n, const char *one, const char *many)
{
    if (n >= 0)
        str_addf(s, "%s%d %s", s->len ? ", " : "", n, n == 1 ? one : many);
}

static void print_cpu(const struct node *n, FILE *fp)
{
    struct str s = STR_INIT;
    char memory[32];

    add_count(&s, n->sockets, "socket", "sockets");
    add_count(&s, n->cores, "core", "cores");
    add_count(&s, n->threads, "thread", "threads");
    say_bytes(memory, sizeof(memory), n->memory_bytes);
    if (n->cpu_model[0] || s.len || n->memory_bytes >= 0)
        fprintf(fp, "  cpu   %s%s%s, %s\n", n->cpu_model[0] ? n->cpu_model : "",
                n->cpu_model[0] && s.len ? ": " : "", s.len ? s.text : "", memory);
    str_release(&s);
    for (int i = 0; i < n->n_numas; i++) {
        say_bytes(memory, sizeof(memory), n->numas[i].memory_bytes);
        fprintf(fp, "  numa  %d: cpus %s, %s\n", n->numas[i].id,
                n->numas[i].cpus[0] ? n->numas[i].cpus : "none", memory);
    }
}

static void add_numa(struct str *s, int numa)
{
    if (numa < 0)
        str_adds(s, ", NUMA unknown");
    else
        str_addf(s, ", NUMA %d", numa);
}

static void add_nvlinks(struct str *s, const struct gpu *g)
{
    double rate = gpu_nvlink_gbytes_per_s(g);

    if (g->n_nvlinks == 0)
        return;
    str_addf(s, ", %d NVLinks", gpu_nvlink_count(g));
    if (rate > 0)
        str_addf(s, " %.0f GB/s", rate);
    str_addf(s, " to %s", g->nvlinks[0].peer[0] ? g->nvlinks[0].peer : "?");
    for (int i = 1; i < g->n_nvlinks; i++)
        str_addf(s, " %s", g->nvlinks[i].peer);
}

static void print_gpu(const struct node *n, const struct gpu *g, FILE *fp)
{
    struct str s = STR_INIT;
    char memory[32];

    say_bytes(memory, sizeof(memory), g->memory_bytes);
    str_addf(&s, "  gpu   %d", g->index);
    if (g->busid[0])
        str_addf(&s, " %s", g->busid);
    str_addf(&s, " %s, %s", g->name[0] ? g->name : "(name unknown)", memory);
    if (g->sm > 0)
        str_addf(&s, ", sm_%d", g->sm);
    add_numa(&s, g->numa);
    if (g->pcie_gbytes_per_s > 0)
        str_addf(&s, ", PCIe %.0f GB/s", g->pcie_gbytes_per_s);
    add_nvlinks(&s, g);
    if (g->nic >= 0)
        str_addf(&s, ", nic %s", n->nics[g->nic].name);
    if (g->mig == 1)
        str_adds(&s, ", MIG on");
    fprintf(fp, "%s\n", s.text);
    str_release(&s);
}

static void print_nic(const struct topology *t, const struct nic *c, FILE *fp)
{
    struct str s = STR_INIT;
    static const char *const state[] = { "state unknown", "down", "up" };

    str_addf(&s, "  nic   %s", c->name);
    if (c->busid[0])
        str_addf(&s, " %s", c->busid);
    str_addf(&s, " %s", link_layer_name(c->layer));
    if (c->gbits_per_s > 0)
        str_addf(&s, " %.0f Gb/s", c->gbits_per_s);
    str_addf(&s, ", %s, %s", nic_kind_name(c->kind), state[c->up + 1]);
    add_numa(&s, c->numa);
    if (c->rail >= 0)
        str_addf(&s, ", rail %d", c->rail);
    if (c->leaf >= 0)
        str_addf(&s, ", leaf %s", t->switches[c->leaf].name);
    if (c->guid[0])
        str_addf(&s, ", guid %s", c->guid);
    if (c->address[0])
        str_addf(&s, ", %s", c->address);
    fprintf(fp, "%s\n", s.text);
    str_release(&s);
}

/* Where the schedulers and drivers put the node as a whole. */
static void print_place(const struct topology *t, const struct node *n, FILE *fp)
{
    if (n->leaf >= 0)
        fprintf(fp, "  at    %s %s\n",
                t->switches[n->leaf].kind[0] ? t->switches[n->leaf].kind : "leaf",
                t->switches[n->leaf].name);
    if (n->nvlink_domain[0])
        fprintf(fp, "  in    NVLink domain %s\n", n->nvlink_domain);
}

/* The node's lines without its header. */
static char *body(const struct topology *t, const struct node *n)
{
    char *text = NULL;
    size_t size = 0;
    FILE *fp = open_memstream(&text, &size);

    if (!fp)
        abort(); /* only when memory is gone */
    print_place(t, n, fp);
    print_cpu(n, fp);
    for (int i = 0; i < n->n_gpus; i++)
        print_gpu(n, &n->gpus[i], fp);
    for (int i = 0; i < n->n_nics; i++)
        print_nic(t, &n->nics[i], fp);
    fclose(fp);
    return text;
}

static void print_level(const struct topology *t, int level, FILE *fp)
{
    const char *first = NULL, *last = NULL, *kind = level ? "spine" : "leaf ";
    int n = 0;

    for (int i = 0; i < t->n_switches; i++) {
        if (t->switches[i].level != level)
            continue;
        last = t->switches[i].name;
        kind = t->switches[i].kind[0] ? t->switches[i].kind : kind;
        first = n++ ? first : last;
    }
    if (n)
        fprintf(fp, "  %s %d: %s%s%s\n", kind, n, first, n > 1 ? " .. " : "",
                n > 1 ? last : "");
}

static void print_switches(const struct topology *t, FILE *fp)
{
    int top = 0;

    if (t->n_switches == 0)
        return;
    for (int i = 0; i < t->n_switches; i++)
        top = t->switches[i].level > top ? t->switches[i].level : top;
    fprintf(fp, "fabric\n");
    for (int level = top; level >= 0; level--)
        print_level(t, level, fp);
}

static void print_links(const struct topology *t, FILE *fp)
{
    int cables = 0;

    for (int i = 0; i < t->n_links; i++)
        cables += t->links[i].count;
    if (t->n_links && t->links[0].gbits_per_s < 0)
        fprintf(fp, "  links %d between switches, cables and rate unknown\n",
                t->n_links);
    else if (t->n_links)
        fprintf(fp, "  links %d between switches, %d cables of %.0f Gb/s\n", t->n_links,
                cables, t->links[0].gbits_per_s);
}

/* How many nodes from i on have the same body. */
static int count_alike(const struct topology *t, int i, const char *text)
{
    int same = 1;

    for (; i + same < t->n_nodes; same++) {
        char *next = body(t, &t->nodes[i + same]);
        int differ = strcmp(text, next) != 0;
        free(next);
        if (differ)
            break;
    }
    return same;
}

static void print_nodes(const struct topology *t, FILE *fp)
{
    int same;

    for (int i = 0; i < t->n_nodes; i += same) {
        const struct node *n = &t->nodes[i];
        char *text = body(t, n);
        same = count_alike(t, i, text);
        fprintf(fp, "node %s", n->name);
        if (same > 1)
            fprintf(fp, " .. %s (%d alike)", t->nodes[i + same - 1].name, same);
        else if (n->boot_id[0])
            fprintf(fp, "  boot id %s", n->boot_id);
        fprintf(fp, "\n%s", text);
        free(text);
    }
}

void topology_print(const struct topology *t, FILE *fp)
{
    fprintf(fp, "topology from %s%s: %d node%s\n", t->source,
            t->simulated ? " (simulated: described, not looked at)" : "", t->n_nodes,
            t->n_nodes == 1 ? "" : "s");
    print_nodes(t, fp);
    print_switches(t, fp);
    print_links(t, fp);
    for (int i = 0; i < t->n_findings; i++)
        fprintf(fp, "%s  %s: %s\n", severity_name(t->findings[i].severity),
                t->findings[i].object, t->findings[i].text);
}
