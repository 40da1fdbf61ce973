#include "launcher/slurm_helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/slurm_ask.h"
#include "launcher/slurm_lib.h"
#include "recipes/value.h"

enum { ANSWER_S = 60, RELEASE_S = 30, OVER_S = 3, SALLOC_MS = 5000 };

/* ---- one answer ---- */

/* Nobody waits longer than this, and nobody waits when the launcher is gone. */
static void limit_life(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    alarm(ANSWER_S);
}

static int show(enum slurm_question what, const char *arg, struct err *err)
{
    limit_life();
    if (slurm_lib_open(NULL, err) < 0 || slurm_lib_show(what, arg, stdout, err) < 0)
        return -1;
    return fflush(stdout) ? err_set(err, ERR_SYSTEM, "stdout: %m") : 0;
}

/* A cluster may have no topology to show. */
static int place(const char *job, const char *nodes, struct err *err)
{
    const struct {
        enum slurm_question what;
        const char *arg;
        int optional;
    } ask[] = { { SLURM_ASK_JOB, job, 0 },
                { SLURM_ASK_NODES, nodes, 0 },
                { SLURM_ASK_TOPOLOGY, NULL, 1 } };
    int rc = 0;

    limit_life();
    if (slurm_lib_open(NULL, err) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(ask) && rc == 0; i++) {
        char *text = NULL;
        size_t n = 0;
        FILE *to = open_memstream(&text, &n);
        rc = slurm_lib_show(ask[i].what, ask[i].arg, to, err);
        fclose(to);
        if (ask[i].optional && rc < 0)
            n = 0, rc = 0;
        if (rc == 0) {
            printf("%zu\n", n);
            fwrite(text, 1, n, stdout);
        }
        free(text);
    }
    if (rc == 0 && fflush(stdout))
        rc = err_set(err, ERR_SYSTEM, "stdout: %m");
    return rc;
}

static int version(struct err *err)
{
    char *text;

    limit_life();
    if (slurm_lib_open(&text, err) < 0)
        return -1;
    puts(text);
    free(text);
    return 0;
}

static int cancel(const char *job, const char *signo, struct err *err)
{
    int64_t n;

    limit_life();
    if (value_int64(signo, &n, err) < 0 || n < 0 || n > 64)
        return err_set(err, ERR_USAGE, "'%s' is no signal", signo);
    if (slurm_lib_open(NULL, err) < 0)
        return -1;
    return slurm_lib_cancel(job, (int)n, err);
}

/* ---- keeping nodes ---- */

static struct {
    pthread_mutex_t lock;
    unsigned job; /* 0: not known yet */
    int granted;  /* it has nodes */
    int told;     /* to give it back */
    int signals;
} keep = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Needs the lock, which is never given back. */
static void give_back(void)
{
    struct err err = ERR_INIT;
    int rc = slurm_lib_complete(keep.job, &err);

    if (rc < 0)
        dprintf(STDERR_FILENO, "job %u: %s\n", keep.job, err_text(&err));
    _exit(rc < 0 ? ERR_SYSTEM : 0);
}

static void block_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    keep.signals = signalfd(-1, &set, SFD_CLOEXEC);
    signal(SIGPIPE, SIG_IGN);
}

/* Until stdin ends or a signal comes.  What is written there is not looked at. */
static void wait_for_word(void)
{
    char byte[256];

    for (;;) {
        struct pollfd p[2] = { { STDIN_FILENO, POLLIN, 0 },
                               { keep.signals, POLLIN, 0 } };
        if (poll(p, 2, -1) < 0 && errno != EINTR)
            return;
        if (p[1].revents || (p[0].revents && read(STDIN_FILENO, byte, 256) <= 0))
            return;
    }
}

/* A job that is not known yet is given back as soon as it is: by on_pending(). */
static void *mind(void *arg)
{
    wait_for_word();
    pthread_mutex_lock(&keep.lock);
    keep.told = 1;
    if (keep.job)
        give_back();
    pthread_mutex_unlock(&keep.lock);
    alarm(RELEASE_S);
    return arg;
}

static void know(unsigned job, int granted)
{
    pthread_mutex_lock(&keep.lock);
    keep.job = job;
    keep.granted = granted;
    if (keep.told)
        give_back();
    pthread_mutex_unlock(&keep.lock);
}

static void on_pending(unsigned job)
{
    know(job, 0);
    printf("job %u\n", job);
    fflush(stdout);
}

/* scancel, the time limit, a preemption: nothing is left to give back.  A job that has
 * no nodes yet is told of in another way as well, which has the reason. */
static void on_over(void)
{
    int granted;

    pthread_mutex_lock(&keep.lock);
    granted = keep.granted;
    pthread_mutex_unlock(&keep.lock);
    if (granted)
        _exit(0);
    sleep(OVER_S);
    _exit(ERR_FAILED);
}

static int allocate(char **flags, struct err *err)
{
    static const struct slurm_lib_calls calls = { on_pending, on_over };
    struct str said = STR_INIT;
    pthread_t minder;
    unsigned job;

    block_signals();
    if (slurm_lib_open(NULL, err) < 0)
        return -1;
    if (pthread_create(&minder, NULL, mind, NULL) != 0)
        return err_set(err, ERR_SYSTEM, "a thread cannot be made: %m");
    if (slurm_lib_allocate(flags, &calls, &job, &said, err) < 0)
        return -1;
    know(job, 1);
    printf("job %u\n%sgranted\n", job, said.text);
    fflush(stdout);
    for (;;)
        pause();
}

static int is_salloc(pid_t pid)
{
    char path[32], name[16] = "";
    FILE *fp;

    snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
    fp = fopen(path, "re");
    if (fp && !fgets(name, sizeof(name), fp))
        name[0] = '\0';
    if (fp)
        fclose(fp);
    return str_eq(name, "salloc\n");
}

/* The salloc of Slurm 22.05 now and then never ends: it waits, busy, for a command that
 * it has reaped already.  A process stays behind that ends such a one, and its job. */
static void outlive(pid_t salloc, const char *job)
{
    int fd = is_salloc(salloc) ? (int)syscall(SYS_pidfd_open, salloc, 0) : -1;
    struct pollfd p = { fd, POLLIN, 0 };

    if (fd < 0 || fork() != 0)
        return;
    setsid();
    close_range(0, (unsigned)fd - 1, 0);
    close_range((unsigned)fd + 1, ~0U, 0);
    for (int i = 0; i < 3; i++)
        (void)!open("/dev/null", O_RDWR);
    if (poll(&p, 1, SALLOC_MS) == 0) {
        syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
        slurm_cancel(job, 0, NULL);
    }
    _exit(0);
}

/* The environment that salloc gave. */
static int hold(void)
{
    const char *job = getenv("SLURM_JOB_ID");
    pid_t salloc = getppid();

    block_signals();
    printf("job %s\n", job ? job : "?");
    for (char **v = environ; *v; v++)
        if (strncmp(*v, "SLURM_", 6) == 0 && !strchr(*v, '\n'))
            puts(*v);
    puts("granted");
    fflush(stdout);
    wait_for_word();
    if (job)
        outlive(salloc, job);
    return 0;
}

static int refuse(struct err *err)
{
    return err_set(err, ERR_USAGE, "muster agent slurm is started by muster itself");
}

int slurm_helper(int argc, char **argv, struct err *err)
{
    static const char *const questions[] = {
        [SLURM_ASK_JOB] = "job",
        [SLURM_ASK_NODES] = "nodes",
        [SLURM_ASK_TOPOLOGY] = "topology",
        [SLURM_ASK_PARTITIONS] = "partitions",
    };
    const char *verb = argc > 0 ? argv[0] : "";

    if (str_eq(verb, "hold") && argc == 1)
        return hold();
    if (str_eq(verb, "allocate"))
        return allocate(argv + 1, err);
    if (str_eq(verb, "version") && argc == 1)
        return version(err);
    if (str_eq(verb, "place") && argc == 3)
        return place(argv[1], argv[2], err);
    if (str_eq(verb, "cancel") && argc == 3)
        return cancel(argv[1], argv[2], err);
    for (int i = 0; i < SLURM_QUESTIONS; i++)
        if (str_eq(verb, questions[i]) && argc <= 2)
            return show((enum slurm_question)i, argc > 1 ? argv[1] : NULL, err);
    return refuse(err);
}
