#include "launcher/guard_keep.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "launcher/sweep.h"

static char *words; /* the command line; NULL: not known */
static size_t n_words;

void keeper_words(int argc, char **argv)
{
    words = argv[0];
    n_words = (size_t)(argv[argc - 1] - argv[0]) + strlen(argv[argc - 1]);
}

int keeper_prepare(struct keeper *k, struct err *err)
{
    if (pipe2(k->life, O_CLOEXEC) < 0)
        return err_set(err, ERR_SYSTEM, "pipe: %m");
    return 0;
}

void keeper_hold(struct keeper *k)
{
    close(k->life[0]);
}

/* Nothing but the pipe, as descriptor 3. */
static void let_go(int life)
{
    int null = open("/dev/null", O_RDWR);

    if (life != 3)
        dup2(life, 3);
    for (int fd = 0; null >= 0 && fd < 3; fd++)
        dup2(null, fd);
    close_range(4, ~0U, 0);
}

static void hide(void)
{
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setsid();
    prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
    prctl(PR_SET_NAME, "mguard", 0, 0, 0);
    if (words && n_words > 6) {
        memset(words, 0, n_words);
        snprintf(words, n_words, "mguard");
    }
}

static _Noreturn void keep(const char *mark, int grace_ms, void (*tidy)(void))
{
    char word;
    ssize_t n;

    do
        n = read(3, &word, 1);
    while (n < 0 && errno == EINTR);
    if (n != 1) {
        sweep_end(mark, grace_ms);
        tidy();
    }
    _exit(0);
}

void keeper_start(struct keeper *k, const char *mark, int grace_ms, void (*tidy)(void))
{
    k->pid = fork();
    if (k->pid == 0) {
        let_go(k->life[0]);
        hide();
        keep(mark, grace_ms, tidy);
    }
    close(k->life[0]);
    if (k->pid > 0)
        sweep_spare(k->pid);
}

void keeper_dismiss(struct keeper *k)
{
    if (k->pid <= 0)
        return;
    if (write(k->life[1], "", 1) == 1)
        while (waitpid(k->pid, NULL, 0) < 0 && errno == EINTR)
            ;
}
