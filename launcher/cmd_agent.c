/* muster agent - what muster starts on nodes.  Verbs, because it has several jobs. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/agent.h"
#include "launcher/agent_ssh.h"
#include "launcher/agent_wire.h"
#include "launcher/cmd.h"
#include "launcher/frame.h"
#include "launcher/guard.h"
#include "launcher/ibnet_source.h"
#include "launcher/slurm_helper.h"
#include "launcher/slurm_probe.h"
#include "launcher/slurm_setup.h"
#include "launcher/task_agent.h"

/* ---- serve ---- */

/* argp's type. NOLINTNEXTLINE(readability-non-const-parameter) */
static error_t take_serve(int key, char *arg, struct argp_state *state)
{
    struct agent_options *o = state->input;

    if (key == 'h')
        o->host = arg;
    else if (key == 'b')
        o->build = arg;
    else
        return ARGP_ERR_UNKNOWN;
    return 0;
}

static const struct argp_option serve_options[] = {
    { "host", 'h', "NAME", 0, "call this machine NAME (for tests; needs root)", 0 },
    { "build", 'b', "ID", 0, "end with status 76 when this is another build", 0 },
    { 0 },
};

static const struct argp serve_parser = {
    serve_options,
    take_serve,
    "",
    "Host the PMIx server and the ranks of one node for a muster launch that speaks "
    "through stdin and stdout.",
    NULL,
    NULL,
    NULL,
};

/* A guardian of its own: when the agent is killed, or stands still, its ranks are ended.
 * By then the launcher has taken the node for lost (FRAME_SILENCE_MS). */
static int serve(int argc, char **argv, struct err *err)
{
    struct agent_options o = { .in = STDIN_FILENO, .out = STDOUT_FILENO };
    const struct guard_options g = { .grace_ms = 2000,
                                     .leave_terminal = 1,
                                     .leave_ms = 4000,
                                     .silence_ms = FRAME_SILENCE_MS + 2000 };
    int rc = cmd_parse(&serve_parser, argc, argv, &o, err), status = 0;

    if (rc != 0)
        return rc < 0 ? -1 : 0;
    if (o.build && !str_eq(o.build, agent_build()))
        return AGENT_OTHER_BUILD;
    rc = guard_enter(&g, &status, err);
    if (rc != 0)
        return rc < 0 ? -1 : status;
    rc = agent_serve(&o, err);
    guard_leave();
    return rc;
}

/* ---- ssh HOST ---- */

static int ssh(int argc, char **argv, struct err *err)
{
    if (argc != 3 || !str_eq(argv[1], "--"))
        return err_set(err, ERR_USAGE, "muster agent ssh -- HOST");
    return agent_ssh(argv[2], STDIN_FILENO, STDOUT_FILENO, err);
}

/* ---- build ---- */

static int build(int argc, char **argv, struct err *err)
{
    (void)argc, (void)argv, (void)err;
    puts(agent_build());
    return 0;
}

/* ---- exec: a task of a Slurm step ---- */

static int exec(int argc, char **argv, struct err *err)
{
    (void)argc, (void)argv;
    return task_exec(err);
}

/* ---- slurm: the process that libslurm lives in ---- */

static int slurm(int argc, char **argv, struct err *err)
{
    return slurm_helper(argc - 1, argv + 1, err);
}

/* ---- setup COMMAND...: a task of the step before the ranks ---- */

static int setup(int argc, char **argv, struct err *err)
{
    if (argc < 2)
        return err_set(err, ERR_USAGE, "muster agent setup COMMAND...");
    return slurm_setup_node(argv + 1, err);
}

/* ---- look: a task on each node of a job ---- */

static int look(int argc, char **argv, struct err *err)
{
    (void)argc, (void)argv;
    return slurm_probe_node(err);
}

/* ---- ibnet: the process that libibnetdisc lives in ---- */

static int ibnet(int argc, char **argv, struct err *err)
{
    (void)argc, (void)argv;
    return ibnet_source_helper(err);
}

static const struct {
    const char *name;
    int (*run)(int argc, char **argv, struct err *err);
} verbs[] = {
    { "serve", serve }, { "ssh", ssh },     { "build", build }, { "exec", exec },
    { "slurm", slurm }, { "setup", setup }, { "look", look },   { "ibnet", ibnet },
};

static int run(int argc, char **argv, struct err *err)
{
    char name[64];

    for (size_t i = 0; argc > 1 && i < ARRAY_LEN(verbs); i++)
        if (str_eq(argv[1], verbs[i].name)) {
            snprintf(name, sizeof(name), "muster agent %s", verbs[i].name);
            argv[1] = name;
            return verbs[i].run(argc - 1, argv + 1, err);
        }
    return err_set(err, ERR_USAGE,
                   "muster agent is started by muster itself; its verbs are serve, "
                   "ssh, build, exec, slurm, setup, look and ibnet");
}

const struct cmd cmd_agent = { "agent", "muster's hands on a node", run, 1 };
