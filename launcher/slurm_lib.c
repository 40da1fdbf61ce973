#include "launcher/slurm_lib.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "recipes/slurm_signal.h"
#include "recipes/value.h"
#include "topology/hostlist.h"

#ifndef SLURM_SO_MAJOR /* the number of the soname, by the Makefile */
#define SLURM_SO_MAJOR 0
#endif

/* Every call that is used, by the type its header gives it. */
#define CALLS(X)                       \
    X(slurm_init)                      \
    X(slurm_api_version)               \
    X(slurm_strerror)                  \
    X(slurm_load_job)                  \
    X(slurm_load_node)                 \
    X(slurm_load_topo)                 \
    X(slurm_load_partitions)           \
    X(slurm_populate_node_partitions)  \
    X(slurm_print_job_info)            \
    X(slurm_print_node_table)          \
    X(slurm_print_topo_info_msg)       \
    X(slurm_print_partition_info)      \
    X(slurm_kill_job)                  \
    X(slurm_complete_job)              \
    X(slurm_init_job_desc_msg)         \
    X(slurm_allocation_msg_thr_create) \
    X(slurm_allocate_resources_blocking)

#define MEMBER(f) __typeof__(f) *f;
static struct {
    void *handle;
    CALLS(MEMBER)
} lib;

static const struct {
    const char *name;
    size_t at;
} names[] = {
#define NAME(f) { #f, offsetof(__typeof__(lib), f) },
    CALLS(NAME)
};

/* ---- loading ---- */

static int load(const char *file, struct err *err)
{
    lib.handle = dlopen(file, RTLD_NOW | RTLD_GLOBAL); /* its plugins look for it */
    if (!lib.handle)
        return err_set(err, ERR_MISSING,
                       "%s cannot be loaded (%s); this muster was built for Slurm "
                       "%d.%02d",
                       file, dlerror(), SLURM_VERSION_NUMBER >> 16,
                       SLURM_VERSION_NUMBER >> 8 & 0xff);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        void *symbol = dlsym(lib.handle, names[i].name);
        if (!symbol)
            return err_set(err, ERR_MISSING, "%s has no %s: another major version?",
                           file, names[i].name);
        memcpy((char *)&lib + names[i].at, &symbol, sizeof(symbol));
    }
    return 0;
}

/* The number of the library's soname is its major version, and it says it itself. */
static int check_version(const char *file, struct err *err)
{
    long major = lib.slurm_api_version() >> 16 & 0xffff;

    if (major == SLURM_SO_MAJOR)
        return 0;
    return err_set(err, ERR_MISSING,
                   "%s is libslurm %ld, and this muster was built for libslurm %d "
                   "(Slurm %d.%02d): make it again here",
                   file, major, SLURM_SO_MAJOR, SLURM_VERSION_NUMBER >> 16,
                   SLURM_VERSION_NUMBER >> 8 & 0xff);
}

int slurm_lib_open(char **text, struct err *err)
{
    const char *given = getenv("MUSTER_LIBSLURM");
    char *file;
    int rc = 0;

    if (given && str_eq(given, "off"))
        return err_set(err, ERR_MISSING, "MUSTER_LIBSLURM is off");
    file =
        given && *given ? xstrdup(given) : xasprintf("libslurm.so.%d", SLURM_SO_MAJOR);
    if (!lib.handle)
        rc = load(file, err) < 0 || check_version(file, err) < 0 ? -1 : 0;
    if (rc == 0 && text)
        *text = xasprintf("libslurm %d of Slurm %d.%02d (%s)", SLURM_SO_MAJOR,
                          SLURM_VERSION_NUMBER >> 16, SLURM_VERSION_NUMBER >> 8 & 0xff,
                          file);
    free(file);
    return rc;
}

static int refused(const char *what, struct err *err)
{
    int code = errno;

    return err_set(err,
                   code == SLURM_PROTOCOL_SOCKET_IMPL_TIMEOUT ||
                           code == SLURMCTLD_COMMUNICATIONS_CONNECTION_ERROR
                       ? ERR_TIMEOUT
                       : ERR_FAILED,
                   "%s: %s", what, lib.slurm_strerror(code));
}

/* Reads the configuration, and ends this process where there is none. */
static void begin(void)
{
    static int begun;

    if (!begun++)
        lib.slurm_init(NULL);
}

/* ---- what scontrol shows ---- */

static int job_number(const char *text, uint32_t *job, struct err *err)
{
    int64_t n;

    if (value_int64(text, &n, NULL) < 0 || n < 1 || n > UINT32_MAX)
        return err_set(err, ERR_USAGE, "'%s' is no job id", text);
    *job = (uint32_t)n;
    return 0;
}

static int show_job(const char *arg, FILE *out, struct err *err)
{
    job_info_msg_t *m = NULL;
    uint32_t job;

    if (job_number(arg ? arg : "", &job, err) < 0)
        return -1;
    if (lib.slurm_load_job(&m, job, SHOW_ALL | SHOW_DETAIL) != 0)
        return refused("slurm_load_job error", err);
    for (uint32_t i = 0; i < m->record_count; i++)
        lib.slurm_print_job_info(out, &m->job_array[i], 0);
    return 0;
}

static int print_named(node_info_msg_t *m, const struct strlist *names_wanted,
                       FILE *out, struct err *err)
{
    for (int k = 0; k < names_wanted->n; k++) {
        const char *name = names_wanted->item[k];
        uint32_t i = 0;

        while (i < m->record_count && !str_eq(m->node_array[i].name, name))
            i++;
        if (i == m->record_count)
            return err_set(err, ERR_FAILED, "Node %s not found", name);
        lib.slurm_print_node_table(out, &m->node_array[i], 0);
    }
    return 0;
}

static int show_nodes(const char *arg, FILE *out, struct err *err)
{
    node_info_msg_t *m = NULL;
    partition_info_msg_t *parts = NULL;
    struct strlist wanted = { 0 };
    int rc;

    if (arg && hostlist_expand(arg, &wanted, err) < 0)
        return -1;
    if (lib.slurm_load_node(0, &m, SHOW_ALL | SHOW_DETAIL) != 0)
        return refused("slurm_load_node error", err);
    if (lib.slurm_load_partitions(0, &parts, SHOW_ALL) != 0)
        return refused("slurm_load_partitions error", err);
    lib.slurm_populate_node_partitions(m, parts);
    for (uint32_t i = 0; !arg && i < m->record_count; i++)
        if (m->node_array[i].name) /* a hole, where a node was taken out */
            lib.slurm_print_node_table(out, &m->node_array[i], 0);
    rc = print_named(m, &wanted, out, err);
    strlist_release(&wanted);
    return rc;
}

static int show_topology(const char *arg, FILE *out, struct err *err)
{
    topo_info_response_msg_t *m = NULL;

    (void)arg;
    if (lib.slurm_load_topo(&m) != 0)
        return refused("slurm_load_topo error", err);
    lib.slurm_print_topo_info_msg(out, m, 0);
    return 0;
}

static int show_partitions(const char *arg, FILE *out, struct err *err)
{
    partition_info_msg_t *m = NULL;
    int found = 0;

    if (lib.slurm_load_partitions(0, &m, SHOW_ALL) != 0)
        return refused("slurm_load_partitions error", err);
    for (uint32_t i = 0; i < m->record_count; i++)
        if (!arg || str_eq(m->partition_array[i].name, arg)) {
            lib.slurm_print_partition_info(out, &m->partition_array[i], 0);
            found = 1;
        }
    return found || !arg ? 0 : err_set(err, ERR_FAILED, "Partition %s not found", arg);
}

int slurm_lib_show(enum slurm_question what, const char *arg, FILE *out,
                   struct err *err)
{
    static int (*const show[])(const char *, FILE *, struct err *) = {
        [SLURM_ASK_JOB] = show_job,
        [SLURM_ASK_NODES] = show_nodes,
        [SLURM_ASK_TOPOLOGY] = show_topology,
        [SLURM_ASK_PARTITIONS] = show_partitions,
    };

    begin();
    return show[what](arg, out, err);
}

int slurm_lib_cancel(const char *job, int signo, struct err *err)
{
    uint32_t number;

    if (job_number(job, &number, err) < 0)
        return -1;
    begin();
    if (lib.slurm_kill_job(number, (uint16_t)(signo ? signo : SIGKILL), 0) == 0 ||
        errno == ESLURM_ALREADY_DONE)
        return 0;
    return refused("slurm_kill_job error", err);
}

int slurm_lib_complete(unsigned job, struct err *err)
{
    if (lib.slurm_complete_job(job, 0) == 0 || errno == ESLURM_ALREADY_DONE)
        return 0;
    return refused("slurm_complete_job error", err);
}

/* ---- asking for nodes ---- */

static int set_number(const char *text, uint32_t *to, struct err *err)
{
    int64_t n;

    if (value_int64(text, &n, err) < 0)
        return -1;
    if (n < 1 || n > 1000000)
        return err_set(err, ERR_USAGE, "%s is outside 1 .. 1000000", text);
    *to = (uint32_t)n;
    return 0;
}

static int take_nodes(job_desc_msg_t *d, const char *text, struct err *err)
{
    if (set_number(text, &d->min_nodes, err) < 0)
        return -1;
    d->max_nodes = d->min_nodes;
    return 0;
}

static int take_tasks(job_desc_msg_t *d, const char *text, struct err *err)
{
    uint32_t n;

    if (set_number(text, &n, err) < 0)
        return -1;
    if (n > UINT16_MAX)
        return err_set(err, ERR_USAGE, "%s tasks on one node", text);
    d->ntasks_per_node = (uint16_t)n;
    return 0;
}

/* Slurm's unit is the minute, and salloc rounds up. */
static int take_time(job_desc_msg_t *d, const char *text, struct err *err)
{
    int64_t s;

    if (str_eq(text, "UNLIMITED")) {
        d->time_limit = INFINITE;
        return 0;
    }
    if (value_duration(text, &s, err) < 0)
        return -1;
    d->time_limit = (uint32_t)((s + 59) / 60);
    return 0;
}

/* "gpu:8,fpga:1" is "gres:gpu:8,gres:fpga:1" to the controller. */
static int take_gres(job_desc_msg_t *d, const char *text, struct err *err)
{
    struct str s = STR_INIT;

    (void)err;
    for (const char *p = text; *p; p += strcspn(p, ","), p += *p == ',')
        str_addf(&s, "%sgres:%.*s", s.len ? "," : "", (int)strcspn(p, ","), p);
    d->tres_per_node = str_take(&s);
    return 0;
}

static int take_no_kill(job_desc_msg_t *d, const char *text, struct err *err)
{
    (void)text, (void)err;
    d->kill_on_node_fail = 0;
    return 0;
}

static int take_signal(job_desc_msg_t *d, const char *text, struct err *err)
{
    struct slurm_signal s;

    if (slurm_signal_parse(text, &s, err) < 0)
        return -1;
    d->warn_signal = (uint16_t)s.number;
    d->warn_time = (uint16_t)s.before_s;
    d->warn_flags = s.reservation ? KILL_JOB_RESV : 0;
    return 0;
}

static const struct {
    const char *name;
    int (*take)(job_desc_msg_t *, const char *, struct err *);
    size_t at; /* where a text goes, when there is no take() */
} known[] = {
    { "--nodes=", take_nodes, 0 },
    { "--ntasks-per-node=", take_tasks, 0 },
    { "--gres=", take_gres, 0 },
    { "--time=", take_time, 0 },
    { "--no-kill", take_no_kill, 0 },
    { "--signal=", take_signal, 0 },
    { "--job-name=", NULL, offsetof(job_desc_msg_t, name) },
    { "--partition=", NULL, offsetof(job_desc_msg_t, partition) },
    { "--account=", NULL, offsetof(job_desc_msg_t, account) },
    { "--qos=", NULL, offsetof(job_desc_msg_t, qos) },
    { "--constraint=", NULL, offsetof(job_desc_msg_t, features) },
    { "--exclude=", NULL, offsetof(job_desc_msg_t, exc_nodes) },
    { "--reservation=", NULL, offsetof(job_desc_msg_t, reservation) },
};

static int take_flag(job_desc_msg_t *d, const char *flag, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        size_t n = strlen(known[i].name);
        char *value;

        if (strncmp(flag, known[i].name, n) != 0)
            continue;
        if (known[i].take)
            return known[i].take(d, flag + n, err) < 0 ? err_wrap(err, "%s", flag) : 0;
        value = xstrdup(flag + n);
        memcpy((char *)d + known[i].at, &value, sizeof(value));
        return 0;
    }
    return err_set(err, ERR_USAGE, "%s is not asked for through libslurm", flag);
}

static const struct slurm_lib_calls *told;

static void on_complete(srun_job_complete_msg_t *m)
{
    (void)m;
    told->over();
}

static void add_grant(const resource_allocation_response_msg_t *r, struct str *s)
{
    const char *cpus = "SLURM_JOB_CPUS_PER_NODE=";

    str_addf(s, "SLURM_JOB_ID=%u\nSLURM_JOBID=%u\n", r->job_id, r->job_id);
    str_addf(s, "SLURM_JOB_NUM_NODES=%u\nSLURM_NNODES=%u\n", r->node_cnt, r->node_cnt);
    str_addf(s, "SLURM_JOB_NODELIST=%s\nSLURM_NODELIST=%s\n", r->node_list,
             r->node_list);
    if (r->partition)
        str_addf(s, "SLURM_JOB_PARTITION=%s\n", r->partition);
    for (uint32_t i = 0; i < r->num_cpu_groups; i++) {
        str_addf(s, "%s%u", cpus, r->cpus_per_node[i]);
        if (r->cpu_count_reps[i] > 1)
            str_addf(s, "(x%u)", r->cpu_count_reps[i]);
        cpus = ",";
    }
    str_adds(s, r->num_cpu_groups ? "\n" : "");
}

static int describe(job_desc_msg_t *d, char *const *flags, struct err *err)
{
    lib.slurm_init_job_desc_msg(d);
    d->user_id = getuid();
    d->group_id = getgid();
    d->work_dir = getcwd(NULL, 0);
    for (int i = 0; flags[i]; i++)
        if (take_flag(d, flags[i], err) < 0)
            return -1;
    if (d->ntasks_per_node != NO_VAL16 && d->min_nodes != NO_VAL)
        d->num_tasks = d->min_nodes * d->ntasks_per_node;
    return 0;
}

/* What is allocated here lives as long as the helper. */
int slurm_lib_allocate(char *const *flags, const struct slurm_lib_calls *calls,
                       unsigned *job, struct str *said, struct err *err)
{
    static const slurm_allocation_callbacks_t on = { .job_complete = on_complete };
    resource_allocation_response_msg_t *r;
    job_desc_msg_t d;

    begin();
    if (describe(&d, flags, err) < 0)
        return -1;
    told = calls;
    /* its pings say that the owner of the job is alive (InactiveLimit) */
    if (!lib.slurm_allocation_msg_thr_create(&d.other_port, &on))
        return refused("slurm_allocation_msg_thr_create error", err);
    r = lib.slurm_allocate_resources_blocking(&d, 0, calls->pending);
    if (!r)
        return refused("slurm_allocate_resources error", err);
    *job = r->job_id;
    add_grant(r, said);
    return 0;
}
