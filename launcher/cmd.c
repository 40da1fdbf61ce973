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
