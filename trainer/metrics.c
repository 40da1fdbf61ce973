#include "trainer/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "recipes/recipe.h"

void metrics_speed(struct step_metrics *m, const struct recipe *r, int world,
                   double peak_flops)
{
    const struct model *model = &r->model;
    int S = r->training.seq_len;
    double tokens = (double)r->training.global_batch_size * S;

    m->tokens_per_s_per_gpu = tokens / (m->step_s * world);
    m->mfu_reference = model_mfu(model_flops_per_token(model, S, FLOPS_REFERENCE),
                                 m->tokens_per_s_per_gpu, peak_flops);
    m->mfu_causal = model_mfu(model_flops_per_token(model, S, FLOPS_CAUSAL),
                              m->tokens_per_s_per_gpu, peak_flops);
    if (!(peak_flops > 0))
        m->mfu_reference = m->mfu_causal = NAN;
}

char *metrics_line(const struct step_metrics *m)
{
    struct str s = STR_INIT;

    str_addf(&s, "step %lld  loss %.5f  grad_norm %.4f  lr %.3e  tokens/s/GPU %.0f  ",
             (long long)m->step, m->loss, m->grad_norm, m->lr, m->tokens_per_s_per_gpu);
    if (isnan(m->mfu_reference))
        str_adds(&s, "MFU none");
    else
        str_addf(&s, "MFU %.2f %% (reference) %.2f %% (causal)", m->mfu_reference,
                 m->mfu_causal);
    str_addf(&s, "  memory %.1f %%  load %.2f", m->memory_percent, m->load_max_mean);
    if (m->routing && !str_eq(m->routing, "natural"))
        str_addf(&s, " (%s routing)", m->routing);
    if (m->profiled)
        str_adds(&s, "  profiled");
    if (!isnan(m->validation_loss))
        str_addf(&s, "  validation loss %.5f", m->validation_loss);
    return str_take(&s);
}

struct js *metrics_json(const struct step_metrics *m)
{
    const struct {
        const char *key;
        double value;
    } reals[] = {
        { "loss", m->loss },
        { "grad_norm", m->grad_norm },
        { "lr", m->lr },
        { "step_s", m->step_s },
        { "tokens_per_s_per_gpu", m->tokens_per_s_per_gpu },
        { "mfu_reference", m->mfu_reference },
        { "mfu_causal", m->mfu_causal },
        { "memory_percent", m->memory_percent },
        { "load_max_mean", m->load_max_mean },
    };
    struct js *o = js_object();

    js_put_int(o, "step", m->step);
    for (size_t i = 0; i < ARRAY_LEN(reals); i++)
        js_put_real(o, reals[i].key, reals[i].value);
    if (m->routing)
        js_put_str(o, "routing", m->routing);
    if (m->profiled)
        js_put_bool(o, "profiled", 1);
    if (!isnan(m->validation_loss))
        js_put_real(o, "validation_loss", m->validation_loss);
    return o;
}

void run_summary_add(struct run_summary *s, const struct step_metrics *m)
{
    if (s->steps == 0) {
        s->loss_first = m->loss;
        s->validation_loss = NAN;
    }
    if (!isnan(m->validation_loss))
        s->validation_loss = m->validation_loss;
    s->loss_last = m->loss;
    s->steps++;
    if (m->profiled)
        return;
    s->step_s = xrealloc(s->step_s, (size_t)s->timed + 1, sizeof(*s->step_s));
    s->step_s[s->timed++] = m->step_s;
}

void run_summary_release(struct run_summary *s)
{
    free(s->step_s);
    *s = (struct run_summary){ 0 };
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double run_summary_step_s(const struct run_summary *s, int64_t warmup)
{
    int64_t skip = s->timed > warmup ? warmup : s->timed / 2, n = s->timed - skip;
    double *sorted, median;

    if (s->timed == 0)
        return NAN;
    sorted = xcalloc((size_t)n, sizeof(*sorted));
    memcpy(sorted, s->step_s + skip, (size_t)n * sizeof(*sorted));
    qsort(sorted, (size_t)n, sizeof(*sorted), by_value);
    median = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
    free(sorted);
    return median;
}

int64_t metrics_peak_resident(void)
{
    FILE *fp = fopen("/proc/self/status", "re");
    char line[256];
    int64_t kib = 0;

    while (fp && fgets(line, sizeof(line), fp))
        if (strncmp(line, "VmHWM:", 6) == 0)
            kib = strtoll(line + 6, NULL, 10);
    if (fp)
        fclose(fp);
    return kib * 1024;
}
