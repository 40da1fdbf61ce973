#include "launcher/task_pmix.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/sweep.h"

struct inodes {
    unsigned long *item;
    int n;
};

int task_pmix_uri_port(const char *uri)
{
    const char *at = strstr(uri, "://"), *colon = at ? strrchr(at + 3, ':') : NULL;
    long port = colon ? strtol(colon + 1, NULL, 10) : 0;

    return port > 0 && port < 65536 ? (int)port : 0;
}

int task_pmix_port(void)
{
    for (char **v = environ; *v; v++)
        if (strncmp(*v, "PMIX_SERVER_URI", 15) == 0 && strchr(*v, '='))
            return task_pmix_uri_port(strchr(*v, '=') + 1);
    return 0;
}

/* Sockets of this network namespace with an open connection to the port. */
static void find_sockets(int port, struct inodes *out)
{
    FILE *fp = fopen("/proc/self/net/tcp", "re");
    unsigned remote, state;
    unsigned long inode;
    char line[512];
    int n;

    while (fp && fgets(line, sizeof(line), fp)) {
        /* The kernel's own words. NOLINTNEXTLINE(cert-err34-c) */
        n = sscanf(line,
                   " %*d: %*8x:%*4x 0100007F:%4x %2x %*x:%*x %*x:%*x %*x %*d %*d %lu",
                   &remote, &state, &inode);
        if (n != 3 || remote != (unsigned)port || state != 1)
            continue;
        out->item = xrealloc(out->item, (size_t)out->n + 1, sizeof(*out->item));
        out->item[out->n++] = inode;
    }
    if (fp)
        fclose(fp);
}

static int has(const struct inodes *all, unsigned long inode)
{
    for (int i = 0; i < all->n; i++)
        if (all->item[i] == inode)
            return 1;
    return 0;
}

static int holds_one(pid_t pid, const struct inodes *sockets)
{
    char path[64], text[64];
    const struct dirent *e;
    int found = 0;
    ssize_t n;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    dir = opendir(path);
    while (dir && !found && (e = readdir(dir))) {
        n = readlinkat(dirfd(dir), e->d_name, text, sizeof(text) - 1);
        text[n > 0 ? n : 0] = '\0';
        found = strncmp(text, "socket:[", 8) == 0 &&
                has(sockets, strtoul(text + 8, NULL, 10));
    }
    if (dir)
        closedir(dir);
    return found;
}

int task_pmix_is_met(int port)
{
    struct sweep_process *all = NULL;
    struct inodes sockets = { 0 };
    int n, met = 0;

    find_sockets(port, &sockets);
    n = sockets.n ? sweep_find(NULL, &all) : 0;
    for (int i = 0; i < n && !met; i++)
        met = holds_one(all[i].pid, &sockets);
    free(all);
    free(sockets.item);
    return met;
}
