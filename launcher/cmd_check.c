/* muster check - is this system fit to train the recipe? */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/js.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "checks/catalogue.h"
#include "checks/judge.h"
#include "checks/replay.h"
#include "checks/verdict.h"
#include "launcher/cmd.h"
#include "launcher/guard.h"
#include "launcher/machines.h"
#include "launcher/preflight.h"
#include "launcher/slurm_hold.h"
#include "launcher/slurm_setup.h"
#include "launcher/table.h"
#include "recipes/recipe.h"
#include "recipes/value.h"
#include "topology/place.h"
#include "topology/topology.h"

struct args {
    const char *recipe, *replay, *level;
    struct machines_ask where; /* but for the recipe */
    struct strlist sets;
    int gpus, list, json, verbose;
    struct err *err; /* of a value */
    int failed;
};

enum { OPT_SET = 256, OPT_CLUSTER, OPT_LEVEL, OPT_REPLAY, OPT_LIST, OPT_JSON };

static const struct argp_option options[] = {
    { "gpus", 'g', "N", 0, "ranks, one a GPU (or a share of the CPUs)", 0 },
    { "level", OPT_LEVEL, "quick|standard|full", 0,
      "how much to measure (the recipe's checks.level)", 0 },
    { "set", OPT_SET, "KEY=VALUE", 0, "change one key of the recipe; may be repeated",
      0 },
    { "cluster", OPT_CLUSTER, "FILE", 0, "a cluster specification, not this machine",
      0 },
    MACHINES_OPTIONS(0),
    { "replay", OPT_REPLAY, "FILE", 0,
      "judge recorded measurements (events.jsonl of a check, a table of rails, limits)",
      1 },
    { "list", OPT_LIST, 0, 0,
      "every check: why, what it needs, where its target is from", 1 },
    { "json", OPT_JSON, 0, 0, "the verdicts as one JSON object", 1 },
    { "verbose", 'v', 0, 0, "show what the ranks print, and each check that passed",
      1 },
    { 0 },
};

static int take_gpus(struct args *a, const char *text)
{
    int64_t n;

    if (value_int64(text, &n, a->err) < 0)
        return err_wrap(a->err, "--gpus");
    if (n < 1 || n > 1 << 20)
        return err_set(a->err, ERR_USAGE, "--gpus %s: a number from 1 is wanted", text);
    a->gpus = (int)n;
    return 0;
}

static int take_recipe(struct args *a, const char *text)
{
    if (a->recipe)
        return err_set(a->err, ERR_USAGE,
                       "'%s': one recipe is enough, '%s' came before", text, a->recipe);
    a->recipe = text;
    return 0;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    int rc = 0;

    if (a->failed || machines_take(&a->where, key, arg))
        return 0;
    switch (key) {
    case 'g':
        rc = take_gpus(a, arg);
        break;
    case 'v':
        a->verbose = 1;
        break;
    case OPT_LEVEL:
        a->level = arg;
        break;
    case OPT_SET:
        strlist_add(&a->sets, arg);
        break;
    case OPT_CLUSTER:
        a->where.cluster = arg;
        break;
    case OPT_REPLAY:
        a->replay = arg;
        break;
    case OPT_LIST:
        a->list = 1;
        break;
    case OPT_JSON:
        a->json = 1;
        break;
    case ARGP_KEY_ARG:
        rc = take_recipe(a, arg);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    a->failed = rc != 0; /* its message is written: run() sees it */
    return 0;
}

/* --- what is checked --------------------------------------------------------------- */

struct subject {
    const struct args *a;
    struct recipe recipe;
    int has_recipe;
    struct machines machines;
    struct placement *placement;
    struct slurm_hold *hold; /* nodes of our own from Slurm; NULL: none */
};

static int set_key(struct recipe *r, const char *pair, struct err *err)
{
    char *key = xstrdup(pair), *eq = strchr(key, '=');
    int rc;

    if (eq)
        *eq = '\0';
    rc = eq && eq != key ? recipe_set(r, key, eq + 1, err)
                         : err_set(err, ERR_USAGE, "'%s': KEY=VALUE is wanted", pair);
    free(key);
    return rc ? err_wrap(err, "--set") : 0;
}

/* Hosts, or the nodes of an allocation, without a recipe: every GPU in one group, or a rank on each host. */
static const char hosts_recipe[] = "name: hosts\n"
                                   "model: {preset: tiny}\n"
                                   "training: {seq_len: 32}\n"
                                   "parallelism: {data_parallel_shard_degree: -1}\n";

static int names_machines(const struct args *a)
{
    return a->where.hosts || a->where.hostfile || (!a->replay && slurm_is_inside());
}

static const char *path_of(const struct args *a)
{
    return a->recipe ? a->recipe : "hosts.yaml";
}

static int load_recipe(struct subject *s, struct err *err)
{
    const struct args *a = s->a;
    int rc = 0;

    if (a->recipe)
        rc = recipe_load(a->recipe, &s->recipe, err);
    else if (names_machines(a))
        rc = recipe_parse(hosts_recipe, sizeof(hosts_recipe) - 1, path_of(a),
                          &s->recipe, err);
    else
        return 0;
    if (rc < 0)
        return -1;
    s->has_recipe = 1;
    for (int i = 0; i < a->sets.n; i++)
        if (set_key(&s->recipe, a->sets.item[i], err))
            return -1;
    if (a->level && recipe_set(&s->recipe, "checks.level", a->level, err))
        return err_wrap(err, "--level");
    return recipe_validate(&s->recipe, path_of(a), err);
}

/* A recording is judged against this machine, not against an allocation. */
static int look(struct subject *s, struct err *err)
{
    const struct recipe *r = s->has_recipe ? &s->recipe : NULL;
    struct machines_ask ask = s->a->where;
    const char *file = ask.cluster ? ask.cluster : r ? r->cluster.file : NULL;

    ask.recipe = r;
    if (s->a->replay)
        return topology_from_cluster(file, &s->machines.topology, err);
    return machines_open(&ask, &s->machines, err);
}

static int place(struct subject *s, struct err *err)
{
    const struct topology *t = s->machines.topology;
    int world, gpus = 0;

    for (int i = 0; i < t->n_nodes && s->recipe.cluster.device != DEVICE_CPU; i++)
        gpus += t->nodes[i].n_gpus;
    if (!s->a->recipe && !gpus)
        s->recipe.cluster.gpus_per_node = 1;
    world = s->a->gpus || s->a->recipe || gpus
                ? machines_world(&s->machines, &s->recipe, s->a->gpus)
                : t->n_nodes;
    return machines_place(&s->machines, &s->recipe, world, &s->placement, err);
}

static void release(struct subject *s)
{
    placement_free(s->placement);
    machines_close(&s->machines);
    slurm_hold_close(s->hold);
    if (s->has_recipe)
        recipe_release(&s->recipe);
}

/* --- how -------------------------------------------------------------------------------- */

/* The topology is wanted for targets; a recording may do without. */
static int replay(struct subject *s, struct verdicts *out, struct err *err)
{
    struct measures m = { 0 };
    struct judge j = { 0 };
    int rc = -1;

    if (s->has_recipe) {
        if (look(s, err) < 0 || place(s, err) < 0)
            return -1;
        j.placement = s->placement;
        j.topology = s->machines.topology;
    }
    if (replay_load(s->a->replay, &m, err) == 0) {
        judge_all(&j, &m, out);
        rc = 0;
    }
    measures_release(&m);
    return rc;
}

/* Outside an allocation, what a launch would ask for. */
static int get_nodes(struct subject *s, struct err *err)
{
    int world, signo;

    if (s->a->where.cluster || s->a->where.hosts || s->a->where.hostfile ||
        !slurm_hold_is_wanted(&s->recipe))
        return 0;
    if (slurm_hold_world(&s->recipe, s->a->gpus, &world, err) < 0)
        return -1;
    return slurm_hold_open(&s->recipe, world, &s->hold, &signo, err);
}

static int check_live(struct subject *s, struct verdicts *out, struct err *err)
{
    struct preflight q = { .recipe_path = path_of(s->a),
                           .sets = &s->a->sets,
                           .recipe = &s->recipe,
                           .show = s->a->verbose };

    if (get_nodes(s, err) < 0 || look(s, err) < 0)
        return -1;
    if (s->machines.topology->simulated)
        return err_set(
            err, ERR_MISSING,
            "%s describes machines that are not here: nothing can be measured "
            "on them; leave --cluster out, or give --replay FILE",
            s->machines.topology->source);
    if (place(s, err) < 0 ||
        slurm_setup(&s->machines, &s->recipe, SLURM_SETUP_MS, NULL, err) < 0)
        return -1;
    if (s->placement->n_nodes < s->machines.topology->n_nodes)
        log_info("%d of %d nodes are checked, those that the run would take (--gpus N)",
                 s->placement->n_nodes, s->machines.topology->n_nodes);
    q.machines = &s->machines;
    q.placement = s->placement;
    q.level = s->recipe.checks.level;
    return preflight_run(&q, out, err);
}

/* --- the answer ---------------------------------------------------------------------------- */

static void add_row(struct table *t, const struct verdict *v)
{
    char *measured = verdict_number(v->measured, v->unit);
    char *expected = verdict_number(v->expected, v->unit);
    char *ratio = verdict_number(verdict_ratio(v), "");

    table_add(t, "%s%s", verdict_result_name(v->result), v->warn ? " (!)" : "");
    table_add(t, "%s", v->name);
    table_add(t, "%s", v->object);
    table_add(t, "%s", measured);
    table_add(t, "%s", expected);
    table_add(t, "%s", ratio);
    table_add(t, "%s", v->reason);
    table_end_row(t);
    free(measured);
    free(expected);
    free(ratio);
}

static void print_counts(const struct verdicts *l)
{
    int count[4] = { 0 };
    struct strlist nodes = { 0 };

    for (int i = 0; i < l->n; i++)
        count[l->item[i].result]++;
    printf("%d passed, %d failed, %d could not be measured, %d undecided\n",
           count[VERDICT_PASS], count[VERDICT_FAIL], count[VERDICT_UNMEASURED],
           count[VERDICT_UNDECIDED]);
    verdicts_exclude(l, &nodes);
    for (int i = 0; i < nodes.n; i++)
        printf("%s%s", i ? "," : "exclude: ", nodes.item[i]);
    if (nodes.n)
        putchar('\n');
    strlist_release(&nodes);
}

static void print_text(const struct verdicts *l)
{
    static const char *const head[] = { "result",   "check", "object", "measured",
                                        "expected", "ratio", "reason" };
    struct table t = { 0 };

    for (size_t i = 0; i < ARRAY_LEN(head); i++)
        table_add(&t, "%s", head[i]);
    table_end_row(&t);
    for (int i = 0; i < l->n; i++)
        add_row(&t, &l->item[i]);
    table_print(&t, stdout);
    table_release(&t);
    print_counts(l);
}

static int check(const struct args *a, struct err *err)
{
    struct subject s = { .a = a };
    struct verdicts out = { 0 };
    int rc = load_recipe(&s, err);

    if (rc == 0)
        rc = a->replay ? replay(&s, &out, err) : check_live(&s, &out, err);
    if (rc == 0) {
        if (a->json) {
            struct js *o = verdicts_json(&out);

            js_print(o, stdout);
            js_free(o);
        } else {
            print_text(&out);
        }
        rc = verdicts_status(&out);
    }
    verdicts_release(&out);
    release(&s);
    return rc;
}

static int list(int json)
{
    struct js *o;

    if (!json) {
        catalogue_print(stdout);
        return 0;
    }
    o = catalogue_json();
    js_print(o, stdout);
    js_free(o);
    return 0;
}

static int guarded_check(const struct args *a, struct err *err)
{
    const struct guard_options o = { .grace_ms = 2000 };
    int status = 0, rc;

    if (a->list)
        return list(a->json);
    if (!a->recipe && !a->replay && !names_machines(a))
        return err_set(err, ERR_USAGE,
                       "muster check: RECIPE or --hosts is missing, and this is no "
                       "Slurm allocation (`muster check --help`)");
    if (machines_ask_check(&a->where, err) < 0)
        return -1;
    if (a->replay)
        return check(a, err);
    rc = guard_enter(&o, &status, err);
    if (rc != 0)
        return rc < 0 ? -1 : status;
    return check(a, err);
}

static int run(int argc, char **argv, struct err *err)
{
    static const struct argp argp = {
        options,
        parse_option,
        "RECIPE\n--hosts LIST",
        "Checks hosts and, over the trainer's own collectives, the groups of the "
        "recipe; without a recipe those of --hosts, or of the Slurm allocation it is "
        "in.\vExit status: 0 fit; 1 a check failed or is undecided; 3 a required "
        "check could not be measured.",
        NULL,
        NULL,
        NULL
    };
    struct args a = { .err = err };
    int rc = cmd_parse(&argp, argc, argv, &a, err);

    if (rc == 0)
        rc = a.failed ? -1 : guarded_check(&a, err);
    else if (rc == 1)
        rc = 0;
    strlist_release(&a.sets);
    return rc;
}

const struct cmd cmd_check = { "check", "preflight: is this system fit for the recipe",
                               run, 0 };
