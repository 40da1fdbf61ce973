#include "launcher/task_rank.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "launcher/env.h"
#include "launcher/net_look.h"
#include "launcher/proc.h"
#include "launcher/task_bind.h"
#include "launcher/task_wire.h"

static int is_listed(const struct strlist *names, const char *item)
{
    size_t n = strcspn(item, "=");

    for (int i = 0; i < names->n; i++)
        if (names->item[i][0] == item[0] && strncmp(names->item[i], item, n) == 0 &&
            (names->item[i][n] == '\0' || names->item[i][n] == '='))
            return 1;
    return 0;
}

static int is_of_slurm(const char *item)
{
    static const char *const ours[] = {
        "PMIX_", "SLURM",
        "CUDA_VISIBLE_DEVICES=", "ROCR_VISIBLE_DEVICES=", "GPU_DEVICE_ORDINAL="
    };

    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        if (strncmp(item, ours[i], strlen(ours[i])) == 0)
            return 1;
    return 0;
}

/* The launcher's words, and over them what the step has given this task: PMIx, Slurm,
 * devices, and names that a prolog added. */
static void make_env(const struct task_start *s, struct env *env)
{
    env_copy(env, s->env.item);
    for (char **v = environ; *v; v++) {
        char *name;
        if (!is_of_slurm(*v) && (is_listed(&s->env, *v) || is_listed(&s->drop, *v)))
            continue;
        name = xstrndup(*v, strcspn(*v, "="));
        env_set(env, name, strchr(*v, '=') ? strchr(*v, '=') + 1 : "");
        free(name);
    }
    env_drop(env, TASK_AT "=");
    env_setf(env, "MUSTER_EVENT_FD", "%d", PROC_EVENT_FD);
}

static int number(const struct env *env, const char *name)
{
    const char *text = env_get(env, name);

    return text ? (int)strtol(text, NULL, 10) : -1;
}

static void choose_cpus(const struct task_start *s, const struct env *env,
                        struct task_bound *out)
{
    const char *step = getenv("SLURM_STEP_GPUS"), *job = getenv("SLURM_JOB_GPUS");
    const struct task_bind_ask ask = {
        .mode = s->bind,
        .local_rank = number(env, "LOCAL_RANK"),
        .local_world = number(env, "LOCAL_WORLD_SIZE"),
        .devices = step  ? step
                   : job ? job
                         : env_get(env, "CUDA_VISIBLE_DEVICES"),
        .slurm = getenv("SLURM_CPU_BIND_TYPE"),
    };

    task_bind_choose("", &ask, out);
    if (*s->cpus) {
        snprintf(out->cpus, sizeof(out->cpus), "%s", s->cpus);
        out->by = "muster";
    }
}

/* As many threads as it has CPUs, unless the user said it. */
static void set_threads(struct env *env, const struct task_bound *bound)
{
    int ranks = number(env, "LOCAL_WORLD_SIZE"), n = 1;
    cpu_set_t set;

    if (env_get(env, "OPENBLAS_NUM_THREADS"))
        return;
    if (*bound->cpus && proc_cpus(bound->cpus, &set, NULL) == 0)
        n = CPU_COUNT(&set);
    else if (sched_getaffinity(0, sizeof(set), &set) == 0)
        n = CPU_COUNT(&set) / (ranks > 0 ? ranks : 1);
    env_setf(env, "OPENBLAS_NUM_THREADS", "%d", n > 0 ? n : 1);
}

/* No GPU for a rank that was placed on one: before any work (case C16). */
static int check_devices(const struct task_start *s, const struct env *env,
                         struct err *err)
{
    const char *shown = env_get(env, "CUDA_VISIBLE_DEVICES");

    if (s->bind != TASK_BIND_GPU || !shown || *shown)
        return 0;
    return err_set(
        err, ERR_MISSING,
        "no GPU visible: CUDA_VISIBLE_DEVICES is set but empty on this node");
}

/* Towards rank 0, else as the launcher reaches this node. */
static void tell_net(const struct task_start *s, const char *address, struct env *env,
                     struct task_bound *bound)
{
    const char *master = env_get(env, "MASTER_ADDR");
    char towards[48] = "";
    struct net_look n;
    size_t at = 0;

    if (master && *master && net_address_towards(master, towards) == 0 &&
        !net_is_loopback(towards))
        address = towards;
    net_look_here(*address ? address : NULL, s->net == TASK_NET_NAMES, &n);
    for (int v = 0; v < NET_VARS; v++) {
        char *value;
        if (!*n.why[v] || env_get(env, net_name((enum net_var)v)))
            continue;
        value = net_value(&n, (enum net_var)v);
        if (at < sizeof(bound->told))
            at += (size_t)snprintf(bound->told + at, sizeof(bound->told) - at,
                                   "%s%s=%s: %s", at ? "; " : "",
                                   net_name((enum net_var)v), value, n.why[v]);
        free(value);
    }
    net_apply(&n, env);
}

static int check_net(const struct task_start *s, const struct env *env, struct err *err)
{
    struct net_ifs l = { 0 };
    int rc;

    if (s->bind != TASK_BIND_GPU)
        return 0;
    net_ifs_live(&l);
    rc = net_check(&l, env_get(env, "NCCL_SOCKET_IFNAME"), err);
    net_ifs_release(&l);
    return rc;
}

int task_rank_prepare(const struct task_start *s, const char *address, struct env *env,
                      struct task_bound *bound, struct err *err)
{
    make_env(s, env);
    choose_cpus(s, env, bound);
    set_threads(env, bound);
    if (check_devices(s, env, err) == 0 && check_net(s, env, err) == 0) {
        if (s->net != TASK_NET_NONE)
            tell_net(s, address, env, bound);
        return 0;
    }
    env_release(env);
    return -1;
}
