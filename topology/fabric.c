#include "topology/fabric.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "topology/hostlist.h"
#include "topology/inspect.h"
#include "topology/topology.h"

/* --- who is joined ---------------------------------------------------------------- */

/* The representative of a switch; paths are halved on the way. */
static int root_of(int *parent, int i)
{
    while (parent[i] != i) {
        parent[i] = parent[parent[i]];
        i = parent[i];
    }
    return i;
}

/* Switches that are linked, and leaves that one node joins by its NICs, have one
 * representative.  The caller's to free(). */
static int *join_switches(const struct topology *t)
{
    int *parent = xcalloc((size_t)t->n_switches + 1, sizeof(*parent));

    for (int i = 0; i < t->n_switches; i++)
        parent[i] = i;
    for (int i = 0; i < t->n_links; i++)
        parent[root_of(parent, t->links[i].from)] = root_of(parent, t->links[i].to);
    for (int i = 0; i < t->n_nodes; i++) {
        const struct node *n = &t->nodes[i];
        int first = n->leaf;
        for (int k = 0; k < n->n_nics; k++) {
            if (n->nics[k].leaf < 0)
                continue;
            if (first >= 0)
                parent[root_of(parent, n->nics[k].leaf)] = root_of(parent, first);
            first = n->nics[k].leaf;
        }
    }
    return parent;
}

/* Some switch that node n hangs on; -1 unknown. */
static int switch_of(const struct node *n)
{
    if (n->leaf >= 0)
        return n->leaf;
    for (int k = 0; k < n->n_nics; k++)
        if (n->nics[k].leaf >= 0)
            return n->nics[k].leaf;
    return -1;
}

int fabric_check_span(const struct topology *t, const int *node, int n, struct err *err)
{
    int *parent = join_switches(t), first = -1, rc = 0;

    for (int i = 0; i < n && rc == 0 && t->n_links; i++) {
        int w = switch_of(&t->nodes[node[i]]);
        /* blocks and rings stand apart and are joined all the same */
        if (w < 0 || t->switches[w].kind[0])
            continue;
        if (first < 0)
            first = i;
        else if (root_of(parent, w) !=
                 root_of(parent, switch_of(&t->nodes[node[first]])))
            rc =
                err_set(err, ERR_FAILED,
                        "no link joins the switches of %s and %s: no job can span them "
                        "(take nodes below one switch, or add the link to %s)",
                        t->nodes[node[first]].name, t->nodes[node[i]].name, t->source);
    }
    free(parent);
    return rc;
}

int fabric_components(const struct topology *t, int *component)
{
    int *parent = join_switches(t), n = 0;
    int *seen = xcalloc((size_t)t->n_switches + 1, sizeof(*seen));

    for (int i = 0; i < t->n_nodes; i++) {
        int w = switch_of(&t->nodes[i]);
        component[i] = -1;
        if (w < 0 || t->switches[w].kind[0] || !t->n_links) /* as above */
            continue;
        w = root_of(parent, w);
        if (!seen[w])
            seen[w] = ++n;
        component[i] = seen[w] - 1;
    }
    free(seen);
    free(parent);
    return n;
}

int fabric_same_nvlink(const struct topology *t, int a, int b)
{
    const char *x = t->nodes[a].nvlink_domain, *y = t->nodes[b].nvlink_domain;

    if (a == b)
        return 1;
    return *x && *y ? strcmp(x, y) == 0 : -1;
}

int fabric_check_nvlink(const struct topology *t, const int *node, int n,
                        struct err *err)
{
    for (int i = 1; i < n; i++) {
        int same = fabric_same_nvlink(t, node[0], node[i]);
        if (same != 1)
            return err_set(err, ERR_FAILED, "%s and %s are not NVLink: %s",
                           t->nodes[node[0]].name, t->nodes[node[i]].name,
                           same == 0 ? "their domains differ (ClusterUUID.CliqueId)"
                                     : "the domain of one is unknown");
    }
    return 0;
}

/* --- blocks and NVLink domains -------------------------------------------------------- */

/* The nodes of block w that have a domain, domain by domain. */
static void add_domain(const struct topology *t, int w, const char *domain,
                       struct str *out)
{
    struct strlist names = { 0 };
    char *folded;

    for (int i = 0; i < t->n_nodes; i++)
        if (t->nodes[i].leaf == w && str_eq(t->nodes[i].nvlink_domain, domain))
            strlist_add(&names, t->nodes[i].name);
    folded = hostlist_fold(&names);
    str_addf(out, "%s%s", out->len ? "; " : "", folded);
    free(folded);
    strlist_release(&names);
}

/* Domains of a rack are few: at most this many are told apart. */
enum { DOMAINS_MAX = 32 };

static void inspect_block(struct topology *t, int w)
{
    const char *seen[DOMAINS_MAX];
    struct str text = STR_INIT;
    int n = 0;

    for (int i = 0; i < t->n_nodes && n < DOMAINS_MAX; i++) {
        const char *domain = t->nodes[i].nvlink_domain;
        int known = t->nodes[i].leaf != w || !*domain;
        for (int k = 0; k < n && !known; k++)
            known = str_eq(seen[k], domain);
        if (!known)
            seen[n++] = domain;
    }
    for (int k = 0; k < n && n > 1; k++)
        add_domain(t, w, seen[k], &text);
    if (n > 1)
        topology_find_once(t, SEVERITY_WARN, t->switches[w].name,
                           "the block is no single NVLink domain: %s are apart, so a "
                           "group that needs NVLink stays inside one of them",
                           text.text);
    str_release(&text);
}

/* --- rails ------------------------------------------------------------------------------ */

/* Which compute NIC of its node is this: 0, 1, ...; -1 none. */
static int rail_of(const struct topology *t, const struct node *n, int nic)
{
    int rail = 0;

    if (n->nics[nic].kind != NIC_COMPUTE)
        return -1;
    if (n->nics[nic].rail >= 0 || t->by_guid) /* then a node may miss some NICs */
        return n->nics[nic].rail;
    for (int i = 0; i < nic; i++)
        rail += n->nics[i].kind == NIC_COMPUTE;
    return rail;
}

enum { RAILS_MAX = 64 };

/* count[leaf * RAILS_MAX + rail]: NICs. */
static int *count_rails(const struct topology *t)
{
    int *count = xcalloc((size_t)t->n_switches * RAILS_MAX + 1, sizeof(*count));

    for (int i = 0; i < t->n_nodes; i++)
        for (int k = 0; k < t->nodes[i].n_nics; k++) {
            int rail = rail_of(t, &t->nodes[i], k), leaf = t->nodes[i].nics[k].leaf;
            if (leaf >= 0 && rail >= 0 && rail < RAILS_MAX)
                count[(size_t)leaf * RAILS_MAX + (size_t)rail]++;
        }
    return count;
}

/* The rail that a leaf carries: more than three quarters of its NICs, and three at
 * least; -1 when it carries a mixture. */
static int majority(const int *count)
{
    int best = 0, sum = 0;

    for (int r = 0; r < RAILS_MAX; r++) {
        sum += count[r];
        best = count[r] > count[best] ? r : best;
    }
    return count[best] >= 3 && count[best] * 4 > sum * 3 ? best : -1;
}

static void report_miswire(struct topology *t, const struct node *n, int nic, int want)
{
    char object[96];

    snprintf(object, sizeof(object), "%.60s %s", n->name, n->nics[nic].name);
    topology_find_once(
        t, SEVERITY_FAIL, object,
        "miswired: rail %d, but leaf %s carries rail %d: the cable belongs on "
        "that rail's leaf",
        rail_of(t, n, nic), t->switches[n->nics[nic].leaf].name, want);
}

/* A fabric is rail-optimised when most leaves carry one rail, and two rails at least
 * are seen. */
static int is_railed(const struct topology *t, const int *count)
{
    int leaves = 0, clear = 0, first = -1, several = 0;

    for (int w = 0; w < t->n_switches; w++) {
        const int *c = count + (size_t)w * RAILS_MAX;
        int rail = majority(c), any = 0;
        for (int r = 0; r < RAILS_MAX && t->switches[w].level == 0; r++)
            any |= c[r];
        leaves += any > 0;
        clear += rail >= 0;
        several |= rail >= 0 && first >= 0 && rail != first;
        first = rail >= 0 ? rail : first;
    }
    return several && clear * 4 > leaves * 3;
}

static void inspect_node(struct topology *t, struct node *n, const int *count)
{
    for (int k = 0; k < n->n_nics; k++) {
        int rail = rail_of(t, n, k), leaf = n->nics[k].leaf, want;
        if (leaf < 0 || rail < 0)
            continue;
        want = majority(count + (size_t)leaf * RAILS_MAX);
        if (want >= 0 && want != rail)
            report_miswire(t, n, k, want);
        else if (want >= 0)
            n->nics[k].rail = rail;
    }
}

static int count_compute(const struct node *n)
{
    int count = 0;

    for (int k = 0; k < n->n_nics; k++)
        count += n->nics[k].kind == NIC_COMPUTE;
    return count;
}

/* How many compute NICs most nodes have. */
static int usual_nics(const struct topology *t)
{
    int nodes[RAILS_MAX] = { 0 }, best = 0;

    for (int i = 0; i < t->n_nodes; i++) {
        int count = count_compute(&t->nodes[i]);
        if (count > 1 && count < RAILS_MAX)
            nodes[count]++;
    }
    for (int n = 0; n < RAILS_MAX; n++)
        best = nodes[n] > nodes[best] ? n : best;
    return best;
}

/* Hosts that only a fabric knows may manage it: those with half the usual NICs or
 * fewer are on no rail. */
static void inspect_rails(struct topology *t)
{
    int *count = count_rails(t), usual = t->by_guid ? usual_nics(t) : 0;

    if (is_railed(t, count))
        for (int i = 0; i < t->n_nodes; i++)
            if (!t->by_guid || 2 * count_compute(&t->nodes[i]) > usual)
                inspect_node(t, &t->nodes[i], count);
    free(count);
}

void fabric_inspect(struct topology *t)
{
    for (int w = 0; w < t->n_switches; w++)
        if (str_eq(t->switches[w].kind, "block"))
            inspect_block(t, w);
    inspect_rails(t);
    inspect_planes(t);
    inspect_trunks(t);
    inspect_oversubscription(t);
    inspect_slow_nics(t);
    inspect_differ(t);
}
