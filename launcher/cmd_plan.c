/* muster plan - what would run, where, how large, about how fast. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/cmd.h"
#include "launcher/machines.h"
#include "launcher/plan.h"
#include "launcher/run.h"
#include "launcher/run_command.h"
#include "launcher/secret.h"
#include "launcher/slurm_source.h"
#include "launcher/spares.h"
#include "recipes/value.h"
#include "topology/place.h"
#include "topology/topology.h"

struct options {
    const char *recipe;
    struct machines_ask where; /* but for the recipe */
    int gpus;                  /* 0: not said */
    struct strlist sets;
    struct predict_assumptions assumed;
    const char *spares; /* NULL: the recipe's */
    int json, help_recipe, markdown, all_ranks;
};

enum { OPT_HELP_RECIPE = 256, OPT_MARKDOWN, OPT_ALL_RANKS, OPT_EFFICIENCY, OPT_SPARES };

/* clang-format off */
static const struct argp_option table[] = {
    { "gpus", 'g', "N", 0, "ranks of the run, one a GPU or CPU slot", 0 },
    { "cluster", 'c', "FILE", 0,
      "the machines: a specification, or KIND:FILE as `muster topo --source` takes it "
      "(default: the recipe's cluster.hosts or cluster.file, else the Slurm allocation "
      "we are in, else this machine)", 0 },
    MACHINES_OPTIONS(0),
    { "set", 's', "KEY=VALUE", 0, "change a key of the recipe", 0 },
    { "spares", OPT_SPARES, "K", 0,
      "nodes to hold back, as muster launch does (cluster.spares)", 0 },
    { "json", 'j', NULL, 0, "one JSON object", 0 },
    { "all-ranks", OPT_ALL_RANKS, NULL, 0, "list every rank of a large run", 0 },
    { "efficiency", OPT_EFFICIENCY, "SHARE", 0,
      "share of the peak that compute is assumed to reach (default 0.40)", 0 },
    { "help-recipe", OPT_HELP_RECIPE, NULL, 0, "list every key a recipe may have", 0 },
    { "markdown", OPT_MARKDOWN, NULL, 0, "with --help-recipe: as a Markdown table", 0 },
    { 0 },
};
/* clang-format on */

static error_t parse_gpus(struct options *o, const char *arg, struct argp_state *state)
{
    struct err e = ERR_INIT;
    int64_t n = 0;

    if (value_int64(arg, &n, &e) < 0)
        argp_error(state, "--gpus: %s", err_text(&e));
    else if (n < 1 || n > 1000000)
        argp_error(state, "--gpus: '%s' is not in the range 1 to 1000000", arg);
    else
        o->gpus = (int)n;
    err_release(&e);
    return o->gpus ? 0 : EINVAL;
}

static error_t parse_efficiency(struct options *o, const char *arg,
                                struct argp_state *state)
{
    struct err e = ERR_INIT;
    double share = 0;

    if (value_real(arg, &share, &e) < 0)
        argp_error(state, "--efficiency: %s", err_text(&e));
    else if (!(share > 0 && share <= 1))
        argp_error(state, "--efficiency: '%s' is not in the range 0 to 1", arg);
    else
        o->assumed.efficiency = share;
    err_release(&e);
    return o->assumed.efficiency > 0 ? 0 : EINVAL;
}

static error_t parse_argument(struct options *o, char *arg, struct argp_state *state)
{
    if (!o->recipe) {
        o->recipe = arg;
        return 0;
    }
    argp_error(state, "one recipe is planned, '%s' is a second one", arg);
    return EINVAL;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;

    if (machines_take(&o->where, key, arg))
        return 0;
    switch (key) {
    case 'g':
        return parse_gpus(o, arg, state);
    case 'c':
        o->where.cluster = arg;
        return 0;
    case 's':
        strlist_add(&o->sets, arg);
        return 0;
    case 'j':
        o->json = 1;
        return 0;
    case OPT_ALL_RANKS:
        o->all_ranks = 1;
        return 0;
    case OPT_SPARES:
        o->spares = arg;
        return 0;
    case OPT_EFFICIENCY:
        return parse_efficiency(o, arg, state);
    case OPT_HELP_RECIPE:
        o->help_recipe = 1;
        return 0;
    case OPT_MARKDOWN:
        o->markdown = 1;
        return 0;
    case ARGP_KEY_ARG:
        return parse_argument(o, arg, state);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int apply_sets(struct recipe *r, const struct strlist *sets, struct err *err)
{
    for (int i = 0; i < sets->n; i++) {
        const char *equals = strchr(sets->item[i], '=');
        char *key;
        int rc;

        if (!equals)
            return err_set(err, ERR_USAGE, "--set takes KEY=VALUE, not '%s'",
                           sets->item[i]);
        key = xstrndup(sets->item[i], (size_t)(equals - sets->item[i]));
        rc = recipe_set(r, key, equals + 1, err);
        free(key);
        if (rc < 0)
            return err_wrap(err, "--set");
    }
    return 0;
}

static int apply_spares(struct recipe *r, const char *text, struct err *err)
{
    if (text && recipe_set(r, "cluster.spares", text, err) < 0)
        return err_wrap(err, "--spares");
    return 0;
}

static struct run_request request_of(const struct plan *p, const struct machines *m)
{
    struct run_request q = { .recipe = &p->recipe,
                             .placement = p->placement,
                             .start_timeout_ms = 120000, /* as muster launch does */
                             .silence_timeout_ms = 120000,
                             .grace_ms = RUN_GRACE_MS };

    machines_request(m, &q);
    return q;
}

/* What the launch starts: a step of Slurm; or the ranks, where all are on this machine.
 */
static void add_started(struct plan *p, const struct machines *m)
{
    struct run_request q = request_of(p, m);
    struct err e = ERR_INIT;
    struct js *plan, *list;
    char *step = m->in_slurm ? run_step_line(&q, &e) : NULL;

    if (step)
        strlist_add(&p->commands, step);
    free(step);
    if (m->in_slurm || p->placement->n_nodes > 1 || p->topology->simulated)
        return;
    plan = run_plan_json(&q, NULL, &e);
    list = plan ? js_get(plan, "commands") : NULL;
    for (size_t i = 0; i < js_len(list); i++)
        strlist_add(&p->commands, js_as_str(js_at(list, i), ""));
    if (!plan)
        strlist_add(&p->warnings, err_text(&e));
    js_free(plan);
    err_release(&e);
}

static void add_commands(struct plan *p, const struct machines *m,
                         const struct options *o)
{
    struct strlist words = { 0 };
    struct str s = STR_INIT;

    str_adds(&s, "muster launch ");
    shell_add_word(&s, o->recipe);
    str_addf(&s, " --gpus %d", p->placement->world);
    if (o->spares)
        str_addf(&s, " --spares %d", p->recipe.cluster.spares);
    machines_add_words(&o->where, &words);
    for (int i = 0; i < words.n; i++) {
        str_adds(&s, " ");
        shell_add_word(&s, words.item[i]);
    }
    strlist_release(&words);
    for (int i = 0; i < o->sets.n; i++) {
        str_adds(&s, " --set ");
        shell_add_word(&s, o->sets.item[i]);
    }
    strlist_add(&p->commands, s.text);
    str_release(&s);
    add_started(p, m);
}

/* Nodes that Slurm would give to nobody. */
static void set_aside(struct topology *t)
{
    for (int i = 0; i < t->n_findings; i++)
        for (int k = 0; k < t->n_nodes; k++)
            if (t->findings[i].severity == SEVERITY_FAIL &&
                str_eq(t->findings[i].object, t->nodes[k].name))
                t->nodes[k].set_aside = AS_BAD;
}

/* Outside an allocation nobody knows the nodes that Slurm would give: those of the
 * cluster that are up stand for them, or this machine where there is no Slurm. */
static int look(const struct options *o, const struct recipe *r, struct machines *m,
                struct err *err)
{
    struct machines_ask ask = o->where;
    const char *file = ask.cluster ? ask.cluster : r->cluster.file;

    ask.recipe = r;
    if (r->cluster.backend != BACKEND_SLURM || slurm_is_inside() || ask.hosts ||
        ask.hostfile)
        return machines_open(&ask, m, err);
    if (!*file &&
        topology_from_slurm(r->cluster.slurm_partition, &m->topology, NULL) == 0) {
        set_aside(m->topology);
        return 0;
    }
    return topology_from_cluster(file, &m->topology, err);
}

static int make_and_show(const struct options *o, const struct recipe *r,
                         struct err *err)
{
    struct machines m = { .in_slurm = 0 };
    struct plan p;
    struct js *json;
    int rc = -1;

    if (look(o, r, &m, err) < 0)
        return -1;
    if (plan_make(r, m.topology, o->gpus, &o->assumed, &p, err) < 0) {
        machines_cure(&m, r, o->gpus, err);
        goto out;
    }
    plan_add_map(&p, &o->assumed);
    if (spares_choose(m.topology, p.placement, r->cluster.spares, err) < 0) {
        plan_release(&p);
        goto out;
    }
    if (m.topology->unseen && !m.in_slurm)
        strlist_add(&p.warnings, "these are the cluster's nodes that are up: Slurm "
                                 "decides which of them the run gets");
    add_commands(&p, &m, o);
    if (o->json) {
        json = plan_json(&p);
        js_print(json, stdout);
        js_free(json);
    } else
        plan_print(&p, o->all_ranks, stdout);
    rc = plan_too_large(&p) ? 1 : 0;
    plan_release(&p);
out:
    machines_close(&m);
    return rc;
}

static int plan(const struct options *o, struct err *err)
{
    struct recipe r;
    int rc = -1;

    if (!o->recipe || !o->gpus)
        return err_set(err, ERR_USAGE,
                       "muster plan needs %s: muster plan RECIPE --gpus N",
                       o->recipe ? "--gpus N" : "a recipe");
    if (machines_ask_check(&o->where, err) < 0 || recipe_load(o->recipe, &r, err) < 0)
        return -1;
    if (apply_sets(&r, &o->sets, err) == 0 && apply_spares(&r, o->spares, err) == 0 &&
        recipe_validate(&r, o->recipe, err) == 0)
        rc = make_and_show(o, &r, err);
    recipe_release(&r);
    return rc;
}

static int run(int argc, char **argv, struct err *err)
{
    const struct argp argp = {
        .options = table,
        .parser = parse,
        .args_doc = "RECIPE --gpus N",
        .doc =
            "Lay a recipe out on machines: rank -> node, GPU, CPUs; groups; memory; "
            "predicted speed; the exact commands.  Starts nothing.  Ends with 1 when "
            "the memory plan does not fit."
    };
    struct options o = { .recipe = NULL };
    int rc = cmd_parse(&argp, argc, argv, &o, err);

    if (rc > 0)
        rc = 0;
    else if (rc == 0 && o.help_recipe)
        recipe_help(stdout, o.markdown);
    else if (rc == 0)
        rc = plan(&o, err);
    strlist_release(&o.sets);
    return rc;
}

const struct cmd cmd_plan = { "plan",
                              "mapping, memory, predicted speed, the exact commands",
                              run, 0 };
