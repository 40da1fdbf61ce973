#include "launcher/task_about.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/js.h"

int task_number(const char *name)
{
    const char *text = getenv(name);
    char *end;
    long v = text ? strtol(text, &end, 10) : -1;

    return text && *text && *end == '\0' && v >= 0 && v < 1 << 30 ? (int)v : -1;
}

/* First line of a file, or of the line that begins with `key`. */
static void read_line(const char *path, const char *key, char *out, size_t size)
{
    FILE *fp = fopen(path, "re");
    char line[512];
    size_t n = strlen(key);

    *out = '\0';
    while (fp && !*out && fgets(line, sizeof(line), fp))
        if (strncmp(line, key, n) == 0)
            snprintf(out, size, "%.*s", (int)strcspn(line + n, "\n"), line + n);
    if (fp)
        fclose(fp);
}

static int64_t limit(int which)
{
    struct rlimit r;

    if (getrlimit((__rlimit_resource_t)which, &r) < 0 || r.rlim_cur == RLIM_INFINITY)
        return -1;
    return (int64_t)r.rlim_cur;
}

struct js *task_about(void)
{
    struct js *o = js_object();
    char host[65] = "", text[256];
    struct statvfs shm;
    const char *node = getenv("SLURMD_NODENAME");

    gethostname(host, sizeof(host) - 1);
    js_put_int(o, "rank", task_number("SLURM_PROCID"));
    js_put_int(o, "pmix_rank", task_number("PMIX_RANK"));
    js_put_str(o, "node", node ? node : host);
    js_put_str(o, "host", host);
    read_line("/proc/sys/kernel/random/boot_id", "", text, sizeof(text));
    js_put_str(o, "boot_id", text);
    js_put_int(o, "pid", getpid());
    read_line("/proc/self/status", "Cpus_allowed_list:\t", text, sizeof(text));
    js_put_str(o, "cpus", text);
    js_put_int(o, "memlock", limit(RLIMIT_MEMLOCK));
    js_put_int(o, "nofile", limit(RLIMIT_NOFILE));
    js_put_int(o, "shm_bytes",
               statvfs("/dev/shm", &shm) == 0
                   ? (int64_t)shm.f_bavail * (int64_t)shm.f_frsize
                   : 0);
    return o;
}
