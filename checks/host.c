#include "checks/host.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "checks/ifname.h"
#include "checks/measure.h"
#include "checks/nic.h"

enum {
    NCCL_SEGMENT = 9637888,
    NCCL_SEGMENTS = 2,
    MPI_SEGMENT = 4 << 20,
    FILES_BASE = 64,
    FILES_A_RANK = 8,
    FILES_LEAST = 1025 /* 1024 is the old default that people forget to raise */
};

/* A small file below the root; "" when it cannot be read.  The caller's to free(). */
static char *read_small(const char *root, const char *path)
{
    char *whole = xasprintf("%s%s", root, path), buf[16384];
    int fd = open(whole, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, buf, sizeof(buf) - 1) : 0;

    if (fd >= 0)
        close(fd);
    free(whole);
    return xstrndup(buf, n > 0 ? (size_t)n : 0);
}

static int has_entries(const char *root, const char *path)
{
    char *whole = xasprintf("%s%s", root, path);
    DIR *d = opendir(whole);
    struct dirent *e;
    int n = 0;

    while (d && (e = readdir(d)))
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    free(whole);
    return n > 0;
}

/* --- limits ------------------------------------------------------------------------ */

static const char *take_limit(const char *at, double *v)
{
    char *end;

    while (isblank((unsigned char)*at))
        at++;
    if (strncmp(at, "unlimited", 9) == 0) {
        *v = INFINITY;
        return at + 9;
    }
    *v = strtod(at, &end);
    return end == at ? NULL : end;
}

int host_limit(const char *text, const char *row, double *soft, double *hard)
{
    size_t n = strlen(row);

    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, row, n) != 0)
            continue;
        line = take_limit(line + n, soft);
        return line && take_limit(line, hard) ? 0 : -1;
    }
    return -1;
}

static void add_memlock(const char *text, int rdma, const char *name,
                        struct measures *out)
{
    struct measure *m = measures_add(out, "memlock", name, name);
    double soft, hard;

    if (host_limit(text, "Max locked memory", &soft, &hard) != 0) {
        measure_none(m, "/proc/self/limits has no row 'Max locked memory'");
        return;
    }
    measure_set(m, soft, rdma ? INFINITY : NAN, "B");
    if (!rdma)
        measure_say(m, "no RDMA device here");
    else if (soft < INFINITY)
        measure_say(m, "%.0f bytes, read inside the task", soft);
}

int64_t host_files_need(int world)
{
    return FILES_BASE + (int64_t)FILES_A_RANK * world;
}

static void add_nofile(const char *text, int world, const char *name,
                       struct measures *out)
{
    struct measure *m = measures_add(out, "nofile", name, name);
    double soft, hard, need = (double)host_files_need(world);

    if (host_limit(text, "Max open files", &soft, &hard) != 0) {
        measure_none(m, "/proc/self/limits has no row 'Max open files'");
        return;
    }
    measure_set(m, soft, need > FILES_LEAST ? need : FILES_LEAST, "files");
    if (soft < m->need && hard >= m->need)
        measure_say(m, "the hard limit (%.0f) would allow it: ulimit -n", hard);
}

void host_measure_limits(const char *text, int world, int rdma, const char *name,
                         struct measures *out)
{
    add_memlock(text, rdma, name, out);
    add_nofile(text, world, name, out);
}

static void measure_limits(const struct host *h, struct measures *out)
{
    char *text = read_small(h->root, "/proc/self/limits");

    host_measure_limits(text, h->world, has_entries(h->root, "/sys/class/infiniband"),
                        h->name, out);
    free(text);
}

/* --- space --------------------------------------------------------------------------- */

int64_t host_shm_need(int ranks, int cuda)
{
    return (int64_t)ranks *
           (cuda ? (int64_t)NCCL_SEGMENTS * NCCL_SEGMENT : MPI_SEGMENT);
}

static void measure_shm(const struct host *h, struct measures *out)
{
    struct measure *m = measures_add(out, "shm", h->name, h->name);
    char *dir = xasprintf("%s/dev/shm", h->root);
    struct str stale = STR_INIT;
    struct statvfs fs;
    int n;

    if (statvfs(dir, &fs) != 0)
        measure_none(m, "%s: %s", dir, strerror(errno));
    else
        measure_set(m, (double)fs.f_bavail * (double)fs.f_frsize,
                    h->ranks > 1 ? (double)host_shm_need(h->ranks, h->cuda) : 0, "B");
    m = measures_add(out, "shm_stale", h->name, h->name);
    n = host_stale_segments(h->root, dir, &stale);
    measure_set(m, n, NAN, "files");
    if (n > 0)
        measure_say(m, "no live process holds %s", stale.text);
    str_release(&stale);
    free(dir);
}

/* The folder may not exist yet: ask the nearest one that does. */
static int space_at(const char *dir, struct statvfs *fs)
{
    char *path = xstrdup(dir), *slash;
    int rc;

    while ((rc = statvfs(path, fs)) != 0 && errno == ENOENT &&
           (slash = strrchr(path, '/')) && slash != path)
        *slash = '\0';
    if (rc != 0)
        rc = statvfs(*path == '/' ? "/" : ".", fs);
    free(path);
    return rc;
}

static void measure_disk(const struct host *h, struct measures *out)
{
    struct measure *m = measures_add(out, "disk", h->name, h->name);
    struct statvfs fs;

    if (h->disk_need == 0) {
        measure_set(m, 0, NAN, "B");
        measure_say(m, "no checkpoints are written");
    } else if (space_at(h->disk_dir, &fs) != 0) {
        measure_none(m, "%s: %s", h->disk_dir, strerror(errno));
    } else {
        measure_set(m, (double)fs.f_bavail * (double)fs.f_frsize, (double)h->disk_need,
                    "B");
        measure_say(m, "where %s will be", h->disk_dir);
    }
}

static void measure_memory(const struct host *h, struct measures *out)
{
    struct measure *m = measures_add(out, "memory", h->name, h->name);
    char *text = read_small(h->root, "/proc/meminfo");
    const char *row = strstr(text, "MemAvailable:");

    if (!row)
        measure_none(m, "%s/proc/meminfo has no MemAvailable", h->root);
    else
        measure_set(m, strtod(row + strlen("MemAvailable:"), NULL) * 1024,
                    h->memory_need >= 0 ? (double)h->memory_need : NAN, "B");
    free(text);
}

/* --- processor ------------------------------------------------------------------------- */

static void measure_governor(const struct host *h, struct measures *out)
{
    struct measure *m = measures_add(out, "governor", h->name, h->name);
    int cpus = 0, other = 0;
    char seen[32] = "";

    for (int i = 0; i < 4096; i++) {
        char path[96], *text;

        snprintf(path, sizeof(path),
                 "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor", i);
        text = read_small(h->root, path);
        text[strcspn(text, "\n")] = '\0';
        if (!*text) {
            free(text);
            break;
        }
        cpus++;
        if (strcmp(text, "performance") != 0) {
            other++;
            snprintf(seen, sizeof(seen), "%s", text);
        }
        free(text);
    }
    measure_set(m, other, NAN, "CPUs");
    if (cpus == 0)
        measure_none(m,
                     "this machine shows no frequency governor (a virtual machine?)");
    else if (other > 0)
        measure_say(m, "%d of %d CPUs run under '%s'", other, cpus, seen);
}

static void measure_hugepages(const struct host *h, struct measures *out)
{
    struct measure *m = measures_add(out, "hugepages", h->name, h->name);
    char *text = read_small(h->root, "/sys/kernel/mm/transparent_hugepage/enabled");
    const char *chosen = strchr(text, '[');

    if (!chosen) {
        measure_none(m, "the kernel shows no transparent_hugepage setting");
    } else {
        measure_set(m, strncmp(chosen, "[never]", 7) == 0, NAN, "faults");
        measure_say(m, "transparent_hugepage is %.*s", (int)strcspn(chosen + 1, "]"),
                    chosen + 1);
    }
    free(text);
}

/* --- the rest ----------------------------------------------------------------------------- */

static void measure_leftovers(const struct host *h, struct measures *out)
{
    struct measure *m = measures_add(out, "leftovers", h->name, h->name);
    struct str who = STR_INIT;

    measure_set(m, host_leftovers(h->root, &who), NAN, "processes");
    if (m->value > 0)
        measure_say(m, "%s", who.text);
    str_release(&who);
}

static void measure_resolve(const struct host *h, struct measures *out)
{
    host_measure_resolve(h->name, h->machines, out);
}

static void measure_interface(const struct host *h, struct measures *out)
{
    struct measure *m = measures_add(out, "interface", h->name, h->name);
    struct ifname_list list = { 0 };
    char *why = NULL;

    ifname_live(&list);
    measure_set(m, 0, NAN, "faults");
    if (!h->cuda)
        measure_say(m, "MPI ranks: not used");
    else if (ifname_choose(&list, getenv("NCCL_SOCKET_IFNAME"), NULL, &why) != 0)
        m->value = 1;
    if (why)
        measure_say(m, "%s", why);
    free(why);
    ifname_release(&list);
}

void host_measure(const struct host *h, struct measures *out)
{
    static void (*const parts[])(const struct host *, struct measures *) = {
        measure_limits,    measure_shm,         measure_disk,     measure_memory,
        measure_resolve,   measure_interface,   measure_governor, measure_hugepages,
        measure_leftovers, host_measure_kernel, host_measure_acs, host_measure_versions,
        nic_measure,       nic_measure_gdr
    };

    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        parts[i](h, out);
}
