/* Remote programs: a channel each. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "launcher/ssh_link.h"

enum { CHUNK = 32 * 1024, UNKNOWN_SIGNAL = 127 };

enum step { STEP_OPEN, STEP_REQUEST, STEP_GO };

struct ssh_run {
    struct ssh_run *next;
    struct ssh_link *link;
    ssh_channel channel;
    enum step step;
    enum ssh_run_state state;
    char *command;
    int subsystem;
    int end_input;   /* wanted */
    int ended_input; /* said */
    int status;      /* -1: not told */
    char *signal;
    char *reason;
    struct ssh_channel_callbacks_struct callbacks;
};

/* --- signals by name (RFC 4254, 6.10) -------------------------------------------------- */

static const struct {
    const char *name;
    int number;
} signals[] = {
    { "ABRT", SIGABRT }, { "ALRM", SIGALRM }, { "FPE", SIGFPE },   { "HUP", SIGHUP },
    { "ILL", SIGILL },   { "INT", SIGINT },   { "KILL", SIGKILL }, { "PIPE", SIGPIPE },
    { "QUIT", SIGQUIT }, { "SEGV", SIGSEGV }, { "TERM", SIGTERM }, { "USR1", SIGUSR1 },
    { "USR2", SIGUSR2 },
};

static int signal_number(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(signals); i++)
        if (strcmp(name, signals[i].name) == 0)
            return signals[i].number;
    return UNKNOWN_SIGNAL;
}

/* --- what libssh tells ---------------------------------------------------------------- */

static void on_status(ssh_session s, ssh_channel c, int status, void *run)
{
    struct ssh_run *r = run;

    (void)s;
    (void)c;
    r->status = status;
    r->link->again = 1;
}

static void on_signal(ssh_session s, ssh_channel c, const char *name, int core,
                      const char *text, const char *lang, void *run)
{
    struct ssh_run *r = run;

    (void)s;
    (void)c;
    (void)core;
    (void)text;
    (void)lang;
    free(r->signal);
    r->signal = xstrdup(name);
    r->status = 128 + signal_number(name);
    r->link->again = 1;
}

/* Takes nothing: bytes stay in the channel's window until they are read. */
static int on_data(ssh_session s, ssh_channel c, void *data, uint32_t n, int is_stderr,
                   void *run)
{
    (void)s;
    (void)c;
    (void)data;
    (void)n;
    (void)is_stderr;
    ((struct ssh_run *)run)->link->again = 1;
    return 0;
}

static void on_end(ssh_session s, ssh_channel c, void *run)
{
    (void)s;
    (void)c;
    ((struct ssh_run *)run)->link->again = 1;
}

static int on_window(ssh_session s, ssh_channel c, uint32_t bytes, void *run)
{
    (void)s;
    (void)c;
    (void)bytes;
    ((struct ssh_run *)run)->link->again = 1;
    return 0;
}

/* --- starting ----------------------------------------------------------------------- */

static ssh_session session_of(const struct ssh_link *l)
{
    return l->hop[l->route.n - 1].session;
}

static struct ssh_run *start(struct ssh_link *l, const char *what, int subsystem,
                             struct err *err)
{
    struct ssh_run *r;

    if (l->lost || l->at < l->route.n) {
        err_set(err, ERR_USAGE, "%s: no connection", ssh_link_name(l));
        return NULL;
    }
    r = xcalloc(1, sizeof(*r));
    r->channel = ssh_channel_new(session_of(l));
    if (!r->channel) {
        err_set(err, ERR_SYSTEM, "%s: libssh: %s", ssh_link_name(l),
                ssh_get_error(session_of(l)));
        free(r);
        return NULL;
    }
    r->link = l;
    r->command = xstrdup(what);
    r->subsystem = subsystem;
    r->status = -1;
    r->callbacks.userdata = r;
    r->callbacks.channel_exit_status_function = on_status;
    r->callbacks.channel_exit_signal_function = on_signal;
    r->callbacks.channel_data_function = on_data;
    r->callbacks.channel_eof_function = on_end;
    r->callbacks.channel_close_function = on_end;
    r->callbacks.channel_write_wontblock_function = on_window;
    ssh_callbacks_init(&r->callbacks);
    ssh_set_channel_callbacks(r->channel, &r->callbacks);
    r->next = l->runs;
    l->runs = r;
    l->again = 1;
    return r;
}

struct ssh_run *ssh_run_start(struct ssh_link *l, const char *command, struct err *err)
{
    return start(l, command, 0, err);
}

struct ssh_run *ssh_run_subsystem(struct ssh_link *l, const char *name, struct err *err)
{
    return start(l, name, 1, err);
}

static void end(struct ssh_run *r, enum ssh_run_state state, const char *reason)
{
    r->state = state;
    free(r->reason);
    r->reason = xstrdup(reason);
}

/* 1 on, 0 wait. */
static int begin(struct ssh_run *r)
{
    int rc;

    if (r->step == STEP_OPEN)
        rc = ssh_channel_open_session(r->channel);
    else if (r->subsystem)
        rc = ssh_channel_request_subsystem(r->channel, r->command);
    else
        rc = ssh_channel_request_exec(r->channel, r->command);
    if (rc == SSH_AGAIN)
        return 0;
    if (rc != SSH_OK) {
        end(r, SSH_RUN_REFUSED, ssh_get_error(session_of(r->link)));
        return 0;
    }
    r->step++;
    if (r->step == STEP_GO)
        r->state = SSH_RUN_RUNNING;
    return 1;
}

static void step(struct ssh_run *r)
{
    while (r->step != STEP_GO && r->state == SSH_RUN_STARTING)
        if (!begin(r))
            return;
    if (r->state != SSH_RUN_RUNNING)
        return;
    if (r->end_input && !r->ended_input) {
        r->ended_input = 1;
        ssh_channel_send_eof(r->channel);
    }
    /* the status may come before the last bytes, or after their end */
    if (r->status >= 0 &&
        (ssh_channel_is_eof(r->channel) || ssh_channel_is_closed(r->channel)))
        r->state = SSH_RUN_ENDED;
    else if (ssh_channel_is_closed(r->channel))
        end(r, SSH_RUN_LOST, "the channel was closed without an exit status");
}

void ssh_runs_step(struct ssh_link *l)
{
    for (struct ssh_run *r = l->runs; r; r = r->next)
        step(r);
}

void ssh_runs_lose(struct ssh_link *l)
{
    for (struct ssh_run *r = l->runs; r; r = r->next) {
        if (r->state == SSH_RUN_STARTING)
            end(r, SSH_RUN_REFUSED, err_text(&l->why));
        else if (r->state == SSH_RUN_RUNNING && r->status >= 0)
            r->state = SSH_RUN_ENDED;
        else if (r->state == SSH_RUN_RUNNING)
            end(r, SSH_RUN_LOST, err_text(&l->why));
    }
}

/* --- streams ------------------------------------------------------------------------ */

ssize_t ssh_run_read(struct ssh_run *r, enum ssh_stream stream, void *buf, size_t n)
{
    int rc;

    if (r->step != STEP_GO)
        return r->state == SSH_RUN_REFUSED ? -1 : 0;
    if (n > CHUNK)
        n = CHUNK;
    rc = ssh_channel_read_nonblocking(r->channel, buf, (uint32_t)n,
                                      stream == SSH_STDERR);
    if (rc > 0) {
        r->link->again = 1;
        return rc;
    }
    if (rc < 0 || r->link->lost || ssh_channel_is_closed(r->channel))
        return -1;
    return ssh_channel_is_eof(r->channel) ? -1 : 0;
}

ssize_t ssh_run_write(struct ssh_run *r, const void *buf, size_t n)
{
    ssh_session s = session_of(r->link);
    uint32_t window;
    int rc;

    if (r->state != SSH_RUN_STARTING && r->state != SSH_RUN_RUNNING)
        return -1;
    if (r->step != STEP_GO)
        return 0;
    if (r->end_input || ssh_channel_is_closed(r->channel))
        return -1;
    /* libssh would hold any amount in memory */
    r->link->held_back = (ssh_get_poll_flags(s) & SSH_WRITE_PENDING) != 0;
    if (r->link->held_back)
        return 0;
    window = ssh_channel_window_size(r->channel);
    if (n > CHUNK)
        n = CHUNK;
    if (n > window)
        n = window;
    if (n == 0)
        return 0;
    rc = ssh_channel_write(r->channel, buf, (uint32_t)n);
    r->link->again = 1;
    return rc < 0 ? -1 : rc;
}

void ssh_run_end_input(struct ssh_run *r)
{
    r->end_input = 1;
    r->link->again = 1;
}

int ssh_run_signal(struct ssh_run *r, int signo)
{
    r->link->again = 1;
    for (size_t i = 0; i < ARRAY_LEN(signals); i++)
        if (signals[i].number == signo && r->state == SSH_RUN_RUNNING)
            return ssh_channel_request_send_signal(r->channel, signals[i].name) ==
                           SSH_OK
                       ? 0
                       : -1;
    return -1;
}

enum ssh_run_state ssh_run_state(const struct ssh_run *r)
{
    return r->state;
}

int ssh_run_status(const struct ssh_run *r)
{
    return r->status;
}

const char *ssh_run_signal_name(const struct ssh_run *r)
{
    return r->signal;
}

const char *ssh_run_reason(const struct ssh_run *r)
{
    return r->reason ? r->reason : "";
}

void ssh_run_free(struct ssh_run *r)
{
    struct ssh_run **at;

    if (!r)
        return;
    for (at = &r->link->runs; *at != r; at = &(*at)->next)
        ;
    *at = r->next;
    /* the channel lives on until the other side closes it as well */
    ssh_remove_channel_callbacks(r->channel, &r->callbacks);
    ssh_channel_free(r->channel);
    free(r->command);
    free(r->signal);
    free(r->reason);
    free(r);
}
