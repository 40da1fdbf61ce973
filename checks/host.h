/* host.h - checks of one machine, measured inside a task of the run, where limits
 * are those that ranks have. */
#ifndef CHECKS_HOST_H
#define CHECKS_HOST_H

#include <stddef.h>
#include <stdint.h>

struct measures;
struct topology;

struct host {
    const char *root; /* "" live; a recorded tree for tests */
    const char *name; /* of the machine */
    int world, machines;
    int ranks;           /* on this machine */
    int cuda;            /* ranks use GPUs (NCCL), else CPUs (MPI) */
    int64_t memory_need; /* bytes all ranks here will take of the host; -1 unknown */
    int64_t disk_need;   /* bytes of checkpoints; 0 none are written */
    const char *disk_dir;
    const struct topology *topology; /* of this machine, from sysfs; NULL unknown */
    const char *collectives;         /* the library's version; NULL unknown */
};

/* Every host check of the catalogue but "clock" and "load", one measure each (shm_stale and
 * leftovers name what they found). */
void host_measure(const struct host *h, struct measures *out);

/* --- parts, for tests and --replay ------------------------------------------------ */

/* A row of /proc/PID/limits: soft and hard limit, INFINITY for unlimited.  -1 when
 * there is no such row. */
int host_limit(const char *text, const char *row, double *soft, double *hard);
/* memlock and nofile from that text; rdma: registered memory will be needed. */
void host_measure_limits(const char *text, int world, int rdma, const char *name,
                         struct measures *out);

/* Open files that a rank of `world` needs. */
int64_t host_files_need(int world);

/* /dev/shm that `ranks` need: NCCL makes two segments of 9637888 bytes a rank (case
 * C08), Open MPI one of 4 MiB. */
int64_t host_shm_need(int ranks, int cuda);

/* host_proc.c: names in DIR of the form nccl-* or vader_segment.* that no process
 * under ROOT/proc has open or mapped.  Adds their paths to text; their number. */
struct str;
int host_stale_segments(const char *root, const char *dir, struct str *text);
/* muster-train and muster-probe whose parent is gone (they fell to process 1). */
int host_leftovers(const char *root, struct str *text);

/* host_kernel.c: clocksource, numa_balancing, oom_kills, iommu. */
void host_measure_kernel(const struct host *h, struct measures *out);

/* host_acs.c: switch ports above GPUs that send traffic between devices over the CPU. */
void host_measure_acs(const struct host *h, struct measures *out);
/* From the n bytes of configuration space that could be read: 1, 0; -1 too few. */
int host_acs_redirects(const unsigned char *config, size_t n);

/* host_version.c: version_* of the catalogue, each the text of a measure of value 0. */
void host_measure_versions(const struct host *h, struct measures *out);
/* The version in a line "NVRM version: ..."; 0, or -1 when there is none. */
int host_driver_version(const char *line, char *out, size_t n);

/* host_net.c: does the host's own name mean loopback?  -1: it does not resolve. */
void host_measure_resolve(const char *name, int machines, struct measures *out);

#endif
