/* muster ckpt - describe and check checkpoints. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/cmd.h"
#include "trainer/ckpt_verify.h"

enum { OPT_JSON = 256 };

struct args {
    int json;
    struct strlist paths;
};

static error_t parse_opt(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;

    switch (key) {
    case OPT_JSON:
        a->json = 1;
        return 0;
    case ARGP_KEY_ARG:
        strlist_add(&a->paths, arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    { "json", OPT_JSON, NULL, 0, "print one JSON object instead of text", 0 },
    { 0 },
};
static const struct argp info_argp = {
    options,  parse_opt,
    "DIR...", "Describe checkpoints: one (step-N), or all in a folder of them.",
    NULL,     NULL,
    NULL,
};
static const struct argp verify_argp = {
    options,  parse_opt,
    "DIR...", "Read checkpoints whole and compare every checksum; all are visited.",
    NULL,     NULL,
    NULL,
};

struct report {
    int json, verify, bad;
    struct js *list;
    struct err *err;
};

static struct js *summary_json(const char *dir, const struct ckpt_summary *s)
{
    struct js *o = js_object();

    js_put_str(o, "path", dir);
    js_put_int(o, "step", s->step);
    js_put_int(o, "tokens", s->tokens);
    js_put_int(o, "world", s->world);
    js_put_int(o, "shard", s->shard);
    js_put_int(o, "layers", s->layers);
    js_put_int(o, "parameters", s->scalars);
    js_put_int(o, "bytes", s->bytes);
    js_put_int(o, "seed", js_get_int(s->index, "seed", -1));
    js_put_int(o, "seq_len", js_get_int(s->index, "seq_len", -1));
    js_put_int(o, "global_batch_size", js_get_int(s->index, "global_batch_size", -1));
    js_put_str(o, "version", js_str(s->index, "version", NULL));
    js_put_str(o, "device", js_str(s->index, "device", NULL));
    return o;
}

static void report_bad(struct report *r, const char *dir, struct err *why)
{
    struct js *o = js_object();

    js_put_str(o, "path", dir);
    js_put_bool(o, "ok", 0);
    js_put_str(o, "error", err_text(why));
    js_push(r->list, o);
    r->bad++;
    err_more(r->err, why->code, "%s", err_text(why));
    err_release(why);
}

static void report_good(struct report *r, const char *dir, const struct ckpt_summary *s)
{
    struct js *o = summary_json(dir, s);

    js_put_bool(o, "ok", 1);
    js_push(r->list, o);
    if (!r->json)
        printf("%10" PRId64 " %16" PRId64 " %14" PRId64 " %8.1f MiB %4d %5d  %s%s\n",
               s->step, s->tokens, s->scalars, (double)s->bytes / (1 << 20), s->shard,
               s->world, dir, r->verify ? ": every checksum matches" : "");
}

static void visit(struct report *r, const char *dir)
{
    struct ckpt_summary s = { 0 };
    struct err why = ERR_INIT;

    if (ckpt_inspect(dir, &s, &why) != 0 ||
        (r->verify && ckpt_verify(dir, &s, &why) != 0))
        report_bad(r, dir, &why);
    else
        report_good(r, dir, &s);
    ckpt_summary_release(&s);
}

static int visit_all(const struct args *a, int verify, struct err *err)
{
    struct report r = { a->json, verify, 0, js_array(), err };

    if (!a->json)
        printf("%10s %16s %14s %12s %4s %5s  %s\n", "step", "tokens", "parameters",
               "size", "cut", "ranks", "checkpoint");
    for (int i = 0; i < a->paths.n; i++) {
        struct strlist found = { 0 };
        struct err why = ERR_INIT;
        if (ckpt_find(a->paths.item[i], &found, &why) != 0)
            report_bad(&r, a->paths.item[i], &why);
        for (int j = 0; j < found.n; j++)
            visit(&r, found.item[j]);
        strlist_release(&found);
    }
    if (a->json) {
        struct js *o = js_document(verify ? "ckpt-verify" : "ckpt-info");
        js_put(o, "checkpoints", js_ref(r.list));
        js_put_int(o, "bad", r.bad);
        js_print(o, stdout);
        js_free(o);
    }
    js_free(r.list);
    return r.bad > 0 ? -1 : 0;
}

static int run_on(const struct argp *argp, int verify, int argc, char **argv,
                  struct err *err)
{
    struct args a = { 0 };
    int rc = cmd_parse(argp, argc, argv, &a, err);

    if (rc == 0 && a.paths.n == 0)
        rc = err_set(err, ERR_USAGE, "%s: no folder is named", argv[0]);
    if (rc == 0)
        rc = visit_all(&a, verify, err);
    else if (rc == 1)
        rc = 0; /* --help */
    strlist_release(&a.paths);
    return rc;
}

static int run_info(int argc, char **argv, struct err *err)
{
    return run_on(&info_argp, 0, argc, argv, err);
}

static int run_verify(int argc, char **argv, struct err *err)
{
    return run_on(&verify_argp, 1, argc, argv, err);
}

static const struct cmd cmds[] = {
    { "info", "step, tokens, parameters and cut of checkpoints", run_info, 0 },
    { "verify", "read them whole and compare every checksum", run_verify, 0 },
};

static int run(int argc, char **argv, struct err *err)
{
    const struct cmd_group group = { "ckpt", "DIR...", cmds, ARRAY_LEN(cmds) };

    return cmd_run_group(&group, argc, argv, err);
}

extern const struct cmd cmd_ckpt;
const struct cmd cmd_ckpt = { "ckpt", "describe and check checkpoints", run, 0 };
