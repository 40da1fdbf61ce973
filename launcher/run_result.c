#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/run_state.h"

void run_result_init(struct run_result *r, const char *id, const char *dir, int world)
{
    *r = (struct run_result){ .culprit = -1, .world = world, .steps = -1 };
    snprintf(r->id, sizeof(r->id), "%s", id);
    r->dir = xstrdup(dir);
    r->rank_status = xcalloc((size_t)world, sizeof(*r->rank_status));
    r->blamed = xcalloc((size_t)world, 1);
    for (int i = 0; i < world; i++)
        r->rank_status[i] = -1;
    r->loss_first = r->loss_last = r->validation_loss = NAN;
    r->tokens_per_s_per_gpu = r->step_s = NAN;
    r->mfu_reference = r->mfu_causal = r->memory_percent = NAN;
}

void run_result_release(struct run_result *r)
{
    free(r->dir);
    free(r->reason);
    free(r->rank_status);
    free(r->blamed);
    free(r->go_on);
    js_free(r->summary);
    js_free(r->attempts);
    *r = (struct run_result){ 0 };
}

/* Steps of a run that was cut short speak for themselves; the summary, when it
 * comes, knows better (medians). */
static void take_numbers(struct run_result *r, const struct js *e)
{
    const struct {
        const char *key;
        double *to;
    } numbers[] = {
        { "loss_first", &r->loss_first },
        { "loss_last", &r->loss_last },
        { "validation_loss", &r->validation_loss },
        { "tokens_per_s_per_gpu", &r->tokens_per_s_per_gpu },
        { "mfu_reference", &r->mfu_reference },
        { "mfu_causal", &r->mfu_causal },
        { "memory_percent", &r->memory_percent },
        { "step_s", &r->step_s },
    };

    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        *numbers[i].to = js_get_real(e, numbers[i].key, *numbers[i].to);
}

void run_result_event(struct run_result *r, const struct js *e)
{
    const char *name = js_str(e, "event", "");
    int step = str_eq(name, "step");

    if (!step && !str_eq(name, "done") && !str_eq(name, "stopped"))
        return;
    take_numbers(r, e);
    r->simulated |= js_get_bool(e, "simulated", 0);
    r->steps = js_get_int(e, step ? "step" : "steps", r->steps);
    if (step) {
        r->loss_last = js_get_real(e, "loss", r->loss_last);
        if (isnan(r->loss_first))
            r->loss_first = r->loss_last;
        return;
    }
    js_free(r->summary);
    r->summary = js_ref((struct js *)e);
}

/* Of the first "step" event of rank 0 in a file of events: a run that went on began
 * before this attempt. */
static double loss_in(const char *path)
{
    FILE *fp = fopen(path, "re");
    double loss = NAN;
    char *line = NULL;
    size_t room = 0;
    ssize_t n;

    while (fp && isnan(loss) && (n = getline(&line, &room, fp)) > 0) {
        struct js *e = NULL;
        if (strstr(line, "\"step\"") &&
            js_parse(line, (size_t)n, "event", &e, NULL) == 0 &&
            str_eq(js_str(e, "event", ""), "step") && js_get_int(e, "rank", -1) == 0)
            loss = js_get_real(e, "loss", NAN);
        js_free(e);
    }
    if (fp)
        fclose(fp);
    free(line);
    return loss;
}

void run_result_whole(struct run_result *r)
{
    char *path = xasprintf("%s/events.jsonl", r->dir);
    double loss = loss_in(path);

    if (!isnan(loss))
        r->loss_first = loss;
    free(path);
}

static struct js *statuses(const struct run_result *r)
{
    struct js *a = js_array();

    for (int i = 0; i < r->world; i++)
        js_push(a, r->rank_status[i] < 0 ? js_string(NULL) : js_int(r->rank_status[i]));
    return a;
}

static struct js *tasks_json(const struct run_tasks *t)
{
    struct js *o = js_object();

    js_put_int(o, "reported", t->reported);
    js_put_int(o, "bound", t->bound);
    js_put_int(o, "by_slurm", t->by_slurm);
    js_put_int(o, "unbound", t->unbound);
    js_put_int(o, "elsewhere", t->elsewhere);
    return o;
}

struct js *run_result_json(const struct run_result *r)
{
    struct js *o = js_document("launch");

    js_put_str(o, "run", r->id);
    js_put_str(o, "dir", r->dir);
    js_put_int(o, "status", r->status);
    js_put_str(o, "cause", r->cause);
    js_put_str(o, "reason", r->reason);
    if (r->go_on)
        js_put_str(o, "go_on", r->go_on);
    if (r->requeued)
        js_put_bool(o, "requeued", 1);
    js_put(o, "culprit", r->culprit < 0 ? js_string(NULL) : js_int(r->culprit));
    js_put(o, "rank_status", statuses(r));
    js_put_int(o, "world", r->world);
    js_put(o, "binding", tasks_json(&r->tasks));
    if (r->simulated)
        js_put_bool(o, "simulated", 1);
    js_put(o, "steps", r->steps < 0 ? js_string(NULL) : js_int(r->steps));
    js_put_real(o, "loss_first", r->loss_first);
    js_put_real(o, "loss_last", r->loss_last);
    js_put_real(o, "validation_loss", r->validation_loss);
    js_put_real(o, "tokens_per_s_per_gpu", r->tokens_per_s_per_gpu);
    js_put_real(o, "mfu_reference", r->mfu_reference);
    js_put_real(o, "mfu_causal", r->mfu_causal);
    js_put_real(o, "memory_percent", r->memory_percent);
    js_put_real(o, "step_s", r->step_s);
    if (r->attempts)
        js_put(o, "attempts", js_ref(r->attempts));
    if (r->summary)
        js_put(o, "summary", js_ref(r->summary));
    return o;
}
