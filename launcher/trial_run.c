#include "launcher/trial_run.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/machines.h"

static volatile sig_atomic_t stop_signal;
static volatile sig_atomic_t running; /* pid of the trial; 0: none */

static void on_signal(int signo)
{
    if (!stop_signal)
        stop_signal = signo;
    if (running > 0)
        kill(running, signo);
}

void trial_run_catch_signals(void)
{
    static const int caught[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction act = { .sa_handler = on_signal }, now;

    sigemptyset(&act.sa_mask);
    for (size_t i = 0; i < ARRAY_LEN(caught); i++)
        if (sigaction(caught[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaction(caught[i], &act, NULL);
}

int trial_run_signal(void)
{
    return (int)stop_signal;
}

void trial_read(const struct js *launch, struct trial *out)
{
    snprintf(out->run, sizeof(out->run), "%s", js_str(launch, "run", ""));
    out->status = (int)js_get_int(launch, "status", ERR_SYSTEM);
    out->stopped = str_eq(js_str(launch, "cause", ""), "stopped");
    out->reason = xstrdup(js_str(launch, "reason", NULL));
    out->tokens_per_s_per_gpu = js_get_real(launch, "tokens_per_s_per_gpu", NAN);
    out->memory_percent = js_get_real(launch, "memory_percent", NAN);
    out->result = js_ref((struct js *)launch);
}

/* The recipe as a file that needs no name and no cleaning up. */
static int recipe_file(const struct recipe *at, struct err *err)
{
    char *text = recipe_text(at);
    size_t left = strlen(text);
    int fd = memfd_create("recipe", 0);
    const char *p = text;

    while (fd >= 0 && left) {
        ssize_t n = write(fd, p, left);
        if (n < 0)
            break;
        p += n;
        left -= (size_t)n;
    }
    if (fd < 0 || left) {
        err_set(err, ERR_SYSTEM, "the recipe of a trial: %m");
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    free(text);
    return fd;
}

struct child {
    pid_t parent;
    int out, words; /* its stdout and stderr */
    char **argv;
    const char *climb;
};

static void be_child(const struct child *c)
{
    setpgid(0, 0); /* a Ctrl-C comes once, from us */
    prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    if (getppid() != c->parent)
        _exit(ERR_SYSTEM);
    dup2(c->out, STDOUT_FILENO);
    dup2(c->words, STDERR_FILENO);
    setenv("MUSTER_CLIMB", c->climb, 1);
    execv("/proc/self/exe", c->argv);
    _exit(ERR_MISSING);
}

/* A signal that came between the fork and now is passed on here. */
static void note_child(pid_t pid)
{
    running = pid;
    if (pid > 0 && stop_signal)
        kill(pid, stop_signal);
}

static int read_all(int fd, struct str *s)
{
    char bytes[4096];
    ssize_t n;

    for (;;) {
        n = read(fd, bytes, sizeof(bytes));
        if (n > 0)
            str_add(s, bytes, (size_t)n);
        else if (n == 0 || errno != EINTR)
            return n < 0 ? -1 : 0;
    }
}

/* Start, listen, wait.  The wait status, or -1. */
static int converse(struct child *c, int out[2], struct str *said, struct err *err)
{
    int raw = 0;
    pid_t pid;

    c->parent = getpid();
    c->out = out[1];
    pid = fork();
    if (pid < 0)
        return err_set(err, ERR_SYSTEM, "fork: %m");
    if (pid == 0)
        be_child(c);
    note_child(pid);
    close(out[1]);
    out[1] = -1;
    read_all(out[0], said);
    while (waitpid(pid, &raw, 0) < 0 && errno == EINTR)
        ;
    running = 0;
    return raw;
}

/* The last line of its stderr, without "muster: " in front; the caller's. */
static char *last_words(int fd)
{
    char bytes[4096];
    ssize_t n = lseek(fd, 0, SEEK_END);
    off_t from = n > (ssize_t)sizeof(bytes) ? n - (ssize_t)sizeof(bytes) : 0;
    const char *line;

    n = pread(fd, bytes, sizeof(bytes), from);
    while (n > 0 && bytes[n - 1] == '\n')
        n--;
    if (n <= 0)
        return xstrdup("it said nothing");
    line = memrchr(bytes, '\n', (size_t)n);
    line = line ? line + 1 : bytes;
    n -= line - bytes;
    if (n > 8 && strncmp(line, "muster: ", 8) == 0) {
        line += 8;
        n -= 8;
    }
    return xstrndup(line, (size_t)n);
}

/* What the trial said is its `launch` object; without a run in it, it could not start
 * and has told why on stderr. */
static int understand(const struct str *said, int words, int raw, struct trial *out,
                      struct err *err)
{
    char *why;

    struct js *launch = NULL;
    int status = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);

    if (said->len && js_parse(said->text, said->len, "trial", &launch, NULL) == 0 &&
        js_str(launch, "run", NULL)) {
        trial_read(launch, out);
        js_free(launch);
        return 0;
    }
    js_free(launch);
    if (stop_signal) {
        out->stopped = 1;
        return 0;
    }
    why = last_words(words);
    err_set(err, status > 0 && status <= ERR_TIMEOUT ? status : ERR_SYSTEM,
            "a trial could not be started: %s", why);
    free(why);
    return -1;
}

static void build_argv(const char *file, int gpus, const struct machines_ask *where,
                       struct strlist *argv)
{
    char *number = xasprintf("%d", gpus);
    const char *words[] = { "muster", "launch", file,     "--gpus",
                            number,   "--json", "--quiet" };

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        strlist_add(argv, words[i]);
    machines_add_words(where, argv);
    argv->item = xrealloc(argv->item, (size_t)argv->n + 1, sizeof(*argv->item));
    argv->item[argv->n] = NULL;
    free(number);
}

static int run_child(const char *file, int gpus, const struct machines_ask *where,
                     const char *climb, struct trial *out, struct err *err)
{
    struct strlist argv = { 0 };
    struct child c = { .climb = climb };
    int pipes[2] = { -1, -1 }, rc = -1, raw;
    struct str said = STR_INIT;

    build_argv(file, gpus, where, &argv);
    c.argv = argv.item;
    c.words = memfd_create("words", MFD_CLOEXEC);
    if (c.words < 0 || pipe2(pipes, O_CLOEXEC) < 0) {
        err_set(err, ERR_SYSTEM, "the pipe to a trial: %m");
    } else {
        raw = converse(&c, pipes, &said, err);
        rc = raw < 0 ? -1 : understand(&said, c.words, raw, out, err);
    }
    for (int i = 0; i < 2; i++)
        if (pipes[i] >= 0)
            close(pipes[i]);
    if (c.words >= 0)
        close(c.words);
    strlist_release(&argv);
    str_release(&said);
    return rc;
}

int trial_run(const struct recipe *at, int gpus, const struct machines_ask *where,
              const char *climb, struct trial *out, struct err *err)
{
    char *file;
    int fd, rc;

    if (stop_signal) {
        out->stopped = 1;
        return 0;
    }
    fd = recipe_file(at, err);
    if (fd < 0)
        return -1;
    file = xasprintf("/proc/self/fd/%d", fd);
    rc = run_child(file, gpus, where, climb, out, err);
    free(file);
    close(fd);
    return rc;
}
