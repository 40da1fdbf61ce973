/* muster data - make, describe and check token shards. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/cmd.h"
#include "trainer/data.h"
#include "trainer/data_pack.h"
#include "trainer/shard.h"

enum { OPT_IDS = 256, OPT_TOKEN_BYTES, OPT_VOCAB, OPT_EOD, OPT_JSON };

struct args {
    struct pack pack;
    const char *out;
    int json;
    struct strlist files;
};

static int parse_number(const char *text, int64_t *out, struct argp_state *state,
                        const char *option)
{
    char *end;
    long long v = strtoll(text, &end, 10);

    if (end == text || *end || v < 0) {
        argp_error(state, "--%s: '%s' is not a whole number >= 0", option, text);
        return EINVAL;
    }
    *out = v;
    return 0;
}

static error_t parse_opt(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    int64_t v;

    switch (key) {
    case OPT_IDS:
        a->pack.ids = 1;
        return 0;
    case OPT_TOKEN_BYTES:
        if (parse_number(arg, &v, state, "token-bytes") != 0)
            return EINVAL;
        a->pack.token_bytes = v == 2 || v == 4 ? (int)v : -1;
        return 0;
    case OPT_VOCAB:
        return parse_number(arg, &a->pack.vocab, state, "vocab");
    case OPT_EOD:
        return parse_number(arg, &a->pack.eod, state, "eod");
    case OPT_JSON:
        a->json = 1;
        return 0;
    case 'o':
        a->out = arg;
        return 0;
    case ARGP_KEY_ARG:
        strlist_add(&a->files, arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

#define JSON_OPTION                                                           \
    {                                                                         \
        "json", OPT_JSON, NULL, 0, "print one JSON object instead of text", 0 \
    }

static const struct argp_option pack_options[] = {
    { "output", 'o', "OUT", 0, "the shard to write (llm.c .bin)", 0 },
    { "ids", OPT_IDS, NULL, 0,
      "the files hold token ids (decimal numbers), not text; the default is text, one "
      "token a byte, vocabulary 257, 256 = end of document after each file",
      0 },
    { "token-bytes", OPT_TOKEN_BYTES, "2|4", 0,
      "uint16 or uint32 tokens (default: 2, or 4 for --vocab over 65536)", 0 },
    { "vocab", OPT_VOCAB, "N", 0, "with --ids: refuse ids of N and over", 0 },
    { "eod", OPT_EOD, "ID", 0, "with --ids: write this id after each file", 0 },
    JSON_OPTION,
    { 0 },
};
static const struct argp pack_argp = {
    pack_options,
    parse_opt,
    "FILE...",
    "Make one token shard from text files, or from token ids with --ids.  '-' is "
    "standard input.",
    NULL,
    NULL,
    NULL,
};

static const struct argp_option info_options[] = { JSON_OPTION, { 0 } };
static const struct argp info_argp = {
    info_options,
    parse_opt,
    "FILE...",
    "Describe token shards: llm.c .bin and Megatron .idx/.bin; a folder means the "
    "shards in it.",
    NULL,
    NULL,
    NULL,
};

static const struct argp_option verify_options[] = {
    { "vocab", OPT_VOCAB, "N", 0, "every token must be below N", 0 },
    JSON_OPTION,
    { 0 },
};
static const struct argp verify_argp = {
    verify_options, parse_opt,
    "FILE...",      "Read token shards whole and check them; all files are visited.",
    NULL,           NULL,
    NULL,
};

/* --- pack --------------------------------------------------------------------- */

static void print_packed(const struct args *a, int64_t tokens)
{
    struct js *o;

    if (!a->json) {
        printf("%s: %" PRId64 " tokens from %d file%s\n", a->out, tokens, a->files.n,
               a->files.n == 1 ? "" : "s");
        return;
    }
    o = js_document("data-pack");
    js_put_str(o, "path", a->out);
    js_put_int(o, "tokens", tokens);
    js_put_int(o, "files", a->files.n);
    js_print(o, stdout);
    js_free(o);
}

static int pack(struct args *a, struct err *err)
{
    int64_t tokens;

    if (!a->out)
        return err_set(err, ERR_USAGE, "muster data pack: -o OUT is missing");
    if (!a->pack.ids && (a->pack.vocab > 0 || a->pack.eod >= 0))
        return err_set(
            err, ERR_USAGE,
            "muster data pack: --vocab and --eod go with --ids; text has the "
            "vocabulary %d and ends with %d",
            PACK_BYTE_VOCAB, PACK_BYTE_EOD);
    if (a->pack.token_bytes < 0)
        return err_set(err, ERR_USAGE, "muster data pack: --token-bytes is 2 or 4");
    if (data_pack(&a->pack, (const char *const *)a->files.item, a->files.n, a->out,
                  &tokens, err) != 0)
        return -1;
    print_packed(a, tokens);
    return 0;
}

/* --- info and verify -------------------------------------------------------------- */

static struct js *file_json(const char *path, const struct shard_info *info)
{
    struct js *o = js_object();

    js_put_str(o, "path", path);
    js_put_bool(o, "ok", info != NULL);
    if (!info)
        return o;
    js_put_str(o, "format", info->format);
    js_put_str(o, "token_type", info->token_type);
    js_put_int(o, "tokens", info->tokens);
    js_put(o, "documents",
           info->documents < 0 ? js_string(NULL) : js_int(info->documents));
    js_put_int(o, "bytes", info->bytes);
    return o;
}

struct report {
    const struct args *args;
    int verify;
    struct js *files;
    int64_t tokens;
    int bad;
    struct err *err;
};

static void report_bad(struct report *r, const char *path, struct err *why)
{
    struct js *o = file_json(path, NULL);

    js_put_str(o, "error", err_text(why));
    js_push(r->files, o);
    r->bad++;
    err_more(r->err, why->code, "%s", err_text(why));
    err_release(why);
}

static void report_good(struct report *r, const char *path,
                        const struct shard_info *info, int32_t highest)
{
    struct js *o = file_json(path, info);

    if (r->verify)
        js_put_int(o, "highest", highest);
    js_push(r->files, o);
    r->tokens += info->tokens;
    if (r->args->json)
        return;
    printf("%-8s %-6s %14" PRId64 " ", info->format, info->token_type, info->tokens);
    if (r->verify)
        printf("%10" PRId32, highest);
    else if (info->documents >= 0)
        printf("%10" PRId64, info->documents);
    else
        printf("%10s", "-");
    printf("  %s\n", path);
}

static void visit_file(struct report *r, const char *path)
{
    struct err why = ERR_INIT;
    struct shard *s = NULL;
    int32_t highest = 0;

    if (shard_open(path, &s, &why) != 0 ||
        (r->verify && shard_verify(s, r->args->pack.vocab, &highest, &why) != 0))
        report_bad(r, path, &why);
    else
        report_good(r, path, shard_info(s), highest);
    shard_close(s);
}

static int finish_report(const struct report *r, int files)
{
    struct js *o;

    if (r->args->json) {
        o = js_document(r->verify ? "data-verify" : "data-info");
        js_put(o, "files", js_ref(r->files));
        js_put_int(o, "tokens", r->tokens);
        js_put_int(o, "bad", r->bad);
        js_print(o, stdout);
        js_free(o);
    } else if (files > 1) {
        printf("%d files, %d bad, %" PRId64 " tokens\n", files, r->bad, r->tokens);
    }
    return r->bad > 0 ? -1 : 0;
}

static int visit_files(const struct args *a, int verify, struct err *err)
{
    struct report r = { .args = a, .verify = verify, .files = js_array(), .err = err };
    int visited = 0, rc;

    if (!a->json)
        printf("%-8s %-6s %14s %10s  %s\n", "format", "type", "tokens",
               verify ? "highest id" : "documents", "file");
    for (int i = 0; i < a->files.n; i++) {
        struct strlist shards = { 0 };
        struct err why = ERR_INIT;
        if (data_files(a->files.item[i], &shards, &why) != 0) {
            report_bad(&r, a->files.item[i], &why);
            visited++;
        }
        for (int j = 0; j < shards.n; j++, visited++)
            visit_file(&r, shards.item[j]);
        strlist_release(&shards);
    }
    rc = finish_report(&r, visited);
    js_free(r.files);
    return rc;
}

static int info(struct args *a, struct err *err)
{
    return visit_files(a, 0, err);
}

static int verify(struct args *a, struct err *err)
{
    return visit_files(a, 1, err);
}

/* --- the command -------------------------------------------------------------------- */

static int run_on(const struct argp *argp, int (*todo)(struct args *a, struct err *err),
                  int argc, char **argv, struct err *err)
{
    struct args a = { .pack = { .eod = -1 } };
    int rc = cmd_parse(argp, argc, argv, &a, err);

    if (rc == 0 && a.files.n == 0)
        rc = err_set(err, ERR_USAGE, "%s: no file is named", argv[0]);
    if (rc == 0)
        rc = todo(&a, err);
    else if (rc == 1)
        rc = 0; /* --help */
    strlist_release(&a.files);
    return rc;
}

static int run_pack(int argc, char **argv, struct err *err)
{
    return run_on(&pack_argp, pack, argc, argv, err);
}

static int run_info(int argc, char **argv, struct err *err)
{
    return run_on(&info_argp, info, argc, argv, err);
}

static int run_verify(int argc, char **argv, struct err *err)
{
    return run_on(&verify_argp, verify, argc, argv, err);
}

static const struct cmd cmds[] = {
    { "pack", "text files or token ids -> one shard", run_pack, 0 },
    { "info", "format, tokens and documents of shards", run_info, 0 },
    { "verify", "read shards whole and check every token", run_verify, 0 },
};

static int run(int argc, char **argv, struct err *err)
{
    const struct cmd_group group = { "data", "FILE...", cmds, ARRAY_LEN(cmds) };

    return cmd_run_group(&group, argc, argv, err);
}

extern const struct cmd cmd_data;
const struct cmd cmd_data = { "data", "make, describe and check token shards", run, 0 };
