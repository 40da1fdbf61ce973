#include "launcher/slurm_cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

enum { MOST = 64 << 20, NAP_US = 2000 };

struct cmd_run {
    pid_t pid;
    int fd[2]; /* read ends of its stdout and stderr; -1 at their end */
    struct str text[2];
};

static int spawn(struct cmd_run *c, char *const argv[], struct err *err)
{
    int out[2] = { -1, -1 }, errs[2] = { -1, -1 }, rc;
    posix_spawn_file_actions_t a;

    if (pipe2(out, O_CLOEXEC) < 0 || pipe2(errs, O_CLOEXEC) < 0)
        return err_set(err, ERR_SYSTEM, "pipe: %m");
    posix_spawn_file_actions_init(&a);
    posix_spawn_file_actions_addopen(&a, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&a, out[1], 1);
    posix_spawn_file_actions_adddup2(&a, errs[1], 2);
    rc = posix_spawnp(&c->pid, argv[0], &a, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&a);
    close(out[1]);
    close(errs[1]);
    c->fd[0] = out[0];
    c->fd[1] = errs[0];
    if (rc == 0)
        return 0;
    return err_set(err, rc == ENOENT ? ERR_MISSING : ERR_SYSTEM,
                   "%s: %s: Slurm's commands must be in PATH", argv[0], strerror(rc));
}

static void take(struct cmd_run *c, int i)
{
    char buf[16384];
    ssize_t n = read(c->fd[i], buf, sizeof(buf));

    if (n < 0 && errno == EINTR)
        return;
    if (n > 0 && c->text[i].len < MOST) {
        str_add(&c->text[i], buf, (size_t)n);
        return;
    }
    close(c->fd[i]);
    c->fd[i] = -1;
}

/* Wait status, or -1: its time is up. */
static int finish(struct cmd_run *c, int64_t deadline)
{
    int raw = -1;

    while (c->fd[0] >= 0 || c->fd[1] >= 0) {
        struct pollfd p[2] = { { c->fd[0], POLLIN, 0 }, { c->fd[1], POLLIN, 0 } };
        int64_t left = deadline - clock_ms();

        if (left <= 0 || (poll(p, 2, (int)left) < 0 && errno != EINTR))
            return -1;
        for (int i = 0; i < 2; i++)
            if (c->fd[i] >= 0 && p[i].revents)
                take(c, i);
    }
    while (waitpid(c->pid, &raw, WNOHANG) == 0) {
        if (clock_ms() >= deadline)
            return -1;
        clock_nap_us(NAP_US);
    }
    c->pid = 0;
    return raw;
}

static const char *last_line(struct str *s)
{
    while (s->len && s->text[s->len - 1] == '\n')
        s->text[--s->len] = '\0';
    if (!s->len)
        return "";
    return strrchr(s->text, '\n') ? strrchr(s->text, '\n') + 1 : s->text;
}

int slurm_cmd_run(char *const argv[], const char *name, int timeout_ms, struct str *out,
                  struct str *words, int *status, struct err *err)
{
    struct cmd_run c = { .fd = { -1, -1 } };
    int rc = spawn(&c, argv, err), raw = -1;
    const char *last;

    if (rc == 0)
        raw = finish(&c, clock_ms() + timeout_ms);
    if (c.pid > 0) {
        kill(c.pid, SIGKILL);
        waitpid(c.pid, NULL, 0);
    }
    for (int i = 0; i < 2; i++)
        if (c.fd[i] >= 0)
            close(c.fd[i]);
    last = last_line(&c.text[1]);
    if (rc == 0 && raw < 0)
        rc = err_set(err, ERR_TIMEOUT,
                     "%s does not answer within %d s: is Slurm's controller up?%s%s",
                     name, timeout_ms / 1000, *last ? " Its last words: " : "", last);
    if (rc == 0)
        *status = WIFSIGNALED(raw) ? 128 + WTERMSIG(raw) : WEXITSTATUS(raw);
    str_add(out, c.text[0].text ? c.text[0].text : "", c.text[0].len);
    str_adds(words, last);
    str_release(&c.text[0]);
    str_release(&c.text[1]);
    return rc;
}

int slurm_cmd_read(char *const argv[], int timeout_ms, struct str *out, struct err *err)
{
    struct str text = STR_INIT, words = STR_INIT;
    int status = 0,
        rc = slurm_cmd_run(argv, argv[0], timeout_ms, &text, &words, &status, err);

    if (rc == 0 && status)
        rc = err_set(err, ERR_FAILED, "%s failed: %s", argv[0],
                     words.len ? words.text : "it said nothing");
    if (rc == 0)
        str_add(out, text.text, text.len);
    str_release(&text);
    str_release(&words);
    return rc;
}
