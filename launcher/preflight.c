#include "launcher/preflight.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "checks/judge.h"
#include "checks/measure.h"
#include "checks/verdict.h"
#include "launcher/machines.h"
#include "launcher/run.h"
#include "launcher/run_dir.h"
#include "launcher/secret_recipe.h"
#include "topology/place.h"
#include "topology/topology.h"

enum { MEET_MS = 60000, SILENCE_MS = 60000, GRACE_MS = 2000 };
enum { RECIPE_AT = 2 }; /* its place in the command */

static const char *level_text(enum level l)
{
    static const char *const names[] = { "quick", "standard", "full" };

    return names[l];
}

/* muster-probe stands beside muster. */
static char *probe_path(struct err *err)
{
    char self[PATH_MAX], *slash, *path;
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    self[n > 0 ? n : 0] = '\0';
    slash = strrchr(self, '/');
    path = xasprintf("%.*s/muster-probe", slash ? (int)(slash - self) : 0, self);
    if (access(path, X_OK) == 0)
        return path;
    err_set(err, ERR_MISSING, "%s: %m; install it beside muster (`make` builds it)",
            path);
    free(path);
    return NULL;
}

static int build_command(const struct preflight *q, struct strlist *argv,
                         struct err *err)
{
    char *program = probe_path(err), *recipe;

    if (!program)
        return -1;
    recipe = realpath(q->recipe_path, NULL);
    strlist_add(argv, program);
    strlist_add(argv, "--recipe");
    strlist_add(argv, recipe ? recipe : q->recipe_path);
    strlist_add(argv, "--level");
    strlist_add(argv, level_text(q->level));
    strlist_add(argv, "--device");
    strlist_add(argv, q->placement->on_gpus ? "cuda" : "cpu");
    for (int i = 0; q->sets && i < q->sets->n; i++) {
        strlist_add(argv, "--set");
        strlist_add(argv, q->sets->item[i]);
    }
    argv->item = xrealloc(argv->item, (size_t)argv->n + 1, sizeof(*argv->item));
    argv->item[argv->n] = NULL;
    free(program);
    free(recipe);
    return 0;
}

static int on_event(void *arg, const struct js *e)
{
    struct measures *m = arg;

    if (str_eq(js_str(e, "event", ""), "measure"))
        measures_add_json(m, e, NULL); /* a nameless one measures nothing */
    return 0;
}

/* The probe ended early: who, and why. */
static void add_failure(const struct preflight *q, const struct run_result *r,
                        struct verdicts *out)
{
    struct verdict v = { .expected = NAN, .measured = NAN, .required = 1 };
    int known = r->culprit >= 0 && r->culprit < q->placement->world;
    const char *node =
        known ? q->machines->topology->nodes[q->placement->rank[r->culprit].node].name
              : "";

    snprintf(v.name, sizeof(v.name), "probe");
    if (known)
        snprintf(v.object, sizeof(v.object), "rank %d on %s", r->culprit, node);
    else
        snprintf(v.object, sizeof(v.object), "all ranks");
    v.result = r->status == ERR_MISSING ? VERDICT_UNMEASURED : VERDICT_FAIL;
    v.reason = xstrdup(r->reason ? r->reason : r->cause);
    verdicts_add(out, &v);
}

/* Nodes that were lost, did not start or hung. */
static void add_blamed(const struct preflight *q, const struct run_result *r,
                       struct verdicts *out)
{
    const struct placement *p = q->placement;
    const struct topology *t = q->machines->topology;

    for (int i = 0; i < p->n_nodes; i++) {
        struct verdict v = { .expected = NAN, .measured = NAN, .required = 1 };
        int blamed = 0;
        for (int k = 0; k < p->world; k++)
            blamed |= p->rank[k].node == p->order[i] && r->blamed[k];
        if (!blamed)
            continue;
        snprintf(v.name, sizeof(v.name), "node");
        snprintf(v.object, sizeof(v.object), "%s", t->nodes[p->order[i]].name);
        snprintf(v.node, sizeof(v.node), "%s", t->nodes[p->order[i]].name);
        v.result = VERDICT_FAIL;
        v.reason = xstrdup(r->reason ? r->reason : r->cause);
        verdicts_add(out, &v);
    }
}

/* NVLS is NCCL's default where there are switches, unless it is switched off. */
static int sums_in_switch(void)
{
    return !str_eq(getenv("NCCL_NVLS_ENABLE"), "0");
}

static void add_missing(const struct preflight *q, const struct measures *m,
                        const char *why, struct verdicts *out)
{
    static const char *const scopes[] = { "host", "rank", "group", "gpu" };
    size_t n = ARRAY_LEN(scopes) - !q->placement->on_gpus;

    for (size_t i = 0; i < n; i++)
        judge_missing(m, scopes[i], q->level, why, out);
}

static int judge_run(const struct preflight *q, const struct run_result *r,
                     const struct measures *m, struct verdicts *out, struct err *err)
{
    const struct judge j = { q->placement, q->machines->topology, sums_in_switch() };
    int refused = r->status == ERR_USAGE && str_eq(r->cause, "rank");

    if (refused)
        return err_set(err, ERR_USAGE, "%s", r->reason ? r->reason : "refused");
    if (str_eq(r->cause, "stopped") || str_eq(r->cause, "limit"))
        return err_set(err, ERR_FAILED, "the check was stopped: %s", r->reason);
    judge_all(&j, m, out);
    if (r->status == 0) {
        add_missing(q, m, "the probe did not report it", out);
        return 0;
    }
    add_failure(q, r, out);
    add_blamed(q, r, out);
    add_missing(q, m, "the probe ended before", out);
    return 0;
}

/* A recipe that is no file, for tasks of Slurm, which read it where MUSTER_HOME is; NULL:
 * it is one, or travels in another way. */
static char *write_recipe(const struct preflight *q, struct err *err)
{
    char *home, *name, *path, *text;
    int rc;

    if (!q->machines->in_slurm || access(q->recipe_path, F_OK) == 0)
        return NULL;
    home = run_home(err);
    if (!home)
        return NULL;
    name = xasprintf("check-%d.yaml", (int)getpid());
    text = secret_recipe_text(q->recipe);
    rc = run_dir_write(home, name, text, err);
    path = rc == 0 ? xasprintf("%s/%s", home, name) : NULL;
    free(home);
    free(name);
    free(text);
    return path;
}

int preflight_run(const struct preflight *given, struct verdicts *out, struct err *err)
{
    struct preflight copy = *given;
    const struct preflight *q = &copy;
    char *written = write_recipe(given, err);
    struct strlist argv = { 0 };
    struct measures m = { 0 };
    struct run_result result;
    struct run_request r = {
        .recipe = q->recipe,
        .placement = q->placement,
        .program = "muster-probe",
        .quiet = !q->show,
        .lines_to_stderr = 1,
        .start_timeout_ms = MEET_MS,
        .silence_timeout_ms = SILENCE_MS,
        .grace_ms = GRACE_MS,
        .event = on_event,
        .event_arg = &m,
    };
    int rc;

    if (written)
        copy.recipe_path = written;
    rc = build_command(q, &argv, err);
    machines_request(q->machines, &r);
    r.command = argv.item;
    r.reads = rc == 0 ? argv.item[RECIPE_AT] : NULL;
    if (rc == 0)
        rc = run_execute(&r, &result, err);
    if (rc == 0) {
        rc = judge_run(q, &result, &m, out, err);
        run_result_release(&result);
    }
    if (written)
        unlink(written);
    free(written);
    measures_release(&m);
    strlist_release(&argv);
    return rc;
}
