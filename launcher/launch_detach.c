#include "launcher/launch.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/launch_args.h"

/* From here on muster's own words go into the run's folder. */
int launch_on_event(void *arg, const struct js *e)
{
    struct launch *l = arg;
    char *path;
    int log;

    if (l->report < 0 || !str_eq(js_str(e, "event", ""), "start"))
        return 0;
    path = xasprintf("%s/launch.log", js_str(e, "dir", "."));
    log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    free(path);
    if (log >= 0) {
        dup2(log, STDOUT_FILENO);
        dup2(log, STDERR_FILENO);
        close(log);
    }
    dprintf(l->report, "%s\n%s\n", js_str(e, "run", "?"), js_str(e, "dir", "?"));
    close(l->report);
    l->report = -1;
    return 0;
}

static int wait_for_start(pid_t child, int fd, int json, struct err *err)
{
    FILE *fp = fdopen(fd, "r");
    char *id = NULL, *dir = NULL;
    size_t n = 0, m = 0;
    int raw = 0, status = 0;

    if (fp && getline(&id, &n, fp) > 0 && getline(&dir, &m, fp) > 0) {
        id[strcspn(id, "\n")] = dir[strcspn(dir, "\n")] = '\0';
        if (json) {
            struct js *o = js_document("launch");
            js_put_str(o, "run", id);
            js_put_str(o, "dir", dir);
            js_print(o, stdout);
            js_free(o);
        } else {
            printf("%s\n", id);
        }
    } else {
        waitpid(child, &raw, 0);
        status = WIFEXITED(raw) ? WEXITSTATUS(raw)
                                : err_set(err, ERR_SYSTEM, "the detached launch died");
    }
    free(id);
    free(dir);
    if (fp)
        fclose(fp);
    return status;
}

int launch_detach(struct launch *l, int (*go)(struct launch *l, struct err *err),
                  struct err *err)
{
    int fd[2], null;
    pid_t child;

    if (pipe2(fd, O_CLOEXEC) < 0)
        return err_set(err, ERR_SYSTEM, "pipe: %m");
    fflush(NULL);
    child = fork();
    if (child < 0)
        return err_set(err, ERR_SYSTEM, "fork: %m");
    if (child > 0) {
        close(fd[1]);
        return wait_for_start(child, fd[0], l->a->json, err);
    }
    close(fd[0]);
    setsid();
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, STDIN_FILENO);
    close(null);
    l->report = fd[1];
    return go(l, err);
}
