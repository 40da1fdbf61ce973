/* metrics.h - what a run says about itself: a line every few steps, an event every
 * step, a summary at the end.
 *
 * tokens/s/GPU: positions of the global batch / (step time x ranks), padding
 * and uncounted targets included (case G02: total / ranks, not / data-parallel
 * groups).  MFU: of the dense BF16 peak, in the conventions `reference` and
 * `causal` of model.h; a CPU has no such peak, so there it is null.
 * memory: what the device holds now / what it has; on a CPU the resident pages of
 * this process / its share of the machine. */
#ifndef TRAINER_METRICS_H
#define TRAINER_METRICS_H

#include <stdint.h>

struct js;
struct recipe;

struct step_metrics {
    int64_t step;
    double loss, grad_norm, lr, step_s;
    double tokens_per_s_per_gpu;
    double mfu_reference, mfu_causal; /* NaN: no peak */
    double memory_percent;
    double load_max_mean;   /* worst layer: rows of its busiest expert / mean */
    const char *routing;    /* who chose the experts; NULL: nobody */
    int profiled;           /* its time is not the trainer's own */
    double validation_loss; /* NaN: not measured at this step */
};

/* Speed and MFU from a step's time. */
void metrics_speed(struct step_metrics *m, const struct recipe *r, int world,
                   double peak_flops);
/* "step 10  loss 5.12345  ..."; the caller's to free(). */
char *metrics_line(const struct step_metrics *m);
struct js *metrics_json(const struct step_metrics *m);

/* All steps of a run. */
struct run_summary {
    int64_t steps; /* in this process */
    int64_t timed; /* of them, not profiled */
    double loss_first, loss_last, validation_loss;
    double *step_s; /* [timed], owned */
};

void run_summary_add(struct run_summary *s, const struct step_metrics *m);
void run_summary_release(struct run_summary *s);
/* Median step time without the first `warmup` steps (without the first half, when
 * there are not that many): one slow step does not count (case D13). */
double run_summary_step_s(const struct run_summary *s, int64_t warmup);

/* Largest resident size of this process so far, bytes; 0: not known. */
int64_t metrics_peak_resident(void);

#endif
