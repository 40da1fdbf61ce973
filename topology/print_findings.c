/* The findings of the text tree. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "topology/hostlist.h"
#include "topology/print.h"
#include "topology/topology.h"

/* A finding, its object taken apart: "n07 gpu 3" is n07 and " gpu 3". */
struct item {
    const struct finding *f;
    int index, first; /* first: of its group */
    int on_node;      /* 1: the object begins with a node's name, of `name` bytes */
    size_t name;
};

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const char **sorted_names(const struct topology *t)
{
    const char **names = xcalloc((size_t)t->n_nodes + 1, sizeof(*names));

    for (int i = 0; i < t->n_nodes; i++)
        names[i] = t->nodes[i].name;
    qsort(names, (size_t)t->n_nodes, sizeof(*names), compare_names);
    return names;
}

static void take_apart(struct item *it, const char **names, size_t n)
{
    char word[96], *key = word;

    it->name = strcspn(it->f->object, " ");
    snprintf(word, sizeof(word), "%.*s", (int)it->name, it->f->object);
    it->on_node = bsearch(&key, names, n, sizeof(*names), compare_names) != NULL;
    if (!it->on_node)
        it->name = 0;
}

static int compare_alike(const struct item *x, const struct item *y)
{
    int c = (int)y->f->severity - (int)x->f->severity;

    if (c == 0)
        c = x->on_node - y->on_node;
    if (c == 0)
        c = strcmp(x->f->text, y->f->text);
    return c ? c : strcmp(x->f->object + x->name, y->f->object + y->name);
}

static int compare_items(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    int c = compare_alike(x, y);

    return c ? c : x->index - y->index;
}

static int compare_groups(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    int c = (int)y->f->severity - (int)x->f->severity;

    if (c == 0)
        c = x->first - y->first;
    return c ? c : x->index - y->index;
}

/* All findings, group after group. */
static struct item *group(const struct topology *t)
{
    struct item *it = xcalloc((size_t)t->n_findings + 1, sizeof(*it));
    const char **names = sorted_names(t);

    for (int i = 0; i < t->n_findings; i++) {
        it[i] = (struct item){ .f = &t->findings[i], .index = i, .first = i };
        take_apart(&it[i], names, (size_t)t->n_nodes);
    }
    qsort(it, (size_t)t->n_findings, sizeof(*it), compare_items);
    for (int i = 1; i < t->n_findings; i++)
        if (compare_alike(&it[i], &it[i - 1]) == 0)
            it[i].first = it[i - 1].first;
    qsort(it, (size_t)t->n_findings, sizeof(*it), compare_groups);
    free(names);
    return it;
}

/* On a terminal lines are broken; in a pipe a finding is a line, for grep. */
static void print_group(const struct item *it, int n, int wrap, FILE *fp)
{
    struct strlist names = { 0 };
    char *folded;

    for (int i = 0; i < n; i++)
        if (it[i].on_node) {
            char *name = xasprintf("%.*s", (int)it[i].name, it[i].f->object);
            if (!names.n || !str_eq(names.item[names.n - 1], name))
                strlist_add(&names, name);
            free(name);
        }
    folded = names.n ? hostlist_fold(&names) : xstrdup("");
    if (wrap)
        print_line(fp, 6, "%s  %s%s: %s", severity_name(it->f->severity), folded,
                   it->f->object + it->name, it->f->text);
    else
        fprintf(fp, "%s  %s%s: %s\n", severity_name(it->f->severity), folded,
                it->f->object + it->name, it->f->text);
    free(folded);
    strlist_release(&names);
}

void print_findings(const struct topology *t, FILE *fp)
{
    struct item *it = group(t);
    int count[3] = { 0 }, wrap = isatty(fileno(fp)), n = t->n_findings;

    for (int i = 0; i < n; i++)
        count[it[i].f->severity]++;
    if (n)
        fprintf(fp, "findings: %d fail, %d warn, %d note\n", count[SEVERITY_FAIL],
                count[SEVERITY_WARN], count[SEVERITY_NOTE]);
    for (int i = 0, to; i < n; i = to) {
        to = i + 1;
        while (to < n && it[to].first == it[i].first)
            to++;
        print_group(&it[i], to - i, wrap, fp);
    }
    free(it);
}
