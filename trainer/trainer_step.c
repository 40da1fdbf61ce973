#include <math.h>

#include "base/clock.h"
#include "base/err.h"
#include "trainer/balance.h"
#include "trainer/fsdp.h"
#include "trainer/ops.h"
#include "trainer/trainer.h"
#include "trainer/wireup.h"

double trainer_memory_percent(const struct trainer *t)
{
    size_t used = 0, total = 0;

    t->ops->memory(t->dev, &used, &total);
    if (t->plan.device_bytes <= 0)
        return NAN;
    return 100.0 * (double)used / (double)t->plan.device_bytes;
}

/* The shard's elements of the embedding and the first layer, whose reductions are the
 * last to end. */
static int64_t first_units(const struct trainer *t)
{
    return units_shard_offset(&t->units, 2);
}

/* All micro-batches of step t->at.step, gradients summed and reduced. */
static int accumulate(struct trainer *t, int64_t *tokens, struct err *err)
{
    *tokens = 0;
    for (int a = 0; a < t->accumulation; a++) {
        struct batch b;
        int64_t counted;

        if (batch_feed_load(&t->feed, t->data, t->at.step, a, &b, &counted, err) ||
            model_step_train(&t->step, &b, a, a == t->accumulation - 1, err))
            return -1;
        *tokens += counted;
    }
    if (t->early_norm)
        meter_early(&t->meter, t->optim.grads + first_units(t),
                    t->units.shard_count - first_units(t));
    return fsdp_finish(t->fsdp, err);
}

static int check_finite(const struct trainer *t, const struct step_totals *sum,
                        struct err *err)
{
    long long step = t->at.step + 1;

    if (sum->bad_loss >= 0)
        return err_set(err, ERR_FAILED,
                       "step %lld: the loss on rank %d is not finite; nothing was "
                       "updated. Lower optimizer.lr, or resume from a checkpoint",
                       step, sum->bad_loss);
    if (sum->bad_grad >= 0)
        return err_set(err, ERR_FAILED,
                       "step %lld: the gradient in the shard of rank %d is not finite; "
                       "nothing was updated. Lower optimizer.lr, or resume from a "
                       "checkpoint",
                       step, sum->bad_grad);
    if (sum->strayed >= 0)
        return err_set(
            err, ERR_FAILED,
            "step %lld: the reduced gradient on rank %d differs from that on "
            "rank %d, which holds the same shard: memory or network corrupts "
            "data there; nothing was updated",
            step, sum->strayed, sum->strayed % t->units.shard);
    if (sum->tokens == 0)
        return err_set(err, ERR_FAILED,
                       "step %lld: no token of the batch has a target: look at "
                       "data.eod_token",
                       step);
    return 0;
}

static void update_bias(struct trainer *t)
{
    const struct model *m = &t->recipe.model;

    if (!(m->bias_update_rate > 0))
        return;
    balance_update(t->bias, t->meter.rows, m->layers, m->experts, m->bias_update_rate);
    t->ops->upload(t->dev, t->meter.bias, t->bias,
                   (size_t)m->layers * (size_t)m->experts * sizeof(float));
}

/* AdamW; with early_gather unit by unit at first, so that what the next step gathers
 * first travels while the rest is updated. */
static int update_weights(struct trainer *t, const struct step_totals *sum,
                          struct err *err)
{
    int64_t step = t->at.step, at = 0;
    double scale =
        optim_grad_scale(sum->sumsq, sum->tokens, t->recipe.optimizer.grad_clip);

    fsdp_invalidate(t->fsdp);
    for (int unit = 0;
         unit < 2 && t->early_gather && !sum->stop && step < t->recipe.training.steps;
         unit++) {
        int64_t end = units_shard_offset(&t->units, unit + 1);

        optim_step_part(&t->optim, &t->recipe, step, scale, at, end);
        at = end;
        if (fsdp_prefetch(t->fsdp, unit, err))
            return -1;
    }
    optim_step_part(&t->optim, &t->recipe, step, scale, at, INT64_MAX);
    return 0;
}

static void measure(struct trainer *t, const struct step_totals *sum,
                    struct step_metrics *out)
{
    const struct model *m = &t->recipe.model;
    double now = clock_s();

    *out = (struct step_metrics){
        .step = t->at.step,
        .loss = sum->loss_sum / (double)sum->tokens,
        .grad_norm = optim_grad_norm(sum->sumsq, sum->tokens),
        .lr = optim_lr_at(&t->recipe, t->at.step),
        .step_s = now - t->last_s,
        .memory_percent = trainer_memory_percent(t),
        .routing = routing_name(t->recipe.debug.moe_routing),
        .load_max_mean = balance_load(t->meter.rows, m->layers, m->experts),
        .validation_loss = NAN,
    };
    t->last_s = now;
    metrics_speed(out, &t->recipe, t->self->world, t->peak_flops);
}

int trainer_step(struct trainer *t, int *stop, struct step_metrics *out,
                 struct err *err)
{
    struct step_totals sum;
    int64_t tokens;

    if (t->last_s == 0)
        t->last_s = clock_s();
    meter_begin(&t->meter);
    routing_step(&t->routing, t->at.step, t->recipe.training.steps);
    if (accumulate(t, &tokens, err) ||
        meter_finish(&t->meter, t->optim.grads,
                     t->early_norm ? first_units(t) : t->units.shard_count, tokens,
                     *stop, &sum, err) ||
        check_finite(t, &sum, err))
        return -1;
    t->at.step++;
    t->at.tokens += sum.tokens;
    if (update_weights(t, &sum, err))
        return -1;
    update_bias(t);
    measure(t, &sum, out);
    *stop = sum.stop;
    return t->ops->status(t->dev, err);
}

int trainer_validate(struct trainer *t, double *loss, struct err *err)
{
    struct step_totals sum;
    int64_t tokens = 0;

    meter_begin(&t->meter);
    for (int64_t k = 0; k < t->recipe.data.validation_steps * t->accumulation; k++) {
        struct batch b;
        int64_t counted;

        if (batch_feed_load(&t->feed, t->validation, k / t->accumulation,
                            (int)(k % t->accumulation), &b, &counted, err) ||
            model_step_validate(&t->step, &b, err))
            return -1;
        tokens += counted;
    }
    if (meter_finish(&t->meter, NULL, 0, tokens, 0, &sum, err))
        return -1;
    if (sum.tokens == 0)
        return err_set(err, ERR_USAGE,
                       "validation: no token has a target: look at "
                       "data.validation_path and data.eod_token");
    *loss = sum.loss_sum / (double)sum.tokens;
    t->last_s = 0;
    return 0;
}
