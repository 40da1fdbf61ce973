#include "topology/smi_list.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/str.h"
#include "topology/cpulist.h"
#include "topology/inspect.h"
#include "topology/pcie.h"
#include "topology/topology.h"

enum { MAX_GPUS = 256, MAX_COLUMNS = 64, MAX_LINKS = 64 };

struct list {
    struct node *n;
    int fabric;      /* inside a "Fabric" block of -q */
    int mig;         /* inside its "MIG Mode" */
    char uuid[48];   /* of the cluster: ClusterUUID comes before or after CliqueId */
    char clique[16]; /* "" not yet */
    struct cpulist down; /* links of the last GPU */
};

/* Without blanks around it; cuts `text`. */
static char *trimmed(char *text)
{
    size_t n;

    text += strspn(text, " \t");
    n = strlen(text);
    while (n && strchr(" \t\r", text[n - 1]))
        text[--n] = '\0';
    return text;
}

static struct gpu *last(struct list *l)
{
    return l->n->n_gpus ? &l->n->gpus[l->n->n_gpus - 1] : NULL;
}

/* --- nvlink --status, -L -------------------------------------------------------------- */

/* "GPU 0: NVIDIA H200 (UUID: GPU-...)" */
static int read_named_gpu(const char *line, struct list *l)
{
    char *end;
    const char *name, *open;
    struct gpu *g;
    long index;

    if (strncmp(line, "GPU ", 4) != 0)
        return 0;
    index = strtol(line + 4, &end, 10);
    if (end == line + 4 || *end != ':' || !strchr(" \t", end[1]) || index < 0 ||
        index >= MAX_GPUS)
        return 0;
    name = end + 1 + strspn(end + 1, " ");
    open = strstr(name, " (UUID: ");
    g = topology_add_gpu(l->n);
    g->index = (int)index;
    memset(&l->down, 0, sizeof(l->down));
    if (!open)
        open = name + strlen(name);
    else
        snprintf(g->uuid, sizeof(g->uuid), "%.*s", (int)strcspn(open + 8, ")"),
                 open + 8);
    snprintf(g->name, sizeof(g->name), "%.*s", (int)(open - name), name);
    return 1;
}

/* "Link 3: 26.562 GB/s" or "Link 3: <inactive>" */
static int read_link(struct list *l, const char *line)
{
    const char *colon = strchr(line, ':');
    struct gpu *g = last(l);
    double rate;
    long link;
    char *end;

    if (!g || strncmp(line, "Link ", 5) != 0 || !colon)
        return 0;
    link = strtol(line + 5, NULL, 10);
    if (strstr(colon, "<inactive>") && link >= 0 && link < MAX_LINKS) {
        cpulist_add(&l->down, (int)link);
        cpulist_format(&l->down, g->links_down, sizeof(g->links_down));
        return 1;
    }
    rate = strtod(colon + 1, &end);
    if (end == colon + 1 || strncmp(end, " GB/s", 5) != 0 || !(rate > 0 && rate < 1e6))
        return 1;
    if (g->n_nvlinks == 0)
        topology_add_nvlink(g)->gbytes_per_s = 0;
    g->nvlinks[0].count++;
    g->nvlinks[0].gbytes_per_s += rate;
    return 1;
}

/* "MIG 3g.40gb     Device  0: (UUID: MIG-...)" */
static int read_instance(struct list *l, const char *line)
{
    struct gpu *g = last(l);

    if (!g || strncmp(line, "MIG ", 4) != 0 || !strstr(line, "Device"))
        return 0;
    g->mig = 1;
    g->mig_instances = g->mig_instances < 0 ? 1 : g->mig_instances + 1;
    return 1;
}

/* --- -q ----------------------------------------------------------------------------------- */

/* "GPU 00000000:18:00.0" */
static int read_bus_gpu(const char *line, struct list *l)
{
    char busid[32];
    struct gpu *g;

    if (sscanf(line, "GPU %31s", busid) != 1 || !busid_valid(busid))
        return 0;
    g = topology_add_gpu(l->n);
    busid_normalise(busid, g->busid);
    l->fabric = l->mig = 0;
    return 1;
}

static const char *fabric_word(const char *state)
{
    static const char *const words[] = { "completed", "in progress", "not started" };

    if (str_eq(state, "N/A") || strcasecmp(state, "Not Supported") == 0)
        return "none";
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strcasecmp(state, words[i]) == 0)
            return words[i];
    return "";
}

static void take_fabric(struct list *l, struct gpu *g, const char *key,
                        const char *value)
{
    if (str_eq(key, "State"))
        snprintf(g->fabric, sizeof(g->fabric), "%s", fabric_word(value));
    else if (str_eq(key, "Status") && !str_eq(value, "Success") &&
             !str_eq(value, "N/A") && str_eq(g->fabric, "completed"))
        snprintf(g->fabric, sizeof(g->fabric), "failed");
    else if (str_eq(key, "CliqueId") && isdigit((unsigned char)*value))
        snprintf(l->clique, sizeof(l->clique), "%.15s", value);
    else if (str_eq(key, "ClusterUUID") && strspn(value, "0-") < strlen(value) &&
             !str_eq(value, "N/A"))
        snprintf(l->uuid, sizeof(l->uuid), "%.40s", value);
    if (l->uuid[0] && l->clique[0])
        snprintf(l->n->nvlink_domain, sizeof(l->n->nvlink_domain), "%s.%s", l->uuid,
                 l->clique);
}

/* "key : value"; a line without a value opens a block. */
static void read_pair(struct list *l, char *line)
{
    char *colon = strstr(line, " : "), *key, *value;
    struct gpu *g = last(l);

    if (!g)
        return;
    if (!colon) {
        l->fabric = str_eq(line, "Fabric");
        l->mig = str_eq(line, "MIG Mode");
        return;
    }
    *colon = '\0';
    key = trimmed(line);
    value = trimmed(colon + 3);
    if (str_eq(key, "Product Name"))
        snprintf(g->name, sizeof(g->name), "%.63s", value);
    else if (str_eq(key, "GPU UUID"))
        snprintf(g->uuid, sizeof(g->uuid), "%.47s", value);
    else if (l->mig && str_eq(key, "Current"))
        g->mig = str_eq(value, "Enabled") ? 1 : str_eq(value, "Disabled") ? 0 : -1;
    else if (l->fabric)
        take_fabric(l, g, key, value);
}

/* --- csv ---------------------------------------------------------------------------------- */

static int is_csv(const char *text)
{
    text += strspn(text, " \t\r\n");
    return strncmp(text, "index,", 6) == 0;
}

static int split(char *line, char **cell)
{
    int n = 0;
    char *part;

    while (n < MAX_COLUMNS && (part = strsep(&line, ",")))
        cell[n++] = trimmed(part);
    return n;
}

/* "[N/A]" and the like are unknown. */
static int whole(const char *text)
{
    char *end;
    long v = strtol(text, &end, 10);

    return end == text || v < 0 || v > 1 << 20 ? -1 : (int)v;
}

/* The key without its unit, "memory.total [MiB]". */
static void take_cell(struct gpu *g, struct pcie_link *l, const char *key,
                      const char *value)
{
    int v = whole(value);

    if (str_eq(key, "index"))
        g->index = v;
    else if (str_eq(key, "name"))
        snprintf(g->name, sizeof(g->name), "%.63s", value);
    else if (str_eq(key, "uuid"))
        snprintf(g->uuid, sizeof(g->uuid), "%.47s", value);
    else if (str_eq(key, "pci.bus_id") && busid_valid(value))
        busid_normalise(value, g->busid);
    else if (strncmp(key, "memory.total", 12) == 0 && v > 0)
        g->memory_bytes = (int64_t)v << 20;
    else if (str_eq(key, "mig.mode.current"))
        g->mig = str_eq(value, "Enabled") ? 1 : str_eq(value, "Disabled") ? 0 : -1;
    else if (str_eq(key, "pcie.link.gen.current"))
        l->gen = v;
    else if (str_eq(key, "pcie.link.gen.max"))
        l->max_gen = v;
    else if (str_eq(key, "pcie.link.width.current"))
        l->width = v;
    else if (str_eq(key, "pcie.link.width.max"))
        l->max_width = v;
    else if (strncmp(key, "utilization.gpu", 15) == 0)
        l->busy = v < 0 ? -1 : v > 0;
}

static void read_csv(char *text, struct topology *t)
{
    char *key[MAX_COLUMNS], *cell[MAX_COLUMNS], *line, *rest = text;
    struct pcie_link *link = xcalloc(MAX_GPUS, sizeof(*link));
    struct node *n = &t->nodes[0];
    int keys = 0, usual;

    while ((line = strsep(&rest, "\n"))) {
        struct gpu *g;
        int cells = split(line, cell);
        if (keys == 0) {
            keys = *cell[0] ? cells : 0;
            memcpy(key, cell, sizeof(key[0]) * (size_t)cells);
            continue;
        }
        if (cells != keys || whole(cell[0]) < 0 || n->n_gpus >= MAX_GPUS)
            continue;
        g = topology_add_gpu(n);
        link[n->n_gpus - 1] = (struct pcie_link){ -1, -1, -1, -1, -1 };
        for (int i = 0; i < keys; i++)
            take_cell(g, &link[n->n_gpus - 1], key[i], cell[i]);
    }
    usual = pcie_usual_gen(link, n->n_gpus);
    for (int i = 0; i < n->n_gpus; i++) {
        char object[96];
        inspect_object(n, &n->gpus[i], object);
        pcie_inspect(t, object, n->gpus[i].busid[0] ? n->gpus[i].busid : "the card",
                     &link[i], usual);
    }
    free(link);
}

/* --- which of them -------------------------------------------------------------------------- */

int smi_list_is(const char *text)
{
    const char *at = text;

    if (is_csv(text))
        return 1;
    while (at && strncmp(at, "GPU ", 4) != 0) {
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    return at && isxdigit((unsigned char)at[4]);
}

int smi_list_read(char *text, struct topology *t)
{
    struct list l = { .n = &t->nodes[0] };
    char *line, *rest = text;

    if (!smi_list_is(text))
        return 0;
    if (is_csv(text)) {
        read_csv(text, t);
        return 1;
    }
    while ((line = strsep(&rest, "\n"))) {
        line = trimmed(line);
        if (!read_named_gpu(line, &l) && !read_bus_gpu(line, &l) &&
            !read_link(&l, line) && !read_instance(&l, line))
            read_pair(&l, line);
    }
    return 1;
}
