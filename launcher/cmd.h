/* cmd.h - one command of `muster`.
 *
 * To add a command, write launcher/cmd_NAME.c that defines
 *     const struct cmd cmd_NAME = { "NAME", "what it does", run };
 * The table in main.c is made from the file names; help lists it by itself.
 *
 * run() gets its own argv (argv[0] is "muster NAME"), parses it with argp
 * through cmd_parse(), prints results to stdout and returns the exit status of
 * design.md when it finished (0 yes, 1 the answer is no, a rank's own status);
 * on failure it fills err and returns -1, and main prints the message and exits
 * with the code. */
#ifndef LAUNCHER_CMD_H
#define LAUNCHER_CMD_H

#include <argp.h>

struct err;

struct cmd {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv, struct err *err);
    int hidden; /* started by muster itself */
};

/* A command that is made of commands, `muster GROUP NAME ...`.  Each row's run() gets
 * argv[0] = "muster GROUP NAME". */
struct cmd_group {
    const char *name;
    const char *operands; /* as the usage line shows them */
    const struct cmd *cmd;
    int n;
};

/* The run() of a struct cmd that is such a group: help, the command, or ERR_USAGE. */
int cmd_run_group(const struct cmd_group *g, int argc, char **argv, struct err *err);

/* argp_parse() that never exits by itself: wrong options become ERR_USAGE with a
 * suggestion; --help and --usage print and return 1 (then run() returns 0). */
int cmd_parse(const struct argp *argp, int argc, char **argv, void *input,
              struct err *err);

#endif
