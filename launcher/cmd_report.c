/* muster report - what a run or a climb came to. */
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/js.h"
#include "base/str.h"
#include "launcher/climb.h"
#include "launcher/cmd.h"
#include "launcher/report.h"
#include "launcher/settle.h"
#include "launcher/store.h"

struct options {
    struct strlist words;
    int json;
};

/* clang-format off */
static const struct argp_option table[] = {
    { "json", 'j', NULL, 0, "one object: runs, climbs, comparison", 0 },
    { 0 },
};
/* clang-format on */

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;

    switch (key) {
    case 'j':
        o->json = 1;
        return 0;
    case ARGP_KEY_ARG:
        strlist_add(&o->words, arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Without words: the newest climb and the newest run that no climb started. */
static int add_newest(struct store *s, struct strlist *words, struct err *err)
{
    struct js *climbs = store_climbs(s, 1, err);
    struct js *runs = climbs ? store_runs(s, "", 1, err) : NULL;
    int rc = runs ? 0 : -1;

    if (js_len(runs))
        strlist_add(words, js_str(js_at(runs, 0), "id", ""));
    if (js_len(climbs))
        strlist_add(words, js_str(js_at(climbs, 0), "id", ""));
    if (rc == 0 && !words->n)
        rc = err_set(err, ERR_MISSING,
                     "nothing ran yet: `muster launch RECIPE` starts a run");
    js_free(climbs);
    js_free(runs);
    return rc;
}

static int collect(struct store *s, const struct strlist *words, struct js *runs,
                   struct js *climbs, struct err *err)
{
    for (int i = 0; i < words->n; i++) {
        struct js *o;
        char *id = NULL;
        int is_climb = 0;
        if (store_find(s, words->item[i], &id, &is_climb, err) < 0)
            return -1;
        o = is_climb ? climb_json(s, id, err) : report_run(s, id, err);
        free(id);
        if (!o)
            return -1;
        js_push(is_climb ? climbs : runs, o);
    }
    return 0;
}

static void show_text(const struct js *runs, const struct js *climbs,
                      const struct js *comparison)
{
    size_t said = 0;

    for (size_t i = 0; i < js_len(runs); i++) {
        fputs(said++ ? "\n" : "", stdout);
        report_run_print(js_at(runs, i), stdout);
    }
    if (js_len(comparison))
        fputs("\n", stdout);
    report_compare_print(comparison, stdout);
    for (size_t i = 0; i < js_len(climbs); i++) {
        fputs(said++ ? "\n" : "", stdout);
        climb_print(js_at(climbs, i), stdout);
    }
}

static void show_json(struct js *runs, struct js *climbs, struct js *comparison)
{
    struct js *o = js_document("report");

    js_put(o, "runs", js_ref(runs));
    js_put(o, "climbs", js_ref(climbs));
    js_put(o, "comparison", js_ref(comparison));
    js_print(o, stdout);
    js_free(o);
}

static int report(struct options *o, struct store *s, struct err *err)
{
    struct js *runs = js_array(), *climbs = js_array(), *comparison = NULL;
    int rc = settle(s, err);

    if (rc == 0 && !o->words.n)
        rc = add_newest(s, &o->words, err);
    if (rc == 0)
        rc = collect(s, &o->words, runs, climbs, err);
    if (rc == 0) {
        comparison = report_compare(runs, err);
        rc = comparison ? 0 : -1;
    }
    if (rc == 0 && o->json)
        show_json(runs, climbs, comparison);
    else if (rc == 0)
        show_text(runs, climbs, comparison);
    js_free(runs);
    js_free(climbs);
    js_free(comparison);
    return rc;
}

static int run(int argc, char **argv, struct err *err)
{
    static const struct argp argp = {
        table,
        parse,
        "[RUN...]",
        "Show what RUNs or climbs came to; several runs are compared with the first.  "
        "RUN: an id, its beginning, or `last`; none: the newest run and climb.",
        NULL,
        NULL,
        NULL
    };
    struct options o = { .json = 0 };
    struct store *s = NULL;
    int rc = cmd_parse(&argp, argc, argv, &o, err);

    if (rc == 0) {
        rc = store_open_to_read(NULL, &s, err);
        if (rc == 0)
            rc = report(&o, s, err);
        store_close(s);
    }
    strlist_release(&o.words);
    return rc > 0 ? 0 : rc;
}

const struct cmd cmd_report = { "report", "show what runs and climbs came to", run, 0 };
