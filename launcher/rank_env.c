#include "launcher/rank_env.h"

#include <limits.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/proc.h"
#include "launcher/run.h"
#include "recipes/recipe.h"
#include "topology/place.h"
#include "topology/topology.h"

static const char *const inherited[] = { "PMIX_", "PMI_",        "JSM_",
                                         "FLUX_", "MUSTER_RUN=", "MUSTER_EVENT_FD=" };

/* Open MPI: JSM_JSRUN_PORT (any value) makes it look for PMIx instead of running
 * as singletons; the rest keeps ranks that share a core from spinning and keeps
 * its TCP on this host. */
static const struct {
    const char *name, *value;
} defaults[] = {
    { "JSM_JSRUN_PORT", "1" },
    { "MASTER_ADDR", "127.0.0.1" },
    { "OMPI_MCA_mpi_yield_when_idle", "1" },
    { "OMPI_MCA_pml", "ob1" },
    { "OMPI_MCA_btl", "self,vader,tcp" },
};

static void drop_outer(struct env *e)
{
    char *conf = xstrdup(env_get(e, "SLURM_CONF"));

    for (size_t i = 0; i < ARRAY_LEN(inherited); i++)
        env_drop(e, inherited[i]);
    if (env_get(e, "OMPI_COMM_WORLD_SIZE"))
        env_drop(e, "OMPI_");
    env_drop(e, "SLURM_");
    if (conf)
        env_set(e, "SLURM_CONF", conf);
    free(conf);
}

static int local_world(const struct placement *p, int rank)
{
    int n = 0;

    for (int r = 0; r < p->world; r++)
        n += p->rank[r].node == p->rank[rank].node;
    return n;
}

static int node_rank(const struct placement *p, int rank)
{
    for (int i = 0; i < p->n_nodes; i++)
        if (p->order[i] == p->rank[rank].node)
            return i;
    return 0;
}

const char *rank_cpus(const struct run_request *q, int rank)
{
    return q->topology->simulated || q->no_bind ? "" : q->placement->rank[rank].cpus;
}

/* CPUs the rank will run on: its binding, else its share of what we may use. */
static int cpus_of(const struct run_request *q, int rank)
{
    cpu_set_t set;
    int n;

    if (*rank_cpus(q, rank) && proc_cpus(rank_cpus(q, rank), &set, NULL) == 0)
        return CPU_COUNT(&set);
    if (sched_getaffinity(0, sizeof(set), &set) < 0)
        return 1;
    n = CPU_COUNT(&set) / local_world(q->placement, rank);
    return n > 0 ? n : 1;
}

int rank_uses_gpu(const struct run_request *q, int rank)
{
    const struct place *at = &q->placement->rank[rank];

    if (q->topology->simulated)
        return 0;
    if (q->recipe && (q->recipe->cluster.device == DEVICE_CPU ||
                      q->recipe->cluster.device == DEVICE_SIM))
        return 0;
    return at->gpu >= 0 && at->gpu < q->topology->nodes[at->node].n_gpus;
}

static const struct gpu *gpu_of(const struct run_request *q, int rank)
{
    const struct place *at = &q->placement->rank[rank];

    return &q->topology->nodes[at->node].gpus[at->gpu];
}

static int share_a_gpu(const struct run_request *q, int a, int b, struct err *err)
{
    const struct place *x = &q->placement->rank[a], *y = &q->placement->rank[b];

    if (a == b || x->node != y->node || x->gpu != y->gpu || !rank_uses_gpu(q, b))
        return 0;
    err_set(err, ERR_USAGE, "ranks %d and %d are both placed on GPU %s of %s",
            a < b ? a : b, a < b ? b : a, gpu_of(q, a)->busid,
            q->topology->nodes[x->node].name);
    return 1;
}

/* What the user shows must be enough for the ranks of the node. */
static int check_shown(const char *shown, int ranks, const char *host, struct err *err)
{
    int n = *shown != '\0';

    for (const char *c = shown; *c; c++)
        n += *c == ',';
    if (n == 0)
        return err_set(err, ERR_MISSING,
                       "no GPU visible on %s: CUDA_VISIBLE_DEVICES is set but empty "
                       "(unset it, or name GPUs)",
                       host);
    if (n < ranks)
        return err_set(err, ERR_USAGE,
                       "%d ranks on %s, but CUDA_VISIBLE_DEVICES=%s shows %d GPUs",
                       ranks, host, shown, n);
    return 0;
}

static int set_gpus(struct env *e, const struct run_request *q, int rank,
                    struct err *err)
{
    const struct placement *p = q->placement;
    const char *shown = env_get(e, "CUDA_VISIBLE_DEVICES"), *comma = "";
    struct str list = STR_INIT;

    if (!rank_uses_gpu(q, rank))
        return 0;
    for (int r = 0; r < p->world; r++)
        if (share_a_gpu(q, rank, r, err))
            return -1;
    if (shown)
        return check_shown(shown, local_world(p, rank),
                           q->topology->nodes[p->rank[rank].node].name, err);
    for (int r = 0; r < p->world; r++)
        if (p->rank[r].node == p->rank[rank].node && rank_uses_gpu(q, r)) {
            str_addf(&list, "%s%d", comma, gpu_of(q, r)->index);
            comma = ",";
        }
    env_set(e, "CUDA_VISIBLE_DEVICES", list.text);
    str_release(&list);
    return 0;
}

/* The launcher sees all ranks, so its deadline comes first. */
static void set_wireup_timeout(struct env *e, int64_t ms)
{
    char text[24];
    int64_t longer = ms > 0 && ms < INT_MAX / 2 ? ms + 5000 : INT_MAX;

    snprintf(text, sizeof(text), "%lld", (long long)longer);
    env_default(e, "MUSTER_WIREUP_TIMEOUT_MS", text);
}

static void add_given(struct env *e, const struct strlist *given)
{
    for (int i = 0; given && i < given->n; i++) {
        char *name = xstrdup(given->item[i]), *eq = strchr(name, '=');
        *eq = '\0';
        if (!str_eq(name, "OMPI_MCA_btl_tcp_if_include") ||
            !env_get(e, "OMPI_MCA_btl_tcp_if_exclude")) /* never both */
            env_default(e, name, eq + 1);
        free(name);
    }
}

static void add_loopback(struct env *e)
{
    if (!env_get(e, "OMPI_MCA_btl_tcp_if_exclude"))
        env_default(e, "OMPI_MCA_btl_tcp_if_include", "lo");
}

int rank_env_build(struct env *out, char *const *base, const struct run_request *q,
                   int rank, struct err *err)
{
    const struct placement *p = q->placement;
    struct env e;

    env_copy(&e, base);
    drop_outer(&e);
    env_setf(&e, "RANK", "%d", rank);
    env_setf(&e, "WORLD_SIZE", "%d", p->world);
    env_setf(&e, "LOCAL_RANK", "%d", p->rank[rank].local_rank);
    env_setf(&e, "LOCAL_WORLD_SIZE", "%d", local_world(p, rank));
    env_setf(&e, "NODE_RANK", "%d", node_rank(p, rank));
    add_given(&e, q->defaults);
    if (q->net)
        add_given(&e, &q->net[p->rank[rank].node]);
    if (p->n_nodes == 1)
        add_loopback(&e);
    for (size_t i = 0; i < ARRAY_LEN(defaults); i++)
        env_default(&e, defaults[i].name, defaults[i].value);
    if (!env_get(&e, "OPENBLAS_NUM_THREADS"))
        env_setf(&e, "OPENBLAS_NUM_THREADS", "%d", cpus_of(q, rank));
    if (!q->command)
        set_wireup_timeout(&e, q->start_timeout_ms);
    if (set_gpus(&e, q, rank, err) < 0) {
        env_release(&e);
        return -1;
    }
    *out = e;
    return 0;
}

/* ---- a free port ---- */

static int is_free(int port)
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int ok = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0;

    if (fd >= 0)
        close(fd);
    return ok;
}

int rank_env_free_port(void)
{
    enum { FROM = 20000, COUNT = 12000 }; /* below 32768, where ephemeral ports begin */
    struct timespec t;
    int first;

    clock_gettime(CLOCK_REALTIME, &t);
    first = (int)(((long)getpid() * 7919 + t.tv_nsec / 1000) % COUNT);
    for (int i = 0; i < COUNT; i++)
        if (is_free(FROM + (first + i) % COUNT))
            return FROM + (first + i) % COUNT;
    return 0;
}

void rank_env_choose(struct rank_env_start *s, const char *run, const char *shm)
{
    uint64_t key[2] = { 0, 0 };

    s->run = run;
    s->shm = shm;
    s->master_port = rank_env_free_port();
    (void)!getrandom(key, sizeof(key), 0);
    snprintf(s->job_key, sizeof(s->job_key), "%016llx%016llx",
             (unsigned long long)key[0], (unsigned long long)key[1]);
}

void rank_env_finish(struct env *e, const struct rank_env_start *s)
{
    char port[16];

    snprintf(port, sizeof(port), "%d", s->master_port);
    env_default(e, "MASTER_PORT", port);
    if (s->shm) /* Open MPI leaves its segments there when it is killed */
        env_default(e, "OMPI_MCA_btl_vader_backing_directory", s->shm);
    env_set(e, "MUSTER_RUN", s->run);
    env_set(e, "MUSTER_JOB_KEY", s->job_key);
    env_setf(e, "MUSTER_EVENT_FD", "%d", PROC_EVENT_FD);
}
