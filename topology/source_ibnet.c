/* An InfiniBand fabric out of ibnetdiscover's text. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "recipes/yaml.h"
#include "topology/hostlist.h"
#include "topology/ibnet.h"
#include "topology/source.h"
#include "topology/topology.h"

enum { FAR = 32, SLOW_MAX = 100 };

/* What is known of a device while the topology is made. */
struct place {
    int level;    /* switches: 0 leaf; FAR: joined to no leaf */
    int adapters; /* cables to them */
    int switches;
    int index; /* of switches: in topology.switches */
};

/* An adapter as a NIC. */
struct adapter {
    char host[64], name[32];
    int number; /* HCA-6 and mlx5_5 are 5 */
    int device, leaf;
    double gbits_per_s;
};

struct build {
    const struct ibnet *n;
    struct place *place; /* [n->n_devices] */
    int n_adapters;
    struct adapter *adapter;
    struct topology *t;
};

/* SHARP's own node in a switch: no host. */
static int is_aggregation(const struct ib_device *d)
{
    return strstr(d->name, "Aggregation Node") != NULL;
}

static int is_host(const struct ib_device *d)
{
    return d->kind == IB_ADAPTER && !is_aggregation(d);
}

/* --- levels ------------------------------------------------------------------------------- */

static void count_cables(struct build *b)
{
    for (int i = 0; i < b->n->n_cables; i++) {
        int end[] = { b->n->cable[i].a.device, b->n->cable[i].b.device };
        for (int k = 0; k < 2; k++) {
            const struct ib_device *peer = &b->n->device[end[1 - k]];
            b->place[end[k]].adapters += is_host(peer);
            b->place[end[k]].switches += peer->kind == IB_SWITCH;
        }
    }
}

/* A spine with one or two hosts of the fabric's management is no leaf. */
static int looks_like_leaf(const struct build *b, int i)
{
    const struct place *p = &b->place[i];

    return b->n->device[i].kind == IB_SWITCH && p->adapters > 0 &&
           p->adapters * 8 > p->switches;
}

/* Switches one cable further from the leaves. */
static int raise_level(struct build *b, int level)
{
    int found = 0;

    for (int i = 0; i < b->n->n_cables; i++) {
        int end[] = { b->n->cable[i].a.device, b->n->cable[i].b.device };
        for (int k = 0; k < 2; k++) {
            struct place *p = &b->place[end[k]];
            if (b->n->device[end[k]].kind == IB_SWITCH && p->level == FAR &&
                b->n->device[end[1 - k]].kind == IB_SWITCH &&
                b->place[end[1 - k]].level == level - 1) {
                p->level = level;
                found = 1;
            }
        }
    }
    return found;
}

static void find_levels(struct build *b)
{
    int leaves = 0;

    count_cables(b);
    for (int i = 0; i < b->n->n_devices; i++) {
        b->place[i].level = looks_like_leaf(b, i) ? 0 : FAR;
        leaves += b->place[i].level == 0;
    }
    for (int i = 0; i < b->n->n_devices && leaves == 0; i++)
        if (b->n->device[i].kind == IB_SWITCH && b->place[i].adapters)
            b->place[i].level = 0;
    for (int level = 1; level < FAR && raise_level(b, level); level++)
        ;
}

/* --- switches ------------------------------------------------------------------------------- */

/* "MF0;A09-P1-IBLEAF-04-04:MQM9701/U1" is A09-P1-IBLEAF-04-04. */
static void switch_name(const struct ib_device *d, char out[64])
{
    const char *start = strchr(d->name, ';');
    size_t n;

    start = start ? start + 1 : d->name;
    n = strcspn(start, ":");
    snprintf(out, 64, "%.*s", (int)(n < 63 ? n : 63), start);
    for (char *c = out; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
            *c = '-';
    if (!hostlist_name_valid(out))
        snprintf(out, 64, "S-%016llx", (unsigned long long)d->guid);
}

/* Sorts devices by level and name. */
struct named {
    int device, level;
    char name[64];
};

static int compare_named(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    int c = strcmp(x->name, y->name);

    if (x->level != y->level)
        return x->level - y->level;
    return c ? c : x->device - y->device;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

/* A name that two switches share names neither: both go by their GUIDs. */
static void part_names(const struct build *b, struct named *s, int n)
{
    qsort(s, (size_t)n, sizeof(*s), compare_names);
    for (int i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && str_eq(s[j].name, s[i].name); j++)
            ;
        for (int k = i; k < j && j - i > 1; k++)
            snprintf(s[k].name, sizeof(s[k].name), "S-%016llx",
                     (unsigned long long)b->n->device[s[k].device].guid);
    }
}

static void build_switches(struct build *b)
{
    struct named *s = xcalloc((size_t)b->n->n_devices + 1, sizeof(*s));
    int n = 0;

    for (int i = 0; i < b->n->n_devices; i++)
        if (b->n->device[i].kind == IB_SWITCH) {
            s[n] = (struct named){ .device = i, .level = b->place[i].level };
            switch_name(&b->n->device[i], s[n++].name);
        }
    part_names(b, s, n);
    qsort(s, (size_t)n, sizeof(*s), compare_named);
    b->t->n_switches = n;
    b->t->switches = xcalloc((size_t)n + 1, sizeof(*b->t->switches));
    for (int i = 0; i < n; i++) {
        struct fabric_switch *w = &b->t->switches[i];
        memcpy(w->name, s[i].name, sizeof(w->name));
        snprintf(w->guid, sizeof(w->guid), "0x%016llx",
                 (unsigned long long)b->n->device[s[i].device].guid);
        w->level = s[i].level == FAR ? 1 : s[i].level;
        b->place[s[i].device].index = i;
    }
    free(s);
}

/* --- links ------------------------------------------------------------------------------------ */

static int compare_links(const void *a, const void *b)
{
    const struct fabric_link *x = a, *y = b;

    return x->from != y->from ? x->from - y->from : x->to - y->to;
}

/* Parallel cables are one link, as fast as its slowest. */
static void unite_links(struct topology *t)
{
    int kept = 0;

    qsort(t->links, (size_t)t->n_links, sizeof(*t->links), compare_links);
    for (int i = 0; i < t->n_links; i++) {
        struct fabric_link *l = &t->links[i], *last = kept ? &t->links[kept - 1] : NULL;
        if (last && last->from == l->from && last->to == l->to) {
            last->count++;
            if (l->gbits_per_s < last->gbits_per_s)
                last->gbits_per_s = l->gbits_per_s;
        } else
            t->links[kept++] = *l;
    }
    t->n_links = kept;
}

static void build_links(struct build *b)
{
    struct topology *t = b->t;

    t->links = xcalloc((size_t)b->n->n_cables + 1, sizeof(*t->links));
    for (int i = 0; i < b->n->n_cables; i++) {
        const struct ib_cable *c = &b->n->cable[i];
        int from = b->place[c->a.device].index, to = b->place[c->b.device].index;
        if (b->n->device[c->a.device].kind != IB_SWITCH ||
            b->n->device[c->b.device].kind != IB_SWITCH || from == to)
            continue;
        if (from > to) { /* switches are sorted by level */
            int turn = from;
            from = to;
            to = turn;
        }
        t->links[t->n_links++] = (struct fabric_link){ from, to, 1, c->gbits_per_s };
    }
    unite_links(t);
}

/* --- adapters ----------------------------------------------------------------------------------- */

/* "gn07 HCA-6" and "gn07 mlx5_5" name a host and its adapter; "MT4129 ConnectX7 ..."
 * and "localhost mlx5_0" do not, and such an adapter stands alone under its GUID. */
static void name_adapter(const struct ib_device *d, struct adapter *a)
{
    char host[65], port[65], more;
    const char *digits;
    int n = sscanf(d->name, "%64s %64s %c", host, port, &more);

    digits = n == 2 ? strpbrk(port, "-_") : NULL;
    a->number = digits && isdigit((unsigned char)digits[1])
                    ? (int)strtol(digits + 1, NULL, 10) - (*digits == '-')
                    : -1;
    if (a->number < 0 || a->number > 255 || strlen(host) > 63 || strlen(port) > 31 ||
        !hostlist_name_valid(host) || strncmp(host, "localhost", 9) == 0) {
        a->number = -1;
        snprintf(host, sizeof(host), "ca-%016llx", (unsigned long long)d->guid);
        snprintf(port, sizeof(port), "ca");
    }
    snprintf(a->host, sizeof(a->host), "%.63s", host);
    snprintf(a->name, sizeof(a->name), "%.31s", port);
}

static int compare_adapters(const void *a, const void *b)
{
    const struct adapter *x = a, *y = b;
    int c = strcmp(x->host, y->host);

    if (c || x->number != y->number)
        return c ? c : x->number - y->number;
    return x->device - y->device;
}

/* The leaf of an adapter is that of its first cable. */
static void collect_adapters(struct build *b)
{
    int *of = xcalloc((size_t)b->n->n_devices + 1, sizeof(*of));

    b->adapter = xcalloc((size_t)b->n->n_devices + 1, sizeof(*b->adapter));
    for (int i = 0; i < b->n->n_devices; i++) {
        of[i] = -1;
        if (!is_host(&b->n->device[i]))
            continue;
        of[i] = b->n_adapters;
        b->adapter[b->n_adapters] =
            (struct adapter){ .device = i, .leaf = -1, .gbits_per_s = -1 };
        name_adapter(&b->n->device[i], &b->adapter[b->n_adapters++]);
    }
    for (int i = 0; i < b->n->n_cables; i++) {
        const struct ib_cable *c = &b->n->cable[i];
        int end[] = { c->a.device, c->b.device };
        for (int k = 0; k < 2; k++) {
            struct adapter *a = of[end[k]] >= 0 ? &b->adapter[of[end[k]]] : NULL;
            if (!a || a->leaf >= 0 || b->n->device[end[1 - k]].kind != IB_SWITCH)
                continue;
            a->leaf = b->place[end[1 - k]].index;
            a->gbits_per_s = c->gbits_per_s;
        }
    }
    free(of);
    qsort(b->adapter, (size_t)b->n_adapters, sizeof(*b->adapter), compare_adapters);
}

static void build_nic(const struct build *b, const struct adapter *a, struct node *n)
{
    struct nic *c;
    int repeat = n->n_nics && str_eq(n->nics[n->n_nics - 1].name, a->name);

    c = topology_add_nic(n);
    snprintf(c->guid, sizeof(c->guid), "0x%016llx",
             (unsigned long long)b->n->device[a->device].guid);
    snprintf(c->name, sizeof(c->name), "%s", repeat ? c->guid : a->name);
    c->kind = NIC_COMPUTE;
    c->layer = LINK_INFINIBAND;
    c->up = a->leaf >= 0;
    c->rail = a->number;
    c->leaf = a->leaf;
    c->gbits_per_s = a->gbits_per_s;
}

static void build_nodes(struct build *b)
{
    struct topology *t = b->t;

    for (int i = 0; i < b->n_adapters; i++) {
        const struct adapter *a = &b->adapter[i];
        if (i == 0 || !str_eq(a->host, a[-1].host)) {
            struct node *n = topology_add_node(t);
            snprintf(n->name, sizeof(n->name), "%s", a->host);
        }
        build_nic(b, a, &t->nodes[t->n_nodes - 1]);
    }
}

/* --- slow cables ---------------------------------------------------------------------------------- */

static int compare_reals(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The rate that most cables to adapters (or between switches) have. */
static double usual_rate(const struct build *b, int to_adapters)
{
    double *rate = xcalloc((size_t)b->n->n_cables + 1, sizeof(*rate)), median;
    int n = 0;

    for (int i = 0; i < b->n->n_cables; i++) {
        const struct ib_cable *c = &b->n->cable[i];
        const struct ib_device *x = &b->n->device[c->a.device],
                               *y = &b->n->device[c->b.device];
        if (c->gbits_per_s > 0 && !is_aggregation(x) && !is_aggregation(y) &&
            (x->kind != IB_SWITCH || y->kind != IB_SWITCH) == to_adapters)
            rate[n++] = c->gbits_per_s;
    }
    qsort(rate, (size_t)n, sizeof(*rate), compare_reals);
    median = n ? rate[n / 2] : -1;
    free(rate);
    return median;
}

static void note_slow(struct build *b)
{
    const double usual[] = { usual_rate(b, 0), usual_rate(b, 1) };
    int said = 0;

    for (int i = 0; i < b->n->n_cables && said < SLOW_MAX; i++) {
        const struct ib_cable *c = &b->n->cable[i];
        const struct ib_device *x = &b->n->device[c->a.device],
                               *y = &b->n->device[c->b.device];
        int s = x->kind != IB_SWITCH || y->kind != IB_SWITCH;
        if (c->gbits_per_s <= 0 || c->gbits_per_s >= usual[s] || is_aggregation(x) ||
            is_aggregation(y))
            continue;
        topology_find(b->t, SEVERITY_WARN, x->name,
                      "port %d to port %d of %s runs at %.0f Gb/s, its like at %.0f: "
                      "check the cable and both ports",
                      c->a.port, c->b.port, y->name, c->gbits_per_s, usual[s]);
        said++;
    }
}

/* --- whole ------------------------------------------------------------------------------------------ */

static int has_switch(const struct ibnet *n)
{
    for (int i = 0; i < n->n_devices; i++)
        if (n->device[i].kind == IB_SWITCH)
            return 1;
    return 0;
}

static int build(const struct ibnet *n, const char *where, struct topology **out,
                 struct err *err)
{
    const char *slash = strrchr(where, '/');
    struct build b = { .n = n };
    char source[64];

    snprintf(source, sizeof(source), "ibnet:%.55s", slash ? slash + 1 : where);
    b.place = xcalloc((size_t)n->n_devices + 1, sizeof(*b.place));
    b.t = topology_new(source, 0);
    b.t->by_guid = 1;
    find_levels(&b);
    build_switches(&b);
    build_links(&b);
    collect_adapters(&b);
    build_nodes(&b);
    note_slow(&b);
    free(b.place);
    free(b.adapter);
    if (topology_validate(b.t, err) < 0) {
        topology_free(b.t);
        return err_wrap(err, "%s", where);
    }
    *out = b.t;
    return 0;
}

int topology_from_ibnet_text(const char *text, size_t len, const char *where,
                             struct topology **out, struct err *err)
{
    struct ibnet n = { 0 };
    int rc;

    if (ibnet_parse(text, len, where, &n, err) < 0)
        return -1;
    if (n.n_devices == 0)
        rc = err_set(err, ERR_USAGE,
                     "%s: no Switch and no Ca: this is no output of "
                     "ibnetdiscover",
                     where);
    else if (!has_switch(&n))
        rc = err_set(err, ERR_MISSING,
                     "%s: no switches found: only the local adapter answered; run "
                     "ibnetdiscover with rights on the fabric (root, or access to "
                     "/dev/infiniband/umad*)",
                     where);
    else
        rc = build(&n, where, out, err);
    ibnet_release(&n);
    return rc;
}

int topology_from_ibnet(const char *path, struct topology **out, struct err *err)
{
    char *text;
    size_t len;
    int rc;

    if (yaml_read_file(path, IBNET_MAX_BYTES, &text, &len, err) < 0)
        return -1;
    rc = topology_from_ibnet_text(text, len, path, out, err);
    free(text);
    return rc;
}
