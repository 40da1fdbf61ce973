#include "launcher/sweep.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"

static pid_t spared; /* 0: nobody */

enum belongs { UNKNOWN, OURS, SPARED };

struct seen {
    struct sweep_process p;
    pid_t parent;
    char state;
    enum belongs belongs;
};

/* A file of /proc/PID, whole; 0 bytes when it cannot be read. */
static void slurp(pid_t pid, const char *name, struct str *text)
{
    char path[64], buf[4096];
    ssize_t n;
    int fd;

    str_clear(text);
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    while ((n = read(fd, buf, sizeof(buf))) > 0)
        str_add(text, buf, (size_t)n);
    close(fd);
}

/* "PID (COMM) S PPID ... STARTTIME": COMM may hold anything, even ')'. */
static int read_stat(pid_t pid, struct seen *s)
{
    struct str text = STR_INIT;
    const char *at;
    int ok = -1;

    *s = (struct seen){ .p.pid = pid };
    slurp(pid, "stat", &text);
    at = text.len ? strrchr(text.text, ')') : NULL;
    if (!at || at[1] != ' ')
        goto out;
    at += 2;
    s->state = *at;
    for (int field = 3; field < 22; field++) {
        at = strchr(at, ' ');
        if (!at++)
            goto out;
        if (field == 3)
            s->parent = (pid_t)strtol(at, NULL, 10);
    }
    s->p.started = strtoull(at, NULL, 10);
    ok = 0;
out:
    str_release(&text);
    return ok;
}

static int by_pid(const void *a, const void *b)
{
    const struct seen *x = a, *y = b;

    return (x->p.pid > y->p.pid) - (x->p.pid < y->p.pid);
}

static int scan_all(struct seen **out)
{
    DIR *proc = opendir("/proc");
    struct seen *all = NULL, one;
    struct dirent *d;
    int n = 0;

    while (proc && (d = readdir(proc))) {
        if (!isdigit((unsigned char)d->d_name[0]) ||
            read_stat((pid_t)strtol(d->d_name, NULL, 10), &one) < 0)
            continue;
        if ((n & (n - 1)) == 0)
            all = xrealloc(all, n ? (size_t)n * 2 : 1, sizeof(*all));
        all[n++] = one;
    }
    if (proc)
        closedir(proc);
    if (n)
        qsort(all, (size_t)n, sizeof(*all), by_pid);
    *out = all;
    return n;
}

static struct seen *look_up(struct seen *all, int n, pid_t pid)
{
    struct seen key = { .p.pid = pid };

    return n ? bsearch(&key, all, (size_t)n, sizeof(*all), by_pid) : NULL;
}

static void mark_descendants(struct seen *all, int n)
{
    pid_t self = getpid();
    int more = 1;

    while (more) {
        more = 0;
        for (int i = 0; i < n; i++) {
            const struct seen *up = look_up(all, n, all[i].parent);
            if (all[i].belongs != UNKNOWN ||
                !(all[i].parent == self || (up && up->belongs == OURS)))
                continue;
            all[i].belongs = OURS;
            more = 1;
        }
    }
}

/* The caller and all above it, and one below: never ours, whatever their environment
 * says. */
static void spare_ancestors(struct seen *all, int n)
{
    struct seen *s = look_up(all, n, spared);

    if (s && s->parent == getpid())
        s->belongs = SPARED;
    s = look_up(all, n, getpid());
    while (s) {
        s->belongs = SPARED;
        s = s->parent > 0 && s->parent != s->p.pid ? look_up(all, n, s->parent) : NULL;
    }
}

/* Runs that run in runs have all their marks: "NAME=ONE:OTHER". */
static int is_marked(const char *entry, const char *mark)
{
    size_t name = strcspn(mark, "="), n;
    const char *at = entry + name + 1;

    if (strncmp(entry, mark, name) != 0 || entry[name] != '=')
        return 0;
    mark += name + 1;
    for (;; at += n + 1) {
        n = strcspn(at, ":");
        if (n == strlen(mark) && strncmp(at, mark, n) == 0)
            return 1;
        if (!at[n])
            return 0;
    }
}

static int carries(pid_t pid, const char *mark)
{
    struct str text = STR_INIT;
    struct stat st;
    char path[32];
    int yes = 0;

    snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    if (stat(path, &st) < 0 || st.st_uid != geteuid())
        return 0;
    slurp(pid, "environ", &text);
    for (size_t i = 0; i < text.len && !yes; i += strlen(text.text + i) + 1)
        yes = is_marked(text.text + i, mark);
    str_release(&text);
    return yes;
}

int sweep_find(const char *mark, struct sweep_process **out)
{
    struct seen *all;
    int n = scan_all(&all), found = 0;

    spare_ancestors(all, n);
    for (int i = 0; mark && i < n; i++)
        if (all[i].belongs == UNKNOWN && all[i].p.pid > 1 &&
            carries(all[i].p.pid, mark))
            all[i].belongs = OURS;
    mark_descendants(all, n);
    *out = xcalloc((size_t)n + 1, sizeof(**out));
    for (int i = 0; i < n; i++)
        if (all[i].belongs == OURS && all[i].p.pid > 1 && all[i].state != 'Z' &&
            all[i].state != 'X')
            (*out)[found++] = all[i].p;
    free(all);
    return found;
}

/* Looked at once more, one process, by its own parents and its or their mark: a signal to
 * somebody else's process would be worse than one that is not sent. */
static int is_ours(const struct sweep_process *p, const char *mark)
{
    struct seen s;
    pid_t self = getpid(), at = p->pid;
    int depth = 0;

    if (at <= 1 || at == self || read_stat(at, &s) < 0 || s.p.started != p->started)
        return 0;
    do {
        if (s.parent == self || (mark && carries(at, mark)))
            return 1;
        at = s.parent;
    } while (at > 1 && depth++ < 4096 && read_stat(at, &s) == 0);
    return 0;
}

/* Hold the process by a descriptor, look that it is still the same, then signal it. */
static int signal_one(const struct sweep_process *p, int signo)
{
    int fd = (int)syscall(SYS_pidfd_open, p->pid, 0), ok = 0;
    struct seen s;

    if (read_stat(p->pid, &s) == 0 && s.p.started == p->started)
        ok = fd >= 0 ? syscall(SYS_pidfd_send_signal, fd, signo, NULL, 0) == 0
                     : kill(p->pid, signo) == 0; /* before Linux 5.3 */
    if (fd >= 0)
        close(fd);
    return ok;
}

int sweep_signal(const char *mark, int signo)
{
    struct sweep_process *p;
    int all = sweep_find(mark, &p), n = 0, hit = 0;

    /* Before any is signalled: what kills a parent hides whose its children are. */
    for (int i = 0; i < all; i++)
        if (is_ours(&p[i], mark))
            p[n++] = p[i];
    for (int i = 0; i < n; i++)
        hit += signal_one(&p[i], signo);
    /* A stopped process gets TERM only when it goes on. */
    for (int i = 0; i < n && signo == SIGTERM; i++)
        signal_one(&p[i], SIGCONT);
    free(p);
    return hit;
}

void sweep_spare(pid_t child)
{
    spared = child;
}

void sweep_adopt(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

static int count_left(const char *mark)
{
    struct sweep_process *p;
    int n;

    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    n = sweep_find(mark, &p);
    free(p);
    return n;
}

int sweep_end(const char *mark, int grace_ms)
{
    const struct timespec nap = { 0, 20000000 };
    int64_t kill_at = clock_ms() + grace_ms, give_up = kill_at + 5000;
    int left = count_left(mark);

    if (left)
        sweep_signal(mark, SIGTERM);
    while ((left = left ? count_left(mark) : 0) && clock_ms() < give_up) {
        if (clock_ms() >= kill_at)
            sweep_signal(mark, SIGKILL);
        nanosleep(&nap, NULL);
    }
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    return left;
}
