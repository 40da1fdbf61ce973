#include "launcher/task_state.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/js.h"
#include "base/mem.h"
#include "launcher/env.h"
#include "launcher/task_bind.h"

static const struct {
    const char *row, *name;
} limits[] = {
    { "Max locked memory", "memlock" },
    { "Max open files", "nofile" },
    { "Max stack size", "stack" },
    { "Max core file size", "core" },
};

static void take_limit(struct js *o, const char *line)
{
    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        size_t n = strlen(limits[i].row);
        const char *at = line + n;
        char *end;
        long long v;

        if (strncmp(line, limits[i].row, n) != 0)
            continue;
        at += strspn(at, " ");
        v = strncmp(at, "unlimited", 9) == 0 ? -1 : strtoll(at, &end, 10);
        js_put_int(o, limits[i].name, v);
    }
}

static FILE *open_proc(pid_t pid, const char *name)
{
    char *path = xasprintf("/proc/%d/%s", (int)pid, name);
    FILE *fp = fopen(path, "re");

    free(path);
    return fp;
}

static struct js *read_limits(pid_t pid)
{
    FILE *fp = open_proc(pid, "limits");
    struct js *o = js_object();
    char line[256];

    while (fp && fgets(line, sizeof(line), fp))
        take_limit(o, line);
    if (fp)
        fclose(fp);
    return o;
}

static void read_status(pid_t pid, struct js *o)
{
    static const char *const keys[][2] = { { "Cpus_allowed_list:\t", "cpus" },
                                           { "Mems_allowed_list:\t", "mems" } };
    FILE *fp = open_proc(pid, "status");
    char line[1024];

    while (fp && fgets(line, sizeof(line), fp))
        for (size_t i = 0; i < ARRAY_LEN(keys); i++)
            if (strncmp(line, keys[i][0], strlen(keys[i][0])) == 0) {
                line[strcspn(line, "\n")] = '\0';
                js_put_str(o, keys[i][1], line + strlen(keys[i][0]));
            }
    if (fp)
        fclose(fp);
}

static int has_rdma(void)
{
    DIR *d = opendir("/sys/class/infiniband");
    struct dirent *e;
    int n = 0;

    while (d && !n && (e = readdir(d)))
        n = e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

struct js *task_state(pid_t pid, const struct task_bound *bound, const struct env *env)
{
    struct js *o = js_object();
    const char *local = env_get(env, "LOCAL_RANK");
    char host[65] = "";
    struct statvfs shm;

    gethostname(host, sizeof(host) - 1);
    js_put_int(o, "pid", pid);
    js_put_str(o, "host", host);
    read_status(pid, o);
    js_put_str(o, "want_cpus", bound->cpus);
    js_put_str(o, "bound_by", bound->by);
    js_put_str(o, "why", bound->why);
    if (*bound->told)
        js_put_str(o, "net", bound->told);
    js_put_str(o, "devices", env_get(env, "CUDA_VISIBLE_DEVICES"));
    js_put_int(o, "local_rank", local ? strtol(local, NULL, 10) : -1);
    js_put(o, "limits", read_limits(pid));
    if (statvfs("/dev/shm", &shm) == 0) {
        js_put_int(o, "shm_bytes", (int64_t)shm.f_blocks * (int64_t)shm.f_frsize);
        js_put_int(o, "shm_free_bytes", (int64_t)shm.f_bavail * (int64_t)shm.f_frsize);
    }
    js_put_bool(o, "rdma", has_rdma());
    return o;
}

char *task_state_line(pid_t pid, const struct task_bound *bound, const struct env *env)
{
    struct js *o = task_state(pid, bound, env);
    char *line, *whole;

    js_put_str(o, "event", "task");
    line = js_line(o);
    whole = xasprintf("%s\n", line);
    free(line);
    js_free(o);
    return whole;
}
