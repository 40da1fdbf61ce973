#include "launcher/cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

/* argp reports a wrong option on stderr and exits.  Its messages are caught
 * through a memory stream and become ours. */
static char *last_line_of_cause(char *text, const char *program)
{
    size_t n = strlen(program);
    char *end = strchr(text, '\n');

    if (end)
        *end = '\0';
    if (strncmp(text, program, n) == 0 && text[n] == ':')
        text += n + 1;
    while (*text == ' ')
        text++;
    return text;
}

static int collect_long(const struct argp *a, const char **names, int n, int room)
{
    for (const struct argp_option *o = a->options; o && (o->name || o->key || o->doc);
         o++)
        if (o->name && n < room)
            names[n++] = o->name;
    for (const struct argp_child *c = a->children; c && c->argp; c++)
        n = collect_long(c->argp, names, n, room);
    return n;
}

/* The long option nearest to the first "--word" that is none. */
static const char *suggest(const struct argp *a, int argc, char **argv, char word[64])
{
    const char *names[96];
    int n = collect_long(a, names, 0, 96);

    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strncmp(argv[i], "--", 2) != 0)
            continue;
        snprintf(word, 64, "%.*s", (int)strcspn(argv[i] + 2, "="), argv[i] + 2);
        const char *near = str_nearest(word, names, n);
        if (near && strcmp(near, word) != 0)
            return near;
    }
    return NULL;
}

static int wants_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (str_eq(argv[i], "--help") || str_eq(argv[i], "-?") ||
            str_eq(argv[i], "--usage"))
            return str_eq(argv[i], "--usage") ? ARGP_HELP_USAGE : ARGP_HELP_STD_HELP;
    return 0;
}

int cmd_parse(const struct argp *argp, int argc, char **argv, void *input,
              struct err *err)
{
    char *text = NULL, word[64];
    const char *near;
    size_t size = 0;
    FILE *catcher, *real = stderr;
    int help = wants_help(argc, argv), rc;

    if (help) {
        argp_help(argp, stdout,
                  (unsigned)help & ~(unsigned)(ARGP_HELP_EXIT_ERR | ARGP_HELP_EXIT_OK),
                  argv[0]);
        return 1;
    }
    catcher = open_memstream(&text, &size);
    if (!catcher)
        return err_set(err, ERR_SYSTEM, "open_memstream: %m");
    stderr = catcher;
    rc = argp_parse(argp, argc, argv, ARGP_NO_EXIT | ARGP_NO_HELP, NULL, input);
    stderr = real;
    fclose(catcher);
    if (rc != 0) {
        near = suggest(argp, argc, argv, word);
        err_set(err, ERR_USAGE, "%s: %s%s%s%s (`%s --help` lists the options)", argv[0],
                text && *text ? last_line_of_cause(text, argv[0]) : strerror(rc),
                near ? " (did you mean '--" : "", near ? near : "", near ? "'?)" : "",
                argv[0]);
    }
    free(text);
    return rc == 0 ? 0 : -1;
}

/* ---- commands made of commands ---- */

static void group_help(const struct cmd_group *g)
{
    printf("usage: muster %s COMMAND [OPTION...] %s\n\n", g->name, g->operands);
    for (int i = 0; i < g->n; i++)
        printf("  %-8s %s\n", g->cmd[i].name, g->cmd[i].summary);
    printf("\n`muster %s COMMAND --help` describes one.\n", g->name);
}

/* No command is named, or none of the group's. */
static int group_refuse(const struct cmd_group *g, const char *word, struct err *err)
{
    const char *names[16], *near, *joint;
    char *said = NULL, *more;

    for (int i = 0; i < g->n; i++) {
        names[i] = g->cmd[i].name;
        joint = i == 0 ? "" : i + 1 == g->n ? " or " : ", ";
        more = xasprintf("%s%s%s", said ? said : "", joint, names[i]);
        free(said);
        said = more;
    }
    if (!word) {
        err_set(err, ERR_USAGE, "muster %s: say %s", g->name, said);
    } else {
        near = str_nearest(word, names, g->n);
        err_set(err, ERR_USAGE, "muster %s: no command '%s'%s%s%s", g->name, word,
                near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
    }
    free(said);
    return -1;
}

int cmd_run_group(const struct cmd_group *g, int argc, char **argv, struct err *err)
{
    char name[64];

    if (argc > 1 && (str_eq(argv[1], "--help") || str_eq(argv[1], "-?"))) {
        group_help(g);
        return 0;
    }
    for (int i = 0; argc > 1 && i < g->n; i++) {
        if (!str_eq(argv[1], g->cmd[i].name))
            continue;
        snprintf(name, sizeof(name), "muster %s %s", g->name, g->cmd[i].name);
        argv[1] = name;
        return g->cmd[i].run(argc - 1, argv + 1, err);
    }
    return group_refuse(g, argc > 1 ? argv[1] : NULL, err);
}
