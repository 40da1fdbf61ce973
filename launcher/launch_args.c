#include "launcher/launch_args.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "launcher/cmd.h"
#include "recipes/value.h"

enum {
    OPT_SET = 256,
    OPT_CLUSTER,
    OPT_DRY_RUN,
    OPT_JSON,
    OPT_DETACH,
    OPT_NO_CHECK,
    OPT_NO_BIND,
    OPT_RESUME,
    OPT_PROFILE,
    OPT_SPARES,
    OPT_RESTARTS,
    OPT_STDIN,
    OPT_START,
    OPT_SILENCE,
    OPT_GRACE,
    OPT_BATCH
};

static const struct argp_option options[] = {
    { "gpus", 'g', "N", 0,
      "ranks to start, one a GPU or a share of the CPUs (what the recipe's degrees "
      "make, "
      "else every GPU there is, else 1)",
      0 },
    { "set", OPT_SET, "KEY=VALUE", 0, "change one key of the recipe; may be repeated",
      0 },
    { "cluster", OPT_CLUSTER, "FILE", 0, "a cluster specification, not this machine",
      0 },
    MACHINES_OPTIONS(0),
    { "resume", OPT_RESUME, "DIR", 0, "continue from the checkpoints in DIR", 0 },
    { "profile", OPT_PROFILE, "A:B", 0,
      "record steps A to B of every rank: profile/rankN.json (Perfetto) and .txt in "
      "the "
      "run's folder",
      0 },
    { "dry-run", OPT_DRY_RUN, 0, 0, "print what would run, byte for byte, and stop",
      1 },
    { "detach", OPT_DETACH, 0, 0,
      "print the run's name and go on in the background; with cluster.backend: slurm "
      "outside an allocation as a batch job",
      1 },
    { "batch", OPT_BATCH, "DIR", OPTION_HIDDEN, "in a batch job: the run's folder", 1 },
    { "json", OPT_JSON, 0, 0, "the result as one JSON object on stdout", 1 },
    { "quiet", 'q', 0, 0, "keep the ranks' lines in their files only", 1 },
    { "verbose", 'v', 0, 0, "say how each rank is bound, and its limits", 1 },
    { "no-bind", OPT_NO_BIND, 0, 0, "leave ranks on the CPUs that they come with", 1 },
    { "spares", OPT_SPARES, "K", 0,
      "hold K nodes back, each to replace one that fails to start, fails its check or "
      "hangs at the start (cluster.spares)",
      1 },
    { "restarts", OPT_RESTARTS, "N", 0,
      "after a failure on the way go on from the last checkpoint, N times at most (0); "
      "a lost node is replaced by a spare",
      1 },
    { "no-check", OPT_NO_CHECK, 0, 0, "start without the preflight checks", 1 },
    { "stdin", OPT_STDIN, "RANK|none", 0,
      "which rank reads muster's stdin (none); others read /dev/null", 2 },
    { "start-timeout", OPT_START, "TIME", 0,
      "how long ranks wait for each other (2m; 0: for ever), and muster for its hosts "
      "(30s at most); TIME is 90s, 5m, 30:00 (minutes:seconds)",
      2 },
    { "silence-timeout", OPT_SILENCE, "TIME", 0,
      "end the run when a rank shows no sign of life for so long (recipes: 2m; "
      "commands: 0, never)",
      2 },
    { "grace", OPT_GRACE, "TIME", 0,
      "from SIGTERM to SIGKILL when a run ends (5s; 30s when you stop a recipe, so "
      "that "
      "it can save)",
      2 },
    { 0 },
};

struct parse {
    struct launch_args *a;
    struct err *err; /* of a value; argp's own go another way */
    int failed;
};

static int take_time(struct parse *p, const char *option, const char *text, int64_t *ms)
{
    int64_t s = 0;

    if (strcmp(text, "0") != 0 && value_duration(text, &s, p->err) < 0)
        return err_wrap(p->err, "--%s", option);
    *ms = s * 1000;
    return 0;
}

static int take_count(struct parse *p, const char *option, const char *text, int least,
                      int *out)
{
    int64_t n;

    if (value_int64(text, &n, p->err) < 0)
        return err_wrap(p->err, "--%s", option);
    if (n < least || n > 1 << 20)
        return err_set(p->err, ERR_USAGE, "--%s %s: a number from %d to %d is wanted",
                       option, text, least, 1 << 20);
    *out = (int)n;
    return 0;
}

static int take_setting(struct parse *p, const char *text)
{
    const char *eq = strchr(text, '=');

    if (!eq || eq == text)
        return err_set(p->err, ERR_USAGE, "--set %s: KEY=VALUE is wanted", text);
    strlist_add(&p->a->sets, text);
    return 0;
}

static int take_recipe(struct parse *p, const char *text)
{
    if (p->a->recipe)
        return err_set(p->err, ERR_USAGE,
                       "'%s': one recipe is enough, '%s' came before (a command goes "
                       "behind --)",
                       text, p->a->recipe);
    p->a->recipe = text;
    return 0;
}

static int take_value(struct parse *p, int key, const char *arg)
{
    struct launch_args *a = p->a;

    switch (key) {
    case 'g':
        return take_count(p, "gpus", arg, 1, &a->gpus);
    case OPT_SPARES:
        return take_count(p, "spares", arg, 0, &a->spares);
    case OPT_RESTARTS:
        return take_count(p, "restarts", arg, 0, &a->restarts);
    case OPT_SET:
        return take_setting(p, arg);
    case OPT_STDIN:
        a->stdin_rank = -1;
        return strcmp(arg, "none") == 0
                   ? 0
                   : take_count(p, "stdin", arg, 0, &a->stdin_rank);
    case OPT_START:
        return take_time(p, "start-timeout", arg, &a->start_timeout_ms);
    case OPT_SILENCE:
        return take_time(p, "silence-timeout", arg, &a->silence_timeout_ms);
    case OPT_GRACE:
        return take_time(p, "grace", arg, &a->grace_ms);
    case ARGP_KEY_ARG:
        return take_recipe(p, arg);
    default:
        return 1;
    }
}

static int take_word(struct launch_args *a, int key, const char *arg)
{
    switch (key) {
    case OPT_CLUSTER:
        a->where.cluster = arg;
        return 0;
    case OPT_RESUME:
        a->resume = arg;
        return 0;
    case OPT_PROFILE:
        a->profile = arg;
        return 0;
    case OPT_BATCH:
        a->batch = arg;
        return 0;
    case OPT_DRY_RUN:
        return a->dry_run = 1, 0;
    case OPT_JSON:
        return a->json = 1, 0;
    case OPT_DETACH:
        return a->detach = 1, 0;
    case OPT_NO_CHECK:
        return a->no_check = 1, 0;
    case 'q':
        return a->quiet = 1, 0;
    case 'v':
        return a->verbose = 1, 0;
    case OPT_NO_BIND:
        return a->no_bind = 1, 0;
    default:
        return 1;
    }
}

static error_t take(int key, char *arg, struct argp_state *state)
{
    struct parse *p = state->input;
    int rc;

    if (p->failed || machines_take(&p->a->where, key, arg) ||
        take_word(p->a, key, arg) == 0)
        return 0;
    rc = take_value(p, key, arg);
    if (rc > 0)
        return ARGP_ERR_UNKNOWN;
    p->failed = rc < 0;
    return 0;
}

static const struct argp parser = {
    options,
    take,
    "RECIPE\n[-- COMMAND [ARGUMENT...]]",
    "Start a recipe's training, or any command, on N ranks, watch it and end it "
    "cleanly.\vExit status: 0 all ranks ended well; a rank's own status, or 128+n for "
    "signal n; 2 usage or recipe; 3 something is missing; 5 a deadline passed; 130 or "
    "143 when stopped by Ctrl-C or SIGTERM.",
    NULL,
    NULL,
    NULL,
};

/* "A:B", steps from 1; A <= B. */
static int is_span(const char *text)
{
    const char *colon = strchr(text, ':');
    char *first = colon ? xstrndup(text, (size_t)(colon - text)) : xstrdup("");
    int64_t from = 0, to = 0;
    int ok = colon && value_int64(first, &from, NULL) == 0 &&
             value_int64(colon + 1, &to, NULL) == 0 && from > 0 && to >= from;

    free(first);
    return ok;
}

static int check_profile(const struct launch_args *a, struct err *err)
{
    if (a->command)
        return err_set(err, ERR_USAGE,
                       "--profile is for a recipe; a command gets its own options");
    if (!is_span(a->profile))
        return err_set(err, ERR_USAGE,
                       "--profile %s: two steps, the first and the last (5:6)",
                       a->profile);
    return 0;
}

static int check(const struct launch_args *a, struct err *err)
{
    if (!a->recipe && !a->command)
        return err_set(err, ERR_USAGE,
                       "muster launch: name a recipe, or a command behind "
                       "-- (`muster launch --gpus 4 -- COMMAND`)");
    if (a->command && !*a->command)
        return err_set(err, ERR_USAGE, "muster launch: no command behind --");
    if (!a->recipe && a->sets.n)
        return err_set(err, ERR_USAGE, "--set %s: there is no recipe to change",
                       a->sets.item[0]);
    if (a->command && a->resume)
        return err_set(err, ERR_USAGE,
                       "--resume is for a recipe; a command gets its own options");
    if (machines_ask_check(&a->where, err) < 0 ||
        (a->profile && check_profile(a, err) < 0))
        return -1;
    if (a->detach && a->stdin_rank >= 0)
        return err_set(err, ERR_USAGE, "--stdin does not go with --detach");
    return 0;
}

int launch_args_parse(int argc, char **argv, struct launch_args *a, struct err *err)
{
    struct parse p = { a, err, 0 };
    int n = 1, rc;

    *a = (struct launch_args){ .spares = -1,
                               .restarts = -1,
                               .stdin_rank = -1,
                               .start_timeout_ms = -1,
                               .silence_timeout_ms = -1,
                               .grace_ms = -1 };
    while (n < argc && strcmp(argv[n], "--") != 0)
        n++;
    if (n < argc)
        a->command = argv + n + 1;
    rc = cmd_parse(&parser, n, argv, &p, err);
    if (rc == 0)
        rc = p.failed || check(a, err) < 0 ? -1 : 0;
    if (a->batch) { /* what the words say about the submission is done */
        a->detach = a->json = a->dry_run = 0;
        a->quiet = 1;
    }
    if (rc != 0)
        launch_args_release(a);
    return rc;
}

void launch_args_release(struct launch_args *a)
{
    strlist_release(&a->sets);
}
