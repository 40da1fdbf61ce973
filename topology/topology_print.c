/* Topology as a text tree.  Nodes that differ in nothing but who they are and where they
 * hang are printed once, under a host list. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "topology/hostlist.h"
#include "topology/print.h"
#include "topology/topology.h"

/* Where to break the rest of a line: after the last ", " that fits, else at the last
 * blank, else behind the last comma (of a host list), else at the next blank. */
static size_t break_at(const char *text, size_t width)
{
    size_t comma = 0, blank = 0, item = 0, n = strlen(text);

    if (n <= width)
        return n;
    for (size_t i = 1; i <= width; i++) {
        if (text[i] == ' ' && strchr(",;:", text[i - 1]))
            comma = i;
        else if (text[i] == ' ')
            blank = i;
        else if (text[i - 1] == ',')
            item = i;
    }
    if (comma > width / 2)
        return comma;
    if (blank > width / 3)
        return blank;
    return item > width / 3 ? item : width + strcspn(text + width, " ");
}

void print_line(FILE *fp, int indent, const char *fmt, ...)
{
    size_t width = PRINT_WIDTH;
    char *line, *rest;
    va_list ap;

    va_start(ap, fmt);
    line = rest = xvasprintf(fmt, ap);
    va_end(ap);
    while (*rest) {
        size_t n = break_at(rest, width);
        fprintf(fp, "%.*s\n", (int)n, rest);
        rest += n;
        rest += strspn(rest, " ");
        if (*rest)
            fprintf(fp, "%*s", indent, "");
        width = PRINT_WIDTH - (size_t)indent;
    }
    free(line);
}

/* --- nodes ------------------------------------------------------------------------------ */

/* A node and its lines without identity and place. */
struct alike {
    char *text;
    int node, first; /* of its group */
};

static int compare_text(const void *a, const void *b)
{
    const struct alike *x = a, *y = b;
    int c = strcmp(x->text, y->text);

    return c ? c : x->node - y->node;
}

static int compare_first(const void *a, const void *b)
{
    const struct alike *x = a, *y = b;

    return x->first != y->first ? x->first - y->first : x->node - y->node;
}

/* All nodes, group after group, in the order of the first of each. */
static struct alike *group_nodes(const struct topology *t)
{
    struct alike *a = xcalloc((size_t)t->n_nodes + 1, sizeof(*a));

    for (int i = 0; i < t->n_nodes; i++)
        a[i] = (struct alike){ print_node(t, &t->nodes[i], 0), i, i };
    qsort(a, (size_t)t->n_nodes, sizeof(*a), compare_text);
    for (int i = 1; i < t->n_nodes; i++)
        if (str_eq(a[i].text, a[i - 1].text))
            a[i].first = a[i - 1].first;
    qsort(a, (size_t)t->n_nodes, sizeof(*a), compare_first);
    return a;
}

static char *fold(const struct topology *t, const struct alike *a, int n)
{
    struct strlist names = { 0 };
    char *folded;

    for (int i = 0; i < n; i++)
        strlist_add(&names, t->nodes[a[i].node].name);
    folded = hostlist_fold(&names);
    strlist_release(&names);
    return folded;
}

/* The place of the first, where all n have it. */
static char *common_text(const struct topology *t, const struct alike *a, int n)
{
    char *first = print_node(t, &t->nodes[a[0].node], PRINT_PLACE);

    for (int i = 1; i < n; i++) {
        char *other = print_node(t, &t->nodes[a[i].node], PRINT_PLACE);
        int same = str_eq(first, other);
        free(other);
        if (!same) {
            free(first);
            return xstrdup(a[0].text);
        }
    }
    return first;
}

/* Is this line (of n bytes, its end included) one of text? */
static int has_line(const char *text, const char *line, size_t n)
{
    for (const char *at = text; *at; at += strcspn(at, "\n") + 1)
        if (strncmp(at, line, n) == 0)
            return 1;
    return 0;
}

/* Lines of `text` that `other` has not, each after `mark`; NULL: they are counted only. */
static int print_unlike(const char *text, const char *other, const char *mark, FILE *fp)
{
    int n = 0;

    for (const char *at = text; *at; at += strcspn(at, "\n") + 1) {
        size_t len = strcspn(at, "\n") + 1;
        if (has_line(other, at, len))
            continue;
        n++;
        if (fp)
            fprintf(fp, "%s%.*s", mark, (int)len, at);
    }
    return n;
}

static int count_lines(const char *text)
{
    int n = 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

/* Most of it is as in the first group: only the rest is told. */
static int print_as_first(const struct topology *t, const struct alike *first,
                          const struct alike *a, FILE *fp)
{
    if (a == first ||
        print_unlike(a->text, first->text, "", NULL) * 2 > count_lines(a->text) ||
        print_unlike(first->text, a->text, "", NULL) * 2 > count_lines(first->text))
        return 0;
    fprintf(fp, "  as %s, but for\n", t->nodes[first->node].name);
    print_unlike(a->text, first->text, "+", fp);
    print_unlike(first->text, a->text, "-", fp);
    return 1;
}

static void print_group(const struct topology *t, const struct alike *all,
                        const struct alike *a, int n, FILE *fp)
{
    const struct node *first = &t->nodes[a[0].node];
    char *text, *names = fold(t, a, n);

    if (n == 1)
        fprintf(fp, "node %s%s%s\n", first->name, first->boot_id[0] ? "  boot id " : "",
                first->boot_id);
    else
        print_line(fp, 8, "node %s (%d alike)", names, n);
    free(names);
    if (print_as_first(t, all, a, fp))
        return;
    text = n == 1 ? print_node(t, first, PRINT_PLACE | PRINT_IDENTITY)
                  : common_text(t, a, n);
    fputs(text, fp);
    free(text);
}

static void print_nodes(const struct topology *t, FILE *fp)
{
    struct alike *a = group_nodes(t);

    for (int i = 0, to; i < t->n_nodes; i = to) {
        to = i + 1;
        while (to < t->n_nodes && a[to].first == a[i].first)
            to++;
        print_group(t, a, a + i, to - i, fp);
    }
    for (int i = 0; i < t->n_nodes; i++)
        free(a[i].text);
    free(a);
}

void topology_print(const struct topology *t, FILE *fp)
{
    print_line(fp, 8, "topology from %s%s: %d node%s", t->source,
               t->simulated ? " (simulated: described, not looked at)" : "", t->n_nodes,
               t->n_nodes == 1 ? "" : "s");
    print_nodes(t, fp);
    print_fabric(t, fp);
    print_findings(t, fp);
}
