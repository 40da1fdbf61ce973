#include "topology/merge_conflict.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topology/inspect.h"
#include "topology/topology.h"

static void report(const struct sources *s, const char *object, const char *what,
                   const char *mine, const char *theirs)
{
    topology_find_once(s->t, SEVERITY_WARN, object,
                       "sources differ on its %s: %s by %s, %s by %s; the first is "
                       "taken",
                       what, mine, s->mine, theirs, s->theirs);
}

/* unit: "", " GiB", ... */
static void report_numbers(const struct sources *s, const char *object,
                           const char *what, double a, double b, const char *unit)
{
    char *mine = xasprintf("%.0f%s", a, unit), *theirs = xasprintf("%.0f%s", b, unit);

    report(s, object, what, mine, theirs);
    free(mine);
    free(theirs);
}

static int both_known(int a, int b)
{
    return a >= 0 && b >= 0 && a != b;
}

/* Rates and sizes are rounded in some sources. */
static int far_apart(double a, double b, double part)
{
    return a > 0 && b > 0 && fabs(a - b) > part * (a > b ? a : b);
}

/* "H200" is what Slurm calls "NVIDIA H200". */
static int other_name(const char *a, const char *b)
{
    return *a && *b && !strcasestr(a, b) && !strcasestr(b, a);
}

void conflict_gpu(const struct sources *s, const struct node *n, const struct gpu *mine,
                  const struct gpu *theirs)
{
    int links = gpu_nvlink_count(mine), other = gpu_nvlink_count(theirs);
    char object[96];

    inspect_object(n, mine, object);
    if (other_name(mine->name, theirs->name))
        report(s, object, "model", mine->name, theirs->name);
    if (both_known(mine->numa, theirs->numa))
        report_numbers(s, object, "NUMA node", mine->numa, theirs->numa, "");
    if (far_apart((double)mine->memory_bytes, (double)theirs->memory_bytes, 0.05))
        report_numbers(s, object, "memory", (double)mine->memory_bytes / 0x1p30,
                       (double)theirs->memory_bytes / 0x1p30, " GiB");
    if (links > 0 && other > 0 && links != other)
        report_numbers(s, object, "NVLinks", links, other, "");
}

void conflict_nic(const struct sources *s, const struct node *n, const struct nic *mine,
                  const struct nic *theirs)
{
    static const char *const state[] = { "down", "up" };
    char object[96];

    inspect_nic_object(n, mine, object);
    if (both_known(mine->up, theirs->up))
        report(s, object, "state", state[mine->up == 1], state[theirs->up == 1]);
    if (far_apart(mine->gbits_per_s, theirs->gbits_per_s, 0.05) && mine->up != 0)
        report_numbers(s, object, "rate", mine->gbits_per_s, theirs->gbits_per_s,
                       " Gb/s");
    if (both_known(mine->numa, theirs->numa))
        report_numbers(s, object, "NUMA node", mine->numa, theirs->numa, "");
    if (both_known(mine->rail, theirs->rail))
        report_numbers(s, object, "rail", mine->rail, theirs->rail, "");
}
