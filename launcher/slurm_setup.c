#include "launcher/slurm_setup.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/env.h"
#include "launcher/machines.h"
#include "launcher/slurm_cmd.h"
#include "launcher/slurm_each.h"
#include "launcher/slurm_step.h"
#include "recipes/recipe.h"
#include "topology/topology.h"

#define MARK "muster-setup "

enum { LINE_MAX_BYTES = 300, NAMED = 8, TICK_MS = 50 };

/* ---- on a node ---- */

struct teller {
    char line[LINE_MAX_BYTES]; /* the last one that is not empty */
    size_t n;
    int ended; /* the next byte begins another */
};

static void keep(struct teller *t, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == '\n' || bytes[i] == '\r') {
            t->ended = 1;
            continue;
        }
        if (t->ended)
            t->n = 0;
        t->ended = 0;
        if (t->n < sizeof(t->line) - 1)
            t->line[t->n++] = bytes[i];
    }
    t->line[t->n] = '\0';
}

static pid_t start(char *const *argv, int *fd, struct err *err)
{
    int p[2];
    pid_t pid;

    if (pipe(p) < 0)
        return err_set(err, ERR_SYSTEM, "pipe: %m");
    pid = fork();
    if (pid == 0) {
        dup2(p[1], STDOUT_FILENO);
        dup2(p[1], STDERR_FILENO);
        close(p[0]);
        close(p[1]);
        execvp(argv[0], argv);
        dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
        _exit(errno == ENOENT ? 127 : 126);
    }
    close(p[1]);
    *fd = p[0];
    if (pid > 0)
        return pid;
    close(p[0]);
    return err_set(err, ERR_SYSTEM, "fork: %m");
}

/* What it wrote within that time; 0: nothing will come any more. */
static int carry(struct teller *t, int fd, int timeout_ms)
{
    struct pollfd p = { fd, POLLIN, 0 };
    char buf[4096];
    ssize_t n;

    while (poll(&p, 1, timeout_ms) > 0) {
        n = read(fd, buf, sizeof(buf));
        if (n == 0 || (n < 0 && errno != EINTR))
            return 0;
        (void)!write(STDERR_FILENO, buf, n > 0 ? (size_t)n : 0);
        keep(t, buf, n > 0 ? (size_t)n : 0);
    }
    return 1;
}

/* What the command leaves running may hold the pipe: its own end counts. */
int slurm_setup_node(char *const *argv, struct err *err)
{
    const char *node = getenv("SLURMD_NODENAME");
    struct teller t = { .n = 0 };
    int fd, raw = 0, status;
    pid_t pid = start(argv, &fd, err);
    char *line;

    if (pid < 0)
        return -1;
    while (carry(&t, fd, TICK_MS) && waitpid(pid, &raw, WNOHANG) != pid)
        ;
    if (waitpid(pid, &raw, 0) == pid || errno == ECHILD)
        carry(&t, fd, 0);
    status = WIFSIGNALED(raw) ? 128 + WTERMSIG(raw) : WEXITSTATUS(raw);
    line = xasprintf(MARK "%s %d %s\n", node ? node : "?", status, t.line);
    (void)!write(STDOUT_FILENO, line, strlen(line));
    free(line);
    return 0;
}

/* ---- the step ---- */

void slurm_setup_argv(const struct slurm_place *p, const struct topology *t,
                      const struct recipe *r, const char *self, struct strlist *argv)
{
    static const char *const options[] = {
        "--ntasks-per-node=1",
        "--distribution=block",
        "--overlap",
        "--mpi=none",
        "--export=ALL",
        "--cpu-bind=none",
        "--input=none",
        "--unbuffered",
        "--wait=0",
        "--kill-on-bad-exit=0",
        NULL,
    };

    slurm_each_node(p, t, options, self, "setup", argv);
    for (int i = 0; i < r->cluster.slurm_setup.n; i++)
        strlist_add(argv, r->cluster.slurm_setup.item[i]);
    slurm_each_end(argv);
}

/* ---- what came of it ---- */

/* "NODE STATUS WORDS" of a node; NULL: it has not said so. */
static const char *report_of(const char *said, const char *node)
{
    size_t n = strlen(node);

    for (const char *p = said; p && *p; p += strcspn(p, "\n"), p += *p == '\n') {
        const char *at = p + strlen(MARK);
        if (strncmp(p, MARK, strlen(MARK)) == 0 && strncmp(at, node, n) == 0 &&
            at[n] == ' ')
            return at + n + 1;
    }
    return NULL;
}

static void add_name(struct str *s, const char *name, int *n)
{
    if ((*n)++ < NAMED)
        str_addf(s, "%s%s", *n > 1 ? ", " : "", name);
}

static int name_silent(const struct str *silent, int n, const char *command,
                       int is_late, const char *words, struct err *err)
{
    char more[32] = "";

    if (n > NAMED)
        snprintf(more, sizeof(more), " and %d more", n - NAMED);
    if (is_late)
        return err_set(err, ERR_TIMEOUT,
                       "cluster.slurm.setup: %s is not done in time on %s%s", command,
                       silent->text, more);
    return err_set(err, ERR_FAILED,
                   "cluster.slurm.setup: %s did not end on %s%s: srun said: %s",
                   command, silent->text, more, *words ? words : "nothing");
}

int slurm_setup_judge(const struct topology *t, const char *command, const char *said,
                      int is_late, const char *words, struct strlist *bad_nodes,
                      struct err *err)
{
    struct str silent = STR_INIT, bad = STR_INIT;
    const char *first = NULL;
    int n_silent = 0, n_bad = 0, rc = 0;

    for (int i = 0; i < t->n_nodes; i++) {
        const char *report = report_of(said, t->nodes[i].name);
        if (report && strtol(report, NULL, 10) == 0)
            continue;
        if (bad_nodes)
            strlist_add(bad_nodes, t->nodes[i].name);
        if (!report) {
            add_name(&silent, t->nodes[i].name, &n_silent);
        } else {
            first = first ? first : report;
            add_name(&bad, t->nodes[i].name, &n_bad);
        }
    }
    if (n_bad) {
        const char *last = first + strcspn(first, " \n");
        rc = err_set(
            err, ERR_FAILED, "cluster.slurm.setup: %s failed on %s%s: status %ld%s%.*s",
            command, bad.text, n_bad > NAMED ? ", ..." : "", strtol(first, NULL, 10),
            *last == ' ' && last[1] != '\n' ? ":" : "", (int)strcspn(last, "\n"), last);
    } else if (n_silent) {
        rc = name_silent(&silent, n_silent, command, is_late, words, err);
    }
    str_release(&silent);
    str_release(&bad);
    return rc;
}

/* srun hands on its own environment: the recipe's variables go there. */
static void enter(const struct recipe *r)
{
    for (int i = 0; i < r->cluster.slurm_env.n; i++) {
        char *name = xstrdup(r->cluster.slurm_env.item[i]), *eq = strchr(name, '=');
        *eq = '\0';
        setenv(name, eq + 1, 1);
        free(name);
    }
}

static int run_step(char *const *argv, const struct topology *t, const char *command,
                    int timeout_ms, struct strlist *bad, struct err *err)
{
    struct str said = STR_INIT, words = STR_INIT;
    struct err late = ERR_INIT;
    int status = 0,
        rc = slurm_cmd_run(argv, "srun", timeout_ms, &said, &words, &status, &late);

    if (rc == 0 || late.code == ERR_TIMEOUT)
        rc = slurm_setup_judge(t, command, said.text, rc < 0,
                               words.text ? words.text : "", bad, err);
    else
        rc = err_set(err, late.code, "cluster.slurm.setup: %s", err_text(&late));
    err_release(&late);
    str_release(&said);
    str_release(&words);
    return rc;
}

int slurm_setup(const struct machines *m, const struct recipe *r, int timeout_ms,
                struct strlist *bad, struct err *err)
{
    struct strlist argv = { 0 };
    char *self;
    int rc;

    if (!m->in_slurm || !r || !r->cluster.slurm_setup.n)
        return 0;
    self = slurm_self(err);
    if (!self)
        return -1;
    enter(r);
    slurm_setup_argv(&m->slurm, m->topology, r, self, &argv);
    rc = run_step(argv.item, m->topology, r->cluster.slurm_setup.item[0],
                  timeout_ms > 0 ? timeout_ms : SLURM_SETUP_MS, bad, err);
    strlist_release(&argv);
    free(self);
    return rc;
}
