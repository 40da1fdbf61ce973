#include "topology/cpulist.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cpulist_add(struct cpulist *l, int cpu)
{
    l->bit[cpu / 64] |= 1ULL << (cpu % 64);
}

int cpulist_has(const struct cpulist *l, int cpu)
{
    return (l->bit[cpu / 64] >> (cpu % 64) & 1) != 0;
}

int cpulist_count(const struct cpulist *l)
{
    int n = 0;

    for (int i = 0; i < CPULIST_MAX / 64; i++)
        n += __builtin_popcountll(l->bit[i]);
    return n;
}

void cpulist_and(struct cpulist *l, const struct cpulist *with)
{
    for (int i = 0; i < CPULIST_MAX / 64; i++)
        l->bit[i] &= with->bit[i];
}

int cpulist_of_process(pid_t pid, struct cpulist *out)
{
    cpu_set_t *mask = CPU_ALLOC(CPULIST_MAX);
    size_t size = CPU_ALLOC_SIZE(CPULIST_MAX);
    int rc = mask ? sched_getaffinity(pid, size, mask) : -1, left;

    memset(out, 0, sizeof(*out));
    left = rc == 0 ? CPU_COUNT_S(size, mask) : 0;
    for (int c = 0; left && c < CPULIST_MAX; c++)
        if (CPU_ISSET_S((size_t)c, size, mask)) {
            cpulist_add(out, c);
            left--;
        }
    CPU_FREE(mask);
    return rc;
}

/* One number below CPULIST_MAX; NULL: none here. */
static const char *read_number(const char *p, long *value)
{
    char *end;

    if (*p < '0' || *p > '9')
        return NULL;
    *value = strtol(p, &end, 10);
    return *value < CPULIST_MAX ? end : NULL;
}

int cpulist_parse(const char *text, struct cpulist *out)
{
    const char *p = text;
    long from, to;

    memset(out, 0, sizeof(*out));
    while (*p) {
        p = read_number(p, &from);
        if (!p)
            return -1;
        to = from;
        if (*p == '-' && !(p = read_number(p + 1, &to)))
            return -1;
        if (to < from || (*p && *p != ',') || (*p == ',' && !p[1]))
            return -1;
        for (long c = from; c <= to; c++)
            cpulist_add(out, (int)c);
        p += *p == ',';
    }
    return 0;
}

/* The first CPU of the set from `from` on; CPULIST_MAX: none. */
static int next_cpu(const struct cpulist *l, int from)
{
    while (from < CPULIST_MAX && !cpulist_has(l, from))
        from = l->bit[from / 64] >> (from % 64) ? from + 1 : from / 64 * 64 + 64;
    return from;
}

/* The end of the run of set CPUs that starts at `from`. */
static int run_end(const struct cpulist *l, int from)
{
    while (from < CPULIST_MAX && cpulist_has(l, from))
        from++;
    return from;
}

int cpulist_format(const struct cpulist *l, char *out, size_t n)
{
    size_t used = 0;
    int end, wrote;

    out[0] = '\0';
    for (int c = next_cpu(l, 0); c < CPULIST_MAX; c = next_cpu(l, end)) {
        end = run_end(l, c);
        wrote = end - c == 1
                    ? snprintf(out + used, n - used, "%s%d", used ? "," : "", c)
                    : snprintf(out + used, n - used, "%s%d-%d", used ? "," : "", c,
                               end - 1);
        if (wrote < 0 || (size_t)wrote >= n - used) {
            out[0] = '\0';
            return -1;
        }
        used += (size_t)wrote;
    }
    return 0;
}

/* Are the CPUs `smt` runs of one length?  That length, else 0. */
static int equal_runs(const struct cpulist *l, int smt)
{
    int runs = 0, length = 0, end;

    for (int c = next_cpu(l, 0); c < CPULIST_MAX; c = next_cpu(l, end)) {
        end = run_end(l, c);
        if (runs++ && end - c != length)
            return 0;
        length = end - c;
    }
    return runs == smt ? length : 0;
}

void cpulist_split(const struct cpulist *l, int parts, int i, int smt,
                   struct cpulist *out)
{
    int run = smt > 1 ? equal_runs(l, smt) : 0;
    int size = run >= parts ? run : cpulist_count(l);
    int from = (int)((long)size * i / parts), to = (int)((long)size * (i + 1) / parts);
    int at = 0;

    memset(out, 0, sizeof(*out));
    for (int c = next_cpu(l, 0); size > 0 && c < CPULIST_MAX; c = next_cpu(l, c + 1)) {
        if (at % size >= from && at % size < to)
            cpulist_add(out, c);
        at++;
    }
}
