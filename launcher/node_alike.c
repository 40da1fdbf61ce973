#include "launcher/node_alike.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "topology/place.h"
#include "topology/topology.h"

/* What a node is like in one respect, in words. */
static char *gpus_of(const struct node *n)
{
    return xasprintf("%d GPU%s", n->n_gpus, str_s(n->n_gpus));
}

/* "8 x NVIDIA B200 of 179 GiB", each kind once. */
static char *models_of(const struct node *n)
{
    struct str s = STR_INIT;

    for (int i = 0; i < n->n_gpus; i++) {
        const struct gpu *g = &n->gpus[i];
        char *one =
            xasprintf("%s of %.0f GiB", *g->name ? g->name : "GPUs",
                      g->memory_bytes > 0 ? (double)g->memory_bytes / 0x1p30 : 0);
        if (!s.len || !strstr(s.text, one))
            str_addf(&s, "%s%s", s.len ? " and " : "", one);
        free(one);
    }
    return s.len ? str_take(&s) : xstrdup("no GPU");
}

/* "8 compute NICs at 400 Gbit/s, 1 of them down": those that carry collectives. */
static char *nics_of(const struct node *n)
{
    int count = 0, down = 0, unknown = 0;
    double slow = INFINITY, fast = 0;
    struct str s = STR_INIT;

    for (int i = 0; i < n->n_nics; i++) {
        const struct nic *c = &n->nics[i];
        if (c->kind != NIC_COMPUTE)
            continue;
        count++;
        down += c->up == 0;
        unknown += c->up != 0 && c->gbits_per_s <= 0;
        if (c->up == 0 || c->gbits_per_s <= 0)
            continue;
        slow = c->gbits_per_s < slow ? c->gbits_per_s : slow;
        fast = c->gbits_per_s > fast ? c->gbits_per_s : fast;
    }
    str_addf(&s, "%d compute NIC%s", count, str_s(count));
    if (slow < fast)
        str_addf(&s, " at %.0f to %.0f Gbit/s", slow, fast);
    else if (fast > 0)
        str_addf(&s, " at %.0f Gbit/s", fast);
    if (down)
        str_addf(&s, ", %d of them down", down);
    if (unknown)
        str_addf(&s, ", %d of unknown speed", unknown);
    return str_take(&s);
}

static char *(*const respects[])(const struct node *n) = { gpus_of, models_of,
                                                           nics_of };

/* The index of the value that most have; the first of those that are as frequent. */
static int most(char *const *value, int n)
{
    int best = 0, best_count = 0;

    for (int i = 0; i < n; i++) {
        int count = 0;
        for (int k = 0; k < n; k++)
            count += strcmp(value[i], value[k]) == 0;
        if (count > best_count) {
            best = i;
            best_count = count;
        }
    }
    return best;
}

static void compare(const struct topology *t, const struct placement *p,
                    char *(*words)(const struct node *n), struct err *err)
{
    char **value = xcalloc((size_t)p->n_nodes, sizeof(*value));
    int usual;

    for (int i = 0; i < p->n_nodes; i++)
        value[i] = words(&t->nodes[p->order[i]]);
    usual = most(value, p->n_nodes);
    for (int i = 0; i < p->n_nodes; i++)
        if (strcmp(value[i], value[usual]) != 0)
            err_more(err, ERR_FAILED, "node %s has %s, node %s has %s",
                     t->nodes[p->order[i]].name, value[i],
                     t->nodes[p->order[usual]].name, value[usual]);
    for (int i = 0; i < p->n_nodes; i++)
        free(value[i]);
    free(value);
}

int nodes_alike(const struct topology *t, const struct placement *p, struct err *err)
{
    struct err all = ERR_INIT;

    for (size_t i = 0; i < ARRAY_LEN(respects) && p->on_gpus && !all.code; i++)
        compare(t, p, respects[i], &all);
    if (!all.code)
        return 0;
    err_set(
        err, all.code,
        "the nodes are not alike, one job would wait for the slowest (leave the odd "
        "one out, or mend it):\n%s",
        err_text(&all));
    err_release(&all);
    return -1;
}
