/* muster nodes - host lists as Slurm writes them: expand, fold, count. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/js.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/cmd.h"
#include "topology/hostlist.h"

enum { OPT_JSON = 256, OPT_UNIQUE };

struct args {
    int json, unique;
    struct strlist lists;
};

/* What is shown of any list, by every subcommand. */
struct nodes {
    struct strlist names, repeated;
    int total; /* before repeats were taken out */
};

static error_t parse_opt(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;

    switch (key) {
    case OPT_JSON:
        a->json = 1;
        return 0;
    case OPT_UNIQUE:
        a->unique = 1;
        return 0;
    case ARGP_KEY_ARG:
        strlist_add(&a->lists, arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* clang-format off */
static const struct argp_option options[] = {
    { "unique", OPT_UNIQUE, NULL, 0, "keep the first of each name", 0 },
    { "json", OPT_JSON, NULL, 0, "print one JSON object instead of text", 0 },
    { 0 },
};
/* clang-format on */

static void show_expanded(const struct nodes *n)
{
    for (int i = 0; i < n->names.n; i++)
        puts(n->names.item[i]);
}

static void show_folded(const struct nodes *n)
{
    char *folded = hostlist_fold(&n->names);

    puts(folded);
    free(folded);
}

static void show_count(const struct nodes *n)
{
    printf("%d\n", n->names.n);
}

/* Standard input, whole; the caller's to free(). */
static int read_stdin(char **text, struct err *err)
{
    char *buf = xcalloc(HOSTLIST_TEXT_MAX + 2, 1);
    size_t n = fread(buf, 1, HOSTLIST_TEXT_MAX + 1, stdin);

    if (ferror(stdin) || n > HOSTLIST_TEXT_MAX || memchr(buf, '\0', n)) {
        int failed = ferror(stdin);
        free(buf);
        return failed ? err_set(err, ERR_SYSTEM, "standard input: %m")
                      : err_set(err, ERR_USAGE,
                                "standard input: no host list (over 1 MiB, or it holds "
                                "a NUL byte)");
    }
    *text = buf;
    return 0;
}

/* The names of one argument, behind those that are there. */
static int add_list(struct nodes *n, const char *list, struct err *err)
{
    struct strlist names = { 0 };
    char *text = NULL;
    int rc = 0;

    if (str_eq(list, "-"))
        rc = read_stdin(&text, err);
    if (rc == 0)
        rc = hostlist_expand(text ? text : list, &names, err);
    for (int i = 0; i < names.n; i++)
        strlist_add(&n->names, names.item[i]);
    strlist_release(&names);
    free(text);
    return rc;
}

/* Two launches on one node share its GPUs, so a repeat is never silent. */
static void find_repeats(struct nodes *n, int drop)
{
    struct strlist all = { 0 };

    strlist_copy(&all, &n->names);
    n->total = n->names.n;
    hostlist_unique(&n->names, &n->repeated);
    if (n->repeated.n) {
        char *folded = hostlist_fold(&n->repeated);
        log_warn("named more than once: %s%s", folded,
                 drop ? "; the first of each is kept"
                      : "; all are kept (--unique keeps the first)");
        free(folded);
    }
    if (!drop) {
        struct strlist kept = n->names;
        n->names = all;
        all = kept;
    }
    strlist_release(&all);
}

static struct js *names_json(const struct strlist *names)
{
    struct js *a = js_array();

    for (int i = 0; i < names->n; i++)
        js_push(a, js_string(names->item[i]));
    return a;
}

static void show_json(const struct nodes *n)
{
    struct js *o = js_document("nodes");
    char *folded = hostlist_fold(&n->names);

    js_put_int(o, "count", n->names.n);
    js_put_str(o, "list", folded);
    js_put(o, "nodes", names_json(&n->names));
    js_put(o, "repeated", names_json(&n->repeated));
    js_print(o, stdout);
    js_free(o);
    free(folded);
}

static int show(const struct args *a, void (*print)(const struct nodes *n),
                struct err *err)
{
    struct nodes n = { 0 };
    int rc = 0;

    for (int i = 0; i < a->lists.n && rc == 0; i++)
        rc = add_list(&n, a->lists.item[i], err);
    if (rc == 0) {
        find_repeats(&n, a->unique);
        if (a->json)
            show_json(&n);
        else
            print(&n);
    }
    strlist_release(&n.names);
    strlist_release(&n.repeated);
    return rc;
}

static int run_on(const char *doc, void (*print)(const struct nodes *n), int argc,
                  char **argv, struct err *err)
{
    const struct argp argp = { options, parse_opt, "LIST... (- reads standard input)",
                               doc,     NULL,      NULL,
                               NULL };
    struct args a = { 0 };
    int rc = cmd_parse(&argp, argc, argv, &a, err);

    if (rc == 0 && a.lists.n == 0)
        rc = err_set(err, ERR_USAGE,
                     "%s: no host list is given (gn[01-08], or - for "
                     "standard input)",
                     argv[0]);
    if (rc == 0)
        rc = show(&a, print, err);
    else if (rc == 1)
        rc = 0; /* --help */
    strlist_release(&a.lists);
    return rc;
}

static int run_expand(int argc, char **argv, struct err *err)
{
    return run_on("Write the names of host lists, one a line.", show_expanded, argc,
                  argv, err);
}

static int run_fold(int argc, char **argv, struct err *err)
{
    return run_on("Fold names or lists into one list, keeping order.", show_folded,
                  argc, argv, err);
}

static int run_count(int argc, char **argv, struct err *err)
{
    return run_on("Count the names of host lists.", show_count, argc, argv, err);
}

static const struct cmd cmds[] = {
    { "expand", "one name a line, in order", run_expand, 0 },
    { "fold", "names to one list", run_fold, 0 },
    { "count", "how many names", run_count, 0 },
};

static int run(int argc, char **argv, struct err *err)
{
    const struct cmd_group group = { "nodes", "LIST...", cmds, ARRAY_LEN(cmds) };

    return cmd_run_group(&group, argc, argv, err);
}

extern const struct cmd cmd_nodes;
const struct cmd cmd_nodes = { "nodes", "expand, fold and count host lists", run, 0 };
