#include "launcher/slurm_fault.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/mem.h"
#include "topology/hostlist.h"

enum { NAMED = 8 };

enum story { FINE, LOST, DIED /* srun saw the task die */ };

struct slurm_fault {
    int world;
    const char *const *host;
    enum story *rank; /* [world] */
    char *orphan;     /* [world] its slurmstepd died */
    char *blamed;     /* [world] */
    char *over;       /* [world] srun said that the task ended */
    int64_t due;
    int judged;
    int own;                      /* a rank failed by itself */
    int abort_rank, abort_status; /* of MPI_Abort; -1: none */
    int srun_pid, srun_signal;
    char cancelled[256]; /* what srun said of the end of the step, or "" */
    char failed[65];     /* the node whose failure srun reported, or "" */
    char exec[512];      /* the task's program could not be executed: why; or "" */
};

struct slurm_fault *slurm_fault_new(int world, const char *const *host)
{
    struct slurm_fault *f = xcalloc(1, sizeof(*f));

    f->world = world;
    f->abort_rank = -1;
    f->host = host;
    f->rank = xcalloc((size_t)world, sizeof(*f->rank));
    f->orphan = xcalloc((size_t)world, 1);
    f->blamed = xcalloc((size_t)world, 1);
    f->over = xcalloc((size_t)world, 1);
    return f;
}

void slurm_fault_free(struct slurm_fault *f)
{
    if (!f)
        return;
    free(f->rank);
    free(f->orphan);
    free(f->blamed);
    free(f->over);
    free(f);
}

static void wait_a_moment(struct slurm_fault *f, int64_t now)
{
    if (!f->due)
        f->due = now + SLURM_FAULT_MS;
}

/* ---- what is seen ---- */

/* "srun: error: n2: tasks 2-3,7: Killed" (or ": Exited with exit code 2"). */
static void note_tasks(struct slurm_fault *f, const char *line)
{
    const char *at = strstr(line, ": task"), *end = at ? strchr(at + 2, ':') : NULL;
    int killed = end && strncmp(end, ": Killed", 8) == 0;
    char list[600];
    struct strlist names = { 0 };

    at = at ? strpbrk(at, "0123456789") : NULL;
    if (!end || !at || at >= end)
        return;
    snprintf(list, sizeof(list), "[%.*s]", (int)(end - at), at);
    if (hostlist_expand(list, &names, NULL) < 0)
        return;
    for (int i = 0; i < names.n; i++) {
        long r = strtol(names.item[i], NULL, 10);
        if (r < 0 || r >= f->world)
            continue;
        f->over[r] = 1;
        if (killed)
            f->rank[r] = DIED;
    }
    strlist_release(&names);
}

/* "slurmstepd-n2: error: execve(): /x/muster: No such file or directory" */
static void note_exec(struct slurm_fault *f, const char *line)
{
    const char *at = strstr(line, "execve(): ");

    if (at && !*f->exec)
        snprintf(f->exec, sizeof(f->exec), "%s", at + strlen("execve(): "));
}

void slurm_fault_line(struct slurm_fault *f, const char *line, int64_t now)
{
    static const char failure[] = "Node failure on ";
    const char *at;

    if (f->judged)
        return;
    note_tasks(f, line);
    note_exec(f, line);
    at = strstr(line, failure);
    if (at) {
        at += sizeof(failure) - 1;
        snprintf(f->failed, sizeof(f->failed), "%.*s", (int)strcspn(at, " ,;"), at);
        wait_a_moment(f, now);
    }
    at = strstr(line, "*** ");
    if (!at || !strstr(at, " CANCELLED ") || *f->cancelled)
        return;
    at += 4;
    snprintf(f->cancelled, sizeof(f->cancelled), "%s", at);
    at = strstr(f->cancelled, " ***");
    if (at)
        f->cancelled[at - f->cancelled] = '\0';
    wait_a_moment(f, now);
}

void slurm_fault_lost(struct slurm_fault *f, int rank, int64_t now)
{
    if (f->rank[rank] == FINE)
        f->rank[rank] = LOST;
    wait_a_moment(f, now);
}

void slurm_fault_orphan(struct slurm_fault *f, int rank, int64_t now)
{
    f->orphan[rank] = 1;
    wait_a_moment(f, now);
}

void slurm_fault_exit(struct slurm_fault *f, int rank, int wait_status)
{
    int killed = WIFSIGNALED(wait_status) &&
                 (WTERMSIG(wait_status) == SIGKILL || WTERMSIG(wait_status) == SIGTERM);

    (void)rank;
    f->own |= wait_status != 0 && !killed;
}

/* The number behind `words` in bytes[n]; -1: they are not there. */
static int number_behind(const char *bytes, size_t n, const char *words)
{
    const char *at = memmem(bytes, n, words, strlen(words));
    size_t left = at ? n - (size_t)(at - bytes) - strlen(words) : 0;
    char text[16];

    if (!left)
        return -1;
    snprintf(text, sizeof(text), "%.*s", (int)(left < 15 ? left : 15),
             at + strlen(words));
    return (int)strtol(text, NULL, 10);
}

void slurm_fault_printed(struct slurm_fault *f, const char *bytes, size_t n)
{
    int rank = number_behind(bytes, n, "MPI_ABORT was invoked on rank "); /* Open MPI */
    int status = number_behind(bytes, n, "with errorcode ");

    if (rank < 0) { /* MPICH */
        status =
            number_behind(bytes, n, "application called MPI_Abort(MPI_COMM_WORLD, ");
        rank = status < 0 ? -1 : number_behind(bytes, n, ") - process ");
    }
    if (rank < 0 || rank >= f->world || f->abort_rank >= 0)
        return;
    f->abort_rank = rank;
    f->abort_status = status > 0 && status < 256 ? status : ERR_FAILED;
}

void slurm_fault_srun(struct slurm_fault *f, int pid, int signo, int64_t now)
{
    f->srun_pid = pid;
    f->srun_signal = signo;
    wait_a_moment(f, now);
}

int64_t slurm_fault_due(const struct slurm_fault *f)
{
    return f->judged ? 0 : f->due;
}

int slurm_fault_is_over(const struct slurm_fault *f, int rank)
{
    return f->over[rank];
}

const char *slurm_fault_exec(const struct slurm_fault *f)
{
    return f->exec;
}

int slurm_fault_blames(const struct slurm_fault *f, int rank)
{
    return f->blamed[rank];
}

/* ---- judging ---- */

static int count(const struct slurm_fault *f, enum story what)
{
    int n = 0;

    for (int r = 0; r < f->world; r++)
        n += f->rank[r] == what;
    return n;
}

/* Is it lost from end to end? */
static int is_whole(const struct slurm_fault *f, const char *host)
{
    for (int r = 0; r < f->world; r++)
        if (str_eq(f->host[r], host) && f->rank[r] != LOST)
            return 0;
    return 1;
}

static int first_orphan(const struct slurm_fault *f)
{
    for (int r = 0; r < f->world; r++)
        if (f->orphan[r])
            return r;
    return -1;
}

static void blame(struct slurm_fault *f, const char *host)
{
    for (int r = 0; r < f->world; r++)
        if (str_eq(f->host[r], host))
            f->blamed[r] = 1;
}

/* "rank 4", "ranks 2, 3 and 9 more" of a node. */
static void name_ranks(const struct slurm_fault *f, const char *host, struct str *s)
{
    int n = 0, all = 0;

    for (int r = 0; r < f->world; r++)
        all += str_eq(f->host[r], host);
    str_addf(s, "rank%s ", all == 1 ? "" : "s");
    for (int r = 0; r < f->world && n < NAMED; r++)
        if (str_eq(f->host[r], host))
            str_addf(s, "%s%d", n++ ? ", " : "", r);
    if (all > n)
        str_addf(s, " and %d more", all - n);
}

static int first_of(const struct slurm_fault *f, enum story what)
{
    for (int r = 0; r < f->world; r++)
        if (f->rank[r] == what)
            return r;
    return -1;
}

static int is_first_on_host(const struct slurm_fault *f, int rank)
{
    for (int r = 0; r < rank; r++)
        if (str_eq(f->host[r], f->host[rank]))
            return 0;
    return 1;
}

/* Nodes all of whose agents are lost: each is blamed and added to *s. */
static int whole_nodes(struct slurm_fault *f, struct str *s)
{
    int n = 0;

    for (int r = 0; r < f->world; r++) {
        if (!is_first_on_host(f, r) || !is_whole(f, f->host[r]))
            continue;
        if (n++ < NAMED) {
            str_addf(s, "%snode %s (", n > 1 ? ", " : "", f->host[r]);
            name_ranks(f, f->host[r], s);
            str_adds(s, ")");
        }
        blame(f, f->host[r]);
    }
    if (n > NAMED)
        str_addf(s, " and %d more nodes", n - NAMED);
    return n;
}

static int n_hosts(const struct slurm_fault *f)
{
    int n = 0;

    for (int r = 0; r < f->world; r++)
        n += is_first_on_host(f, r);
    return n;
}

static void of_srun(const struct slurm_fault *f, struct slurm_verdict *v)
{
    v->status = ERR_SYSTEM;
    v->cause = "system";
    str_addf(&v->reason,
             "srun (pid %d), which holds the step, died of signal %d (%s), not by "
             "muster: Slurm ends the ranks of a step without it",
             f->srun_pid, f->srun_signal, strsignal(f->srun_signal));
}

static void of_stepd(struct slurm_fault *f, struct slurm_verdict *v)
{
    const char *host = f->host[first_orphan(f)];

    v->status = ERR_SYSTEM;
    v->cause = "node";
    str_addf(&v->reason,
             "node %s: the slurmstepd of the step died (killed, or out of "
             "memory?), which holds ",
             host);
    name_ranks(f, host, &v->reason);
    blame(f, host);
}

static void of_slurm(const struct slurm_fault *f, struct slurm_verdict *v)
{
    if (f->abort_rank >= 0) {
        v->status = f->abort_status;
        v->cause = "rank";
        v->culprit = f->abort_rank;
        str_addf(&v->reason, "rank %d on %s aborted with status %d (MPI_Abort)",
                 f->abort_rank, f->host[f->abort_rank], f->abort_status);
        return;
    }
    v->status = 128 + SIGTERM;
    v->cause = "stopped";
    str_addf(&v->reason,
             "Slurm ended the step (scancel, time limit, preemption, or a rank that "
             "called PMIx_Abort): %s",
             f->cancelled);
}

static void of_failure(struct slurm_fault *f, struct slurm_verdict *v)
{
    v->status = ERR_SYSTEM;
    v->cause = "node";
    str_addf(&v->reason, "node %s failed, says Slurm", f->failed);
    blame(f, f->failed);
}

static void of_node(struct slurm_fault *f, struct slurm_verdict *v)
{
    struct str who = STR_INIT;
    int n = whole_nodes(f, &who);

    v->status = ERR_SYSTEM;
    v->cause = "node";
    if (n == n_hosts(f) && n > 1)
        str_addf(&v->reason,
                 "the agents of all %d nodes were lost at once: the step is gone, or "
                 "the network of this host",
                 n);
    else
        str_addf(&v->reason,
                 "%s %s lost: its agents went without a word (the node or its "
                 "network is down, or they were killed)",
                 who.text, n == 1 ? "is" : "are");
    str_release(&who);
}

static void of_agent(struct slurm_fault *f, struct slurm_verdict *v)
{
    enum story what = count(f, DIED) ? DIED : LOST;
    int first = first_of(f, what), n = count(f, what);

    v->status = ERR_SYSTEM;
    v->cause = "node";
    v->culprit = n == 1 ? first : -1;
    if (n == 1)
        str_addf(&v->reason, "rank %d on %s was lost: its agent died", first,
                 f->host[first]);
    else
        str_addf(&v->reason, "the agents of %d ranks died, the first is rank %d on %s",
                 n, first, f->host[first]);
    str_adds(&v->reason, what == DIED ? " of signal 9 (Killed), not by muster: out of "
                                        "memory?"
                                      : " (killed?)");
    for (int r = 0; r < f->world; r++)
        if (f->rank[r] == what)
            blame(f, f->host[r]);
}

/* Some node is gone as a whole, and no task of it was seen to die. */
static int is_node(const struct slurm_fault *f)
{
    for (int r = 0; r < f->world; r++)
        if (is_whole(f, f->host[r]))
            return 1;
    return 0;
}

int slurm_fault_judge(struct slurm_fault *f, int64_t now, struct slurm_verdict *out)
{
    struct slurm_verdict v = { .culprit = -1, .reason = STR_INIT };

    if (f->judged || !f->due || now < f->due)
        return 0;
    f->judged = 1;
    if (*f->cancelled && f->own && !f->srun_signal && f->abort_rank < 0)
        return 0;
    if (f->srun_signal)
        of_srun(f, &v);
    else if (*f->failed)
        of_failure(f, &v);
    else if (*f->cancelled)
        of_slurm(f, &v);
    else if (is_node(f) && !count(f, DIED))
        of_node(f, &v);
    else if (first_orphan(f) >= 0)
        of_stepd(f, &v);
    else
        of_agent(f, &v);
    *out = v;
    return 1;
}
