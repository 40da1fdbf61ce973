/* muster - one command from a recipe to a run on any number of GPUs. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/cmd.h"
#include "launcher/guard_keep.h"

#define CMD(name) extern const struct cmd cmd_##name;
#include "gen/cmds.inc"
#undef CMD

#define CMD(name) &cmd_##name,
static const struct cmd *const cmds[] = {
#include "gen/cmds.inc"
};
#undef CMD

static void help(FILE *fp)
{
    fputs("usage: muster COMMAND [OPTION...]\n\n", fp);
    for (size_t i = 0; i < ARRAY_LEN(cmds); i++)
        if (!cmds[i]->hidden)
            fprintf(fp, "  %-8s %s\n", cmds[i]->name, cmds[i]->summary);
    fputs("\n`muster COMMAND --help` describes one command.\n"
          "Exit status: 0 yes, 1 the answer is no, 2 usage or recipe, 3 something is "
          "missing,\n"
          "4 the system failed, 5 a deadline passed, 128+n a rank died of signal n.\n",
          fp);
}

static int unknown(const char *word, struct err *err)
{
    const char *names[ARRAY_LEN(cmds)];
    const char *near;

    for (size_t i = 0; i < ARRAY_LEN(cmds); i++)
        names[i] = cmds[i]->name;
    near = str_nearest(word, names, (int)ARRAY_LEN(cmds));
    return err_set(err, ERR_USAGE, "no command '%s'%s%s%s: `muster help` lists them",
                   word, near ? " (did you mean '" : "", near ? near : "",
                   near ? "'?)" : "");
}

static int dispatch(int argc, char **argv, struct err *err)
{
    char name[64];

    for (size_t i = 0; i < ARRAY_LEN(cmds); i++) {
        if (strcmp(argv[1], cmds[i]->name) != 0)
            continue;
        snprintf(name, sizeof(name), "muster %s", argv[1]);
        argv[1] = name;
        return cmds[i]->run(argc - 1, argv + 1, err);
    }
    return unknown(argv[1], err);
}

static int run(int argc, char **argv, struct err *err)
{
    char *swap;

    if (argc == 3 && str_eq(argv[1], "help")) { /* help COMMAND is COMMAND --help */
        swap = argv[2];
        argv[2] = (char *)"--help";
        argv[1] = swap;
    }
    if (str_eq(argv[1], "help") || str_eq(argv[1], "--help") || str_eq(argv[1], "-h")) {
        help(stdout);
        return 0;
    }
    if (str_eq(argv[1], "--version")) {
        puts("muster " MUSTER_VERSION);
        return 0;
    }
    return dispatch(argc, argv, err);
}

/* A file that may not grow (ulimit -f) is an errno.  A handler, for what is started gets
 * the default back. */
static void too_large(int signo)
{
    (void)signo;
}

int main(int argc, char **argv)
{
    struct err err = ERR_INIT;
    int status, lost;

    keeper_words(argc, argv);
    signal(SIGXFSZ, too_large);
    if (argc < 2) {
        help(stderr);
        return ERR_USAGE;
    }
    status = run(argc, argv, &err);
    lost = fflush(stdout) != 0 || ferror(stdout);
    if (status == 0 && lost)
        status = err_set(&err, ERR_SYSTEM, "standard output cannot be written: %m");
    if (status < 0) {
        fprintf(stderr, "muster: %s\n", err_text(&err));
        status = err.code;
    }
    err_release(&err);
    return status;
}
