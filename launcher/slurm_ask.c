#include "launcher/slurm_ask.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/slurm_cmd.h"
#include "launcher/slurm_step.h"
#include "recipes/value.h"

enum { WORDS_MAX = 8 };

/* MUSTER_SLURM_TIMEOUT is for controllers that are slower than ours. */
static int deadline_of(int timeout_ms)
{
    const char *text = getenv("MUSTER_SLURM_TIMEOUT");
    int64_t s;

    if (timeout_ms != SLURM_ASK_MS || !text || value_duration(text, &s, NULL) < 0 ||
        s < 1 || s > 3600)
        return timeout_ms;
    return (int)s * 1000;
}

/* What is known of the library: it is asked for at every question, by another process,
 * until one says that it is not there. */
static int no_library;

/* argv of the helper: SELF agent slurm VERB ARG...; NULL is the end of args. */
static int ask_library(const char *const *args, int timeout_ms, struct str *text,
                       struct str *words, int *status, struct err *err)
{
    char *self = slurm_self(err), *argv[WORDS_MAX + 4];
    int n = 3, rc;

    if (!self)
        return -1;
    argv[0] = self;
    argv[1] = (char *)"agent";
    argv[2] = (char *)"slurm";
    while (n < WORDS_MAX + 3 && args[n - 3]) {
        argv[n] = (char *)args[n - 3];
        n++;
    }
    argv[n] = NULL;
    rc = slurm_cmd_run(argv, "libslurm", timeout_ms, text, words, status, err);
    free(self);
    return rc;
}

/* main()'s mark before a message of ours. */
static const char *unmarked(const char *words)
{
    return strncmp(words, "muster: ", 8) == 0 ? words + 8 : words;
}

/* 1: answered; 0: the commands must; -1. */
static int try_library(const char *const *args, int timeout_ms, struct str *text,
                       struct err *err)
{
    struct str answer = STR_INIT, words = STR_INIT;
    int status = 0, rc;

    if (no_library)
        return 0;
    timeout_ms = deadline_of(timeout_ms);
    rc = ask_library(args, timeout_ms, &answer, &words, &status, err);
    if (rc == 0 && status == 0) {
        str_add(text, answer.text, answer.len);
        rc = 1;
    } else if (rc == 0 && status == ERR_FAILED &&
               strncmp(words.text, "muster: ", 8) == 0) {
        rc = err_set(err, ERR_FAILED, "%s", unmarked(words.text));
    } else if (rc == 0 && status == ERR_TIMEOUT) {
        rc = err_set(err, ERR_TIMEOUT, "%s: is Slurm's controller up?",
                     unmarked(words.text));
    } else if (rc == 0) {
        no_library = 1; /* not there, or it ended its process */
    }
    str_release(&answer);
    str_release(&words);
    return rc;
}

/* scontrol puts refusals of a node that is not there on stdout. */
static int try_commands(char *const argv[], int timeout_ms, struct str *text,
                        struct err *err)
{
    struct str answer = STR_INIT, words = STR_INIT;
    int status = 0, rc = slurm_cmd_run(argv, argv[0], deadline_of(timeout_ms), &answer,
                                       &words, &status, err);

    if (rc == 0 && status == 0)
        str_add(text, answer.text, answer.len);
    else if (rc == 0)
        rc = err_set(err, ERR_FAILED, "%s: %s", argv[0],
                     words.len    ? words.text
                     : answer.len ? answer.text
                                  : "it failed and said nothing");
    str_release(&answer);
    str_release(&words);
    return rc;
}

/* ---- asked ahead ---- */

/* In the order in which the helper answers; each is given once. */
static struct {
    char *arg; /* owned; NULL none */
    struct str text;
    int is_there;
} ahead[SLURM_QUESTIONS];

static int take_ahead(enum slurm_question what, const char *arg, struct str *text)
{
    if (!ahead[what].is_there || !str_eq(arg ? arg : "", ahead[what].arg))
        return 0;
    str_add(text, ahead[what].text.text ? ahead[what].text.text : "",
            ahead[what].text.len);
    str_release(&ahead[what].text);
    free(ahead[what].arg);
    ahead[what].is_there = 0;
    return 1;
}

static void keep_ahead(enum slurm_question what, const char *arg, const char *bytes,
                       size_t n)
{
    struct str unwanted = STR_INIT;

    if (ahead[what].is_there)
        take_ahead(what, ahead[what].arg, &unwanted);
    str_release(&unwanted);
    ahead[what].arg = xstrdup(arg);
    str_add(&ahead[what].text, bytes, n);
    ahead[what].is_there = 1;
}

/* Each answer behind its length and a newline (slurm_helper.h). */
static void keep_all(const struct str *text, const char *const args[])
{
    static const enum slurm_question order[] = { SLURM_ASK_JOB, SLURM_ASK_NODES,
                                                 SLURM_ASK_TOPOLOGY };
    const char *at = text->text, *end = at + text->len;

    for (size_t i = 0; i < ARRAY_LEN(order) && at < end; i++) {
        char *rest;
        unsigned long n = strtoul(at, &rest, 10);
        if (*rest != '\n' || n > (unsigned long)(end - rest - 1))
            return;
        keep_ahead(order[i], args[i], rest + 1, n);
        at = rest + 1 + n;
    }
}

int slurm_ask_ahead(const char *job, const char *nodes, struct err *err)
{
    const char *args[] = { "place", job, nodes, NULL };
    const char *about[] = { job, nodes, "" };
    struct str text = STR_INIT;
    struct err why = ERR_INIT;
    int rc = try_library(args, SLURM_ASK_MS, &text, &why);

    if (rc > 0 && text.len)
        keep_all(&text, about);
    rc = rc < 0 && why.code == ERR_TIMEOUT
             ? err_set(err, ERR_TIMEOUT, "%s", err_text(&why))
             : 0;
    err_release(&why);
    str_release(&text);
    return rc;
}

/* ---- the questions ---- */

int slurm_ask(enum slurm_question what, const char *arg, int timeout_ms,
              struct str *text, struct err *err)
{
    static const struct {
        const char *verb, *entity;
        int detail;
    } ways[] = {
        [SLURM_ASK_JOB] = { "job", "job", 1 },
        [SLURM_ASK_NODES] = { "nodes", "node", 1 },
        [SLURM_ASK_TOPOLOGY] = { "topology", "topology", 0 },
        [SLURM_ASK_PARTITIONS] = { "partitions", "partition", 0 },
    };
    const char *args[] = { ways[what].verb, arg, NULL };
    char *argv[8] = { (char *)"scontrol", (char *)"show", (char *)ways[what].entity };
    int n = 3, rc;

    if (take_ahead(what, arg, text))
        return 0;
    rc = try_library(args, timeout_ms, text, err);
    if (rc != 0)
        return rc > 0 ? 0 : -1;
    if (arg)
        argv[n++] = (char *)arg;
    if (ways[what].detail)
        argv[n++] = (char *)"-d";
    return try_commands(argv, timeout_ms, text, err);
}

int slurm_cancel(const char *job, int signo, struct err *err)
{
    char number[16], option[32];
    const char *args[] = { "cancel", job, number, NULL };
    char *argv[4] = { (char *)"scancel" };
    struct str text = STR_INIT;
    int n = 1, rc;

    snprintf(number, sizeof(number), "%d", signo);
    snprintf(option, sizeof(option), "--signal=%d", signo);
    rc = try_library(args, SLURM_ASK_MS, &text, err);
    if (rc == 0) {
        if (signo)
            argv[n++] = option;
        argv[n++] = (char *)job;
        rc = try_commands(argv, SLURM_ASK_MS, &text, err);
    }
    str_release(&text);
    return rc < 0 ? -1 : 0;
}

int slurm_uses_library(char **why_not)
{
    const char *args[] = { "version", NULL };
    struct str text = STR_INIT, words = STR_INIT;
    int status = 0, yes;

    yes = ask_library(args, SLURM_ASK_MS, &text, &words, &status, NULL) == 0 &&
          status == 0;
    no_library = !yes;
    if (why_not && yes)
        *why_not = xstrndup(text.text, strcspn(text.text, "\n"));
    else if (why_not)
        *why_not = xstrdup(words.len ? unmarked(words.text) : "its helper failed");
    str_release(&text);
    str_release(&words);
    return yes;
}
