/* muster climb - which configuration, and does it hold at the next scale? */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/js.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/climb.h"
#include "launcher/cmd.h"
#include "launcher/fingerprint.h"
#include "launcher/machines.h"
#include "launcher/slurm_hold.h"
#include "launcher/slurm_setup.h"
#include "launcher/store.h"
#include "launcher/trial_run.h"
#include "recipes/recipe.h"
#include "topology/topology.h"

struct options {
    const char *recipe, *resume;
    struct machines_ask where; /* but for the recipe */
    struct strlist sets;       /* "KEY=VALUE" */
    int json, list;
};

/* clang-format off */
static const struct argp_option table[] = {
    { "rungs", 'r', "N,N,...", 0, "ranks, from small to large (scale.rungs)", 0 },
    { "strategy", 's', "S", 0, "hierarchical, predicted or exhaustive (scale.strategy)", 0 },
    { "set", 'S', "KEY=VALUE", 0, "set a key of the recipe", 0 },
    { "cluster", 'c', "FILE", 0, "a cluster specification instead of this machine", 0 },
    MACHINES_OPTIONS(0),
    { "list", 'l', NULL, 0, "show the candidates and why some are refused; start nothing", 0 },
    { "resume", 'R', "CLIMB", 0, "go on with a climb that was interrupted", 0 },
    { "json", 'j', NULL, 0, "one object on stdout", 0 },
    { 0 },
};
/* clang-format on */

static void add_set(struct options *o, const char *key, const char *value)
{
    char *text = xasprintf("%s=%s", key, value);

    strlist_add(&o->sets, text);
    free(text);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;

    if (machines_take(&o->where, key, arg))
        return 0;
    switch (key) {
    case 'r':
        add_set(o, "scale.rungs", arg);
        return 0;
    case 's':
        add_set(o, "scale.strategy", arg);
        return 0;
    case 'S':
        if (!strchr(arg, '=')) {
            argp_error(state, "--set '%s' is not KEY=VALUE", arg);
            return EINVAL;
        }
        strlist_add(&o->sets, arg);
        return 0;
    case 'c':
        o->where.cluster = arg;
        return 0;
    case 'l':
        o->list = 1;
        return 0;
    case 'R':
        o->resume = arg;
        return 0;
    case 'j':
        o->json = 1;
        return 0;
    case ARGP_KEY_ARG:
        if (o->recipe) {
            argp_error(state, "one recipe at a time; '%s' is a second", arg);
            return EINVAL;
        }
        o->recipe = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* All that a climb stands on. */
struct job {
    const struct options *o;
    struct recipe recipe;
    int has_recipe;
    char *id;
    char *cluster, *hosts, *hostfile; /* where it runs; "": not said */
    struct machines machines;
    char fingerprint[17];
    struct store *store;
    struct slurm_hold *hold; /* nodes of our own from Slurm; NULL: none */
};

static const char *said(const char *text)
{
    return text && *text ? text : NULL;
}

static struct machines_ask where_of(const struct job *j)
{
    return (struct machines_ask){ .recipe = &j->recipe,
                                  .cluster = said(j->cluster),
                                  .hosts = said(j->hosts),
                                  .hostfile = said(j->hostfile) };
}

/* --- one trial -------------------------------------------------------------------- */

static int run_trial(void *arg, const struct recipe *at, int gpus, struct trial *out,
                     struct err *err)
{
    const struct job *j = arg;

    const struct machines_ask where = where_of(j);

    return trial_run(at, gpus, &where, j->id, out, err);
}

static void say(void *arg, const char *line)
{
    (void)arg;
    log_info("%s", line);
}

/* --- what the climb stands on ------------------------------------------------------- */

static int load_recipe(struct job *j, struct err *err)
{
    const struct options *o = j->o;

    if (recipe_load(o->recipe, &j->recipe, err) < 0)
        return -1;
    j->has_recipe = 1;
    for (int i = 0; i < o->sets.n; i++) {
        char *key = xstrdup(o->sets.item[i]), *eq = strchr(key, '=');
        int rc;
        *eq = '\0';
        rc = recipe_set(&j->recipe, key, eq + 1, err);
        free(key);
        if (rc < 0)
            return -1;
    }
    j->cluster = xstrdup(o->where.cluster ? o->where.cluster : "");
    j->hosts = xstrdup(o->where.hosts ? o->where.hosts : "");
    j->hostfile = xstrdup(o->where.hostfile ? o->where.hostfile : "");
    return recipe_validate(&j->recipe, o->recipe, err);
}

/* Outside an allocation, nodes for the largest rung. */
static int get_nodes(struct job *j, struct err *err)
{
    const struct intlist *rungs = &j->recipe.scale.rungs;
    int signo;

    if (*j->cluster || *j->hosts || *j->hostfile || j->o->list || !rungs->n ||
        !slurm_hold_is_wanted(&j->recipe))
        return 0;
    return slurm_hold_open(&j->recipe, (int)rungs->item[rungs->n - 1], &j->hold, &signo,
                           err);
}

static int look_at_machines(struct job *j, struct err *err)
{
    const struct machines_ask ask = where_of(j);

    if (get_nodes(j, err) < 0 || machines_open(&ask, &j->machines, err) < 0)
        return -1;
    machines_leave(&j->machines); /* each trial starts its own agents */
    topology_fingerprint(j->machines.topology, j->fingerprint);
    return 0;
}

static char *new_id(const char *name)
{
    time_t now = time(NULL);
    uint16_t salt = (uint16_t)getpid();
    struct str s = STR_INIT;
    char when[32];
    struct tm tm;

    localtime_r(&now, &tm);
    strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &tm);
    (void)!getrandom(&salt, sizeof(salt), GRND_NONBLOCK);
    for (; *name; name++) /* as a word of a shell */
        str_add(&s, strchr(" /\\'\"$*?", *name) ? "-" : name, 1);
    str_addf(&s, "-climb-%s-%04x", when, salt);
    return str_take(&s);
}

static int start_new(struct job *j, struct err *err)
{
    struct js *topology = topology_json(j->machines.topology), *options = js_object();
    char cwd[PATH_MAX], *text = recipe_text(&j->recipe), *lines[2];
    struct store_climb c = { .name = j->recipe.name,
                             .recipe = text,
                             .fingerprint = j->fingerprint };
    int rc;

    js_put_str(options, "cluster", j->cluster);
    js_put_str(options, "hosts", j->hosts);
    js_put_str(options, "hostfile", j->hostfile);
    js_put_str(options, "folder", getcwd(cwd, sizeof(cwd)) ? cwd : "/");
    lines[0] = js_line(topology);
    lines[1] = js_line(options);
    j->id = new_id(j->recipe.name);
    c.id = j->id;
    c.topology = lines[0];
    c.options = lines[1];
    rc = store_climb_start(j->store, &c, err);
    js_free(topology);
    js_free(options);
    free(lines[0]);
    free(lines[1]);
    free(text);
    return rc;
}

/* The climb as it was started: its recipe, in its folder, on its machines. */
static int read_climb(struct job *j, const struct js *climb, struct err *err)
{
    const struct js *options = js_get(climb, "options");
    const char *text = js_str(climb, "recipe", ""),
               *folder = js_str(options, "folder", "/");

    if (recipe_parse(text, strlen(text), j->id, &j->recipe, err) < 0)
        return -1;
    j->has_recipe = 1;
    j->cluster = xstrdup(js_str(options, "cluster", ""));
    j->hosts = xstrdup(js_str(options, "hosts", ""));
    j->hostfile = xstrdup(js_str(options, "hostfile", ""));
    if (chdir(folder) < 0)
        return err_set(err, ERR_MISSING, "%s was started in %s: %m", j->id, folder);
    if (look_at_machines(j, err) < 0)
        return -1;
    if (!str_eq(j->fingerprint, js_str(climb, "fingerprint", "")))
        return err_set(err, ERR_FAILED,
                       "the machines are not those of %s any more: its figures cannot "
                       "stand beside new ones; start a new climb",
                       j->id);
    return 0;
}

static int resume(struct job *j, struct err *err)
{
    struct js *climb = NULL;
    int is_climb = 0, rc = -1;

    if (store_settle(j->store, err) < 0 ||
        store_find(j->store, j->o->resume, &j->id, &is_climb, err) < 0)
        return -1;
    if (!is_climb)
        return err_set(err, ERR_USAGE,
                       "%s is a run: `muster launch --resume` continues its checkpoint",
                       j->id);
    climb = store_climb(j->store, j->id, err);
    if (climb && str_eq(js_str(climb, "state", ""), "done"))
        err_set(err, ERR_FAILED, "%s is done: `muster report %s`", j->id, j->id);
    else if (climb && read_climb(j, climb, err) == 0)
        rc = store_climb_resume(j->store, j->id, err);
    js_free(climb);
    return rc;
}

/* --- the command --------------------------------------------------------------------- */

static int show(const struct job *j, struct err *err)
{
    struct js *o = climb_json(j->store, j->id, err);

    if (!o)
        return -1;
    if (j->o->json)
        js_print(o, stdout);
    else
        climb_print(o, stdout);
    js_free(o);
    return 0;
}

static const char *running(const struct js *rows, const char *but)
{
    for (size_t i = 0; i < js_len(rows); i++) {
        const char *id = js_str(js_at(rows, i), "id", "");
        if (str_eq(js_str(js_at(rows, i), "state", ""), "running") && !str_eq(id, but))
            return id;
    }
    return NULL;
}

/* What runs beside a climb takes a share of what it measures. */
static void warn_of_company(const struct job *j)
{
    struct js *climbs = NULL, *runs = NULL;
    const char *other = NULL;

    if (store_settle(j->store, NULL) == 0) {
        climbs = store_climbs(j->store, 0, NULL);
        runs = store_runs(j->store, "", 0, NULL);
        other = running(climbs, j->id);
        other = other ? other : running(runs, j->id);
    }
    if (other)
        log_warn("%s is running too: what both share is measured too low", other);
    js_free(climbs);
    js_free(runs);
}

static int climb(struct job *j, struct err *err)
{
    struct climb c = { .id = j->id,
                       .recipe = &j->recipe,
                       .topology = j->machines.topology,
                       .store = j->store,
                       .measure = run_trial,
                       .say = say,
                       .arg = j };
    enum climb_end end = CLIMB_FAILED;
    char *why = NULL;
    int rc;

    log_info("climb %s", j->id);
    warn_of_company(j);
    if (slurm_setup(&j->machines, &j->recipe, SLURM_SETUP_MS, NULL, err) < 0)
        return -1;
    if (climb_execute(&c, &end, &why, err) < 0)
        return err_wrap(err, "climb %s (--resume %s goes on)", j->id, j->id);
    rc = show(j, err);
    if (rc == 0 && end == CLIMB_STOPPED) {
        log_info("stopped; `muster climb --resume %s` goes on", j->id);
        rc = trial_run_signal() ? 128 + trial_run_signal() : ERR_FAILED;
    } else if (rc == 0 && end == CLIMB_FAILED) {
        rc = err_set(err, ERR_FAILED, "climb %s: %s", j->id, why);
    }
    free(why);
    return rc;
}

/* --list: what would be tried. */
static int list(const struct job *j, struct err *err)
{
    struct candidate *c = NULL;
    struct js *o = js_document("candidates"), *a = js_array();
    int n = 0, admitted = 0;

    if (candidates_make(&j->recipe, j->machines.topology, &c, &n, err) < 0) {
        js_free(o);
        js_free(a);
        return -1;
    }
    for (int i = 0; i < n; i++) {
        struct js *one = js_object();
        char *text = candidate_text(&c[i]);
        admitted += !c[i].refused;
        js_put(one, "settings", candidate_settings(&c[i]));
        js_put_str(one, "refused", c[i].refused);
        js_put_real(one, "memory_percent", c[i].memory_percent);
        js_push(a, one);
        if (!j->o->json && c[i].refused)
            printf("refused   %s: %s\n", text, c[i].refused);
        else if (!j->o->json)
            printf("may run   %s (memory %.1f %%)\n", text, c[i].memory_percent);
        free(text);
    }
    js_put(o, "candidates", a);
    if (j->o->json)
        js_print(o, stdout);
    js_free(o);
    candidates_free(c, n);
    return admitted ? 0 : ERR_FAILED;
}

static int prepare(struct job *j, struct err *err)
{
    if (!j->o->resume && (load_recipe(j, err) < 0 || look_at_machines(j, err) < 0))
        return -1;
    if (!j->o->resume && !j->recipe.scale.rungs.n)
        return err_set(
            err, ERR_USAGE,
            "%s: scale.rungs is empty: write it there, or give --rungs, from "
            "small to large",
            j->o->recipe);
    if (j->o->list)
        return 0;
    if (store_open(NULL, &j->store, err) < 0)
        return -1;
    if (j->o->resume ? resume(j, err) < 0 : 0)
        return -1;
    if (j->machines.topology->simulated)
        return err_set(
            err, ERR_USAGE,
            "%s describes machines that are not here: nothing can be measured "
            "on them; --list shows the candidates",
            *j->cluster ? j->cluster : j->recipe.cluster.file);
    return j->o->resume ? 0 : start_new(j, err);
}

static void release(struct job *j)
{
    store_close(j->store);
    machines_close(&j->machines);
    slurm_hold_close(j->hold);
    if (j->has_recipe)
        recipe_release(&j->recipe);
    free(j->cluster);
    free(j->hosts);
    free(j->hostfile);
    free(j->id);
}

static int work(struct job *j, struct err *err)
{
    int rc;

    trial_run_catch_signals();
    rc = prepare(j, err);
    if (rc == 0)
        rc = j->o->list ? list(j, err) : climb(j, err);
    release(j);
    return rc;
}

static int run(int argc, char **argv, struct err *err)
{
    static const struct argp argp = {
        table,
        parse,
        "RECIPE\n--resume CLIMB",
        "Measure the combinations of scale.sweep at the first rung, verify the best at "
        "the next ones, and show the ladder against perfect scaling.",
        NULL,
        NULL,
        NULL
    };
    struct options o = { .json = 0 };
    struct job j = { .o = &o };
    int rc = cmd_parse(&argp, argc, argv, &o, err);

    if (rc == 0 && !o.recipe && !o.resume)
        rc = err_set(err, ERR_USAGE, "muster climb: which recipe? (or --resume CLIMB)");
    else if (rc == 0 && o.resume &&
             (o.recipe || o.sets.n || o.where.cluster || o.where.hosts ||
              o.where.hostfile || o.list))
        rc =
            err_set(err, ERR_USAGE,
                    "muster climb: --resume goes on with the recipe as it was: give no "
                    "other options");
    else if (rc == 0)
        rc = machines_ask_check(&o.where, err) < 0 ? -1 : work(&j, err);
    else
        rc = rc > 0 ? 0 : -1;
    strlist_release(&o.sets);
    return rc;
}

const struct cmd cmd_climb = { "climb", "find the best configuration, scale it up", run,
                               0 };
