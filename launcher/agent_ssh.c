#include "launcher/agent_ssh.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
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
    while (c->from.len > c->from_done) {
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
            (void)!write(STDERR_FILENO, buf, (size_t)n);
        c->err_over = n < 0;
    }
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

static int ended(const struct carrier *c, const char *program, struct err *err)
{
    int status = ssh_run_status(c->run);

    if (status == 0)
        return 0;
    if (status == 127 || status == 126)
        return err_set(err, ERR_MISSING,
                       "there is no muster at %s: install the same build at the same "
                       "place on every host, or on a file system that they share",
                       program);
    /* Its own words stand on stderr already. */
    return err_set(err, status >= 1 && status <= 5 ? status : ERR_SYSTEM,
                   "its agent ended with status %d", status);
}

/* 1: go on. */
static int turn(struct carrier *c, const char *program, struct err *err)
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
        if (c->out_over && c->err_over && c->from.len == c->from_done)
            return ended(c, program, err);
        break;
    default:
        break;
    }
    if (c->told_over && clock_ms() > c->leave_by)
        return err_set(err, ERR_TIMEOUT, "its agent does not end");
    wait_for_any(c);
    return 1;
}

static int start(struct carrier *c, const char *host, const char *program,
                 struct err *err)
{
    char *argv[] = { (char *)program, (char[]){ "agent" }, (char[]){ "serve" }, NULL };
    const char *file = getenv("MUSTER_SSH_CONFIG");
    struct str line = STR_INIT;
    struct ssh_route route;

    if (ssh_route_make(host, file, &route, err) < 0 ||
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
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    int rc = 1;

    self[n > 0 ? n : 0] = '\0';
    signal(SIGPIPE, SIG_IGN);
    fcntl(in, F_SETFL, fcntl(in, F_GETFL) | O_NONBLOCK);
    fcntl(out, F_SETFL, fcntl(out, F_GETFL) | O_NONBLOCK);
    if (start(&c, host, self, err) < 0)
        rc = -1;
    while (rc > 0)
        rc = turn(&c, self, err);
    ssh_link_free(c.link);
    str_release(&c.to);
    str_release(&c.from);
    return rc;
}
