/* muster-probe - what each rank of a preflight check executes: the trainer's wireup
 * and collectives, on the groups and sizes of the recipe.  It measures and reports
 * ("measure" events); `muster check` judges. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/js.h"
#include "base/log.h"
#include "base/mem.h"
#include "checks/probe.h"
#include "trainer/coll.h"
#include "trainer/heartbeat.h"
#include "trainer/ops.h"
#include "trainer/wireup.h"

const char *argp_program_version = "muster-probe " MUSTER_VERSION;

/* --- options -------------------------------------------------------------------------- */

enum { OPT_SET = 256, OPT_LEVEL, COLL_TIMEOUT_MS = 60000 };

static const struct argp_option option_list[] = {
    { "recipe", 'r', "FILE", 0, "the training recipe", 0 },
    { "set", OPT_SET, "KEY=VALUE", 0, "change one key of the recipe", 0 },
    { "device", 'D', "cpu|cuda", 0, "instead of the recipe's cluster.device", 0 },
    { "level", OPT_LEVEL, "quick|standard|full", 0, "how much to measure (standard)",
      0 },
    { 0 },
};

static int level_of(const char *text, enum level *out)
{
    static const char *const names[] = { "quick", "standard", "full" };

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (str_eq(text, names[i])) {
            *out = (enum level)i;
            return 0;
        }
    return -1;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct probe_options *o = state->input;

    switch (key) {
    case 'r':
        o->recipe = arg;
        return 0;
    case 'D':
        o->device = arg;
        return 0;
    case OPT_SET:
        strlist_add(&o->sets, arg);
        return 0;
    case OPT_LEVEL:
        if (level_of(arg, &o->level))
            argp_error(state, "--level %s: quick, standard or full", arg);
        return 0;
    case ARGP_KEY_END:
        if (!o->recipe)
            argp_error(state, "--recipe FILE is missing");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int load(struct probe *p, struct err *err)
{
    const struct probe_options *o = p->o;

    if (recipe_load(o->recipe, &p->recipe, err))
        return -1;
    for (int i = 0; i < o->sets.n; i++) {
        char *key = xstrdup(o->sets.item[i]), *eq = strchr(key, '=');
        int rc;

        if (eq)
            *eq = '\0';
        rc = eq ? recipe_set(&p->recipe, key, eq + 1, err)
                : err_set(err, ERR_USAGE, "--set %s: KEY=VALUE is wanted", key);
        free(key);
        if (rc)
            return -1;
    }
    return 0;
}

/* --- start and end ---------------------------------------------------------------------------- */

static int find_ops(struct probe *p, struct err *err)
{
    enum device want = p->recipe.cluster.device;
    struct err ignored = ERR_INIT;
    const char *name = p->o->device;

    if (!name && want != DEVICE_AUTO)
        name = want == DEVICE_CUDA ? "cuda" : "cpu";
    if (name)
        return ops_find(name, &p->bench.ops, err);
    if (ops_find("cuda", &p->bench.ops, &ignored) == 0)
        return 0;
    err_release(&ignored);
    return ops_find("cpu", &p->bench.ops, err);
}

static int open_all(struct probe *p, struct err *err)
{
    struct bench *b = &p->bench;
    int accumulation;

    if (load(p, err) || wireup_open(&p->wireup, -1, err))
        return -1;
    p->self = wireup_self(p->wireup);
    log_set_level(p->self->rank > 0 ? LOG_WARN : LOG_INFO);
    if (recipe_layout(&p->recipe, p->self->world, &p->shard, &p->replicate,
                      &accumulation, err) ||
        find_ops(p, err) || probe_gpu_before(p, err) ||
        b->ops->open(&p->dev, p->self->local_rank, 1, err))
        return -1;
    b->dev = p->dev;
    p->recipe.parallelism.data_parallel_shard_degree = p->shard;
    p->recipe.parallelism.data_parallel_replicate_degree = p->replicate;
    units_make(&p->recipe.model, p->shard, &p->units);
    if (coll_find(b->ops, p->self->world, &b->coll, err))
        return -1;
    return b->coll->open(&p->world, p->wireup, b->ops, p->dev, COLL_TIMEOUT_MS, err);
}

static int open_buffers(struct probe *p, struct err *err)
{
    struct bench *b = &p->bench;

    b->room = bench_result_bytes(p->self->world);
    if (p->o->level > LEVEL_QUICK && probe_step_bytes(p) > b->room)
        b->room = probe_step_bytes(p);
    return b->ops->alloc(p->dev, (size_t)b->room, &b->a, err) ||
                   b->ops->alloc(p->dev, (size_t)b->room, &b->b, err)
               ? -1
               : 0;
}

static int measure_all(struct probe *p, struct err *err)
{
    probe_nic_before(p);
    probe_host(p);
    probe_gpu_mine(p);
    if (probe_work(p, err) || open_buffers(p, err) || probe_clock(p, err) ||
        probe_groups(p, err))
        return -1;
    probe_gpu_after(p);
    probe_nic_after(p);
    return 0;
}

static void close_all(struct probe *p)
{
    p->bench.ops->free(p->dev, p->bench.a);
    p->bench.ops->free(p->dev, p->bench.b);
    p->bench.coll->close(p->world);
    p->bench.ops->close(p->dev);
    wireup_close(p->wireup);
    recipe_release(&p->recipe);
}

static int fail(struct err *err)
{
    struct js *o = js_object();
    int status = (int)err->code;

    dprintf(STDERR_FILENO, "muster-probe: %s\n", err_text(err));
    js_put_int(o, "code", status);
    js_put_str(o, "text", err_text(err));
    heartbeat_send("error", o);
    fflush(NULL);
    _exit(status); /* tidying up would wait for ranks that wait for this one */
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        option_list,
        parse_option,
        NULL,
        "One rank of a preflight check: measures the host "
        "and the recipe's collectives.",
        NULL,
        NULL,
        NULL
    };
    struct probe_options o = { .level = LEVEL_STANDARD };
    struct probe p = { .o = &o };
    struct err err = ERR_INIT;

    argp_err_exit_status = ERR_USAGE;
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    log_set_prefix("muster-probe");
    if (open_all(&p, &err) || measure_all(&p, &err)) {
        probe_nic_after(&p); /* what failed may have been a link */
        return fail(&err);
    }
    heartbeat_send("done", NULL);
    close_all(&p);
    heartbeat_close();
    strlist_release(&o.sets);
    return 0;
}
