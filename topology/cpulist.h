/* cpulist.h - the kernel's lists of CPUs, "0-15,32-47", as sets.
 *
 * At most CPULIST_MAX CPUs; a list names each once, in ascending order. */
#ifndef TOPOLOGY_CPULIST_H
#define TOPOLOGY_CPULIST_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CPULIST_MAX = 8192 };

struct cpulist {
    uint64_t bit[CPULIST_MAX / 64];
};

/* 0, or -1 when `text` is no list of CPUs below CPULIST_MAX ("" is the empty one). */
int cpulist_parse(const char *text, struct cpulist *out);
/* 0, or -1 when it does not fit: out is "" then. */
int cpulist_format(const struct cpulist *l, char *out, size_t n);
int cpulist_count(const struct cpulist *l);
void cpulist_and(struct cpulist *l, const struct cpulist *with);
void cpulist_add(struct cpulist *l, int cpu);
int cpulist_has(const struct cpulist *l, int cpu);

/* What the process may run on (0: the caller), -1 when that cannot be read. */
int cpulist_of_process(pid_t pid, struct cpulist *out);

/* The share of part `i` of `parts` (parts <= CPUs): disjoint, together the whole,
 * sizes differ by one at most.  smt > 1 and a list of smt equal runs (the usual
 * numbering: all first threads, then all second ones) is split run by run, so that
 * a part holds whole cores. */
void cpulist_split(const struct cpulist *l, int parts, int i, int smt,
                   struct cpulist *out);

#ifdef __cplusplus
}
#endif
#endif
