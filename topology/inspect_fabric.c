/* What is worth saying about the cables between switches. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "topology/inspect.h"
#include "topology/topology.h"

enum { LEVELS_MAX = 32 };

/* A switch's cables, and what they carry; NAN: some rate is unknown. */
struct trunk {
    int up;            /* cables to a higher level */
    double up_gbits;   /* all of them */
    double down_gbits; /* cables to a lower level, and NICs */
    int nics;
};

static struct trunk *count_trunks(const struct topology *t)
{
    struct trunk *k = xcalloc((size_t)t->n_switches + 1, sizeof(*k));

    for (int i = 0; i < t->n_links; i++) {
        const struct fabric_link *l = &t->links[i];
        double rate = l->gbits_per_s > 0 ? l->count * l->gbits_per_s : NAN;
        int low =
            t->switches[l->from].level <= t->switches[l->to].level ? l->from : l->to;
        int high = low == l->from ? l->to : l->from;
        if (t->switches[low].level == t->switches[high].level)
            continue;
        k[low].up += l->count;
        k[low].up_gbits += rate;
        k[high].down_gbits += rate;
    }
    for (int i = 0; i < t->n_nodes; i++)
        for (int c = 0; c < t->nodes[i].n_nics; c++) {
            const struct nic *nic = &t->nodes[i].nics[c];
            if (nic->leaf < 0 || nic->up == 0)
                continue;
            k[nic->leaf].nics++;
            k[nic->leaf].down_gbits += nic->gbits_per_s > 0 ? nic->gbits_per_s : NAN;
        }
    return k;
}

/* --- leaves against each other ------------------------------------------------------------- */

static int compare_ints(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* The number of cables upward that most leaves with NICs have; -1: under three leaves,
 * or no such number. */
static int usual_trunks(const struct topology *t, const struct trunk *k, int *leaves)
{
    int *up = xcalloc((size_t)t->n_switches + 1, sizeof(*up)), n = 0, usual, same = 0;

    for (int w = 0; w < t->n_switches; w++)
        if (t->switches[w].level == 0 && k[w].nics)
            up[n++] = k[w].up;
    qsort(up, (size_t)n, sizeof(*up), compare_ints);
    usual = n ? up[n / 2] : -1;
    for (int i = 0; i < n; i++)
        same += up[i] == usual;
    free(up);
    *leaves = n;
    return n >= 3 && same * 2 > n ? usual : -1;
}

static int cables_between(const struct topology *t, int leaf, int spine)
{
    int n = 0;

    for (int i = 0; i < t->n_links; i++)
        if ((t->links[i].from == leaf && t->links[i].to == spine) ||
            (t->links[i].to == leaf && t->links[i].from == spine))
            n += t->links[i].count;
    return n;
}

/* Which spines: those to which another, whole leaf has more cables than this one. */
static void add_lost(const struct topology *t, const struct trunk *k, int leaf,
                     int usual, struct str *out)
{
    int whole = 0, named = 0;

    while (whole < t->n_switches &&
           !(t->switches[whole].level == 0 && k[whole].nics && k[whole].up == usual))
        whole++;
    for (int w = 0; whole < t->n_switches && w < t->n_switches; w++) {
        int have, want;
        if (t->switches[w].level == 0)
            continue;
        have = cables_between(t, leaf, w);
        want = cables_between(t, whole, w);
        if (have >= want)
            continue;
        if (named++ < 4)
            str_addf(out, "%s%s (%d of %d)", named == 1 ? ": fewer to " : ", ",
                     t->switches[w].name, have, want);
    }
    if (named > 4)
        str_addf(out, " and %d more", named - 4);
}

void inspect_trunks(struct topology *t)
{
    struct trunk *k = count_trunks(t);
    int leaves, usual = usual_trunks(t, k, &leaves);

    for (int w = 0; usual > 0 && w < t->n_switches; w++) {
        struct str lost = STR_INIT;
        int half = k[w].up * 2 <= usual;
        if (t->switches[w].level != 0 || !k[w].nics || k[w].up >= usual)
            continue;
        add_lost(t, k, w, usual, &lost);
        topology_find_once(
            t, half ? SEVERITY_FAIL : SEVERITY_WARN, t->switches[w].name,
            "the leaf has %d cables upward, most of the %d leaves have "
            "%d%s%s: look for cables that are out, or ports that are off",
            k[w].up, leaves, usual, half ? " (half or less)" : "",
            lost.len ? lost.text : "");
        str_release(&lost);
    }
    free(k);
}

/* --- tiers ----------------------------------------------------------------------------------- */

void inspect_oversubscription(struct topology *t)
{
    double up[LEVELS_MAX] = { 0 }, down[LEVELS_MAX] = { 0 };
    int switches[LEVELS_MAX] = { 0 };
    struct trunk *k = count_trunks(t);

    for (int w = 0; w < t->n_switches; w++) {
        int level = t->switches[w].level;
        if (level < 0 || level >= LEVELS_MAX || t->switches[w].kind[0] || !k[w].up)
            continue; /* the top, or nothing is known of what is above */
        up[level] += k[w].up_gbits;
        down[level] += k[w].down_gbits;
        switches[level]++;
    }
    for (int level = 0; level < LEVELS_MAX; level++) {
        char object[96];
        if (!switches[level] || !(up[level] > 0) || !(down[level] > up[level] * 1.1))
            continue; /* as well when one is NAN */
        snprintf(object, sizeof(object), "tier %d (%s)", level,
                 level ? "spines" : "leaves");
        topology_find_once(
            t, SEVERITY_WARN, object,
            "oversubscribed %.1f:1: %.1f Tb/s come from below, %.1f Tb/s "
            "go up, over %d switches: traffic that must go up shares this",
            down[level] / up[level], down[level] / 1000, up[level] / 1000,
            switches[level]);
    }
    free(k);
}

/* --- planes ------------------------------------------------------------------------------------ */

static int root_of(int *parent, int i)
{
    while (parent[i] != i) {
        parent[i] = parent[parent[i]];
        i = parent[i];
    }
    return i;
}

/* Parts of the fabric that carry compute NICs, numbered in the order of their first
 * switch; plane[w] by switch, the caller's.  The number of them. */
static int number_planes(const struct topology *t, int **out)
{
    int *parent = xcalloc((size_t)t->n_switches + 1, sizeof(*parent)), n = 0;
    int *plane = xcalloc((size_t)t->n_switches + 1, sizeof(*plane));

    for (int i = 0; i < t->n_switches; i++) {
        parent[i] = i;
        plane[i] = -1;
    }
    for (int i = 0; i < t->n_links; i++)
        parent[root_of(parent, t->links[i].from)] = root_of(parent, t->links[i].to);
    for (int i = 0; i < t->n_nodes; i++)
        for (int c = 0; c < t->nodes[i].n_nics; c++) {
            const struct nic *nic = &t->nodes[i].nics[c];
            if (nic->leaf >= 0 && nic->kind == NIC_COMPUTE)
                plane[root_of(parent, nic->leaf)] = 0;
        }
    for (int i = 0; i < t->n_switches; i++) /* roots first, ... */
        if (parent[i] == i && plane[i] == 0)
            plane[i] = n++;
    for (int i = 0; i < t->n_switches; i++) /* ... then who hangs on them */
        plane[i] = plane[root_of(parent, i)];
    free(parent);
    *out = plane;
    return n;
}

/* Leaves without links are no planes: nothing is known of what joins them. */
void inspect_planes(struct topology *t)
{
    int *plane, n, shared = 0;

    if (t->n_links == 0)
        return;
    n = number_planes(t, &plane);
    for (int i = 0; n > 1 && i < t->n_nodes && !shared; i++) {
        int first = -1;
        for (int c = 0; c < t->nodes[i].n_nics; c++) {
            const struct nic *nic = &t->nodes[i].nics[c];
            int here =
                nic->leaf >= 0 && nic->kind == NIC_COMPUTE ? plane[nic->leaf] : -1;
            shared |= here >= 0 && first >= 0 && here != first;
            first = first < 0 ? here : first;
        }
    }
    for (int i = 0; shared && i < t->n_nodes; i++)
        for (int c = 0; c < t->nodes[i].n_nics; c++) {
            struct nic *nic = &t->nodes[i].nics[c];
            if (nic->plane < 0 && nic->leaf >= 0 && nic->kind == NIC_COMPUTE)
                nic->plane = plane[nic->leaf];
        }
    free(plane);
}
