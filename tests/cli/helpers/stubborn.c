/* stubborn - a rank that does not want to end.
 *   stubborn FILE   ignores TERM, starts a grandchild with a session of its own that
 *                   ignores it too, writes both pids (and
 *                   a third, of a process that was orphaned) to FILE.RANK, sleeps. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void hide(void)
{
    setsid();
    for (int i = 0; i < 600; i++)
        sleep(1);
    _exit(0);
}

/* Two forks and a session: the way daemons leave. */
static pid_t start_orphan(void)
{
    int fd[2];
    pid_t pid = 0, middle;

    if (pipe(fd) < 0)
        return -1;
    middle = fork();
    if (middle == 0) {
        pid = fork();
        if (pid == 0)
            hide();
        if (write(fd[1], &pid, sizeof(pid)) < 0)
            _exit(1);
        _exit(0);
    }
    waitpid(middle, NULL, 0);
    if (read(fd[0], &pid, sizeof(pid)) != (ssize_t)sizeof(pid))
        return -1;
    close(fd[0]);
    close(fd[1]);
    return pid;
}

int main(int argc, char **argv)
{
    const char *rank = getenv("RANK");
    char path[4096], tmp[4096 + 8];
    pid_t child, orphan;
    FILE *fp;

    if (argc < 2)
        return 2;
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    orphan = start_orphan();
    child = fork();
    if (child == 0)
        hide();
    snprintf(path, sizeof(path), "%s.%s", argv[1], rank ? rank : "0");
    snprintf(tmp, sizeof(tmp), "%s.tmp", path);
    fp = fopen(tmp, "we");
    if (!fp)
        return 1;
    fprintf(fp, "%d\n%d\n%d\n", (int)getpid(), (int)child, (int)orphan);
    fclose(fp);
    if (rename(tmp, path) < 0)
        return 1;
    for (int i = 0; i < 600; i++)
        sleep(1);
    return 0;
}
