#include "launcher/node.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "launcher/beat.h"
#include "launcher/node_copy.h"

enum { LOCAL_READY_MS = 30000, WORDS_MOST = 4000 };

/* ---- the child that carries the stream ---- */

static int spawn(struct node_link *l, char *const *argv, struct err *err)
{
    struct proc_before before;
    struct proc_spec s = { .program = "/proc/self/exe",
                           .argv = argv,
                           .env = environ,
                           .cpus = "",
                           .before = &before };
    int fd[2], rc;

    sigprocmask(SIG_BLOCK, NULL, &before.mask);
    getrlimit(RLIMIT_NOFILE, &before.files);
    if (pipe2(fd, O_CLOEXEC) < 0)
        return err_set(err, ERR_SYSTEM, "pipe: %m");
    s.stdin_fd = fd[0];
    rc = proc_spawn(&l->proc, &s, err);
    if (rc == 0)
        rc = proc_started(&l->proc, &s, err);
    close(fd[0]);
    l->write_fd = fd[1];
    fcntl(fd[1], F_SETFL, O_NONBLOCK);
    l->heard_at = clock_ms();
    return rc;
}

static int start_link(const struct nodes *nodes, struct node_link *l, struct err *err)
{
    char *local[] = { (char[]){ "muster" },
                      (char[]){ "agent" },
                      (char[]){ "serve" },
                      (char[]){ "--host" },
                      l->name,
                      NULL };
    char *ssh[] = { (char[]){ "muster" },
                    (char[]){ "agent" },
                    (char[]){ "ssh" },
                    (char[]){ "--" },
                    l->name,
                    NULL };

    return spawn(l, nodes->local ? local : ssh, err);
}

/* ---- one link ---- */

static void read_words(struct node_link *l)
{
    char buf[1024];
    ssize_t n;

    while (l->proc.err >= 0 && (n = read(l->proc.err, buf, sizeof(buf))) > 0) {
        if (l->words.len > WORDS_MOST)
            str_clear(&l->words);
        str_add(&l->words, buf, (size_t)n);
        if (!l->greeted)
            node_take_progress(l);
    }
}

void node_flush(struct node_link *l)
{
    if (l->lost || !frame_pending(&l->to))
        return;
    /* A broken pipe shows as the end of what we read, with the reason behind it. */
    (void)beat_flush(l->beat, l->at, &l->to);
}

int node_read(struct node_link *l)
{
    int rc = l->lost ? -1 : frame_read(&l->from, l->proc.out);

    read_words(l);
    if (rc > 0)
        l->heard_at = clock_ms();
    if (rc < 0)
        l->lost = 1;
    return rc;
}

/* What an agent without a job says can only be that it is alive. */
static void hear(struct node_link *l)
{
    struct frame f;
    int rc = node_read(l), got;

    while ((got = frame_next(&l->from, &f, NULL)) == 1)
        ;
    l->lost |= rc < 0 || got < 0;
}

void nodes_idle(struct nodes *nodes)
{
    for (int i = 0; i < nodes->n; i++) {
        struct node_link *l = &nodes->link[i];
        if (l->lost || !l->greeted || l->busy)
            continue;
        hear(l);
        node_flush(l);
    }
}

static void reap(struct node_link *l, int64_t ms)
{
    int64_t until = clock_ms() + ms;
    int raw;

    while (l->proc.pid > 0 && !l->proc.ended) {
        if (waitpid(l->proc.pid, &raw, WNOHANG) == l->proc.pid)
            proc_reaped(&l->proc, raw);
        else if (clock_ms() >= until)
            break;
        else
            clock_nap_us(2000);
    }
}

/* Its last message, which may have several lines, without "muster: ". */
static const char *last_words(struct node_link *l)
{
    char *text = l->words.text, *line;

    if (!l->words.len)
        return "";
    while (l->words.len && text[l->words.len - 1] == '\n')
        text[--l->words.len] = '\0';
    line = text;
    for (char *at = text; at; at = strchr(at + 1, '\n'))
        if (strncmp(at + (*at == '\n'), "muster: ", 8) == 0)
            line = at + (*at == '\n') + 8;
    return line;
}

char *node_why_lost(struct node_link *l)
{
    const char *words;

    reap(l, 300);
    read_words(l);
    words = last_words(l);
    if (*words)
        return xstrdup(words);
    if (l->proc.ended && l->proc.status > 128)
        return xasprintf("its agent died of signal %d (%s)", l->proc.status - 128,
                         strsignal(l->proc.status - 128));
    if (l->proc.ended && l->proc.status == 0)
        return xstrdup("its agent left");
    return xstrdup("its agent died");
}

/* ---- the first meeting ---- */

static int check_build(const struct node_link *l, struct err *err)
{
    const struct agent_hello *h = &l->hello;

    if (h->protocol == FRAME_PROTOCOL && str_eq(h->build, agent_build()))
        return 0;
    return err_set(err, ERR_MISSING,
                   "its muster is another build (version %s; here %s): install the "
                   "same one there",
                   h->version, MUSTER_VERSION);
}

/* 1: it has said hello; 0: not yet. */
static int greet(struct node_link *l, struct err *err)
{
    struct frame f;
    int rc = node_read(l), got = frame_next(&l->from, &f, err);
    char *why;

    if (got == 0 && rc < 0) {
        why = node_why_lost(l);
        err_set(err,
                l->proc.status >= 1 && l->proc.status <= 5 ? l->proc.status
                                                           : ERR_SYSTEM,
                "%s", why);
        free(why);
        return -1;
    }
    if (got <= 0)
        return got;
    if (f.type != FRAME_HELLO)
        return err_set(err, ERR_FAILED, "its first message is %s", frame_name(f.type));
    if (agent_hello_take(&f, &l->hello, err) < 0 || check_build(l, err) < 0)
        return -1;
    l->greeted = 1;
    beat_open(l->beat, l->at, l->write_fd);
    return 1;
}

/* Problems of all nodes, one a line. */
static void add_problem(struct err *all, const struct node_link *l, struct err *one)
{
    const char *why = err_text(one);
    size_t n = strlen(l->name);

    if (strncmp(why, l->name, n) == 0 && why[n] == ':') /* it says so itself */
        why += n + 1 + strspn(why + n + 1, " ");
    err_more(all, one->code ? one->code : ERR_SYSTEM, "node %s: %s", l->name, why);
    err_release(one);
}

static void greet_all(struct nodes *nodes, int *open, struct err *err)
{
    struct err one = ERR_INIT;

    for (int i = 0; i < nodes->n; i++) {
        struct node_link *l = &nodes->link[i];
        if (l->greeted || l->lost)
            continue;
        if (greet(l, &one) < 0) {
            l->lost = 1;
            add_problem(err, l, &one);
        }
        *open += !l->greeted && !l->lost;
    }
}

static void wait_for_any(const struct nodes *nodes, int ms)
{
    struct pollfd *p = xcalloc((size_t)nodes->n * 2, sizeof(*p));

    for (int i = 0; i < nodes->n; i++) {
        const struct node_link *l = &nodes->link[i];
        int over = l->greeted || l->lost;
        p[2 * (size_t)i] = (struct pollfd){ over ? -1 : l->proc.out, POLLIN, 0 };
        p[2 * (size_t)i + 1] = (struct pollfd){ over ? -1 : l->proc.err, POLLIN, 0 };
    }
    poll(p, (nfds_t)nodes->n * 2, ms);
    free(p);
}

static void give_up(struct node_link *l, int64_t ready_ms, struct err *all)
{
    l->lost = 1;
    if (l->to_copy)
        err_more(all, ERR_TIMEOUT, "node %s: copying the programs there stands still",
                 l->name);
    else
        err_more(all, ERR_TIMEOUT, "node %s: no answer within %lld s", l->name,
                 (long long)(ready_ms / 1000));
}

static int leave_out(struct nodes *nodes, int spare);

static int meet(struct nodes *nodes, int64_t ready_ms, int spare, struct err *err)
{
    struct err all = ERR_INIT;
    int open = 1;

    for (int i = 0; i < nodes->n; i++)
        nodes->link[i].ready_by = clock_ms() + ready_ms;
    while (open) {
        open = 0;
        greet_all(nodes, &open, &all);
        for (int i = 0; i < nodes->n; i++) {
            struct node_link *l = &nodes->link[i];
            if (!l->greeted && !l->lost && clock_ms() > l->ready_by)
                give_up(l, ready_ms, &all);
        }
        nodes_show_progress(nodes);
        nodes_idle(nodes); /* those that were quick wait for the others */
        if (open)
            wait_for_any(nodes, FRAME_ALIVE_MS / 2);
    }
    if (!all.code)
        return 0;
    if (leave_out(nodes, spare) == 0) {
        log_warn("left out, a spare takes its place: %s", err_text(&all));
        err_release(&all);
        return 0;
    }
    err_set(err, all.code, "%s", err_text(&all));
    err_release(&all);
    return -1;
}

/* ---- identity ---- */

static int check_pair(const struct nodes *nodes, const struct node_link *a,
                      const struct node_link *b, struct err *err)
{
    if (!nodes->local && str_eq(a->hello.machine, b->hello.machine))
        return err_more(err, ERR_USAGE,
                        "hosts %s and %s are one machine (%s): name it once", a->name,
                        b->name, a->hello.host);
    if (str_eq(a->hello.host, b->hello.host))
        return err_more(err, ERR_USAGE,
                        "hosts %s and %s both call themselves %s, and are different "
                        "machines: programs would take them for one, give each its own "
                        "host name",
                        a->name, b->name, a->hello.host);
    return 0;
}

/* Others could not reach it by such an address (case C03). */
static int check_address(const struct nodes *nodes, const struct node_link *l,
                         struct err *err)
{
    const char *a = l->hello.address;

    if (nodes->local || nodes->n == 1 ||
        (strncmp(a, "127.", 4) != 0 && strcmp(a, "::1") != 0))
        return 0;
    return err_more(err, ERR_USAGE,
                    "host %s is reached by its loopback address %s, where the others "
                    "cannot find it: name it by its address on the network",
                    l->name, a);
}

static int check_identities(const struct nodes *nodes, struct err *err)
{
    int rc = 0;

    for (int i = 0; i < nodes->n; i++)
        rc |= check_address(nodes, &nodes->link[i], err);
    for (int i = 0; i < nodes->n; i++)
        for (int k = 0; k < i; k++)
            rc |= check_pair(nodes, &nodes->link[k], &nodes->link[i], err);
    return rc;
}

/* ---- all of them ---- */

static struct nodes *nodes_new(int n, int local)
{
    struct nodes *nodes = xcalloc(1, sizeof(*nodes));

    nodes->n = n;
    nodes->local = local;
    nodes->link = xcalloc((size_t)n, sizeof(*nodes->link));
    for (int i = 0; i < n; i++) {
        nodes->link[i].write_fd = -1;
        nodes->link[i].proc = (struct proc){ .out = -1, .err = -1, .event = -1 };
    }
    return nodes;
}

/* Takes `nodes` over. */
static int open_all(struct nodes *nodes, int64_t ready_ms, int spare,
                    struct nodes **out, struct err *err)
{
    int rc = beat_new(nodes->n, &nodes->beat, err);

    for (int i = 0; i < nodes->n && rc == 0; i++) {
        nodes->link[i].beat = nodes->beat;
        nodes->link[i].at = i;
        if (start_link(nodes, &nodes->link[i], err) < 0)
            rc = err_wrap(err, "node %s", nodes->link[i].name);
    }
    if (rc < 0 || meet(nodes, ready_ms, spare, err) < 0 ||
        check_identities(nodes, err) < 0) {
        nodes_close(nodes);
        return -1;
    }
    *out = nodes;
    return 0;
}

int nodes_open(const struct strlist *hosts, int64_t ready_ms, int spare,
               struct nodes **out, struct err *err)
{
    struct nodes *nodes = nodes_new(hosts->n, 0);

    for (int i = 0; i < hosts->n; i++)
        nodes->link[i].name = xstrdup(hosts->item[i]);
    return open_all(nodes, ready_ms, spare, out, err);
}

int nodes_open_local(int n, struct nodes **out, struct err *err)
{
    struct nodes *nodes = nodes_new(n, 1);

    for (int i = 0; i < n; i++)
        nodes->link[i].name = xasprintf("n%d", i + 1);
    return open_all(nodes, LOCAL_READY_MS, 0, out, err);
}

static void release_link(struct node_link *l)
{
    free(l->name);
    proc_close(&l->proc);
    frame_in_release(&l->from);
    frame_out_release(&l->to);
    agent_hello_release(&l->hello);
    str_release(&l->words);
}

/* Its stream ends: that ends an agent. */
static void end_stream(struct node_link *l)
{
    node_flush(l);
    if (l->write_fd >= 0) {
        beat_close(l->beat, l->at);
        close(l->write_fd);
    }
    if (l->proc.out >= 0)
        close(l->proc.out);
    l->write_fd = l->proc.out = -1;
}

void node_hang_up(struct node_link *l)
{
    l->lost = 1;
    end_stream(l);
    proc_signal(&l->proc, SIGTERM);
    proc_signal(&l->proc, SIGCONT); /* a stopped one hears nothing */
}

/* One that stays is asked by signals; one that is lost was asked before.  `lost`: only
 * those. */
static void see_off(struct nodes *nodes, int lost)
{
    static const struct {
        int signo, ms, lost_ms;
    } stage[] = { { 0, 4000, 0 }, { SIGTERM, 2000, 500 }, { SIGKILL, 2000, 2000 } };

    for (size_t k = 0; k < ARRAY_LEN(stage); k++) {
        int64_t now = clock_ms(), left;
        for (int i = 0; i < nodes->n && stage[k].signo; i++)
            if (nodes->link[i].lost || !lost)
                proc_signal(&nodes->link[i].proc, stage[k].signo);
        for (int i = 0; i < nodes->n; i++) {
            if (lost && !nodes->link[i].lost)
                continue;
            left = now + (nodes->link[i].lost ? stage[k].lost_ms : stage[k].ms);
            left -= clock_ms();
            reap(&nodes->link[i], left > 0 ? left : 0);
        }
    }
}

/* Go on without those that failed; -1: they are too many. */
static int leave_out(struct nodes *nodes, int spare)
{
    int n = 0;

    for (int i = 0; i < nodes->n; i++)
        n += nodes->link[i].lost;
    if (n > spare || n == nodes->n)
        return -1;
    nodes->left_out = n;
    for (int i = 0; i < nodes->n; i++)
        if (nodes->link[i].lost)
            end_stream(&nodes->link[i]);
    see_off(nodes, 1);
    n = 0;
    for (int i = 0; i < nodes->n; i++)
        if (nodes->link[i].lost)
            release_link(&nodes->link[i]);
        else
            nodes->link[n++] = nodes->link[i];
    nodes->n = n;
    return 0;
}

void nodes_close(struct nodes *nodes)
{
    if (!nodes)
        return;
    for (int i = 0; i < nodes->n; i++)
        end_stream(&nodes->link[i]);
    see_off(nodes, 0);
    for (int i = 0; i < nodes->n; i++)
        release_link(&nodes->link[i]);
    beat_free(nodes->beat);
    free(nodes->link);
    free(nodes);
}
