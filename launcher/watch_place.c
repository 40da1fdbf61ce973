#include "launcher/watch_place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/proc.h"
#include "launcher/watch.h"

struct place_seen {
    int reported, fresh;
    char host[64], boot_id[40], busid[32], cpus[256], bound[256];
};

struct places {
    int world, fresh;
    struct watch_plan *plan;
    struct place_seen *seen;
};

struct places *places_new(int world, const struct watch_plan *plan)
{
    struct places *p = xcalloc(1, sizeof(*p));

    p->world = world;
    p->plan = xcalloc((size_t)world, sizeof(*p->plan));
    memcpy(p->plan, plan, (size_t)world * sizeof(*plan));
    p->seen = xcalloc((size_t)world, sizeof(*p->seen));
    return p;
}

void places_free(struct places *p)
{
    free(p->plan);
    free(p->seen);
    free(p);
}

void places_report(struct places *p, int rank, const struct js *e)
{
    struct place_seen *s = &p->seen[rank];

    snprintf(s->host, sizeof(s->host), "%s", js_str(e, "host", ""));
    snprintf(s->boot_id, sizeof(s->boot_id), "%s", js_str(e, "boot_id", ""));
    snprintf(s->busid, sizeof(s->busid), "%s", js_str(e, "busid", ""));
    snprintf(s->cpus, sizeof(s->cpus), "%s", js_str(e, "cpus", ""));
    s->reported = s->fresh = p->fresh = 1;
}

void places_bound(struct places *p, int rank, const struct js *e)
{
    struct place_seen *s = &p->seen[rank];

    snprintf(s->bound, sizeof(s->bound), "%s", js_str(e, "want_cpus", ""));
}

static int same_cpus(const char *a, const char *b)
{
    cpu_set_t x, y;

    return proc_cpus(a, &x, NULL) < 0 || proc_cpus(b, &y, NULL) < 0 ||
           CPU_EQUAL(&x, &y);
}

/* Up to the first dot: a node may call itself by its whole name. */
static int same_host(const char *a, const char *b)
{
    size_t n = strcspn(a, "."), m = strcspn(b, ".");

    return strcmp(a, b) == 0 || (n == m && strncmp(a, b, n) == 0);
}

/* One rank against its line of the plan. */
static int off_plan(const struct places *p, int rank, struct str *why)
{
    const struct watch_plan *want = &p->plan[rank];
    const struct place_seen *got = &p->seen[rank];
    const char *cpus = *want->cpus ? want->cpus : got->bound;

    if (*got->host && !same_host(got->host, want->host))
        str_addf(why, "rank %d runs on %s, but the plan puts it on %s", rank, got->host,
                 want->host);
    else if (*want->busid && *got->busid && strcasecmp(got->busid, want->busid) != 0)
        str_addf(why, "rank %d on %s uses GPU %s, but the plan gives it %s", rank,
                 want->host, got->busid, want->busid);
    else if (*cpus && *got->cpus && !same_cpus(cpus, got->cpus))
        str_addf(why, "rank %d on %s runs on CPUs %s, but the plan gives it %s", rank,
                 want->host, got->cpus, cpus);
    else
        return 0;
    return 1;
}

/* Two ranks against each other. */
static int clash(const struct places *p, int a, int b, struct str *why)
{
    const struct place_seen *x = &p->seen[a], *y = &p->seen[b];
    int one_machine = strcmp(x->boot_id, y->boot_id) == 0;

    if (!*x->boot_id || !*y->boot_id)
        return 0;
    if (!one_machine && strcmp(x->host, y->host) == 0)
        str_addf(why,
                 "same host name, different machine: ranks %d and %d are both on %s, "
                 "but with boot ids %s and %s (give the nodes different names)",
                 a, b, x->host, x->boot_id, y->boot_id);
    else if (one_machine && *x->busid && strcasecmp(x->busid, y->busid) == 0)
        str_addf(why, "ranks %d and %d both use GPU %s of %s", a, b, x->busid, x->host);
    else
        return 0;
    return 1;
}

int places_wrong(struct places *p, struct str *why, int *culprit)
{
    if (!p->fresh)
        return 0;
    p->fresh = 0;
    for (int r = 0; r < p->world; r++) {
        if (!p->seen[r].fresh)
            continue;
        p->seen[r].fresh = 0;
        *culprit = r;
        if (off_plan(p, r, why))
            return 1;
        for (int q = 0; q < p->world; q++) {
            int low = q < r ? q : r, high = q < r ? r : q;
            *culprit = high;
            if (q != r && p->seen[q].reported && clash(p, low, high, why))
                return 1;
        }
    }
    return 0;
}
