/* launch_args.h - the command line of `muster launch`. */
#ifndef LAUNCHER_LAUNCH_ARGS_H
#define LAUNCHER_LAUNCH_ARGS_H

#include <stdint.h>

#include "base/str.h"
#include "launcher/machines.h"

struct err;

struct launch_args {
    const char *recipe;        /* file, or NULL */
    char **command;            /* after "--", ends with NULL; or NULL */
    int gpus;                  /* 0: not said */
    struct strlist sets;       /* KEY=VALUE */
    struct machines_ask where; /* but for the recipe */
    const char *resume;        /* NULL: not said */
    const char *profile;       /* A:B; NULL: not said */
    const char *batch; /* in a batch job: the run's folder (launch_batch.h); NULL */
    int dry_run, json, detach, no_check, quiet, verbose, no_bind;
    int spares, restarts;                                   /* -1: not said */
    int stdin_rank;                                         /* -1 none */
    int64_t start_timeout_ms, silence_timeout_ms, grace_ms; /* -1: not said */
};

/* 0; 1 when help was printed; -1 with ERR_USAGE.  Borrows argv. */
int launch_args_parse(int argc, char **argv, struct launch_args *a, struct err *err);
void launch_args_release(struct launch_args *a);

#endif
