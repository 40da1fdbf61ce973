/* ssh_try - the launcher's SSH client by hand, for tests.
 *   ssh_try [-F FILE] [-t MS] config HOST       what `ssh -G HOST` says, our part of it
 *   ssh_try [-F FILE] route HOST                the hops, one a line
 *   ssh_try [-F FILE] [-t MS] [-i] [-k SIG] exec HOST ARGV...
 *       run it; -i: stdin is its input; -k: signal it after its first output.  Ends
 *       with its status
 *   ssh_try [-F FILE] [-t MS] each HOST,HOST... ARGV...   all at once, in one loop
 *   ssh_try [-F FILE] [-t MS] copy HOST FOLDER FILE...   all 0700, under their base names
 *   ssh_try [-F FILE] look HOST,HOST...    what they are, and whether they go together
 * A failure is one line on stderr and the status of its code (ERR_FAILED 1 ...). */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/host_look.h"
#include "launcher/ssh.h"
#include "launcher/ssh_copy.h"
#include "launcher/ssh_words.h"

static const char *config_file;
static int64_t open_ms = 10000;
static int use_input, kill_after;

static int fail(struct err *err)
{
    int code = (int)err->code;

    fprintf(stderr, "ssh_try: %s\n", err_text(err));
    err_release(err);
    return code;
}

/* --- configuration -------------------------------------------------------------------- */

/* As ssh -G writes it: the last jump in brackets when it is an address. */
static void print_jump(const char *jump)
{
    const char *comma = strrchr(jump, ','), *last = comma ? comma + 1 : jump;
    char *user = NULL, *host = NULL;
    int port = 0, number;

    if (ssh_words_address(last, &user, &host, &port) < 0)
        abort();
    number = strchr(host, ':') || strspn(host, "1234567890.") == strlen(host);
    printf("proxyjump %.*s%s%s%s%s%s", (int)(last - jump), jump, user ? user : "",
           user ? "@" : "", number ? "[" : "", host, number ? "]" : "");
    if (port)
        printf(":%d", port);
    printf("\n");
    free(user);
    free(host);
}

static int do_config(char **args)
{
    struct err err = ERR_INIT;
    struct ssh_host h;

    if (ssh_config_host(args[0], config_file, &h, &err) < 0)
        return fail(&err);
    printf("user %s\nhostname %s\nport %d\n", h.user, h.host, h.port);
    for (int i = 0; h.identity_given && i < h.identity.n; i++)
        printf("identityfile %s\n", h.identity.item[i]);
    if (h.jump)
        print_jump(h.jump);
    if (h.key_alias)
        printf("hostkeyalias %s\n", h.key_alias);
    printf("identitiesonly %s\n", h.identities_only ? "yes" : "no");
    ssh_host_release(&h);
    return 0;
}

static int do_route(char **args)
{
    struct err err = ERR_INIT;
    struct ssh_route r;

    if (ssh_route_make(args[0], config_file, &r, &err) < 0)
        return fail(&err);
    for (int i = 0; i < r.n; i++)
        printf("%s@%s:%d\n", r.hop[i].user, r.hop[i].host, r.hop[i].port);
    ssh_route_release(&r);
    return 0;
}

/* --- runs ----------------------------------------------------------------------------- */

struct job {
    struct ssh_link *link;
    struct ssh_run *run;
    int done, status, input_open, out_open, err_open;
    char held[32768];
    size_t n_held;
};

static int link_to(const char *host, struct ssh_link **out, struct err *err)
{
    struct ssh_route r;

    if (ssh_route_make(host, config_file, &r, err) < 0)
        return -1;
    return ssh_link_start(&r, open_ms, out, err);
}

static void write_all(int fd, const char *bytes, size_t n)
{
    while (n) {
        ssize_t w = write(fd, bytes, n);
        if (w < 0)
            _exit(4);
        bytes += w;
        n -= (size_t)w;
    }
}

static int drain(struct job *j, enum ssh_stream stream, int fd)
{
    char buf[32768];
    ssize_t n;

    while ((n = ssh_run_read(j->run, stream, buf, sizeof(buf))) > 0) {
        write_all(fd, buf, (size_t)n);
        if (kill_after)
            ssh_run_signal(j->run, kill_after);
        kill_after = 0;
    }
    return n == 0;
}

static void feed(struct job *j)
{
    ssize_t n;

    while (j->n_held && (n = ssh_run_write(j->run, j->held, j->n_held)) != 0) {
        if (n < 0)
            n = (ssize_t)j->n_held;
        j->n_held -= (size_t)n;
        memmove(j->held, j->held + n, j->n_held);
    }
}

static void read_input(struct job *j)
{
    ssize_t n = read(0, j->held, sizeof(j->held));

    if (n > 0) {
        j->n_held = (size_t)n;
        feed(j);
    } else {
        j->input_open = 0;
        ssh_run_end_input(j->run);
    }
}

static void finish(struct job *j)
{
    enum ssh_run_state s = ssh_run_state(j->run);

    if (j->out_open || j->err_open || s < SSH_RUN_ENDED)
        return;
    j->done = 1;
    j->status = s == SSH_RUN_ENDED ? ssh_run_status(j->run) : 4;
    if (ssh_run_signal_name(j->run))
        fprintf(stderr, "ssh_try: signal %s\n", ssh_run_signal_name(j->run));
    if (s != SSH_RUN_ENDED)
        fprintf(stderr, "ssh_try: %s: %s\n", s == SSH_RUN_LOST ? "lost" : "refused",
                ssh_run_reason(j->run));
}

/* As far as it goes now. */
static void turn(struct job *j, const char *command)
{
    struct err err = ERR_INIT;
    int rc = ssh_link_step(j->link, &err);

    if (rc == 1 && !j->run) {
        j->run = ssh_run_start(j->link, command, &err);
        j->input_open = use_input;
        j->out_open = j->err_open = 1;
        if (!use_input)
            ssh_run_end_input(j->run);
    }
    if (rc < 0 && !j->run) {
        j->status = fail(&err);
        j->done = 1;
    }
    err_release(&err);
    if (!j->run)
        return;
    feed(j);
    j->out_open = drain(j, SSH_STDOUT, 1);
    j->err_open = drain(j, SSH_STDERR, 2);
    finish(j);
}

static int loop(struct job *jobs, int n, const char *command)
{
    struct pollfd *p = xcalloc((size_t)n + 1, sizeof(*p));
    int left = n;

    while (left) {
        int timeout = -1, m = 0;
        left = 0;
        for (int i = 0; i < n; i++)
            if (!jobs[i].done)
                turn(&jobs[i], command);
        for (int i = 0; i < n; i++) {
            int t;
            if (jobs[i].done)
                continue;
            left++;
            t = ssh_link_poll(jobs[i].link, &p[m++]);
            if (t >= 0 && (timeout < 0 || t < timeout))
                timeout = t;
        }
        if (!left)
            break;
        if (n == 1 && jobs[0].input_open && !jobs[0].n_held)
            p[m++] = (struct pollfd){ .fd = 0, .events = POLLIN };
        poll(p, (nfds_t)m, timeout);
        if (m == 2 && p[1].revents)
            read_input(&jobs[0]);
    }
    free(p);
    return jobs[0].status;
}

static int do_exec(char **args)
{
    struct err err = ERR_INIT;
    struct str command = STR_INIT;
    struct job job = { 0 };
    int rc;

    if (link_to(args[0], &job.link, &err) < 0)
        return fail(&err);
    ssh_add_command(&command, args + 1);
    rc = loop(&job, 1, command.text);
    ssh_link_free(job.link);
    str_release(&command);
    return rc;
}

static int do_each(char **args)
{
    struct err err = ERR_INIT;
    struct str command = STR_INIT;
    struct job *jobs = NULL;
    int n = 0, worst = 0;

    for (char *host = strtok_r(args[0], ",", &args[0]); host;
         host = strtok_r(NULL, ",", &args[0])) {
        jobs = xrealloc(jobs, (size_t)n + 1, sizeof(*jobs));
        memset(&jobs[n], 0, sizeof(*jobs));
        if (link_to(host, &jobs[n++].link, &err) < 0)
            return fail(&err);
    }
    ssh_add_command(&command, args + 1);
    loop(jobs, n, command.text);
    for (int i = 0; i < n; i++) {
        worst = jobs[i].status > worst ? jobs[i].status : worst;
        ssh_link_free(jobs[i].link);
    }
    free(jobs);
    str_release(&command);
    return worst;
}

static int copy_all(struct ssh_link *l, struct ssh_copy *c, struct err *err)
{
    struct pollfd p;
    int rc;

    for (;;) {
        int timeout;
        if (ssh_link_step(l, err) < 0)
            return -1;
        rc = ssh_copy_step(c, err);
        if (rc != 0)
            return rc;
        timeout = ssh_link_poll(l, &p);
        poll(&p, 1, timeout < 0 || timeout > 1000 ? 1000 : timeout);
    }
}

static int do_copy(char **args)
{
    struct err err = ERR_INIT;
    struct ssh_copy_file files[16];
    struct ssh_copy *copy = NULL;
    struct ssh_link *link = NULL;
    int n = 0, rc;

    for (; args[2 + n] && n < 16; n++) {
        const char *slash = strrchr(args[2 + n], '/');
        files[n] = (struct ssh_copy_file){ args[2 + n], slash ? slash + 1 : args[2 + n],
                                           0700 };
    }
    if (link_to(args[0], &link, &err) < 0)
        return fail(&err);
    rc = ssh_link_open(link, &err);
    if (rc == 0)
        rc = ssh_copy_start(link, args[1], files, n, &copy, &err);
    if (rc == 0)
        rc = copy_all(link, copy, &err);
    if (rc == 1)
        printf("%lld bytes sent\n", (long long)ssh_copy_bytes(copy));
    ssh_copy_free(copy);
    ssh_link_free(link);
    return rc < 0 ? fail(&err) : 0;
}

/* All that a run writes to stdout, until it ended. */
static int read_run(struct ssh_link *l, struct ssh_run *run, struct str *out,
                    struct err *err)
{
    char buf[4096];
    struct pollfd p;
    ssize_t n;

    for (;;) {
        if (ssh_link_step(l, err) < 0)
            return -1;
        while (ssh_run_read(run, SSH_STDERR, buf, sizeof(buf)) > 0)
            ;
        while ((n = ssh_run_read(run, SSH_STDOUT, buf, sizeof(buf))) > 0)
            str_add(out, buf, (size_t)n);
        if (n < 0)
            return 0;
        poll(&p, 1, ssh_link_poll(l, &p));
    }
}

static int look_at(const char *host, struct host_look *look, struct err *err)
{
    struct ssh_link *link;
    struct ssh_run *run;
    struct str out = STR_INIT;
    int rc = link_to(host, &link, err);

    if (rc < 0)
        return -1;
    rc = ssh_link_open(link, err);
    run = rc == 0 ? ssh_run_start(link, host_look_command(), err) : NULL;
    rc = run ? read_run(link, run, &out, err) : -1;
    if (rc == 0)
        rc = host_look_parse(out.text ? out.text : "", host, look, err);
    if (rc == 0) {
        look->asked = xstrdup(host);
        look->address = xstrdup(ssh_link_address(link));
        rc = host_look_fits(look, host_look_own_glibc(), err);
    }
    str_release(&out);
    ssh_link_free(link);
    return rc;
}

static int do_look(char **args)
{
    static struct host_look looks[64];
    struct strlist warnings = { 0 };
    struct err err = ERR_INIT;
    int n = 0, rc = 0;

    for (char *host = strtok_r(args[0], ",", &args[0]); host && rc == 0;
         host = strtok_r(NULL, ",", &args[0]))
        rc = look_at(host, &looks[n++], &err);
    if (rc == 0)
        rc = host_look_check(looks, n, &warnings, &err);
    for (int i = 0; rc == 0 && i < n; i++)
        printf("%s: %s %s glibc %s at %s, itself at %s\n", looks[i].asked,
               looks[i].hostname, looks[i].machine, looks[i].glibc, looks[i].address,
               looks[i].own_address ? looks[i].own_address : "?");
    for (int i = 0; i < warnings.n; i++)
        printf("warning: %s\n", warnings.item[i]);
    for (int i = 0; i < n; i++)
        host_look_release(&looks[i]);
    strlist_release(&warnings);
    return rc < 0 ? fail(&err) : 0;
}

static const struct {
    const char *word;
    int (*run)(char **args);
} verbs[] = {
    { "config", do_config }, { "route", do_route }, { "exec", do_exec },
    { "each", do_each },     { "copy", do_copy },   { "look", do_look },
};

int main(int argc, char **argv)
{
    int c;

    while ((c = getopt(argc, argv, "+F:t:ik:")) != -1) {
        if (c == 'F')
            config_file = optarg;
        else if (c == 't')
            open_ms = strtol(optarg, NULL, 10);
        else if (c == 'i')
            use_input = 1;
        else if (c == 'k')
            kill_after = (int)strtol(optarg, NULL, 10);
        else
            return 2;
    }
    for (size_t i = 0; optind + 1 < argc && i < ARRAY_LEN(verbs); i++)
        if (strcmp(argv[optind], verbs[i].word) == 0)
            return verbs[i].run(argv + optind + 1);
    fprintf(stderr, "ssh_try: what?\n");
    return 2;
}
