/* The allocation as the environment tells it. */
#include "topology/slurm_job.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "topology/hostlist.h"

static const char *find(char *const *env, const char *name)
{
    size_t n = strlen(name);

    for (; *env; env++)
        if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
            return *env + n + 1;
    return NULL;
}

/* A whole number 0 to max; -1 when text is none. */
static int read_whole(const char *text, int max)
{
    char *end;
    long v = isdigit((unsigned char)*text) ? strtol(text, &end, 10) : -1;

    return v < 0 || v > max || *end ? -1 : (int)v;
}

/* NAME, or NAME_HET_GROUP_g of a heterogeneous job. */
struct variable {
    char name[96];
    const char *value; /* NULL absent */
};

static struct variable variable(char *const *env, const char *name, int group)
{
    struct variable v;

    if (group < 0)
        snprintf(v.name, sizeof(v.name), "%.60s", name);
    else
        snprintf(v.name, sizeof(v.name), "%.60s_HET_GROUP_%d", name, group);
    v.value = find(env, v.name);
    return v;
}

static int check_count(char *const *env, int group, const struct slurm_group *g,
                       struct err *err)
{
    struct variable v = variable(env, "SLURM_JOB_NUM_NODES", group);

    if (!v.value || read_whole(v.value, HOSTLIST_MAX) == g->nodes.n)
        return 0;
    return err_set(err, ERR_USAGE, "%s is '%.40s', but the node list has %d", v.name,
                   v.value, g->nodes.n);
}

static int read_tasks(char *const *env, int group, struct slurm_group *g,
                      struct err *err)
{
    struct variable v = variable(env, "SLURM_TASKS_PER_NODE", group);
    int n;

    if (!v.value)
        return 0;
    if (slurm_tasks_per_node(v.value, g->nodes.n, -1, &g->tasks, &n, err) < 0)
        return err_wrap(err, "%s", v.name);
    g->n_tasks = 0;
    for (int i = 0; i < n; i++)
        g->n_tasks += g->tasks[i];
    return 0;
}

static int read_group(char *const *env, int group, struct slurm_group *g,
                      struct err *err)
{
    struct variable v = variable(env, "SLURM_JOB_NODELIST", group);
    struct strlist copy = { 0 }, again = { 0 };
    int rc;

    if (!v.value && group < 0)
        v = variable(env, "SLURM_NODELIST", -1);
    if (!v.value)
        return err_set(err, group < 0 ? ERR_MISSING : ERR_USAGE, "%s is not set: %s",
                       v.name,
                       group < 0 ? "this is no Slurm allocation"
                                 : "SLURM_HET_SIZE says that the component exists");
    if (hostlist_expand(v.value, &g->nodes, err) < 0)
        return err_wrap(err, "%s", v.name);
    strlist_copy(&copy, &g->nodes);
    rc = hostlist_unique(&copy, &again);
    if (rc)
        err_set(err, ERR_USAGE, "%s names %s twice: ranks would share its GPUs", v.name,
                again.item[0]);
    strlist_release(&copy);
    strlist_release(&again);
    return rc || check_count(env, group, g, err) < 0 ||
                   read_tasks(env, group, g, err) < 0
               ? -1
               : 0;
}

int slurm_job_from_env(char *const *env, struct slurm_job *out, struct err *err)
{
    struct slurm_job j = { .n_groups = 1 };
    const char *id = find(env, "SLURM_JOB_ID"), *het = find(env, "SLURM_HET_SIZE");
    int rc = 0;

    if (!id)
        id = find(env, "SLURM_JOB_ID_HET_GROUP_0"); /* all that salloc sets */
    snprintf(j.id, sizeof(j.id), "%.31s", id ? id : "");
    if (het) {
        j.het = 1;
        j.n_groups = read_whole(het, SLURM_GROUPS_MAX);
        if (j.n_groups < 1)
            return err_set(err, ERR_USAGE, "SLURM_HET_SIZE '%.40s' is not 1 to %d", het,
                           SLURM_GROUPS_MAX);
    }
    j.group = xcalloc((size_t)j.n_groups, sizeof(*j.group));
    for (int i = 0; i < j.n_groups; i++)
        j.group[i].n_tasks = -1;
    for (int i = 0; i < j.n_groups && rc == 0; i++)
        rc = read_group(env, het ? i : -1, &j.group[i], err);
    if (rc < 0) {
        slurm_job_release(&j);
        return -1;
    }
    *out = j;
    return 0;
}

void slurm_job_release(struct slurm_job *j)
{
    for (int i = 0; i < j->n_groups && j->group; i++) {
        strlist_release(&j->group[i].nodes);
        free(j->group[i].tasks);
    }
    free(j->group);
    *j = (struct slurm_job){ 0 };
}

int slurm_job_nodes(const struct slurm_job *j, int group, struct strlist *nodes,
                    struct err *err)
{
    struct strlist all = { 0 }, again = { 0 };
    int rc = 0;

    if (group < -1 || group >= j->n_groups)
        return err_set(err, ERR_USAGE,
                       "there is no component %d of job %s: it has %d (0 to %d)", group,
                       j->id, j->n_groups, j->n_groups - 1);
    for (int g = 0; g < j->n_groups; g++)
        for (int i = 0; (group < 0 || g == group) && i < j->group[g].nodes.n; i++)
            strlist_add(&all, j->group[g].nodes.item[i]);
    if (hostlist_unique(&all, &again))
        rc = err_set(err, ERR_USAGE,
                     "two components of job %s share node %s: launch one component",
                     j->id, again.item[0]);
    strlist_release(&again);
    if (rc == 0)
        *nodes = all;
    else
        strlist_release(&all);
    return rc;
}

/* --- SLURM_TASKS_PER_NODE --------------------------------------------------------- */

/* "N" or "N(xR)" at *at; 0 when it is neither. */
static int read_share(const char **at, long *tasks, long *times)
{
    char *end;

    if (!isdigit((unsigned char)**at))
        return 0;
    *tasks = strtol(*at, &end, 10);
    *times = 1;
    if (end[0] == '(' && end[1] == 'x' && isdigit((unsigned char)end[2])) {
        *times = strtol(end + 2, &end, 10);
        if (*end++ != ')')
            return 0;
    }
    *at = end;
    return (**at == ',' && isdigit((unsigned char)(*at)[1])) || **at == '\0';
}

int slurm_tasks_per_node(const char *text, int nodes, int total, int **tasks, int *n,
                         struct err *err)
{
    int *made = NULL, count = 0;
    const char *at = text;
    long sum = 0, share, times;

    for (;;) {
        if (!read_share(&at, &share, &times) || times < 1) {
            err_set(err, ERR_USAGE,
                    "tasks per node '%.60s': not of the form N[(xR)],...", text);
            goto out;
        }
        if (times > HOSTLIST_MAX - count || share > SLURM_TASKS_MAX ||
            times * share > SLURM_TASKS_MAX - sum) {
            err_set(err, ERR_USAGE, "tasks per node '%.60s': too many", text);
            goto out;
        }
        made = xrealloc(made, (size_t)(count + times), sizeof(*made));
        sum += share * times;
        while (times-- > 0)
            made[count++] = (int)share;
        if (!*at)
            break;
        at++;
    }
    if (nodes >= 0 && count != nodes)
        err_set(err, ERR_USAGE, "tasks per node '%.60s' is about %d nodes, not %d",
                text, count, nodes);
    else if (total >= 0 && sum != total)
        err_set(err, ERR_USAGE, "tasks per node '%.60s' adds up to %ld, not %d", text,
                sum, total);
    else {
        *tasks = made;
        *n = count;
        return 0;
    }
out:
    free(made);
    return -1;
}

/* --- rank 0's host ---------------------------------------------------------------- */

static int first_host(char *const *env, int group, struct strlist *names,
                      struct err *err)
{
    const char *file = find(env, "SLURM_HOSTFILE"),
               *order = find(env, "SLURM_DISTRIBUTION");
    struct slurm_job j;
    int rc;

    if (slurm_job_from_env(env, &j, err) < 0)
        return -1;
    rc = slurm_job_nodes(&j, group < 0 ? 0 : group, names, err);
    slurm_job_release(&j);
    if (rc == 0 && file && order && strncmp(order, "arbitrary", 9) == 0) {
        struct strlist allocation = *names;
        *names = (struct strlist){ 0 };
        rc = slurm_hostfile_read(file, &allocation, names, err);
        strlist_release(&allocation);
    }
    return rc;
}

int slurm_job_master(char *const *env, int group, char host[256], struct err *err)
{
    const char *given = find(env, "MASTER_ADDR");
    struct strlist names = { 0 };
    int rc = 0;

    if (given && *given) {
        if (strlen(given) > HOSTLIST_NAME_MAX)
            return err_set(err, ERR_USAGE, "MASTER_ADDR is longer than %d bytes",
                           HOSTLIST_NAME_MAX);
        snprintf(host, 256, "%s", given);
        return 0;
    }
    rc = first_host(env, group, &names, err);
    if (rc == 0)
        snprintf(host, 256, "%s", names.item[0]);
    strlist_release(&names);
    return rc;
}
