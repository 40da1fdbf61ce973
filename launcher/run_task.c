/* run_task.c - what ranks say of their own CPUs and limits, held against what they
 * need.  Each kind of trouble is said once; all of it is in events.jsonl. */
#include <stdlib.h>
#include <string.h>

#include "base/js.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "checks/host.h"
#include "launcher/backend.h"
#include "launcher/proc.h"
#include "launcher/rank_env.h"
#include "launcher/run_state.h"
#include "recipes/recipe.h"
#include "topology/place.h"

enum { FILES_OLD_DEFAULT = 1024, LEAST_STACK = 1 << 20 };

enum said {
    SAID_ELSEWHERE = 1,
    SAID_SLURM = 2,
    SAID_MEMLOCK = 4,
    SAID_NOFILE = 8,
    SAID_STACK = 16,
    SAID_SHM = 32,
    SAID_DEVICES = 64,
    SAID_NET = 128,
    SAID_FEW = 256,
};

/* 1 the first time. */
static int first(struct run *run, enum said what)
{
    unsigned bit = what;
    int new = !(run->task_said & bit);

    run->task_said |= bit;
    return new;
}

static int same_cpus(const char *a, const char *b)
{
    cpu_set_t x, y;

    return proc_cpus(a, &x, NULL) < 0 || proc_cpus(b, &y, NULL) < 0 ||
           CPU_EQUAL(&x, &y);
}

static int ranks_here(const struct run *run, int rank)
{
    const struct placement *p = run->q->placement;
    int n = 0;

    for (int r = 0; r < p->world; r++)
        n += p->rank[r].node == p->rank[rank].node;
    return n;
}

/* A job that asked for GPUs alone gets a CPU or two beside them. */
static void look_at_few(struct run *run, int rank, const char *cpus)
{
    int here = ranks_here(run, rank);
    cpu_set_t set;

    if (run->backend != &backend_slurm || run->q->no_bind || !*cpus ||
        proc_cpus(cpus, &set, NULL) < 0 || CPU_COUNT(&set) >= here ||
        (run->q->recipe && run->q->recipe->cluster.device == DEVICE_SIM) ||
        !first(run, SAID_FEW))
        return;
    log_warn("%s: %d ranks share %d CPU%s (%s): ask for more with the nodes "
             "(--cpus-per-task, --cpus-per-gpu or --exclusive)",
             run_host(run, rank), here, CPU_COUNT(&set), str_s(CPU_COUNT(&set)), cpus);
}

static void take_binding(struct run *run, int rank, const struct js *e)
{
    const char *want = js_str(e, "want_cpus", ""), *got = js_str(e, "cpus", "");
    struct run_tasks *t = &run->result->tasks;

    t->reported++;
    if (str_eq(js_str(e, "bound_by", ""), "slurm")) {
        t->by_slurm++;
        if (first(run, SAID_SLURM))
            log_info(
                "Slurm binds the ranks (%s), muster leaves that; rank %d on %s has "
                "CPUs %s",
                js_str(e, "why", ""), rank, run_host(run, rank), got);
    } else if (!*want) {
        t->unbound++;
        look_at_few(run, rank, got);
    } else if (!*got || same_cpus(want, got)) {
        t->bound++;
    } else {
        t->elsewhere++;
        if (first(run, SAID_ELSEWHERE))
            log_warn("rank %d on %s runs on CPUs %s, not on %s where it is placed: a "
                     "cpuset or a task plugin holds it there (others are in "
                     "events.jsonl)",
                     rank, run_host(run, rank), got, want);
    }
}

/* --- limits ------------------------------------------------------------------------ */

/* How the limit of a task is raised depends on who started it. */
static const char *cure(const struct run *run, const char *slurm, const char *ssh,
                        const char *local)
{
    return run->backend == &backend_slurm    ? slurm
           : run->backend == &backend_agents ? ssh
                                             : local;
}

/* Registered memory is locked memory (case C07). */
static void look_at_memlock(struct run *run, int rank, const struct js *e,
                            int64_t bytes)
{
    if (bytes < 0 || !js_get_bool(e, "rdma", 0) || !first(run, SAID_MEMLOCK))
        return;
    log_warn(
        "%s: a rank may lock %lld bytes of memory (read inside rank %d), RDMA wants "
        "no limit: %s",
        run_host(run, rank), (long long)bytes, rank,
        cure(run, "set LimitMEMLOCK=infinity for slurmd (systemctl edit slurmd)",
             "set memlock unlimited for the user in /etc/security/limits.conf",
             "ulimit -l unlimited"));
}

static void look_at_nofile(struct run *run, int rank, int64_t files)
{
    int64_t need = host_files_need(run->world);

    if (run->q->placement->n_nodes > 1 && need <= FILES_OLD_DEFAULT)
        need = FILES_OLD_DEFAULT + 1;
    if (files < 0 || files >= need || !first(run, SAID_NOFILE))
        return;
    log_warn(
        "%s: a rank may open %lld files (read inside rank %d), %d ranks want %lld: "
        "%s",
        run_host(run, rank), (long long)files, rank, run->world, (long long)need,
        cure(run, "set LimitNOFILE= for slurmd (systemctl edit slurmd)",
             "raise nofile in /etc/security/limits.conf there", "raise ulimit -n"));
}

static void look_at_stack(struct run *run, int rank, int64_t bytes)
{
    if (bytes < 0 || bytes >= LEAST_STACK || !first(run, SAID_STACK))
        return;
    log_warn("%s: the stack of a rank ends at %lld bytes (read inside rank %d): raise "
             "ulimit -s, threads of libraries need 1 MiB and more",
             run_host(run, rank), (long long)bytes, rank);
}

/* Case C08. */
static void look_at_shm(struct run *run, int rank, const struct js *e)
{
    int here = ranks_here(run, rank);
    int64_t free = js_get_int(e, "shm_free_bytes", -1);
    int64_t need = host_shm_need(here, rank_uses_gpu(run->q, rank));

    if (here < 2 || free < 0 || free >= need || !first(run, SAID_SHM))
        return;
    log_warn(
        "%s: /dev/shm has %.1f MiB free of %.1f MiB, %d ranks want %.1f MiB: make "
        "it larger (mount -o remount,size=, --shm-size of the container) or remove "
        "what dead jobs left there",
        run_host(run, rank), (double)free / (1 << 20),
        (double)js_get_int(e, "shm_bytes", 0) / (1 << 20), here,
        (double)need / (1 << 20));
}

static void look_at_limits(struct run *run, int rank, const struct js *e)
{
    const struct js *l = js_get(e, "limits");

    look_at_memlock(run, rank, e, js_get_int(l, "memlock", -1));
    look_at_nofile(run, rank, js_get_int(l, "nofile", -1));
    look_at_stack(run, rank, js_get_int(l, "stack", -1));
    look_at_shm(run, rank, e);
}

/* --- devices (case C16) -------------------------------------------------------------- */

static int count_of(const char *list)
{
    int n = *list != '\0';

    for (; *list; list++)
        n += *list == ',';
    return n;
}

static void look_at_devices(struct run *run, int rank, const struct js *e)
{
    const char *shown = js_str(e, "devices", NULL);
    int local = (int)js_get_int(e, "local_rank", -1);

    if (!shown || !rank_uses_gpu(run->q, rank) || local < count_of(shown) ||
        !first(run, SAID_DEVICES))
        return;
    log_warn(
        "rank %d on %s has LOCAL_RANK %d, but sees %d GPU%s "
        "(CUDA_VISIBLE_DEVICES=%s): a program that takes LOCAL_RANK for its device "
        "fails; leave --gpus-per-task and --gpu-bind out of cluster.slurm.args",
        rank, run_host(run, rank), local, count_of(shown), str_s(count_of(shown)),
        shown);
}

/* --- -v ------------------------------------------------------------------------------ */

static void add_limit(struct str *s, const char *name, int64_t v)
{
    if (v < 0)
        str_addf(s, ", %s unlimited", name);
    else
        str_addf(s, ", %s %lld", name, (long long)v);
}

static void say(const struct run *run, int rank, const struct js *e)
{
    static const char *const names[] = { "memlock", "nofile", "stack", "core" };
    const char *why = js_str(e, "why", ""), *shown = js_str(e, "devices", NULL);
    const struct js *l = js_get(e, "limits");
    struct str s = STR_INIT;

    str_addf(&s, "rank %d on %s: CPUs %s (bound by %s%s%s)", rank, run_host(run, rank),
             js_str(e, "cpus", "?"), js_str(e, "bound_by", "nobody"), *why ? ": " : "",
             why);
    if (shown)
        str_addf(&s, ", CUDA_VISIBLE_DEVICES=%s", shown);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        add_limit(&s, names[i], js_get_int(l, names[i], -1));
    str_addf(&s, ", /dev/shm %.0f MiB free",
             (double)js_get_int(e, "shm_free_bytes", 0) / (1 << 20));
    log_info("%s", s.text);
    str_release(&s);
}

void run_task_seen(struct run *run, int rank, const struct js *event)
{
    take_binding(run, rank, event);
    look_at_limits(run, rank, event);
    look_at_devices(run, rank, event);
    if (*js_str(event, "net", "") && run->q->verbose && first(run, SAID_NET))
        log_info("rank %d on %s: %s", rank, run_host(run, rank),
                 js_str(event, "net", ""));
    if (run->q->verbose)
        say(run, rank, event);
}
