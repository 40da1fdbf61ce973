#include "launcher/task_keepers.h"

#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FIRST_LOOK_MS = 2000, LOOK_MS = 3000 };

static int open_pidfd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static int is_over(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };

    return fd >= 0 && poll(&p, 1, 0) > 0;
}

static void drop(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void task_keepers_open(struct task_keepers *k)
{
    const char *local = getenv("SLURM_LOCALID");
    pid_t parent = getppid();

    *k = (struct task_keepers){ .stepd = -1, .slurmd = -1 };
    k->looks = local && strcmp(local, "0") == 0;
    if (parent > 1)
        k->stepd = open_pidfd(parent);
}

void task_keepers_close(struct task_keepers *k)
{
    drop(&k->stepd);
    drop(&k->slurmd);
}

void task_keepers_begin(struct task_keepers *k, int64_t now)
{
    if (k->looks)
        k->look_at = now + FIRST_LOOK_MS;
}

int task_keepers_wait_ms(const struct task_keepers *k, int64_t now)
{
    if (!k->look_at)
        return -1;
    return k->look_at > now ? (int)(k->look_at - now) : 0;
}

/* The words of /proc/PID/NAME; their length, 0 on failure. */
static size_t read_of(const char *pid, const char *name, char *out, size_t size)
{
    char path[64];
    size_t n = 0;
    FILE *fp;

    snprintf(path, sizeof(path), "/proc/%.16s/%s", pid, name);
    fp = fopen(path, "re");
    if (fp) {
        n = fread(out, 1, size - 1, fp);
        fclose(fp);
    }
    out[n] = '\0';
    return n;
}

/* Several on one machine say their node: `slurmd ... -N NODE`. */
static int is_ours(const char *pid)
{
    const char *node = getenv("SLURMD_NODENAME"), *word;
    char text[4096];
    size_t n = read_of(pid, "comm", text, sizeof(text));

    if (n == 0 || strcmp(text, "slurmd\n") != 0)
        return 0;
    n = read_of(pid, "cmdline", text, sizeof(text));
    for (size_t at = 0; at < n; at += strlen(text + at) + 1) {
        word = text + at;
        if (strncmp(word, "-N", 2) != 0)
            continue;
        word += word[2] ? 2 : 3;
        return word < text + n && node && strcmp(word, node) == 0;
    }
    return 1;
}

static pid_t find_slurmd(void)
{
    DIR *proc = opendir("/proc");
    const struct dirent *e;
    pid_t found = 0;

    while (proc && !found && (e = readdir(proc)))
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && is_ours(e->d_name))
            found = (pid_t)strtol(e->d_name, NULL, 10);
    if (proc)
        closedir(proc);
    return found;
}

/* Other users' processes may be hidden from us (hidepid, a container): then so is our
 * parent. */
static int can_see_daemons(void)
{
    char parent[32], text[64];

    snprintf(parent, sizeof(parent), "%d", (int)getppid());
    return read_of(parent, "comm", text, sizeof(text)) &&
           strcmp(text, "slurmstepd\n") == 0;
}

static enum task_keeper look_for_slurmd(struct task_keepers *k, int64_t now, pid_t *pid)
{
    pid_t found = find_slurmd();
    int missed = k->missed;

    if (!found) {
        k->missed = missed || can_see_daemons();
        k->look_at = k->missed ? now + LOOK_MS : 0;
        *pid = 0;
        return k->missed && !missed ? KEEPER_SLURMD : KEEPER_NONE;
    }
    k->look_at = 0;
    k->slurmd = open_pidfd(found);
    if (k->slurmd < 0)
        return KEEPER_NONE;
    k->slurmd_pid = *pid = found;
    k->missed = 0;
    return missed ? KEEPER_SLURMD_BACK : KEEPER_NONE;
}

enum task_keeper task_keepers_look(struct task_keepers *k, int64_t now, pid_t *pid)
{
    if (is_over(k->stepd)) {
        drop(&k->stepd);
        *pid = 0;
        return KEEPER_STEPD;
    }
    if (is_over(k->slurmd)) {
        drop(&k->slurmd);
        *pid = k->slurmd_pid;
        k->missed = 1;
        k->look_at = now + LOOK_MS;
        return KEEPER_SLURMD;
    }
    if (k->look_at && now >= k->look_at)
        return look_for_slurmd(k, now, pid);
    return KEEPER_NONE;
}
