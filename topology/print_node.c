/* One node of the text tree. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "topology/print.h"
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
        print_line(fp, 8, "  cpu   %s%s%s, %s", n->cpu_model[0] ? n->cpu_model : "",
                   n->cpu_model[0] && s.len ? ": " : "", s.len ? s.text : "", memory);
    str_release(&s);
    for (int i = 0; i < n->n_numas; i++) {
        say_bytes(memory, sizeof(memory), n->numas[i].memory_bytes);
        print_line(fp, 8, "  numa  %d: cpus %s, %s", n->numas[i].id,
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

/* What GPUs of one kind have in common. */
static void add_kind(struct str *s, const struct gpu *g)
{
    char memory[32];

    say_bytes(memory, sizeof(memory), g->memory_bytes);
    str_addf(s, " %s, %s", g->name[0] ? g->name : "(name unknown)", memory);
    if (g->sm > 0)
        str_addf(s, ", sm_%d", g->sm);
}

static char *kind_of(const struct gpu *g)
{
    struct str s = STR_INIT;

    add_kind(&s, g);
    add_nvlinks(&s, g);
    return str_take(&s);
}

/* The kind that more than half of three GPUs or more are of, told once; NULL: there is
 * none.  *count: how many. */
static char *usual_kind(const struct node *n, int *count)
{
    char **kind = xcalloc((size_t)n->n_gpus + 1, sizeof(*kind)), *usual = NULL;

    *count = 0;
    for (int i = 0; i < n->n_gpus; i++)
        kind[i] = kind_of(&n->gpus[i]);
    for (int i = 0; i < n->n_gpus && n->n_gpus > 2 && !usual; i++) {
        *count = 0;
        for (int k = 0; k < n->n_gpus; k++)
            *count += str_eq(kind[k], kind[i]);
        if (*count * 2 > n->n_gpus)
            usual = xstrdup(kind[i]);
    }
    for (int i = 0; i < n->n_gpus; i++)
        free(kind[i]);
    free(kind);
    return usual;
}

/* usual: the kind that need not be told; NULL: none. */
static void print_gpu(const struct node *n, const struct gpu *g, const char *usual,
                      FILE *fp)
{
    struct str s = STR_INIT;
    char *kind = kind_of(g);
    int alike = usual && str_eq(kind, usual);

    str_addf(&s, "  gpu   %d", g->index);
    if (g->busid[0])
        str_addf(&s, " %s", g->busid);
    if (!alike)
        add_kind(&s, g);
    add_numa(&s, g->numa);
    if (g->pcie_gbytes_per_s > 0)
        str_addf(&s, ", PCIe %.0f GB/s", g->pcie_gbytes_per_s);
    if (!alike)
        add_nvlinks(&s, g);
    if (g->nic >= 0)
        str_addf(&s, ", nic %s%s%s", n->nics[g->nic].name, g->nic_path[0] ? " " : "",
                 g->nic_path);
    if (g->mig == 1)
        str_adds(&s, ", MIG on");
    if (g->fabric[0] && !str_eq(g->fabric, "none") && !str_eq(g->fabric, "completed"))
        str_addf(&s, ", fabric %s", g->fabric);
    print_line(fp, 8, "%s", s.text);
    free(kind);
    str_release(&s);
}

static void print_nic(const struct topology *t, const struct nic *c, unsigned show,
                      FILE *fp)
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
    if (c->why[0])
        str_addf(&s, " (%s)", c->why);
    add_numa(&s, c->numa);
    if (c->rail >= 0)
        str_addf(&s, ", rail %d", c->rail);
    if (c->plane >= 0)
        str_addf(&s, ", plane %d", c->plane);
    if (c->gid >= 0)
        str_addf(&s, ", GID %d", c->gid);
    if (c->leaf >= 0 && show & PRINT_PLACE)
        str_addf(&s, ", leaf %s", t->switches[c->leaf].name);
    if (c->guid[0] && show & PRINT_IDENTITY)
        str_addf(&s, ", guid %s", c->guid);
    if (c->address[0] && show & PRINT_IDENTITY)
        str_addf(&s, ", %s", c->address);
    print_line(fp, 8, "%s", s.text);
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

/* "gpus  8 x NVIDIA B200, 179 GiB, ..., driver 570.86.10, 4 NVSwitches" */
static void print_gpus(const struct node *n, FILE *fp)
{
    struct str s = STR_INIT;
    int count;
    char *usual = usual_kind(n, &count);

    if (usual)
        str_addf(&s, "%d x%s", count, usual);
    if (n->driver[0])
        str_addf(&s, "%sdriver %s", s.len ? ", " : "", n->driver);
    add_count(&s, n->nvswitches > 0 ? n->nvswitches : -1, "NVSwitch", "NVSwitches");
    if (s.len)
        print_line(fp, 8, "  gpus  %s", s.text);
    for (int i = 0; i < n->n_gpus; i++)
        print_gpu(n, &n->gpus[i], usual, fp);
    free(usual);
    str_release(&s);
}

char *print_node(const struct topology *t, const struct node *n, unsigned show)
{
    char *text = NULL;
    size_t size = 0;
    FILE *fp = open_memstream(&text, &size);

    if (!fp)
        abort(); /* only when memory is gone */
    if (show & PRINT_PLACE)
        print_place(t, n, fp);
    print_cpu(n, fp);
    print_gpus(n, fp);
    for (int i = 0; i < n->n_nics; i++)
        print_nic(t, &n->nics[i], show, fp);
    fclose(fp);
    return text;
}
