#include "launcher/launch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/js.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/launch_args.h"
#include "launcher/launch_batch.h"
#include "launcher/run_command.h"
#include "launcher/secret.h"
#include "launcher/spares.h"

int launch_dry_run(const struct run_request *q, int json, struct err *err)
{
    struct str spares = STR_INIT;
    struct js *plan;
    char *text;

    if (json) {
        plan = run_plan_json(q, NULL, err);
        if (!plan)
            return -1;
        js_print(plan, stdout);
        js_free(plan);
        return 0;
    }
    text = run_dry(q, err);
    if (!text)
        return -1;
    spares_add_names(q->topology, &spares);
    if (spares.len)
        printf("# held back as spares: %s\n", spares.text);
    fputs(text, stdout);
    free(text);
    str_release(&spares);
    return 0;
}

static void add_numbers(struct str *s, const struct run_result *r)
{
    if (r->steps >= 0)
        str_addf(s, "; %lld step%s", (long long)r->steps, str_s(r->steps));
    if (!isnan(r->loss_first))
        str_addf(s, "; loss %.4f to %.4f", r->loss_first, r->loss_last);
    if (!isnan(r->tokens_per_s_per_gpu))
        str_addf(s, "; %.0f tokens/s/GPU", r->tokens_per_s_per_gpu);
    if (!isnan(r->mfu_reference))
        str_addf(s, "; MFU %.1f %% (reference) %.1f %% (causal)", r->mfu_reference,
                 r->mfu_causal);
    if (!isnan(r->memory_percent))
        str_addf(s, "; memory %.1f %%", r->memory_percent);
}

/* The same launch again from a checkpoint, as its user would type it. */
static char *resume_command(const struct launch *l, const char *from)
{
    struct strlist argv = { 0 };
    struct str s = STR_INIT;
    int n = 1;

    strlist_add(&argv, "muster");
    for (; l->argv[n] && !str_eq(l->argv[n], "--"); n++) {
        if (str_eq(l->argv[n], "--resume") || str_eq(l->argv[n], "--batch"))
            n += l->argv[n + 1] != NULL;
        else if (strncmp(l->argv[n], "--resume=", 9) != 0)
            strlist_add(&argv, l->argv[n]);
    }
    strlist_add(&argv, "--resume");
    strlist_add(&argv, from);
    for (; l->argv[n]; n++)
        strlist_add(&argv, l->argv[n]);
    argv.item = xrealloc(argv.item, (size_t)argv.n + 1, sizeof(*argv.item));
    argv.item[argv.n] = NULL;
    secret_add_command(&s, argv.item);
    strlist_release(&argv);
    return str_take(&s);
}

static const char *what_became(const struct run_result *r)
{
    return str_eq(r->cause, "stopped") || str_eq(r->cause, "limit") ? "was stopped"
                                                                    : "failed";
}

void launch_show_result(const struct launch *l, const struct run_result *r)
{
    struct str s = STR_INIT;
    int json = l->a->json;
    char *again;
    struct js *o;

    if (r->requeued) /* it was said in time */
        return;
    if (r->reason)
        str_addf(&s, "run %s %s: %s", r->id, what_became(r), r->reason);
    else
        str_addf(&s, "run %s is done, %d rank%s", r->id, r->world,
                 r->world == 1 ? "" : "s");
    if (r->simulated)
        str_adds(&s, "; simulated");
    add_numbers(&s, r);
    str_addf(&s, "; %s", r->dir);
    log_info("%s", s.text);
    str_release(&s);
    again = r->go_on ? resume_command(l, r->go_on) : NULL;
    if (json) {
        o = run_result_json(r);
        if (again)
            js_put_str(o, "resume_command", again);
        js_print(o, stdout);
        js_free(o);
    } else if (again) {
        log_info("it goes on with:");
        puts(again);
    }
    free(again);
}

static void show_no_run(const struct launch *l, int status, const char *cause,
                        const char *reason)
{
    struct js *o;

    if ((!l->a->json || l->report >= 0) && !l->part.dir)
        return;
    o = js_document("launch");
    js_put_str(o, "run", NULL);
    js_put_int(o, "status", status);
    js_put_str(o, "cause", cause);
    js_put_str(o, "reason", reason);
    js_put(o, "rank_status", js_array());
    if (l->part.dir)
        launch_batch_refused(l->part.dir, o);
    else
        js_print(o, stdout);
    js_free(o);
}

int launch_refuse(const struct launch *l, const struct err *err)
{
    show_no_run(l, (int)err->code, "refused", err_text(err));
    return -1;
}

int launch_stopped(const struct launch *l, int signo, struct err *err)
{
    show_no_run(l, 128 + signo, "stopped", err_text(err));
    log_info("%s", err_text(err));
    err_release(err);
    return 128 + signo;
}
