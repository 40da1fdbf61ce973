#include "checks/catalogue.h"

#include <string.h>

#include "base/js.h"
#include "base/mem.h"

static const struct check checks[] = {
    { "memlock", "host", LEVEL_QUICK, 1, JUDGE_AT_LEAST, "B",
      "RDMA registers memory; with a limit it fails in the middle of a run",
      "/proc/self/limits, read inside a task",
      "unlimited where there are RDMA devices, else nothing",
      "set LimitMEMLOCK=infinity for the daemon that starts tasks (slurmd, sshd); "
      "`ulimit -l` of a login shell says nothing about it" },
    { "nofile", "host", LEVEL_QUICK, 0, JUDGE_AT_LEAST, "files",
      "every rank keeps sockets to its peers", "/proc/self/limits, read inside a task",
      "64 and 8 a rank of the world, at least 1025",
      "raise LimitNOFILE of the daemon that starts tasks" },
    { "shm", "host", LEVEL_QUICK, 1, JUDGE_AT_LEAST, "B",
      "ranks of a node exchange through files in /dev/shm", "statvfs of /dev/shm",
      "ranks on the node x segments a rank x bytes a segment (NCCL: 2 of 9637888, "
      "MPI: 1 of 4 MiB)",
      "enlarge it (containers: --shm-size, or --ipc=host), and remove what is stale" },
    { "shm_stale", "host", LEVEL_QUICK, 0, JUDGE_ADVICE, "files",
      "segments of killed jobs fill /dev/shm",
      "/dev/shm/nccl-* and the maps of live processes", "none", "remove them" },
    { "disk", "host", LEVEL_QUICK, 1, JUDGE_AT_LEAST, "B",
      "a checkpoint that does not fit ends the run", "statvfs of checkpoint.folder",
      "12 B a parameter for each checkpoint kept, and one being written",
      "free space, lower checkpoint.keep, or move checkpoint.folder" },
    { "memory", "host", LEVEL_QUICK, 1, JUDGE_AT_LEAST, "B",
      "a rank without memory is killed", "MemAvailable of /proc/meminfo",
      "ranks on the node x what memplan predicts (CPU ranks)",
      "end other programs, or use fewer ranks, a smaller batch or checkpointing" },
    { "resolve", "host", LEVEL_QUICK, 1, JUDGE_NONE, "faults",
      "a host that calls itself 127.0.1.1 sends the others to themselves",
      "the resolver, for the host's own name", "none with several machines",
      "remove the 127.0.1.1 line of /etc/hosts, or set MASTER_ADDR to a routable "
      "name" },
    { "interface", "host", LEVEL_QUICK, 1, JUDGE_NONE, "faults",
      "NCCL_SOCKET_IFNAME that matches nothing stops NCCL at its start",
      "getifaddrs and NCCL_SOCKET_IFNAME", "none", "name an interface that exists" },
    { "clock", "host", LEVEL_QUICK, 0, JUDGE_AT_MOST, "s",
      "logs and leases of nodes with different clocks contradict each other",
      "CLOCK_REALTIME of all nodes after a barrier",
      "1 s between the first and the last", "start chronyd or ntpd" },
    { "governor", "host", LEVEL_QUICK, 0, JUDGE_ADVICE, "CPUs",
      "a CPU that saves power launches kernels late",
      "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor", "'performance'",
      "cpupower frequency-set -g performance" },
    { "hugepages", "host", LEVEL_QUICK, 0, JUDGE_ADVICE, "faults",
      "large host buffers cost many page faults without them",
      "/sys/kernel/mm/transparent_hugepage/enabled", "'always' or 'madvise'",
      "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled" },
    { "leftovers", "host", LEVEL_QUICK, 1, JUDGE_NONE, "processes",
      "ranks of a dead run hold memory and devices",
      "/proc: muster-train and muster-probe whose launcher is gone", "none",
      "end them: kill -9 PID" },
    { "version_driver", "host", LEVEL_QUICK, 1, JUDGE_SAME, "",
      "NCCL between unlike drivers fails or is slow in ways that look like the network",
      "/proc/driver/nvidia/version of every node", "the same on all nodes",
      "install one driver on all of them" },
    { "version_kernel", "host", LEVEL_QUICK, 0, JUDGE_SAME, "",
      "a node that missed an update behaves differently",
      "/proc/sys/kernel/osrelease of every node", "the same on all nodes",
      "update the odd ones" },
    { "version_rdma", "host", LEVEL_QUICK, 0, JUDGE_SAME, "",
      "ports of unlike drivers differ in features and rates",
      "/sys/module of the NIC's driver, on every node", "the same on all nodes",
      "update the odd ones" },
    { "version_collectives", "host", LEVEL_QUICK, 1, JUDGE_SAME, "",
      "unlike NCCL or MPI libraries hang at the start, or choose other algorithms",
      "the library that the rank has loaded, on every node", "the same on all nodes",
      "make LD_LIBRARY_PATH and the packages the same" },
    { "version_muster", "host", LEVEL_QUICK, 1, JUDGE_SAME, "",
      "unlike builds lay out messages and groups differently",
      "version and contents of muster-probe, on every node", "the same on all nodes",
      "install one build, or let muster copy itself" },
    { "probe", "run", LEVEL_QUICK, 1, JUDGE_NONE, "faults",
      "ranks that cannot meet here cannot train here",
      "muster-probe on every rank, each wait with a deadline", "all ranks end well",
      "see the reason; `muster logs` shows what the rank said" },
    { "memory_copy", "rank", LEVEL_STANDARD, 0, JUDGE_REFERENCE, "GB/s",
      "CPU ranks exchange by copying: their targets are computed from it",
      "memcpy of all ranks of the node at once, times CPUs a rank where there are "
      "fewer",
      "it is the reference", "" },
    { "all_gather.result", "group", LEVEL_QUICK, 1, JUDGE_NONE, "values",
      "a wrong byte in a weight ruins a run silently",
      "the trainer's own collectives, every group of the recipe",
      "every value is known beforehand",
      "run again; if it persists the machines or "
      "links of this group corrupt data" },
    { "reduce_scatter.result", "group", LEVEL_QUICK, 1, JUDGE_NONE, "values",
      "as all_gather.result, for gradients", "inputs whose FP32 sum is exact",
      "every value is known beforehand",
      "run again; if it persists the machines or "
      "links of this group corrupt data" },
    { "all_reduce.result", "group", LEVEL_QUICK, 1, JUDGE_NONE, "values",
      "as all_gather.result, between replicas", "inputs whose FP32 sum is exact",
      "every value is known beforehand",
      "run again; if it persists the machines or "
      "links of this group corrupt data" },
    { "all_gather", "group", LEVEL_STANDARD, 1, JUDGE_BUSBW, "GB/s",
      "weights wait for the slowest link of a shard group",
      "the recipe's largest layer (at least 8 MiB), median without the first iteration",
      "cost model on the discovered topology; CPU ranks: memory_copy",
      "look at the "
      "links of this group" },
    { "reduce_scatter", "group", LEVEL_STANDARD, 1, JUDGE_BUSBW, "GB/s",
      "gradients wait for the slowest link of a shard group", "as all_gather",
      "as all_gather", "look at the links of this group" },
    { "all_reduce", "group", LEVEL_STANDARD, 1, JUDGE_BUSBW, "GB/s",
      "replicas wait for the slowest link between them", "as all_gather",
      "as all_gather", "look at the links of this group" },
    { "nic", "nic", LEVEL_FULL, 1, JUDGE_LINK, "Gb/s",
      "one slow rail holds up every ring that crosses it; the node's mean hides it",
      "a recording (--replay): each NIC on its own", "90 % of the port's rate",
      "look at the cable, the port's counters and its firmware" },
};

const struct check *catalogue(int *n)
{
    *n = (int)ARRAY_LEN(checks);
    return checks;
}

const struct check *catalogue_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(checks); i++)
        if (strcmp(checks[i].name, name) == 0)
            return &checks[i];
    return NULL;
}

static const char *level_text(enum level l)
{
    static const char *const names[] = { "quick", "standard", "full" };

    return names[l];
}

void catalogue_print(FILE *fp)
{
    for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
        const struct check *c = &checks[i];

        fprintf(fp, "%s (%s, %s%s)\n  why     %s\n  needs   %s\n  target  %s\n",
                c->name, c->scope, level_text(c->level),
                c->required ? ", required" : "", c->why, c->needs, c->target);
        if (*c->cure)
            fprintf(fp, "  cure    %s\n", c->cure);
    }
}

struct js *catalogue_json(void)
{
    struct js *o = js_document("check-list"), *all = js_array();

    for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
        const struct check *c = &checks[i];
        struct js *one = js_object();

        js_put_str(one, "name", c->name);
        js_put_str(one, "scope", c->scope);
        js_put_str(one, "level", level_text(c->level));
        js_put_bool(one, "required", c->required);
        js_put_str(one, "unit", c->unit);
        js_put_str(one, "why", c->why);
        js_put_str(one, "needs", c->needs);
        js_put_str(one, "target", c->target);
        js_put_str(one, "cure", c->cure);
        js_push(all, one);
    }
    js_put(o, "checks", all);
    return o;
}
