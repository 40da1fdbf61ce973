/* Nodes that are not like most others. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "topology/hostlist.h"
#include "topology/inspect.h"
#include "topology/topology.h"

/* --- respects --------------------------------------------------------------------------- */

/* Was it looked at, or is only its name known? */
static int is_seen(const struct node *n)
{
    return n->n_gpus || n->n_nics || n->threads > 0;
}

static char *count_text(int count)
{
    return count >= 0 ? xasprintf("%d", count) : NULL;
}

static char *gpus_of(const struct node *n)
{
    return is_seen(n) ? count_text(n->n_gpus) : NULL;
}

/* "NVIDIA H200", each model once. */
static char *models_of(const struct node *n)
{
    struct str s = STR_INIT;

    for (int i = 0; i < n->n_gpus; i++)
        if (n->gpus[i].name[0] && (!s.len || !strstr(s.text, n->gpus[i].name)))
            str_addf(&s, "%s%s", s.len ? " and " : "", n->gpus[i].name);
    return s.len ? str_take(&s) : NULL;
}

static char *gpu_memory_of(const struct node *n)
{
    int64_t least = -1;

    for (int i = 0; i < n->n_gpus; i++)
        if (n->gpus[i].memory_bytes > 0 &&
            (least < 0 || n->gpus[i].memory_bytes < least))
            least = n->gpus[i].memory_bytes;
    return least > 0 ? xasprintf("%.0f GiB", (double)least / 0x1p30) : NULL;
}

/* A single GPU that is short is a finding of its own. */
static char *nvlinks_of(const struct node *n)
{
    int most = 0;

    for (int i = 0; i < n->n_gpus; i++)
        if (gpu_nvlink_count(&n->gpus[i]) > most)
            most = gpu_nvlink_count(&n->gpus[i]);
    return n->n_gpus ? count_text(most) : NULL;
}

static char *driver_of(const struct node *n)
{
    return n->driver[0] ? xstrdup(n->driver) : NULL;
}

static char *nics_of(const struct node *n)
{
    int count = 0;

    for (int i = 0; i < n->n_nics; i++)
        count += n->nics[i].kind == NIC_COMPUTE;
    return is_seen(n) ? count_text(count) : NULL;
}

/* Of the fastest: a single slow port is a finding of its own. */
static char *nic_rate_of(const struct node *n)
{
    double most = -1;

    for (int i = 0; i < n->n_nics; i++)
        if (n->nics[i].kind == NIC_COMPUTE && n->nics[i].up != 0 &&
            n->nics[i].gbits_per_s > most)
            most = n->nics[i].gbits_per_s;
    return most > 0 ? xasprintf("%.0f Gb/s", most) : NULL;
}

static char *cpu_of(const struct node *n)
{
    return n->cpu_model[0] ? xstrdup(n->cpu_model) : NULL;
}

static char *cores_of(const struct node *n)
{
    return n->cores > 0 ? count_text(n->cores) : NULL;
}

static char *threads_of(const struct node *n)
{
    return n->threads > 0 ? count_text(n->threads) : NULL;
}

static char *numas_of(const struct node *n)
{
    return n->n_numas ? count_text(n->n_numas) : NULL;
}

/* Twins differ by what their firmware keeps: steps of an eighth of a doubling. */
static char *memory_of(const struct node *n)
{
    return n->memory_bytes > 0
               ? xasprintf("about %.0f GiB",
                           exp2(round(log2((double)n->memory_bytes) * 8) / 8 - 30))
               : NULL;
}

/* In order of weight; a node that has other CPUs has another number of cores too: only
 * the first of a group is told of a node. */
static const struct respect {
    const char *what;
    int group;
    char *(*value)(const struct node *n); /* NULL: unknown */
} respects[] = {
    { "GPUs", 1, gpus_of },
    { "GPU model", 2, models_of },
    { "GPU memory", 2, gpu_memory_of },
    { "NVLinks of a GPU", 2, nvlinks_of },
    { "GPU driver", 3, driver_of },
    { "compute NICs", 4, nics_of },
    { "rate of compute NICs", 5, nic_rate_of },
    { "CPU", 6, cpu_of },
    { "cores", 6, cores_of },
    { "threads", 6, threads_of },
    { "NUMA nodes", 6, numas_of },
    { "memory", 7, memory_of },
};

/* --- who differs ------------------------------------------------------------------------- */

struct value {
    char *text;
    int node;
};

static int compare_values(const void *a, const void *b)
{
    const struct value *x = a, *y = b;
    int c = strcmp(x->text, y->text);

    return c ? c : x->node - y->node;
}

/* Nodes with values[from .. to) as a host list; the caller's. */
static char *fold_nodes(const struct topology *t, const struct value *v, int from,
                        int to)
{
    struct strlist names = { 0 };
    char *folded;

    for (int i = from; i < to; i++)
        strlist_add(&names, t->nodes[v[i].node].name);
    folded = hostlist_fold(&names);
    strlist_release(&names);
    return folded;
}

static int end_of_run(const struct value *v, int n, int from)
{
    int to = from + 1;

    while (to < n && str_eq(v[to].text, v[from].text))
        to++;
    return to;
}

/* The text that most have, by the start of its run. */
static int longest_run(const struct value *v, int n)
{
    int best = 0, length = 0;

    for (int i = 0, to; i < n; i = to) {
        to = end_of_run(v, n, i);
        if (to - i > length) {
            length = to - i;
            best = i;
        }
    }
    return best;
}

/* "7 on n03; 4 on n[07-08]"; usual: -1, or the run that is left out. */
static void say_runs(const struct topology *t, const struct value *v, int n, int usual,
                     struct str *out)
{
    for (int i = 0, to; i < n; i = to) {
        char *nodes;
        to = end_of_run(v, n, i);
        if (i == usual)
            continue;
        nodes = fold_nodes(t, v, i, to);
        str_addf(out, "%s%s on %s", out->len ? "; " : "", v[i].text, nodes);
        free(nodes);
    }
}

static void report(struct topology *t, const struct respect *r, const struct value *v,
                   int n)
{
    int usual = longest_run(v, n), same = end_of_run(v, n, usual) - usual;
    struct str odd = STR_INIT;
    char object[96];

    if (same * 2 > n) {
        say_runs(t, v, n, usual, &odd);
        if (n - same == 1)
            snprintf(object, sizeof(object), "%s",
                     t->nodes[v[usual ? 0 : n - 1].node].name);
        else
            snprintf(object, sizeof(object), "%d nodes", n - same);
        topology_find_once(t, SEVERITY_WARN, object,
                           "not like the other %d in %s: %s; %s on the others", same,
                           r->what, odd.text, v[usual].text);
    } else {
        say_runs(t, v, n, -1, &odd);
        snprintf(object, sizeof(object), "%d nodes", n);
        topology_find_once(t, SEVERITY_WARN, object, "differ in %s: %s", r->what,
                           odd.text);
    }
    str_release(&odd);
}

/* Nodes that a respect of the same group named already count as unknown. */
static void compare(struct topology *t, const struct respect *r, int *named)
{
    struct value *v = xcalloc((size_t)t->n_nodes, sizeof(*v));
    int n = 0, usual;

    for (int i = 0; i < t->n_nodes; i++) {
        char *text = named[i] == r->group ? NULL : r->value(&t->nodes[i]);
        if (text)
            v[n++] = (struct value){ text, i };
    }
    qsort(v, (size_t)n, sizeof(*v), compare_values);
    usual = n ? longest_run(v, n) : 0;
    if (n && end_of_run(v, n, 0) < n) {
        report(t, r, v, n);
        for (int i = 0; i < n; i++)
            if (!str_eq(v[i].text, v[usual].text))
                named[v[i].node] = r->group;
    }
    for (int i = 0; i < n; i++)
        free(v[i].text);
    free(v);
}

void inspect_differ(struct topology *t)
{
    int *named;

    if (t->n_nodes < 2 || t->by_guid)
        return;
    named = xcalloc((size_t)t->n_nodes, sizeof(*named));
    for (size_t i = 0; i < ARRAY_LEN(respects); i++)
        compare(t, &respects[i], named);
    free(named);
}
