/* Slurm's texts: the first byte picks the reader.  Any text is a value or an error. */
#include "fuzz.h"

#include "base/err.h"
#include "base/mem.h"
#include "recipes/slurm_signal.h"
#include "topology/cpulist.h"
#include "topology/slurm_gres.h"
#include "topology/slurm_job.h"
#include "topology/slurm_record.h"
#include "topology/slurm_state.h"

/* A failure has a message, a success has none. */
static void check(int rc, const struct err *err)
{
    if ((rc < 0) != (err->code != ERR_NONE))
        abort();
}

static void try_gres(const char *text, size_t len, struct err *err)
{
    struct gres g = { 0 };
    struct cpulist set;

    (void)len;
    check(gres_parse(text, &g, err), err);
    if (gres_count(&g, "gpu") < 0 || gres_whole_gpus(&g) > gres_count(&g, "gpu"))
        abort();
    for (int i = 0; i < g.n; i++)
        gres_where(&g.item[i], &set);
    gres_release(&g);
}

static void try_state(const char *text, size_t len, struct err *err)
{
    struct slurm_state s;

    (void)len;
    (void)err;
    slurm_state_parse(text, &s);
    if (s.why[0] == '\0' || strlen(s.why) >= sizeof(s.why))
        abort();
}

static void try_records(const char *text, size_t len, struct err *err)
{
    struct slurm_records all = { 0 };
    size_t seen = 0;

    check(slurm_records_parse(text, len, "fuzz", &all, err), err);
    for (int i = 0; i < all.n; i++)
        for (int k = 0; k < all.record[i].n; k++) {
            seen += strlen(all.record[i].pair[k].value);
            (void)slurm_record_get(&all.record[i], all.record[i].pair[k].key);
        }
    if (seen > len)
        abort();
    slurm_records_release(&all);
}

static void try_tasks(const char *text, size_t len, struct err *err)
{
    int *tasks = NULL, n = 0;
    int rc = slurm_tasks_per_node(text, -1, -1, &tasks, &n, err);

    (void)len;
    check(rc, err);
    if (rc == 0 && n < 1)
        abort();
    free(tasks);
}

/* Lines are an environment. */
static void try_job(const char *text, size_t len, struct err *err)
{
    char *copy = xstrdup(text), *env[65], host[256];
    struct strlist nodes = { 0 };
    struct slurm_job j = { 0 };
    int n = 0;

    (void)len;
    for (char *line = copy, *next; line && n < 64; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        if (strncmp(line, "SLURM_HOSTFILE", 14) != 0) /* no paths of this machine */
            env[n++] = line;
    }
    env[n] = NULL;
    check(slurm_job_from_env(env, &j, err), err);
    if (j.n_groups && slurm_job_nodes(&j, -1, &nodes, err) == 0 && nodes.n < 1)
        abort();
    strlist_release(&nodes);
    slurm_job_release(&j);
    err_release(err);
    check(slurm_job_master(env, -1, host, err), err);
    free(copy);
}

static void try_hostfile(const char *text, size_t len, struct err *err)
{
    struct strlist ranks = { 0 };
    int rc = slurm_hostfile_parse(text, "fuzz", NULL, &ranks, err);

    (void)len;
    check(rc, err);
    if ((rc == 0) != (ranks.n > 0))
        abort();
    strlist_release(&ranks);
}

/* The pattern is the first line. */
static void try_addr(const char *text, size_t len, struct err *err)
{
    struct slurm_level level[SLURM_LEVELS_MAX];
    char *pattern = xstrndup(text, strcspn(text, "\n"));
    int n = 0;

    (void)len;
    text += strlen(pattern);
    check(slurm_topology_addr(*text ? text + 1 : text, pattern, level, &n, err), err);
    slurm_levels_release(level, n);
    free(pattern);
}

static void try_signal(const char *text, size_t len, struct err *err)
{
    struct slurm_signal s;
    int rc = slurm_signal_parse(text, &s, err);

    (void)len;
    check(rc, err);
    if (rc == 0 && (s.number < 1 || s.number > 64 || s.before_s < 0))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const tries[])(const char *text, size_t len, struct err *err) = {
        try_gres, try_state,    try_records, try_tasks,
        try_job,  try_hostfile, try_addr,    try_signal,
    };
    struct err err = ERR_INIT;
    char *text;

    if (size == 0)
        return 0;
    text = xstrndup((const char *)data + 1, size - 1);
    tries[data[0] % ARRAY_LEN(tries)](text, strlen(text), &err);
    err_release(&err);
    free(text);
    return 0;
}
