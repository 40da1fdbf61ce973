#include "checks/host_load.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "checks/measure.h"
#include "topology/sysfs.h"

enum { NAMED = 3 };

/* "cpu  user nice system idle iowait irq softirq steal guest guest_nice"; guests are in
 * user and nice already. */
static void read_total(const struct sysfs *s, struct host_load *out)
{
    double t[8] = { 0 };
    char line[512], *at = line + 3;

    if (sysfs_read(s, line, sizeof(line), "/proc/stat") < 0 ||
        strncmp(line, "cpu", 3) != 0)
        return;
    for (int i = 0; i < 8; i++)
        t[i] = strtod(at, &at);
    out->idle = t[3] + t[4];
    out->busy = t[0] + t[1] + t[2] + t[5] + t[6] + t[7];
}

/* "77 (a name) S ppid ...": fields 14 and 15 are user and system time. */
static int read_task(const char *line, struct host_task *t)
{
    const char *name = strchr(line, '('), *end = strrchr(line, ')');
    char *rest;

    if (!name || !end || end < name)
        return -1;
    t->pid = strtol(line, NULL, 10);
    snprintf(t->name, sizeof(t->name), "%.*s", (int)(end - name - 1), name + 1);
    for (int field = 3; field <= 14 && end; field++)
        end = strchr(end + 1, ' ');
    if (!end)
        return -1;
    t->ticks = strtod(end, &rest);
    t->ticks += strtod(rest, NULL);
    return 0;
}

void host_load_look(const char *root, struct host_load *out)
{
    struct sysfs s = { root };
    char **names = sysfs_list(&s, "/proc");
    char line[1024];

    memset(out, 0, sizeof(*out));
    read_total(&s, out);
    for (char **p = names; *p; p++) {
        struct host_task t;

        if (!isdigit((unsigned char)**p) ||
            sysfs_read(&s, line, sizeof(line), "/proc/%s/stat", *p) < 0 ||
            read_task(line, &t) < 0)
            continue;
        out->item = xrealloc(out->item, (size_t)out->n + 1, sizeof(*out->item));
        out->item[out->n++] = t;
    }
    sysfs_list_free(names);
}

void host_load_release(struct host_load *l)
{
    free(l->item);
    memset(l, 0, sizeof(*l));
}

/* The check itself, and what carries it. */
static int is_ours(const char *name)
{
    static const char *const ours[] = { "muster", "muster-probe", "muster-agent",
                                        "mguard" };

    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        if (str_eq(name, ours[i]))
            return 1;
    return 0;
}

/* What a process ran since the look before; one that is new ran all of it since. */
static double ran(const struct host_load *before, const struct host_task *t)
{
    for (int i = 0; i < before->n; i++)
        if (before->item[i].pid == t->pid)
            return fmax(0, t->ticks - before->item[i].ticks);
    return t->ticks;
}

static int by_ticks(const void *a, const void *b)
{
    double x = ((const struct host_task *)a)->ticks;
    double y = ((const struct host_task *)b)->ticks;

    return (x < y) - (x > y);
}

/* "stress (pid 123) 1.9 CPUs" of the busiest; n tasks with their ticks of the time. */
static void name_busiest(struct host_task *busy, int n, double a_cpu, struct str *out)
{
    qsort(busy, (size_t)n, sizeof(*busy), by_ticks);
    for (int i = 0; i < n && i < NAMED; i++)
        str_addf(out, "%s%s (pid %ld) %.1f", i ? ", " : "", busy[i].name, busy[i].pid,
                 busy[i].ticks / a_cpu);
}

void host_measure_load(const struct host_load *before, const struct host_load *after,
                       const char *name, struct measures *out)
{
    struct measure *m = measures_add(out, "load", name, name);
    double busy = after->busy - before->busy, ours = 0;
    double total = busy + after->idle - before->idle, share;
    struct host_task *others = xcalloc((size_t)after->n + 1, sizeof(*others));
    struct str who = STR_INIT;
    int n = 0;

    for (int i = 0; i < after->n; i++) {
        double ticks = ran(before, &after->item[i]);

        if (is_ours(after->item[i].name))
            ours += ticks;
        else if (ticks > 0) {
            others[n] = after->item[i];
            others[n++].ticks = ticks;
        }
    }
    if (!(total > 0) || after->idle == 0) {
        measure_none(m, "/proc/stat does not say how busy the processors are");
    } else {
        share = fmax(0, busy - ours) / total;
        measure_set(m, 100 * share, 10, "%");
        name_busiest(others, n, total / 100, &who);
        if (n)
            measure_say(m, "busiest, in %% of all processors: %s", who.text);
    }
    str_release(&who);
    free(others);
}
