#include "launcher/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/compare.h"
#include "launcher/store.h"
#include "launcher/table.h"
#include "recipes/recipe.h"

enum { STEP_ROWS = 12 };

static int is_large(const char *key)
{
    return str_eq(key, "topology") || str_eq(key, "placement");
}

struct js *report_run(struct store *s, const char *id, struct err *err)
{
    struct js *run = store_run(s, id, err), *steps, *o, *v;
    const char *key;

    steps = run ? store_steps(s, id, err) : NULL;
    if (!steps) {
        js_free(run);
        return NULL;
    }
    o = js_object();
    for (size_t i = 0; js_pair(run, i, &key, &v); i++)
        if (!is_large(key))
            js_put(o, key, js_ref(v));
    js_put(o, "steps", steps);
    js_free(run);
    return o;
}

static void print_model(const struct js *run, FILE *fp)
{
    const char *text = js_str(run, "recipe", NULL);
    struct recipe r;
    int shard, replicate, accumulation;

    if (!text || recipe_parse(text, strlen(text), "store", &r, NULL) < 0)
        return;
    fprintf(fp, "  model    %s, %.2fM parameters, %.2fM active; sequence %d\n",
            *r.preset ? r.preset : "own shape",
            (double)model_params_total(&r.model) / 1e6,
            (double)model_params_active(&r.model) / 1e6, r.training.seq_len);
    if (recipe_layout(&r, (int)js_get_int(run, "world", 1), &shard, &replicate,
                      &accumulation, NULL) < 0) {
        shard = r.parallelism.data_parallel_shard_degree;
        replicate = r.parallelism.data_parallel_replicate_degree;
    }
    fprintf(
        fp,
        "  layout   shard %d, replicate %d, checkpointing %s, local batch %d, global "
        "batch %lld\n",
        shard, replicate, ac_mode_name(r.activation_checkpoint.mode),
        r.training.local_batch_size, (long long)r.training.global_batch_size);
    recipe_release(&r);
}

static void print_measure(const struct js *o, const char *key, const char *label,
                          int digits, const char *unit, FILE *fp)
{
    double v = js_get_real(o, key, NAN);

    if (!isnan(v))
        fprintf(fp, "  %-8s %.*f %s\n", label, digits, v, unit);
}

static void print_result(const struct js *result, FILE *fp)
{
    static const struct {
        const char *key, *label;
        int digits;
        const char *unit;
    } rows[] = {
        { "tokens_per_s_per_gpu", "speed", 1, "tokens/s/GPU" },
        { "mfu_reference", "MFU", 2, "% (reference)" },
        { "mfu_causal", "MFU", 2, "% (causal)" },
        { "memory_percent", "memory", 1, "% of the device" },
        { "step_s", "step", 4, "s" },
        { "validation_loss", "validated", 4, "loss" },
    };
    double first = js_get_real(result, "loss_first", NAN);

    if (!isnan(first))
        fprintf(fp, "  loss     %.4f -> %.4f in %lld steps\n", first,
                js_get_real(result, "loss_last", NAN),
                (long long)js_get_int(result, "steps", 0));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        print_measure(result, rows[i].key, rows[i].label, rows[i].digits, rows[i].unit,
                      fp);
}

/* Where the ranks ran, by what was read back from them. */
static void print_binding(const struct js *o, FILE *fp)
{
    static const struct {
        const char *key, *text;
    } rows[] = {
        { "bound", "on the CPUs where they were placed" },
        { "by_slurm", "bound by Slurm" },
        { "unbound", "unbound" },
        { "elsewhere", "on other CPUs than where they were placed" },
    };
    const char *before = "  binding  ";

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        long long n = (long long)js_get_int(o, rows[i].key, 0);
        if (n < 1)
            continue;
        fprintf(fp, "%s%lld %s", before, n, rows[i].text);
        before = ", ";
    }
    if (*before == ',')
        fputc('\n', fp);
}

static void add_metric(struct table *t, const struct js *m, const char *key, int digits)
{
    double v = js_get_real(m, key, NAN);

    if (isnan(v))
        table_add(t, "-");
    else
        table_add(t, "%.*f", digits, v);
}

/* The first, the last, and some between. */
static void print_steps(const struct js *steps, FILE *fp)
{
    size_t n = js_len(steps), rows = n < STEP_ROWS ? n : STEP_ROWS;
    struct table t = { 0 };

    if (!n)
        return;
    table_add(&t, "  step");
    table_add(&t, "loss");
    table_add(&t, "gradient norm");
    table_add(&t, "rate");
    table_add(&t, "tokens/s/GPU");
    table_end_row(&t);
    for (size_t i = 0; i < rows; i++) {
        const struct js *s = js_at(steps, rows > 1 ? i * (n - 1) / (rows - 1) : 0);
        const struct js *m = js_get(s, "metrics");
        table_add(&t, "%lld", (long long)js_get_int(s, "step", 0));
        add_metric(&t, m, "loss", 5);
        add_metric(&t, m, "grad_norm", 4);
        add_metric(&t, m, "lr", 6);
        add_metric(&t, m, "tokens_per_s_per_gpu", 0);
        table_end_row(&t);
    }
    table_print(&t, fp);
    table_release(&t);
}

void report_run_print(const struct js *run, FILE *fp)
{
    const char *reason = js_str(run, "reason", NULL);

    const char *sim = js_get_bool(run, "simulated", 0)
                          ? "; simulated: no figure here was measured"
                          : "";

    fprintf(fp, "run %s: %s, %lld rank%s%s%s%s\n", js_str(run, "id", "?"),
            js_str(run, "state", "?"), (long long)js_get_int(run, "world", 0),
            str_s(js_get_int(run, "world", 0)), sim, reason ? "; " : "",
            reason ? reason : "");
    print_model(run, fp);
    print_result(js_get(run, "result"), fp);
    print_binding(js_get(js_get(run, "result"), "binding"), fp);
    print_steps(js_get(run, "steps"), fp);
    fprintf(fp, "  folder   %s\n", js_str(run, "dir", "?"));
}

static double speed_of(const struct js *run)
{
    return js_get_real(js_get(run, "result"), "tokens_per_s_per_gpu", NAN);
}

static struct js *compare_one(const struct js *first, const struct js *run,
                              struct err *err)
{
    struct strlist why = { 0 };
    struct js *o, *reasons;
    enum comparison c;

    if (compare_runs(first, run, &c, &why, err) < 0)
        return NULL;
    o = js_object();
    reasons = js_array();
    for (int i = 0; i < why.n; i++)
        js_push(reasons, js_string(why.item[i]));
    js_put_str(o, "run", js_str(run, "id", "?"));
    js_put_str(o, "with", js_str(first, "id", "?"));
    js_put_str(o, "comparison", comparison_name(c));
    js_put_real(o, "efficiency",
                c == COMPARE_NO ? NAN : speed_of(run) / speed_of(first));
    js_put(o, "reasons", reasons);
    strlist_release(&why);
    return o;
}

struct js *report_compare(const struct js *runs, struct err *err)
{
    struct js *list = js_array();

    for (size_t i = 1; i < js_len(runs); i++) {
        struct js *o = compare_one(js_at(runs, 0), js_at(runs, i), err);
        if (!o) {
            js_free(list);
            return NULL;
        }
        js_push(list, o);
    }
    return list;
}

void report_compare_print(const struct js *comparison, FILE *fp)
{
    for (size_t i = 0; i < js_len(comparison); i++) {
        const struct js *o = js_at(comparison, i), *why = js_get(o, "reasons");
        double e = js_get_real(o, "efficiency", NAN);
        fprintf(fp, "%s against %s: %s", js_str(o, "run", "?"), js_str(o, "with", "?"),
                js_str(o, "comparison", "?"));
        if (!isnan(e))
            fprintf(fp, ", %.1f %% of its tokens/s/GPU", 100 * e);
        for (size_t k = 0; k < js_len(why); k++)
            fprintf(fp, "%s %s", k ? "," : ":", js_as_str(js_at(why, k), ""));
        fputc('\n', fp);
    }
}
