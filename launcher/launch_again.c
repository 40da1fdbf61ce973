/* launch_again.c - after a failure: without the bad node, or from the last checkpoint. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/js.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/launch.h"
#include "launcher/launch_args.h"
#include "launcher/spares.h"
#include "topology/place.h"
#include "topology/topology.h"

/* What the result says of the attempts before the last. */
static void note_attempt(struct launch *l, const char *cause, const char *reason,
                         const char *change)
{
    struct js *o = js_object();

    if (!l->attempts)
        l->attempts = js_array();
    js_put_str(o, "cause", cause);
    js_put_str(o, "reason", reason);
    js_put_str(o, "change", change);
    js_push(l->attempts, o);
}

/* Spares for the blamed nodes: 1, and the ranks are placed anew; 0: that cannot be; -1.
 * *change says what was done. */
static int swap(struct launch *l, const char *blamed, struct str *change,
                struct err *err)
{
    const struct recipe *r = l->has_recipe ? &l->recipe : NULL;
    struct topology *t = l->machines.topology;
    struct placement *before = l->placement;
    int world = before->world;

    if (spares_swap(t, before, blamed) == 0)
        return 0;
    l->placement = NULL;
    if (machines_place(&l->machines, r, world, &l->placement, err) < 0) {
        placement_free(before);
        return -1;
    }
    spares_add_change(t, before, l->placement, change);
    placement_free(before);
    return 1;
}

static void say_change(const struct launch *l, const char *change, const char *reason)
{
    int left = spares_left(l->machines.topology);

    log_warn("%s: %s; %d spare%s left", change, reason, left, str_s(left));
}

static int is_any(const char *blamed, int world)
{
    return memchr(blamed, 1, (size_t)world) != NULL;
}

/* A node was at fault and there is none to take its place: that is worth a line. */
static void say_none(const struct launch *l, const char *blamed)
{
    int world = l->placement->world, left = spares_left(l->machines.topology);

    if (launch_spares(l) == 0 || !is_any(blamed, world))
        return;
    if (left && !memchr(blamed, 0, (size_t)world))
        log_warn("no spare takes the place: all nodes fail alike");
    else
        log_warn("no spare takes the place: %d left", left);
}

/* ---- checks ---- */

/* Of the checks' refusal, the lines behind the first, as one; the caller's to free(). */
static char *why_refused(const struct err *err)
{
    const char *line = strchr(err_text(err), '\n');
    struct str s = STR_INIT;

    if (!line)
        return xstrdup(err_text(err));
    for (; line; line = strchr(line, '\n')) {
        line += 1 + strspn(line + 1, " ");
        str_addf(&s, "%s%.*s", s.len ? "; " : "", (int)strcspn(line, "\n"), line);
    }
    return str_take(&s);
}

static int swap_for(struct launch *l, const char *cause, const struct strlist *bad,
                    struct err *err)
{
    const struct placement *p = l->placement;
    char *blamed = xcalloc((size_t)p->world + 1, 1), *why = why_refused(err);
    struct str change = STR_INIT;
    int rc;

    for (int r = 0; r < p->world; r++)
        for (int i = 0; i < bad->n; i++)
            if (str_eq(l->machines.topology->nodes[p->rank[r].node].name, bad->item[i]))
                blamed[r] = 1;
    rc = swap(l, blamed, &change, err);
    if (rc > 0) {
        say_change(l, change.text, why);
        note_attempt(l, cause, why, change.text);
        err_release(err);
    } else if (rc == 0) {
        say_none(l, blamed);
    }
    free(blamed);
    free(why);
    str_release(&change);
    return rc;
}

int launch_swap_checked(struct launch *l, const struct strlist *bad, struct err *err)
{
    return swap_for(l, "check", bad, err);
}

int launch_swap_set_up(struct launch *l, const struct strlist *bad, struct err *err)
{
    int unused = spares_drop(l->machines.topology, l->placement, bad);

    if (bad->n && unused == bad->n) {
        say_change(l, "no rank is placed there, the launch goes on", err_text(err));
        err_release(err);
        return 0;
    }
    return swap_for(l, "setup", bad, err) > 0 ? 0 : -1;
}

/* ---- runs ---- */

static int is_one_of(const char *word, const char *const *list)
{
    for (; *list; list++)
        if (str_eq(word, *list))
            return 1;
    return 0;
}

/* Nothing was trained, and not because the program says so itself. */
static int failed_at_start(const struct launch *l, const struct run_result *r)
{
    static const char *const at_start[] = { "start", "node", "timeout", NULL };

    if (!is_one_of(r->cause, at_start))
        return 0;
    return l->has_recipe ? r->steps < 0 : !r->begun || str_eq(r->cause, "timeout");
}

static int failed_on_the_way(const struct launch *l, const struct run_result *r)
{
    static const char *const ways[] = { "rank", "signal", "timeout",
                                        "node", "system", NULL };

    return l->has_recipe && r->steps >= 0 && is_one_of(r->cause, ways);
}

/* The next attempt goes on in the same folder. */
static void begin_next(struct launch *l, const struct run_result *r)
{
    free(l->again_dir);
    l->again_dir = xstrdup(r->dir);
    l->part.dir = l->again_dir;
    l->part.attempt++;
}

static int start_elsewhere(struct launch *l, const struct run_result *r,
                           struct err *err)
{
    struct str change = STR_INIT;
    int rc = swap(l, r->blamed, &change, err);

    if (rc > 0) {
        say_change(l, change.text, r->reason);
        note_attempt(l, r->cause, r->reason, change.text);
    } else if (rc == 0) {
        say_none(l, r->blamed);
    }
    str_release(&change);
    return rc;
}

static void take_checkpoint(struct launch *l, const struct run_result *r)
{
    char *path = NULL;

    l->part.from_step = run_checkpoint(&l->recipe, r->dir, &path);
    if (!path)
        return;
    free(l->resume);
    l->resume = path;
}

/* From the last checkpoint, else from where this run began. */
static int restart(struct launch *l, const struct run_result *r, struct err *err)
{
    struct str change = STR_INIT;
    int rc = swap(l, r->blamed, &change, err);

    if (rc < 0 || (rc == 0 && str_eq(r->cause, "node") &&
                   is_any(r->blamed, l->placement->world))) {
        if (rc == 0)
            say_none(l, r->blamed);
        str_release(&change);
        return rc;
    }
    take_checkpoint(l, r);
    if (change.len)
        str_adds(&change, "; ");
    if (l->part.from_step >= 0)
        str_addf(&change, "goes on from step %lld", (long long)l->part.from_step);
    else
        str_adds(&change, "begins again, there is no checkpoint");
    log_warn("%s: %s; restart %d of %d", change.text, r->reason, ++l->restarts,
             l->a->restarts);
    note_attempt(l, r->cause, r->reason, change.text);
    str_release(&change);
    return 1;
}

/* How to go on by hand. */
static void say_resume(const struct launch *l, const struct run_result *r)
{
    char *path = NULL;
    int64_t step = run_checkpoint(&l->recipe, r->dir, &path);

    if (step > 0)
        log_info("it goes on from step %lld with: muster launch %s --gpus %d --resume "
                 "%s (or at once with --restarts N)",
                 (long long)step, l->a->recipe, r->world, path);
    free(path);
}

int launch_again(struct launch *l, const struct run_result *r, struct err *err)
{
    int rc = 0;

    if (r->requeued)
        return 0;
    if (failed_at_start(l, r))
        rc = start_elsewhere(l, r, err);
    else if (failed_on_the_way(l, r) && l->restarts < l->a->restarts)
        rc = restart(l, r, err);
    if (rc > 0)
        begin_next(l, r);
    else if (rc == 0 && failed_on_the_way(l, r))
        say_resume(l, r);
    return rc;
}
