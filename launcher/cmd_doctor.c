/* muster doctor - what is built in, what this machine has, what it would add. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/cmd.h"
#include "launcher/doctor.h"

struct options {
    int json;
};

static const struct argp_option table[] = {
    { "json", 'j', NULL, 0, "one JSON object", 0 },
    { 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;

    switch (key) {
    case 'j':
        o->json = 1;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "doctor takes no argument, '%s' is one", arg);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void show(const struct doctor_item *item, int found, const char *text)
{
    const char *mark = found ? "ok" : item->required ? "MISS" : "-";

    printf("%-4s %-12s %s\n", mark, item->name, text ? text : "not found");
    if (!found)
        printf("%17s adds: %s\n%17s get it: %s\n", "", item->adds, "", item->cure);
}

static struct js *item_json(const struct doctor_item *item, int found, const char *text)
{
    struct js *o = js_object();

    js_put_str(o, "name", item->name);
    js_put_bool(o, "found", found);
    js_put_bool(o, "required", item->required);
    js_put_str(o, "version", found ? text : NULL);
    js_put_str(o, "reason", found ? NULL : text ? text : "not found");
    js_put_str(o, "adds", item->adds);
    js_put_str(o, "cure", item->cure);
    return o;
}

/* How many required things are missing. */
static int look_at_all(int print, struct js *list)
{
    const struct doctor_item *all;
    int n = doctor_items(&all), missing = 0;

    for (int i = 0; i < n; i++) {
        char *text = NULL;
        int found = all[i].look(&all[i], &text);
        missing += all[i].required && !found;
        js_push(list, item_json(&all[i], found, text));
        if (print)
            show(&all[i], found, text);
        free(text);
    }
    return missing;
}

static int run(int argc, char **argv, struct err *err)
{
    const struct argp argp = {
        .options = table,
        .parser = parse,
        .doc =
            "List what muster is built with and what this machine has: versions, what "
            "is absent, what it would add, how to get it.  Ends with 3 when something "
            "that training on this machine needs is missing."
    };
    struct options o = { 0 };
    int rc = cmd_parse(&argp, argc, argv, &o, err), missing;
    struct js *json, *list;

    if (rc != 0)
        return rc > 0 ? 0 : -1;
    json = js_document("doctor");
    list = js_array();
    missing = look_at_all(!o.json, list);
    js_put_str(json, "muster", MUSTER_VERSION);
    js_put_bool(json, "ready", missing == 0);
    js_put(json, "items", list);
    if (o.json)
        js_print(json, stdout);
    else
        printf("%s\n", missing ? "not ready: what is marked MISS is required"
                               : "ready: training on this machine works");
    js_free(json);
    return missing ? ERR_MISSING : 0;
}

const struct cmd cmd_doctor = { "doctor", "what is built in, what is missing, the cure",
                                run, 0 };
