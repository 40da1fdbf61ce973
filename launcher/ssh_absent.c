/* Builds without libssh: ssh.h's calls refuse. */
#include <stdlib.h>

#include "base/err.h"
#include "launcher/ssh.h"

int ssh_available(void)
{
    return 0;
}

int ssh_link_start(struct ssh_route *route, int64_t open_ms, struct ssh_link **out,
                   struct err *err)
{
    (void)open_ms;
    (void)out;
    ssh_route_release(route);
    return err_set(
        err, ERR_MISSING,
        "this muster was built without libssh, which running on hosts over SSH "
        "needs: apt-get install libssh-dev, then make");
}

/* No link was ever made, so none of these is reached. */
int ssh_link_step(struct ssh_link *l, struct err *err)
{
    (void)l;
    return err_set(err, ERR_MISSING, "no libssh");
}

int ssh_link_open(struct ssh_link *l, struct err *err)
{
    return ssh_link_step(l, err);
}

int ssh_link_poll(const struct ssh_link *l, struct pollfd *p)
{
    (void)l;
    (void)p;
    return 0;
}

const char *ssh_link_name(const struct ssh_link *l)
{
    (void)l;
    return "";
}

const char *ssh_link_local_address(const struct ssh_link *l)
{
    return ssh_link_name(l);
}

const char *ssh_link_address(const struct ssh_link *l)
{
    return ssh_link_name(l);
}

void ssh_link_free(struct ssh_link *l)
{
    (void)l;
}

struct ssh_run *ssh_run_start(struct ssh_link *l, const char *command, struct err *err)
{
    (void)command;
    ssh_link_step(l, err);
    return NULL;
}

struct ssh_run *ssh_run_subsystem(struct ssh_link *l, const char *name, struct err *err)
{
    return ssh_run_start(l, name, err);
}

ssize_t ssh_run_read(struct ssh_run *r, enum ssh_stream stream, void *buf, size_t n)
{
    (void)r;
    (void)stream;
    (void)buf;
    (void)n;
    return -1;
}

ssize_t ssh_run_write(struct ssh_run *r, const void *buf, size_t n)
{
    (void)r;
    (void)buf;
    (void)n;
    return -1;
}

void ssh_run_end_input(struct ssh_run *r)
{
    (void)r;
}

int ssh_run_signal(struct ssh_run *r, int signo)
{
    (void)r;
    (void)signo;
    return -1;
}

enum ssh_run_state ssh_run_state(const struct ssh_run *r)
{
    (void)r;
    return SSH_RUN_REFUSED;
}

int ssh_run_status(const struct ssh_run *r)
{
    (void)r;
    return -1;
}

const char *ssh_run_signal_name(const struct ssh_run *r)
{
    (void)r;
    return NULL;
}

const char *ssh_run_reason(const struct ssh_run *r)
{
    (void)r;
    return "";
}

void ssh_run_free(struct ssh_run *r)
{
    (void)r;
}
