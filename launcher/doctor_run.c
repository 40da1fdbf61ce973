/* Asking another program for its version. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/doctor.h"

char *doctor_program(const char *name)
{
    const char *path = getenv("PATH");

    for (const char *p = path ? path : ""; *p; p += *p == ':') {
        size_t n = strcspn(p, ":");
        char *file = xasprintf("%.*s/%s", (int)n, p, name);
        if (n && access(file, X_OK) == 0)
            return file;
        free(file);
        p += n;
    }
    return NULL;
}

static int start(char *const argv[], int write_end, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    int rc;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, write_end, 1);
    posix_spawn_file_actions_adddup2(&actions, write_end, 2);
    rc = posix_spawnp(pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return rc == 0 ? 0 : -1;
}

/* The first line; reads to the end of the stream, so that the program can end by
 * itself, or to the deadline. */
static void read_line(int fd, int64_t deadline, struct str *s)
{
    char buf[256];
    ssize_t n;

    for (;;) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        int64_t left = deadline - clock_ms();
        if (left <= 0 || poll(&p, 1, (int)left) <= 0)
            return;
        n = read(fd, buf, sizeof(buf));
        if (n <= 0)
            return;
        if (!s->len || !strchr(s->text, '\n'))
            str_add(s, buf, (size_t)n);
    }
}

/* Its wait status; one that has not ended by the deadline is killed. */
static int end_of(pid_t pid, int64_t deadline)
{
    int status = 0;

    while (clock_ms() < deadline)
        if (waitpid(pid, &status, WNOHANG) == pid)
            return status;
        else
            clock_nap_us(1000);
    kill(pid, SIGKILL); /* our child, not reaped yet: the id is still its own */
    waitpid(pid, &status, 0);
    return status;
}

char *doctor_first_line(char *const argv[], int *works)
{
    struct str s = STR_INIT;
    int64_t deadline = clock_ms() + 3000;
    int ends[2], status;
    pid_t pid;

    *works = 0;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return NULL;
    if (start(argv, ends[1], &pid) < 0) {
        close(ends[0]);
        close(ends[1]);
        return NULL;
    }
    close(ends[1]);
    read_line(ends[0], deadline, &s);
    close(ends[0]);
    status = end_of(pid, deadline);
    *works = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (s.len)
        s.text[strcspn(s.text, "\r\n")] = '\0';
    if (s.len && s.text[0])
        return str_take(&s);
    str_release(&s);
    return NULL;
}
