#include "launcher/agent_copy.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/agent_copied.h"
#include "launcher/bundle.h"
#include "launcher/host_look.h"
#include "launcher/ssh.h"
#include "launcher/ssh_copy.h"

enum { LOOK_MS = 15000, LOOK_MOST = 1 << 16, TELL_MS = 500 };

/* Wait for the link or for our own end; -1: nobody wants this any more. */
static int wait_for_link(struct ssh_link *link, int in, struct err *err)
{
    struct pollfd p[2] = { { .fd = in, .events = POLLIN } };
    int ms = ssh_link_poll(link, &p[1]);
    char byte;

    poll(p, 2, ms < 0 || ms > 500 ? 500 : ms);
    /* Nothing is said to an agent before it has said hello. */
    if (p[0].revents && (read(in, &byte, 1) >= 0 || errno != EAGAIN))
        return err_set(err, ERR_SYSTEM, "the launcher does not listen any more");
    return ssh_link_step(link, err);
}

/* --- the first look ----------------------------------------------------------------- */

/* All that the run prints on stdout. */
static int read_run(struct ssh_link *link, struct ssh_run *run, int in, struct str *out,
                    struct err *err)
{
    int64_t until = clock_ms() + LOOK_MS;
    char buf[4096];
    ssize_t n;

    for (;;) {
        while (ssh_run_read(run, SSH_STDERR, buf, sizeof(buf)) > 0)
            ;
        while ((n = ssh_run_read(run, SSH_STDOUT, buf, sizeof(buf))) > 0)
            if (out->len < LOOK_MOST)
                str_add(out, buf, (size_t)n);
        if (n < 0)
            return 0;
        if (clock_ms() > until)
            return err_set(err, ERR_TIMEOUT, "its shell does not answer within %d s",
                           LOOK_MS / 1000);
        if (wait_for_link(link, in, err) < 0)
            return -1;
    }
}

/* *cuda: the host has an NVIDIA driver. */
static int look(struct ssh_link *link, const char *host, int in, int *cuda,
                struct err *err)
{
    char *argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, (char *)host_look_command(),
                     NULL };
    struct str line = STR_INIT, out = STR_INIT;
    struct host_look seen;
    struct ssh_run *run;
    int rc = -1;

    ssh_add_command(&line, argv);
    run = ssh_run_start(link, line.text, err);
    if (run) {
        ssh_run_end_input(run);
        rc = read_run(link, run, in, &out, err);
        ssh_run_free(run);
    }
    if (rc == 0)
        rc = host_look_parse(out.len ? out.text : "", host, &seen, err);
    if (rc == 0) {
        seen.asked = xstrdup(host);
        rc = host_look_fits(&seen, host_look_own_glibc(), err);
        *cuda = seen.nvidia;
        host_look_release(&seen);
    }
    str_release(&line);
    str_release(&out);
    return rc;
}

/* --- the files ---------------------------------------------------------------------- */

struct going {
    struct ssh_link *link;
    int in;
    void (*progress)(int64_t sent, int64_t total);
    int64_t before, total, told; /* bytes of folders that are done; of all; when */
};

static int send_folder(struct going *g, const char *folder,
                       const struct ssh_copy_file *file, int n, struct err *err)
{
    struct ssh_copy *copy;
    int rc = ssh_copy_start(g->link, folder, file, n, &copy, err);

    if (rc < 0)
        return -1;
    while ((rc = ssh_copy_step(copy, err)) == 0) {
        if (wait_for_link(g->link, g->in, err) < 0) {
            rc = -1;
            break;
        }
        if (clock_ms() - g->told >= TELL_MS) {
            g->progress(g->before + ssh_copy_bytes(copy), g->total);
            g->told = clock_ms();
        }
    }
    g->before += ssh_copy_bytes(copy);
    ssh_copy_free(copy);
    return rc < 0 ? -1 : 0;
}

static int send_files(struct going *g, const struct bundle *b, struct err *err)
{
    int rc = 0;

    for (enum bundle_kind k = 0; k < BUNDLE_KINDS && rc == 0; k++) {
        char *folder =
            xasprintf("%s/%s/%s", AGENT_COPIED_FOLDER, b->id, bundle_folder(k));
        if (b->part[k].from.n)
            rc = send_folder(g, folder, b->part[k].file, b->part[k].from.n, err);
        free(folder);
    }
    return rc;
}

int agent_copy(struct ssh_link *link, const char *host, int in,
               void (*progress)(int64_t sent, int64_t total), struct str *command,
               struct err *err)
{
    struct bundle b;
    struct going g;
    int cuda = 0, rc;

    if (look(link, host, in, &cuda, err) < 0 || bundle_make(&b, cuda, err) < 0)
        return -1;
    g = (struct going){ link, in, progress, 0, b.bytes, clock_ms() };
    rc = send_files(&g, &b, err);
    if (rc == 0)
        agent_copied_command(command, b.id);
    bundle_release(&b);
    return rc;
}
