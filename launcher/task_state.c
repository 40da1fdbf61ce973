#include "launcher/task_state.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/js.h"
#include "base/mem.h"
#include "launcher/env.h"
#include "launcher/task_bind.h"
#include "topology/cpulist.h"

enum { NUMA_MOST = 1024, MEMS_ALLOWED = 4 }; /* <numaif.h>: MPOL_F_MEMS_ALLOWED */

/* Read with system calls, not from /proc/PID: to print status and limits there costs the
 * kernel more than all else that an agent says of its rank. */
static struct js *read_limits(pid_t pid)
{
    static const struct {
        __rlimit_resource_t which;
        const char *name;
    } limits[] = {
        { RLIMIT_STACK, "stack" },
        { RLIMIT_CORE, "core" },
        { RLIMIT_NOFILE, "nofile" },
        { RLIMIT_MEMLOCK, "memlock" },
    };
    struct js *o = js_object();
    struct rlimit now;

    for (size_t i = 0; i < ARRAY_LEN(limits); i++)
        if (prlimit(pid, limits[i].which, NULL, &now) == 0)
            js_put_int(o, limits[i].name,
                       now.rlim_cur == RLIM_INFINITY ? -1 : (int64_t)now.rlim_cur);
    return o;
}

/* Where system calls on memory are forbidden, as in containers. */
static void read_mems(struct js *o)
{
    static const char key[] = "Mems_allowed_list:\t";
    FILE *fp = fopen("/proc/self/status", "re");
    char line[1024];

    while (fp && fgets(line, sizeof(line), fp))
        if (strncmp(line, key, sizeof(key) - 1) == 0) {
            line[strcspn(line, "\n")] = '\0';
            js_put_str(o, "mems", line + sizeof(key) - 1);
        }
    if (fp)
        fclose(fp);
}

/* Of memory it may use what we may: a rank inherits that, like its cpuset. */
static void read_places(pid_t pid, struct js *o)
{
    unsigned long nodes[NUMA_MOST / (8 * sizeof(unsigned long))] = { 0 };
    struct cpulist l = { { 0 } };
    char text[1024];

    if (cpulist_of_process(pid, &l) == 0 && cpulist_format(&l, text, sizeof(text)) == 0)
        js_put_str(o, "cpus", text);
    if (syscall(SYS_get_mempolicy, NULL, nodes, NUMA_MOST, NULL, MEMS_ALLOWED) < 0) {
        read_mems(o);
        return;
    }
    memset(&l, 0, sizeof(l));
    for (int i = 0; i < NUMA_MOST; i++)
        if (nodes[(size_t)i / (8 * sizeof(*nodes))] >>
                ((size_t)i % (8 * sizeof(*nodes))) &
            1)
            cpulist_add(&l, i);
    if (cpulist_format(&l, text, sizeof(text)) == 0)
        js_put_str(o, "mems", text);
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
    read_places(pid, o);
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
