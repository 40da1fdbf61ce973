#include "launcher/hub.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

/* One node's part of a fence. */
struct part {
    uint64_t ticket;
    char *blob;
    size_t len;
    struct part *next;
};

/* Fences over one set of ranks: each node's parts wait in order. */
struct set {
    int *ranks, n_ranks; /* sorted; n_ranks == world: all */
    char *takes_part;    /* [n_nodes] */
    struct part **first; /* [n_nodes] */
    int n_open;          /* parts that wait */
    struct set *next;
};

struct want {
    uint64_t route, ticket;
    int asks, owner;
    struct want *next;
};

struct hub {
    int n_nodes, world, not_found;
    int *node_of;
    struct set *sets, **last_set;
    struct want *wants;
    uint64_t routes;
    hub_fn answer;
    void *arg;
};

struct hub *hub_new(int n_nodes, int world, const int *node_of, int not_found,
                    hub_fn answer, void *arg)
{
    struct hub *h = xcalloc(1, sizeof(*h));

    h->n_nodes = n_nodes;
    h->world = world;
    h->not_found = not_found;
    h->node_of = xcalloc((size_t)world, sizeof(*node_of));
    memcpy(h->node_of, node_of, (size_t)world * sizeof(*node_of));
    h->last_set = &h->sets;
    h->answer = answer;
    h->arg = arg;
    return h;
}

static void free_part(struct part *p)
{
    free(p->blob);
    free(p);
}

static void free_set(struct set *s, int n_nodes)
{
    for (int n = 0; n < n_nodes; n++)
        while (s->first[n]) {
            struct part *p = s->first[n];
            s->first[n] = p->next;
            free_part(p);
        }
    free(s->ranks);
    free(s->takes_part);
    free(s->first);
    free(s);
}

void hub_free(struct hub *h)
{
    if (!h)
        return;
    while (h->sets) {
        struct set *s = h->sets;
        h->sets = s->next;
        free_set(s, h->n_nodes);
    }
    while (h->wants) {
        struct want *w = h->wants;
        h->wants = w->next;
        free(w);
    }
    free(h->node_of);
    free(h);
}

/* ---- fences ---- */

static int by_number(const void *a, const void *b)
{
    const int *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static int check_ranks(const struct hub *h, int node, const int *ranks, int n,
                       struct err *err)
{
    int mine = 0;

    if (n < 0 || n > h->world)
        return err_set(err, ERR_FAILED, "a fence of %d ranks; the run has %d", n,
                       h->world);
    for (int i = 0; i < n; i++) {
        if (ranks[i] < 0 || ranks[i] >= h->world)
            return err_set(err, ERR_FAILED, "a fence with rank %d; the run has %d",
                           ranks[i], h->world);
        mine |= h->node_of[ranks[i]] == node;
    }
    if (n && !mine)
        return err_set(err, ERR_FAILED, "a fence of ranks that are all elsewhere");
    return 0;
}

/* Sorted, each once; all ranks for none.  The caller's to free(). */
static int *normalise(const struct hub *h, const int *ranks, int *n)
{
    int *sorted = xcalloc((size_t)h->world, sizeof(*sorted)), kept = 0;

    if (*n == 0) {
        for (int r = 0; r < h->world; r++)
            sorted[r] = r;
        *n = h->world;
        return sorted;
    }
    memcpy(sorted, ranks, (size_t)*n * sizeof(*ranks));
    qsort(sorted, (size_t)*n, sizeof(*sorted), by_number);
    for (int i = 0; i < *n; i++)
        if (i == 0 || sorted[i] != sorted[i - 1])
            sorted[kept++] = sorted[i];
    *n = kept;
    return sorted;
}

/* Takes `ranks` over. */
static struct set *find_set(struct hub *h, int *ranks, int n)
{
    struct set *s = h->sets;

    while (s && !(s->n_ranks == n &&
                  memcmp(s->ranks, ranks, (size_t)n * sizeof(*ranks)) == 0))
        s = s->next;
    if (s) {
        free(ranks);
        return s;
    }
    s = xcalloc(1, sizeof(*s));
    s->ranks = ranks;
    s->n_ranks = n;
    s->takes_part = xcalloc((size_t)h->n_nodes, 1);
    s->first = xcalloc((size_t)h->n_nodes, sizeof(struct part *));
    for (int i = 0; i < n; i++)
        s->takes_part[h->node_of[ranks[i]]] = 1;
    *h->last_set = s;
    h->last_set = &s->next;
    return s;
}

static void add_part(struct set *s, int node, const struct hub_fence *f)
{
    struct part *p = xcalloc(1, sizeof(*p)), **at = &s->first[node];

    p->ticket = f->ticket;
    p->len = f->len;
    if (f->len) {
        p->blob = xcalloc(f->len, 1);
        memcpy(p->blob, f->blob, f->len);
    }
    while (*at)
        at = &(*at)->next;
    *at = p;
    s->n_open++;
}

static int is_complete(const struct hub *h, const struct set *s)
{
    for (int n = 0; n < h->n_nodes; n++)
        if (s->takes_part[n] && !s->first[n])
            return 0;
    return 1;
}

static void complete(struct hub *h, struct set *s)
{
    struct hub_answer a = { .kind = HUB_FENCE_DONE };
    struct str all = STR_INIT;

    for (int n = 0; n < h->n_nodes; n++)
        if (s->takes_part[n] && s->first[n]->len)
            str_add(&all, s->first[n]->blob, s->first[n]->len);
    a.blob = all.text;
    a.len = all.len;
    for (a.node = 0; a.node < h->n_nodes; a.node++) {
        struct part *p = s->first[a.node];
        if (!s->takes_part[a.node])
            continue;
        s->first[a.node] = p->next;
        s->n_open--;
        a.ticket = p->ticket;
        free_part(p);
        h->answer(h->arg, &a);
    }
    str_release(&all);
}

int hub_fence(struct hub *h, int node, const struct hub_fence *f, struct err *err)
{
    int *sorted, n = f->n_ranks;
    struct set *s;

    if (check_ranks(h, node, f->ranks, n, err) < 0)
        return -1;
    sorted = normalise(h, f->ranks, &n);
    s = find_set(h, sorted, n);
    add_part(s, node, f);
    if (is_complete(h, s))
        complete(h, s);
    return 0;
}

int hub_missing(const struct hub *h, int *nodes)
{
    const struct set *s = h->sets;
    int n = 0;

    while (s && !s->n_open)
        s = s->next;
    for (int i = 0; s && i < h->n_nodes; i++)
        if (s->takes_part[i] && !s->first[i])
            nodes[n++] = i;
    return n;
}

/* ---- direct modex ---- */

int hub_modex(struct hub *h, int node, uint64_t ticket, int rank, struct err *err)
{
    struct hub_answer a = { .kind = HUB_FETCH, .rank = rank };
    struct want *w;

    if (rank < 0 || rank >= h->world)
        return err_set(err, ERR_FAILED, "data of rank %d is wanted; the run has %d",
                       rank, h->world);
    if (h->node_of[rank] == node) { /* its own server knows better than we */
        a = (struct hub_answer){ .kind = HUB_MODEX_DONE,
                                 .node = node,
                                 .ticket = ticket,
                                 .status = h->not_found };
        h->answer(h->arg, &a);
        return 0;
    }
    w = xcalloc(1, sizeof(*w));
    *w = (struct want){ .route = ++h->routes,
                        .ticket = ticket,
                        .asks = node,
                        .owner = h->node_of[rank],
                        .next = h->wants };
    h->wants = w;
    a.node = w->owner;
    a.ticket = w->route;
    h->answer(h->arg, &a);
    return 0;
}

int hub_fetched(struct hub *h, int node, uint64_t route, int status, const char *blob,
                size_t len, struct err *err)
{
    struct hub_answer a = {
        .kind = HUB_MODEX_DONE, .status = status, .blob = blob, .len = len
    };
    struct want **at = &h->wants, *w;

    while (*at && !((*at)->route == route && (*at)->owner == node))
        at = &(*at)->next;
    w = *at;
    if (!w)
        return err_set(err, ERR_FAILED, "an answer to a question that was not asked");
    *at = w->next;
    a.node = w->asks;
    a.ticket = w->ticket;
    free(w);
    h->answer(h->arg, &a);
    return 0;
}
