#include "launcher/slurm_ping.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"

enum { FIRST_MS = 3000, EACH_MS = 10000, LATE_MS = 8000 };

void slurm_ping_init(struct slurm_ping *p, int64_t now)
{
    *p = (struct slurm_ping){ .next = now + FIRST_MS };
    p->proc = (struct proc){ .out = -1, .err = -1, .event = -1 };
}

static void forget(struct slurm_ping *p)
{
    proc_close(&p->proc);
    p->proc = (struct proc){ .out = -1, .err = -1, .event = -1 };
}

void slurm_ping_release(struct slurm_ping *p)
{
    proc_signal(&p->proc, SIGKILL);
    forget(p);
}

static int start(struct slurm_ping *p, const struct proc_before *before)
{
    char *argv[] = { (char[]){ "scontrol" }, (char[]){ "ping" }, NULL };
    struct proc_spec s = {
        .argv = argv, .env = environ, .stdin_fd = -1, .cpus = "", .before = before
    };
    char *program = proc_find("scontrol", getenv("PATH"), NULL);
    int rc = -1;

    s.program = program;
    if (program && proc_spawn(&p->proc, &s, NULL) == 0)
        rc = proc_started(&p->proc, &s, NULL);
    free(program);
    return rc;
}

int slurm_ping_tick(struct slurm_ping *p, const struct proc_before *before, int64_t now)
{
    if (p->proc.pid > 0) {
        if (now - p->begun > LATE_MS)
            proc_signal(&p->proc, SIGKILL);
        return 0;
    }
    if (now < p->next)
        return 0;
    p->next = now + EACH_MS;
    p->begun = now;
    p->n = 0;
    return start(p, before) == 0;
}

void slurm_ping_read(struct slurm_ping *p)
{
    char buf[512];
    ssize_t n;
    size_t room;

    while (p->proc.out >= 0 && (n = read(p->proc.out, buf, sizeof(buf))) >= 0) {
        if (n == 0) {
            close(p->proc.out);
            p->proc.out = -1;
            return;
        }
        room = sizeof(p->text) - 1 - p->n;
        memcpy(p->text + p->n, buf, (size_t)n < room ? (size_t)n : room);
        p->n += (size_t)n < room ? (size_t)n : room;
    }
}

/* "Slurmctld(primary) at host is UP": one that is up is enough.  No answer in time
 * is none; a scontrol that fails in another way says nothing. */
static int is_down(const struct slurm_ping *p, int was)
{
    if (strstr(p->text, " is UP"))
        return 0;
    if (strstr(p->text, " is DOWN") || p->proc.signo == SIGKILL)
        return 1;
    return was;
}

enum slurm_ping_news slurm_ping_child(struct slurm_ping *p, int pid, int wait_status,
                                      int64_t now)
{
    int was = p->down;

    if (pid != p->proc.pid || p->proc.pid <= 0)
        return PING_SAME;
    slurm_ping_read(p);
    p->text[p->n] = '\0';
    proc_reaped(&p->proc, wait_status);
    p->down = is_down(p, was);
    p->next = now + EACH_MS;
    forget(p);
    return p->down == was ? PING_SAME : p->down ? PING_DOWN : PING_UP;
}
