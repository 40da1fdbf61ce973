/* run_command.h - what each rank executes, and how that reads. */
#ifndef LAUNCHER_RUN_COMMAND_H
#define LAUNCHER_RUN_COMMAND_H

struct err;
struct js;
struct run_request;
struct strlist;

/* The command of every rank: the user's, or muster-train with the recipe that was
 * saved in `dir` (NULL: not started yet, shown as RUN_DIR).  Adds to *argv; the
 * last item of argv->item is followed by NULL.  *program is what to execute, the
 * caller's to free(); ERR_MISSING when it is not there. */
int run_command(const struct run_request *q, const char *dir, struct strlist *argv,
                char **program, struct err *err);

/* The "plan.json" of the run: world, ranks[].{rank,node,gpu,cpus}, commands[] (one a
 * rank), and for a recipe all that `muster plan` says. */
struct js *run_plan_json(const struct run_request *q, const char *dir, struct err *err);

/* Under Slurm: the step, with its environment, as a line for sh; the caller's to
 * free().  NULL on failure. */
char *run_step_line(const struct run_request *q, struct err *err);

/* The name a run gets: the recipe's, else the program's. */
const char *run_name(const struct run_request *q);

#endif
