#include "launcher/process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"

struct identity {
    char host[65], boot[40];
    int pid;
    long long start;
};

static void this_machine(struct identity *id)
{
    FILE *fp = fopen("/proc/sys/kernel/random/boot_id", "re");

    id->boot[0] = '\0';
    if (fp) {
        if (fgets(id->boot, sizeof(id->boot), fp))
            id->boot[strcspn(id->boot, "\n")] = '\0';
        fclose(fp);
    }
    if (gethostname(id->host, sizeof(id->host)) < 0)
        id->host[0] = '\0';
    id->host[sizeof(id->host) - 1] = '\0';
}

/* The name in parentheses may hold blanks and parentheses: count from the last.  A
 * zombie has ended, though in a container nobody may ever reap it. */
static long long start_of(int pid)
{
    char path[40], line[1024];
    long long start = -1;
    char *at = NULL;
    FILE *fp;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    fp = fopen(path, "re");
    if (!fp)
        return -1;
    if (fgets(line, sizeof(line), fp))
        at = strrchr(line, ')');
    if (at && (strncmp(at, ") Z", 3) == 0 || strncmp(at, ") X", 3) == 0))
        at = NULL;
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (at)
        start = strtoll(at, NULL, 10);
    fclose(fp);
    return start;
}

char *process_self(void)
{
    struct identity id;

    this_machine(&id);
    id.pid = getpid();
    return xasprintf("%s:%s:%d:%lld", id.host, id.boot, id.pid, start_of(id.pid));
}

static int read_identity(const char *text, struct identity *id)
{
    const char *boot = strchr(text, ':');
    const char *pid = boot ? strchr(boot + 1, ':') : NULL;
    char *end;

    if (!pid || (size_t)(boot - text) >= sizeof(id->host) ||
        (size_t)(pid - boot - 1) >= sizeof(id->boot))
        return -1;
    snprintf(id->host, sizeof(id->host), "%.*s", (int)(boot - text), text);
    snprintf(id->boot, sizeof(id->boot), "%.*s", (int)(pid - boot - 1), boot + 1);
    id->pid = (int)strtol(pid + 1, &end, 10);
    if (*end != ':' || id->pid < 1)
        return -1;
    id->start = strtoll(end + 1, &end, 10);
    return *end ? -1 : 0;
}

enum process_state process_find(const char *text)
{
    struct identity id, here;

    if (read_identity(text, &id) < 0)
        return PROCESS_GONE;
    this_machine(&here);
    if (strcmp(id.host, here.host) != 0)
        return PROCESS_REMOTE;
    if (strcmp(id.boot, here.boot) != 0)
        return PROCESS_GONE;
    return start_of(id.pid) == id.start ? PROCESS_ALIVE : PROCESS_GONE;
}

int process_signal(const char *text, int signal, struct err *err)
{
    struct identity id;
    int fd, rc;

    if (read_identity(text, &id) < 0)
        return err_set(err, ERR_MISSING, "'%s' names no process", text);
    if (process_find(text) == PROCESS_REMOTE)
        return err_set(err, ERR_MISSING, "it runs on %s: do this there", id.host);
    fd = (int)syscall(SYS_pidfd_open, id.pid, 0);
    if (fd < 0 || process_find(text) != PROCESS_ALIVE) {
        if (fd >= 0)
            close(fd);
        return err_set(err, ERR_MISSING, "process %d is gone", id.pid);
    }
    rc = (int)syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0);
    if (rc < 0)
        err_set(err, ERR_SYSTEM, "signal %d to process %d: %m", signal, id.pid);
    close(fd);
    return rc < 0 ? -1 : 0;
}
