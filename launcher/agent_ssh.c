#include "launcher/agent_ssh.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/agent_copy.h"
#include "launcher/agent_wire.h"
#include "launcher/frame.h"
#include "launcher/node.h"
#include "launcher/ssh.h"

enum {
    OPEN_MS = 15000,
    LEAVE_MS = 5000,     /* from the end of its input to its own end */
    HELD_MOST = 1 << 18, /* bytes that wait for one side: read no more from the other */
};

struct carrier {
    int in, out;
    struct ssh_link *link;
    struct ssh_run *run;
    struct str to, from; /* for the host, for us */
    size_t to_done, from_done;
    /* Until the agent greets, what the host prints may be of a shell that has no such
     * program: it is kept back, `words` is its stderr. */
    int greeted;
    struct str words;
    int in_over, told_over, out_over, err_over;
    int64_t leave_by;
};

/* ---- our side ---- */

/* What is left of `s` from *done on was taken over by `n` bytes. */
static void took(struct str *s, size_t *done, ssize_t n)
{
    *done += n > 0 ? (size_t)n : 0;
    if (*done == s->len) {
        str_clear(s);
        *done = 0;
    }
}

static void read_in(struct carrier *c)
{
    char buf[1 << 16];
    ssize_t n;

    while (!c->in_over && c->to.len < HELD_MOST) {
        n = read(c->in, buf, sizeof(buf));
        if (n > 0)
            str_add(&c->to, buf, (size_t)n);
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
            c->in_over = 1;
        else if (errno == EAGAIN)
            return;
    }
}

/* -1: nobody reads us. */
static int write_out(struct carrier *c)
{
    while (c->greeted && c->from.len > c->from_done) {
        ssize_t n =
            write(c->out, c->from.text + c->from_done, c->from.len - c->from_done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? 0 : -1;
        took(&c->from, &c->from_done, n);
    }
    return 0;
}

/* ---- the host's side ---- */

static void write_host(struct carrier *c)
{
    ssize_t n = 1;

    while (n > 0 && c->to.len > c->to_done) {
        n = ssh_run_write(c->run, c->to.text + c->to_done, c->to.len - c->to_done);
        took(&c->to, &c->to_done, n);
    }
    if (c->in_over && !c->told_over && c->to.len == c->to_done) {
        ssh_run_end_input(c->run);
        c->told_over = 1;
        c->leave_by = clock_ms() + LEAVE_MS;
    }
}

static void let_through(struct carrier *c)
{
    c->greeted = 1;
    if (c->words.len)
        (void)!write(STDERR_FILENO, c->words.text, c->words.len);
    str_clear(&c->words);
}

static void add_words(struct carrier *c, const char *bytes, size_t n)
{
    if (c->greeted)
        (void)!write(STDERR_FILENO, bytes, n);
    else if (c->words.len < FRAME_NOISE)
        str_add(&c->words, bytes, n);
}

static void look_for_greeting(struct carrier *c)
{
    static const char greeting[] = FRAME_GREETING;

    if (!c->greeted && c->from.len &&
        (c->from.len > FRAME_NOISE ||
         memmem(c->from.text, c->from.len, greeting, sizeof(greeting) - 1)))
        let_through(c);
}

static void read_host(struct carrier *c)
{
    char buf[1 << 15];
    ssize_t n = 1;

    while (!c->out_over && n > 0 && c->from.len < HELD_MOST) {
        n = ssh_run_read(c->run, SSH_STDOUT, buf, sizeof(buf));
        if (n > 0)
            str_add(&c->from, buf, (size_t)n);
        c->out_over = n < 0;
    }
    n = 1;
    while (!c->err_over && n > 0) {
        n = ssh_run_read(c->run, SSH_STDERR, buf, sizeof(buf));
        if (n > 0)
            add_words(c, buf, (size_t)n);
        c->err_over = n < 0;
    }
    look_for_greeting(c);
}

static void wait_for_any(struct carrier *c)
{
    struct pollfd p[3] = {
        { c->in_over || c->to.len >= HELD_MOST ? -1 : c->in, POLLIN, 0 },
        { c->from.len > c->from_done ? c->out : -1, POLLOUT, 0 },
    };
    int ms = ssh_link_poll(c->link, &p[2]);

    poll(p, 3, ms < 0 || ms > 500 ? 500 : ms);
}

/* ---- its end ---- */

static int ended(struct carrier *c, struct err *err)
{
    int status = ssh_run_status(c->run);

    let_through(c);
    write_out(c);
    if (status == 0)
        return 0;
    if (status == 127 || status == 126)
        return err_set(err, ERR_MISSING, "muster does not start there%s%s",
                       c->words.len ? ": " : "", c->words.len ? c->words.text : "");
    /* Its own words stand on stderr already. */
    return err_set(err, status >= 1 && status <= 5 ? status : ERR_SYSTEM,
                   "its agent ended with status %d", status);
}

/* Not there, without a library it needs, of another build, or too old to say so. */
static int is_not_there(const struct carrier *c)
{
    int status = ssh_run_status(c->run);

    return !c->greeted && (status == 126 || status == 127 || status == ERR_USAGE ||
                           status == AGENT_OTHER_BUILD);
}

enum turn { TURN_OVER, TURN_ON, TURN_COPY };

/* enum turn, or -1. */
static int turn(struct carrier *c, int may_copy, struct err *err)
{
    if (ssh_link_step(c->link, err) < 0)
        return err_wrap(err, "the connection is lost");
    read_in(c);
    write_host(c);
    read_host(c);
    if (write_out(c) < 0)
        return err_set(err, ERR_SYSTEM, "the launcher does not listen any more");
    switch (ssh_run_state(c->run)) {
    case SSH_RUN_REFUSED:
        return err_set(err, ERR_FAILED, "it does not start programs: %s",
                       ssh_run_reason(c->run));
    case SSH_RUN_LOST:
        return err_set(err, ERR_SYSTEM, "the connection is lost: %s",
                       ssh_run_reason(c->run));
    case SSH_RUN_ENDED:
        if (may_copy && c->out_over && c->err_over && is_not_there(c))
            return TURN_COPY;
        if (c->out_over && c->err_over && (!c->greeted || c->from.len == c->from_done))
            return ended(c, err);
        break;
    default:
        break;
    }
    if (c->told_over && clock_ms() > c->leave_by)
        return err_set(err, ERR_TIMEOUT, "its agent does not end");
    wait_for_any(c);
    return TURN_ON;
}

/* ---- its beginning ---- */

static void tell_progress(int64_t sent, int64_t total)
{
    char line[64];
    int n = snprintf(line, sizeof(line), NODE_PROGRESS "%lld %lld\n", (long long)sent,
                     (long long)total);

    (void)!write(STDERR_FILENO, line, (size_t)n);
}

static int start_agent(struct carrier *c, const char *script, struct err *err)
{
    char *argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, (char *)script, NULL };
    struct str line = STR_INIT;

    ssh_add_command(&line, argv);
    c->run = ssh_run_start(c->link, line.text, err);
    str_release(&line);
    return c->run ? 0 : -1;
}

/* There was none: bring it, and start again. */
static int copy_and_start(struct carrier *c, const char *host, struct err *err)
{
    struct str script = STR_INIT;
    int rc;

    ssh_run_free(c->run);
    c->run = NULL;
    str_clear(&c->from);
    str_clear(&c->words);
    c->out_over = c->err_over = 0;
    rc = agent_copy(c->link, host, c->in, tell_progress, &script, err);
    if (rc == 0) {
        str_addf(&script, " --build %s", agent_build());
        rc = start_agent(c, script.text, err);
    }
    str_release(&script);
    return rc;
}

/* The program at the path of this one. */
static int start(struct carrier *c, const char *host, struct err *err)
{
    char self[PATH_MAX], *argv[] = { self,
                                     (char[]){ "agent" },
                                     (char[]){ "serve" },
                                     (char[]){ "--build" },
                                     (char *)agent_build(),
                                     NULL };
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    struct str line = STR_INIT;
    struct ssh_route route;

    self[n > 0 ? n : 0] = '\0';
    if (ssh_route_make(host, getenv("MUSTER_SSH_CONFIG"), &route, err) < 0 ||
        ssh_link_start(&route, OPEN_MS, &c->link, err) < 0 ||
        ssh_link_open(c->link, err) < 0)
        return -1;
    ssh_add_command(&line, argv);
    c->run = ssh_run_start(c->link, line.text, err);
    str_release(&line);
    return c->run ? 0 : -1;
}

int agent_ssh(const char *host, int in, int out, struct err *err)
{
    struct carrier c = { .in = in, .out = out };
    int rc = TURN_ON, may_copy = 1;

    signal(SIGPIPE, SIG_IGN);
    fcntl(in, F_SETFL, fcntl(in, F_GETFL) | O_NONBLOCK);
    fcntl(out, F_SETFL, fcntl(out, F_GETFL) | O_NONBLOCK);
    if (start(&c, host, err) < 0)
        rc = -1;
    while (rc > 0) {
        rc = turn(&c, may_copy, err);
        if (rc != TURN_COPY)
            continue;
        may_copy = 0;
        rc = copy_and_start(&c, host, err) < 0 ? -1 : TURN_ON;
    }
    ssh_link_free(c.link);
    str_release(&c.to);
    str_release(&c.from);
    str_release(&c.words);
    return rc;
}
