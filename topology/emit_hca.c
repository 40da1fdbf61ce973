/* NCCL_IB_HCA of the nodes, as a piece of shell; what NCCL reads is in emit.h. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "topology/emit.h"
#include "topology/hostlist.h"
#include "topology/topology.h"

enum { NCCL_HCAS_MAX = 32 };

/* What one node gets; nodes that get the same are told together. */
struct choice {
    const struct node *n;
    int hcas;
    char *value, *out; /* the list; what is left out and why, as comments */
};

static int is_rdma(const struct nic *c)
{
    return c->guid[0] || c->port > 0 || c->layer == LINK_INFINIBAND;
}

/* Why a NIC is not in the list; NULL: it is. */
static const char *why_not(const struct nic *c)
{
    if (!is_rdma(c))
        return c->kind == NIC_COMPUTE ? "no RDMA device" : NULL;
    if (c->kind == NIC_COMPUTE)
        return NULL;
    if (c->why[0])
        return c->why;
    return c->kind == NIC_UNKNOWN ? "whether it is for training is not known"
                                  : nic_kind_name(c->kind);
}

static int is_chosen(const struct nic *c)
{
    return is_rdma(c) && c->kind == NIC_COMPUTE;
}

/* HCA[:PORT[:RAIL[:PLANE]]]; an unknown port before a rail stays empty: all ports. */
static void add_hca(struct str *s, const struct nic *c)
{
    const char *colon = strchr(c->name, ':'); /* NAME:PORT of a second port */
    int n = colon ? (int)(colon - c->name) : (int)strlen(c->name);

    str_addf(s, "%s%.*s", s->len > 1 ? "," : "", n, c->name);
    if (c->port > 0)
        str_addf(s, ":%d", c->port);
    if (c->rail >= 0)
        str_addf(s, "%s%d", c->port > 0 ? ":" : "::", c->rail);
    if (c->rail >= 0 && c->plane >= 0)
        str_addf(s, ":%d", c->plane);
}

/* A file may hold any text; a comment ends with its line. */
static int is_one_line(const char *text)
{
    return strpbrk(text, "\n\r") == NULL;
}

static void choose(const struct node *n, struct choice *to)
{
    struct str value = STR_INIT, out = STR_INIT;

    *to = (struct choice){ .n = n };
    str_adds(&value, "=");
    for (int i = 0; i < n->n_nics; i++) {
        const struct nic *c = &n->nics[i];
        const char *why = why_not(c);
        if (is_chosen(c)) {
            add_hca(&value, c);
            to->hcas++;
            why = c->up == 0 ? "its port is down: listed, NCCL passes it over" : NULL;
        }
        if (why)
            str_addf(&out, "#   %s: %s\n", c->name, is_one_line(why) ? why : "?");
    }
    str_adds(&out, "");
    to->value = str_take(&value);
    to->out = str_take(&out);
}

static int compare(const void *a, const void *b)
{
    const struct choice *x = a, *y = b;
    int c = strcmp(x->value, y->value);

    c = c ? c : strcmp(x->out, y->out);
    return c ? c : (x->n > y->n) - (x->n < y->n);
}

static int same_group(const struct choice *a, const struct choice *b)
{
    return str_eq(a->value, b->value) && str_eq(a->out, b->out);
}

/* "n[1-3]" of choices [from, to). */
static char *names_of(const struct choice *c, int from, int to)
{
    struct strlist names = { 0 };
    char *folded;

    for (int i = from; i < to; i++)
        strlist_add(&names, c[i].n->name);
    folded = hostlist_fold(&names);
    strlist_release(&names);
    return folded;
}

/* The text is for a shell: names are letters, digits and "._-:". */
static int is_plain(const char *name)
{
    return name[0] && name[0] != '-' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                        "._-:") == strlen(name);
}

static int check_names(const struct node *n, struct err *err)
{
    if (!is_plain(n->name))
        return err_set(err, ERR_USAGE, "'%s' is no host name for a shell", n->name);
    for (int i = 0; i < n->n_nics; i++)
        if (!is_plain(n->nics[i].name))
            return err_set(err, ERR_USAGE, "%s: '%s' is no name of a NIC for a shell",
                           n->name, n->nics[i].name);
    return 0;
}

static int check(const struct topology *t, const struct choice *c, struct err *err)
{
    int known = 0;

    if (t->by_guid)
        return err_set(
            err, ERR_FAILED,
            "%s: adapters are called what their descriptions say; NCCL wants "
            "the names on the nodes: give a source that knows them first "
            "(sysfs, json, --hosts)",
            t->source);
    for (int i = 0; i < t->n_nodes; i++) {
        known += c[i].hcas > 0;
        if (check_names(c[i].n, err) < 0)
            return -1;
        if (c[i].hcas > NCCL_HCAS_MAX)
            return err_set(err, ERR_FAILED, "%s has %d compute HCAs, NCCL takes %d",
                           c[i].n->name, c[i].hcas, NCCL_HCAS_MAX);
    }
    return known
               ? 0
               : err_set(err, ERR_FAILED,
                         "%s: no node has a compute HCA, so NCCL_IB_HCA has nothing to "
                         "choose (NCCL uses sockets: NCCL_SOCKET_IFNAME)",
                         t->source);
}

static void put_value(const struct choice *c, const char *before, FILE *fp)
{
    if (c->hcas)
        fprintf(fp, "%sexport NCCL_IB_HCA='%s'", before, c->value);
    else
        fprintf(fp, "%sunset NCCL_IB_HCA", before);
}

/* Nodes that differ: the host name decides. */
static void put_case(const struct choice *c, int n, FILE *fp)
{
    fputs("case $(hostname -s) in\n", fp);
    for (int i = 0; i < n; i++) {
        int last = i + 1 == n || !same_group(&c[i], &c[i + 1]);
        fprintf(fp, "%s%s", c[i].n->name, last ? ")" : "|");
        if (last) {
            put_value(&c[i], " ", fp);
            fputs(" ;;\n", fp);
        }
    }
    fputs("esac\n", fp);
}

static void put_choices(const struct topology *t, const struct choice *c, FILE *fp)
{
    int n = t->n_nodes, groups = 0;

    fprintf(fp, "# NCCL's HCAs, by muster%s\n",
            t->simulated ? " (simulated: described, not looked at)" : "");
    for (int i = 0, j; i < n; i = j, groups++) {
        char *names;
        for (j = i + 1; j < n && same_group(&c[i], &c[j]); j++)
            ;
        names = names_of(c, i, j);
        fprintf(fp, "# %s: %d compute HCA%s%s\n%s", names, c[i].hcas,
                c[i].hcas == 1 ? "" : "s",
                c[i].out[0] ? "; not among them or down:" : "", c[i].out);
        free(names);
    }
    if (groups > 1) {
        fprintf(fp, "# The nodes differ in %d ways.\n", groups);
        put_case(c, n, fp);
        return;
    }
    put_value(&c[0], "", fp);
    fputs("\n", fp);
}

int topology_emit_hca(const struct topology *t, FILE *fp, struct err *err)
{
    struct choice *c = xcalloc((size_t)t->n_nodes + 1, sizeof(*c));
    int rc;

    for (int i = 0; i < t->n_nodes; i++)
        choose(&t->nodes[i], &c[i]);
    rc = check(t, c, err);
    if (rc == 0) {
        qsort(c, (size_t)t->n_nodes, sizeof(*c), compare);
        put_choices(t, c, fp);
    }
    for (int i = 0; i < t->n_nodes; i++) {
        free(c[i].value);
        free(c[i].out);
    }
    free(c);
    return rc;
}
