/* sim_run.c - a simulated rank, from meeting to farewell. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/js.h"
#include "base/log.h"
#include "base/mem.h"
#include "recipes/recipe.h"
#include "trainer/heartbeat.h"
#include "trainer/memplan.h"
#include "trainer/metrics.h"
#include "trainer/ops.h"
#include "trainer/sim.h"
#include "trainer/wireup.h"

struct sim {
    struct recipe recipe;
    struct sim_story story;
    struct sim_machine machine;
    const struct wireup_self *self;
    const volatile int *stop;
    int accumulation;
    double base_s, peak_flops, memory_percent;
    double wake_s; /* on clock_s(): when the present step ends */
    struct run_summary summary;
};

/* ---- before the first step ---- */

static int lay_out(struct sim *s, struct err *err)
{
    struct recipe *r = &s->recipe;
    struct memplan plan;
    int shard, replicate, world = s->self->world;

    if (recipe_layout(r, world, &shard, &replicate, &s->accumulation, err))
        return -1;
    r->parallelism.data_parallel_shard_degree = shard;
    r->parallelism.data_parallel_replicate_degree = replicate;
    r->training.global_batch_size =
        (int64_t)r->training.local_batch_size * world * s->accumulation;
    memplan_make(r, ops_sizes("cuda"), shard, SIM_DEVICE_BYTES, &plan);
    s->memory_percent = plan.percent;
    if (plan.percent > 100)
        return err_set(
            err, ERR_FAILED,
            "simulated: out of memory, the plan takes %.1f %% of a %s: raise "
            "the shard degree, checkpoint activations, or lower "
            "local_batch_size",
            plan.percent, SIM_DEVICE);
    s->base_s = sim_step_s(&s->machine, r, s->accumulation);
    s->peak_flops = model_peak_flops(SIM_DEVICE);
    return 0;
}

static void report_place(const struct sim *s)
{
    struct js *o = js_object();

    js_put_str(o, "host", s->self->host);
    js_put_str(o, "boot_id", s->self->boot_id);
    js_put_int(o, "device", s->self->local_rank);
    js_put_str(o, "busid", "");
    js_put_str(o, "describe", "simulated " SIM_DEVICE);
    js_put_str(o, "method", s->self->method);
    js_put_bool(o, "simulated", 1);
    heartbeat_send("place", o);
}

/* ---- what the story says ---- */

static _Noreturn void go_silent(void)
{
    sigset_t all;

    heartbeat_close();
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    signal(SIGTERM, SIG_IGN); /* other threads */
    for (;;)
        pause();
}

static _Noreturn void crash(void)
{
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
    _exit(ERR_SYSTEM);
}

static long coll_timeout_ms(void)
{
    const char *text = getenv("MUSTER_COLL_TIMEOUT_MS");
    long v = text ? strtol(text, NULL, 10) : 0;

    return v > 0 ? v : 600000;
}

/* In a collective with a rank that does not come. */
static int wait_for(const struct sim *s, const struct sim_event *e, struct err *err)
{
    int64_t until = clock_ms() + coll_timeout_ms();

    while (clock_ms() < until && !*s->stop)
        clock_nap_us(50000);
    return err_set(err, *s->stop ? ERR_FAILED : ERR_TIMEOUT,
                   "simulated: step %lld: rank %d did not join the collective",
                   (long long)e->step, e->rank);
}

static int play(const struct sim *s, const struct sim_event *e, struct err *err)
{
    if (e->rank != s->self->rank)
        return wait_for(s, e, err);
    switch (e->what) {
    case SIM_WEDGE:
        go_silent();
    case SIM_CRASH:
        crash();
    case SIM_EXIT:
        _exit((int)e->value);
    case SIM_LEAVE:
        _exit(0);
    case SIM_HANG:
    case SIM_SLOW:
        break;
    }
    for (;;)
        pause();
}

/* The fault of this step, in a rank that exists; NULL: none. */
static const struct sim_event *fault_at(const struct sim *s, int64_t step)
{
    for (int i = 0; i < s->story.n; i++) {
        const struct sim_event *e = &s->story.event[i];
        if (e->what != SIM_SLOW && e->step == step && e->rank < s->self->world)
            return e;
    }
    return NULL;
}

/* ---- steps ---- */

static double slowest(const struct sim *s, int64_t step)
{
    double most = 0;

    for (int r = 0; r < s->self->world; r++)
        most = fmax(most, sim_rank_factor(&s->machine, &s->story, r, step));
    return most;
}

/* Against a clock that runs on, so that ranks stay together; a signal ends it. */
static void sleep_until(const struct sim *s)
{
    struct timespec t = { .tv_sec = (time_t)s->wake_s };

    t.tv_nsec = (long)((s->wake_s - (double)t.tv_sec) * 1e9);
    while (!*s->stop && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
        ;
}

/* A curve that falls with the tokens, from ln(vocabulary). */
static double loss_at(const struct sim *s, double tokens)
{
    return 1.7 + (log(s->recipe.model.vocab) - 1.7) * pow(1 + tokens / 4e6, -0.35);
}

static void measure(const struct sim *s, int64_t step, double step_s,
                    struct step_metrics *m)
{
    const struct recipe *r = &s->recipe;
    double tokens = (double)r->training.global_batch_size * r->training.seq_len;

    *m = (struct step_metrics){ .step = step,
                                .loss = loss_at(s, tokens * (double)step),
                                .grad_norm = NAN,
                                .lr = NAN,
                                .step_s = step_s,
                                .memory_percent = s->memory_percent,
                                .load_max_mean = NAN,
                                .validation_loss = NAN };
    metrics_speed(m, r, s->self->world, s->peak_flops);
}

static void report(const struct sim *s, const struct step_metrics *m)
{
    const struct recipe *r = &s->recipe;
    int64_t step = m->step;
    struct js *o;

    o = s->self->rank == 0 ? metrics_json(m) : js_object();
    js_put_int(o, "step", step);
    js_put_real(o, "busy_s",
                s->base_s *
                    sim_rank_factor(&s->machine, &s->story, s->self->rank, step));
    js_put_bool(o, "simulated", 1);
    heartbeat_send("step", o);
    if (s->self->rank > 0 ||
        (step > 1 && step % r->training.log_interval && step < r->training.steps))
        return;
    printf("simulated step %lld  loss %.5f  tokens/s/GPU %.0f  MFU %.2f %% (reference) "
           "%.2f %% (causal)  memory %.1f %%\n",
           (long long)step, m->loss, m->tokens_per_s_per_gpu, m->mfu_reference,
           m->mfu_causal, m->memory_percent);
    fflush(stdout);
}

static int one_step(struct sim *s, int64_t step, struct err *err)
{
    const struct sim_event *fault = fault_at(s, step);
    double step_s = s->base_s * slowest(s, step);
    struct step_metrics m;

    if (fault && play(s, fault, err) < 0)
        return -1;
    s->wake_s += step_s * s->story.time;
    sleep_until(s);
    if (*s->stop)
        return 0;
    measure(s, step, step_s, &m);
    run_summary_add(&s->summary, &m);
    report(s, &m);
    return 0;
}

static struct js *summary_json(const struct sim *s)
{
    const struct run_summary *sum = &s->summary;
    struct step_metrics m;
    struct js *o = js_object();

    measure(s, sum->steps, run_summary_step_s(sum, s->recipe.scale.trial_warmup), &m);
    js_put_bool(o, "simulated", 1);
    js_put_int(o, "steps", sum->steps);
    js_put_real(o, "loss_first", sum->steps ? sum->loss_first : NAN);
    js_put_real(o, "loss_last", sum->steps ? sum->loss_last : NAN);
    js_put_real(o, "step_s", m.step_s);
    js_put_real(o, "tokens_per_s_per_gpu", m.tokens_per_s_per_gpu);
    js_put_real(o, "mfu_reference", m.mfu_reference);
    js_put_real(o, "mfu_causal", m.mfu_causal);
    js_put_real(o, "memory_percent", m.memory_percent);
    js_put_str(o, "device", "sim");
    return o;
}

static int run_steps(struct sim *s, struct err *err)
{
    int64_t step = 1, steps = s->recipe.training.steps;

    if (s->self->rank == 0)
        log_info(
            "simulated: %d ranks by %s, shard %d x replicate %d, of a machine that "
            "does not exist (seed %llu)",
            s->self->world, s->self->method,
            s->recipe.parallelism.data_parallel_shard_degree,
            s->recipe.parallelism.data_parallel_replicate_degree,
            (unsigned long long)s->story.seed);
    s->wake_s = clock_s();
    for (; step <= steps && !*s->stop; step++)
        if (one_step(s, step, err) < 0)
            return -1;
    heartbeat_send(*s->stop ? "stopped" : "done",
                   s->self->rank == 0 ? summary_json(s) : NULL);
    return 0;
}

int sim_run(const struct recipe *r, const volatile int *stop, void (*met)(void),
            struct err *err)
{
    struct sim s = { .stop = stop };
    struct wireup *w;
    int rc;

    if (sim_story_parse(getenv("MUSTER_SIM"), &s.story, err) < 0)
        return -1;
    sim_machine_draw(s.story.seed, &s.machine);
    recipe_copy(&s.recipe, r);
    if (wireup_open(&w, -1, err) < 0)
        return -1;
    met();
    s.self = wireup_self(w);
    report_place(&s);
    rc = lay_out(&s, err);
    if (rc == 0)
        rc = run_steps(&s, err);
    if (rc < 0) /* as in muster-train: leaving would wait for others */
        return -1;
    run_summary_release(&s.summary);
    wireup_close(w);
    recipe_release(&s.recipe);
    return 0;
}
