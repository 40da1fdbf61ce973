#include "launcher/task_about.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/js.h"

int task_number(const char *name)
{
    const char *text = getenv(name);
    char *end;
    long v = text ? strtol(text, &end, 10) : -1;

    return text && *text && *end == '\0' && v >= 0 && v < 1 << 30 ? (int)v : -1;
}

static void read_boot_id(char out[40])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, 39) : 0;

    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
    if (fd >= 0)
        close(fd);
}

struct js *task_about(void)
{
    struct js *o = js_object();
    char host[65] = "", boot_id[40];
    const char *node = getenv("SLURMD_NODENAME");

    gethostname(host, sizeof(host) - 1);
    read_boot_id(boot_id);
    js_put_int(o, "rank", task_number("SLURM_PROCID"));
    js_put_int(o, "pmix_rank", task_number("PMIX_RANK"));
    js_put_str(o, "node", node ? node : host);
    js_put_str(o, "host", host);
    js_put_str(o, "boot_id", boot_id);
    js_put_int(o, "pid", getpid());
    return o;
}
