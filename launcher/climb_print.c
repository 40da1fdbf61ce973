#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/js.h"
#include "base/mem.h"
#include "launcher/climb.h"
#include "launcher/table.h"

/* A number, or "-" where there is none. */
static void add_number(struct table *t, const struct js *o, const char *key, int digits,
                       double scale)
{
    double v = js_get_real(o, key, NAN);

    if (isnan(v))
        table_add(t, "-");
    else
        table_add(t, "%.*f", digits, v * scale);
}

static void add_setting(struct table *t, const struct js *v)
{
    if (js_is_int(v))
        table_add(t, "%lld", (long long)js_as_int(v, 0));
    else
        table_add(t, "%s", js_as_str(v, "-"));
}

static const char *last_word(const char *key)
{
    const char *dot = strrchr(key, '.');

    return dot ? dot + 1 : key;
}

static void trial_head(struct table *t, const struct js *settings)
{
    const char *key;
    struct js *v;

    for (size_t i = 0; js_pair(settings, i, &key, &v); i++)
        table_add(t, "%s", last_word(key));
    table_add(t, "tokens/s/GPU");
    table_add(t, "memory %%");
    table_add(t, "state");
    table_end_row(t);
}

static void trial_row(struct table *t, const struct js *trial)
{
    const char *reason = js_str(trial, "reason", NULL), *key;
    const char *state = js_str(trial, "state", "");
    int64_t attempts = js_get_int(trial, "attempts", 0);
    struct js *v;

    for (size_t i = 0; js_pair(js_get(trial, "settings"), i, &key, &v); i++)
        add_setting(t, v);
    add_number(t, trial, "tokens_per_s_per_gpu", 0, 1);
    add_number(t, trial, "memory_percent", 1, 1);
    if (reason)
        table_add(t, "%s: %s", state, reason);
    else if (attempts > 1)
        table_add(t, "%s, median of %lld", state, (long long)attempts);
    else
        table_add(t, "%s", state);
    table_end_row(t);
}

static void print_trials(const struct js *climb, FILE *fp)
{
    const struct js *trials = js_get(climb, "trials");
    struct table t = { 0 };

    if (js_len(trials) == 0)
        return;
    fprintf(fp, "\nsweep at %lld rank%s (%lld steps after %lld of warm-up)\n",
            (long long)js_get_int(js_at(js_get(climb, "rungs"), 0), "gpus", 0),
            str_s(js_get_int(js_at(js_get(climb, "rungs"), 0), "gpus", 0)),
            (long long)js_get_int(climb, "trial_steps", 0),
            (long long)js_get_int(climb, "trial_warmup", 0));
    trial_head(&t, js_get(js_at(trials, 0), "settings"));
    for (size_t i = 0; i < js_len(trials); i++)
        trial_row(&t, js_at(trials, i));
    table_print(&t, fp);
    table_release(&t);
}

static void rung_row(struct table *t, const struct js *rung, double perfect)
{
    const char *reason = js_str(rung, "reason", NULL);

    table_add(t, "%lld", (long long)js_get_int(rung, "gpus", 0));
    add_number(t, rung, "global_batch_size", 0, 1);
    add_number(t, rung, "tokens_per_s_per_gpu", 0, 1);
    add_number(t, rung, "predicted_tokens_per_s_per_gpu", 0, 1);
    add_number(t, rung, "tokens_per_s", 0, 1);
    if (isnan(perfect))
        table_add(t, "-");
    else
        table_add(t, "%.0f", perfect * (double)js_get_int(rung, "gpus", 0));
    add_number(t, rung, "efficiency", 1, 100);
    add_number(t, rung, "mfu_reference", 1, 1);
    add_number(t, rung, "mfu_causal", 1, 1);
    add_number(t, rung, "memory_percent", 1, 1);
    table_add(t, "%s%s%s", js_str(rung, "state", ""), reason ? ": " : "",
              reason ? reason : "");
    table_end_row(t);
}

static void print_ladder(const struct js *climb, FILE *fp)
{
    static const char *const head[] = {
        "GPUs",         "batch",    "tokens/s/GPU", "predicted",
        "tokens/s",     "perfect",  "of perfect %", "MFU reference %",
        "MFU causal %", "memory %", "state",
    };
    const struct js *rungs = js_get(climb, "rungs");
    double perfect = js_get_real(js_at(rungs, 0), "tokens_per_s_per_gpu", NAN);
    struct table t = { 0 };

    fprintf(fp, "\nladder (%s scaling: %s)\n", js_str(climb, "scaling", "?"),
            str_eq(js_str(climb, "scaling", ""), "strong")
                ? "the same global batch at every rung"
                : "the global batch grows with the ranks");
    for (size_t i = 0; i < ARRAY_LEN(head); i++)
        table_add(&t, "%s", head[i]);
    table_end_row(&t);
    for (size_t i = 0; i < js_len(rungs); i++)
        rung_row(&t, js_at(rungs, i), perfect);
    table_print(&t, fp);
    table_release(&t);
    fputs("predicted: the first rung from first principles, the others from what the "
          "first measured\n",
          fp);
}

static void print_winner(const struct js *winner, FILE *fp)
{
    const char *key;
    struct js *v;

    fputs("\nwinner:", fp);
    for (size_t i = 0; js_pair(winner, i, &key, &v); i++)
        if (js_is_int(v))
            fprintf(fp, "  %s=%lld", key, (long long)js_as_int(v, 0));
        else
            fprintf(fp, "  %s=%s", key, js_as_str(v, ""));
    fputs(js_len(winner) ? "\n" : "  the recipe as it is\n", fp);
}

void climb_print(const struct js *climb, FILE *fp)
{
    const struct js *winner = js_get(climb, "winner");

    fprintf(fp, "climb %s: %s%s\n", js_str(climb, "climb", "?"),
            js_str(climb, "state", "?"),
            js_get_bool(climb, "simulated", 0)
                ? "; simulated: no figure here was measured"
                : "");
    print_trials(climb, fp);
    if (!js_is_object(winner))
        return;
    print_winner(winner, fp);
    print_ladder(climb, fp);
}
