/* launch.h - one `muster launch`, from its words to its result.  Inner to launch*.c
 * and cmd_launch.c. */
#ifndef LAUNCHER_LAUNCH_H
#define LAUNCHER_LAUNCH_H

#include <stdint.h>

#include "launcher/machines.h"
#include "launcher/run.h"
#include "recipes/recipe.h"

struct err;
struct js;
struct launch_args;
struct placement;
struct slurm_hold;
struct strlist;

/* What a launch is about, made from its arguments. */
struct launch {
    const struct launch_args *a;
    struct recipe recipe;
    int has_recipe;
    struct machines machines;
    struct placement *placement;
    int outside;             /* Slurm's nodes are wanted, and we are in no allocation */
    struct slurm_hold *hold; /* nodes of our own from Slurm; NULL: none */
    char **argv; /* as muster got it: "muster", "launch", ...; ends with NULL */
    /* In a batch job: the recipe is the one of the run's folder. */
    struct run_part part;       /* dir NULL: not */
    char *recipe_path, *resume; /* owned, or NULL: as the arguments say */
    int restarts;               /* done so far */
    struct js *attempts;        /* of this run before; NULL: none */
    char *again_dir; /* owned: part.dir of an attempt after the first; or NULL */
    int report;      /* --detach: where the starter waits for the run's name; -1 */
};

/* --- launch_prepare.c: recipe, machines, placement ------------------------------ */

/* Once: it may come through a pipe. */
int launch_load_recipe(struct launch *l, struct err *err);
int launch_prepare(struct launch *l, struct err *err);
void launch_release(struct launch *l);
struct run_request launch_request(struct launch *l);
/* What an option said, else what holds without it. */
int64_t launch_said(int64_t ms, int64_t def);

/* Nodes to hold back: --spares, else cluster.spares. */
int launch_spares(const struct launch *l);

/* --- launch_again.c: attempts after the first ------------------------------------- */

/* The checks named these nodes bad: 1 when spares took their place, and err is cleared;
 * 0: none could; -1. */
int launch_swap_checked(struct launch *l, const struct strlist *bad, struct err *err);
/* The same of cluster.slurm.setup; nodes without ranks, as spares, are just left out.
 * 0: the launch goes on, and err is cleared; -1. */
int launch_swap_set_up(struct launch *l, const struct strlist *bad, struct err *err);
/* The run ended: 1 when it shall go on in its folder, without a bad node or from the
 * last checkpoint (--restarts); 0: that was it; -1. */
int launch_again(struct launch *l, const struct run_result *r, struct err *err);

/* --- launch_show.c -------------------------------------------------------------- */

int launch_dry_run(const struct run_request *q, int json, struct err *err);
void launch_show_result(const struct launch *l, const struct run_result *r);
/* Nothing was started: with --json that is an object too, without a run; in a batch
 * job it is the run's result.  -1. */
int launch_refuse(const struct launch *l, const struct err *err);
/* The same when a signal said so: says what err does; 128 + signo. */
int launch_stopped(const struct launch *l, int signo, struct err *err);

/* --- launch_outside.c: nodes from Slurm, from outside an allocation ---------------- */

/* Does the recipe want Slurm's nodes, and there are none yet?  -1. */
int launch_is_outside(struct launch *l, int *yes, struct err *err);
/* Get the nodes: this process is inside an allocation then.  -1; *signo, when not 0, is
 * the signal that ended the wait. */
int launch_hold(struct launch *l, int *signo, struct err *err);
/* --dry-run: print how they are asked for, and stand nodes of no name in for them. */
int launch_outside_dry(struct launch *l, struct err *err);

/* --- launch_detach.c ------------------------------------------------------------ */

/* Fork, say the run's name when it has started, and leave it to itself: `go` runs in
 * the child.  Returns the exit status, in both. */
int launch_detach(struct launch *l, int (*go)(struct launch *l, struct err *err),
                  struct err *err);
/* Of the run: its start sets the starter free.  `arg` is the launch. */
int launch_on_event(void *arg, const struct js *e);

#endif
