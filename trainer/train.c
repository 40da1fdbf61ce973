/* muster-train - what each rank of a training run executes. */
#include <argp.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/js.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "trainer/heartbeat.h"
#include "trainer/ops.h"
#include "trainer/profile.h"
#include "trainer/sim.h"
#include "trainer/trainer.h"
#include "trainer/wireup.h"

const char *argp_program_version = "muster-train " MUSTER_VERSION;

struct options {
    const char *recipe, *run_dir, *resume;
    int wireup_only;
    int64_t profile_from, profile_to; /* steps; 0: no profile */
    struct trainer_options trainer;
};

enum { OPT_WIREUP_ONLY = 256 };

static const struct argp_option option_list[] = {
    { "recipe", 'r', "FILE", 0, "the training recipe", 0 },
    { "run-dir", 'd', "DIR", 0, "where a relative checkpoint.folder starts", 0 },
    { "device", 'D', "cpu|cuda|sim", 0, "instead of the recipe's cluster.device", 0 },
    { "resume", 'R', "DIR", 0,
      "go on from this checkpoint, or from the newest complete one in DIR", 0 },
    { "threads", 't', "N", 0, "BLAS threads of a CPU rank (its share of the cores)",
      0 },
    { "profile", 'P', "A:B", 0,
      "record steps A to B: profile/rankN.json (Perfetto) and .txt, relative to the "
      "run",
      0 },
    { "wireup-only", OPT_WIREUP_ONLY, NULL, 0, "meet the other ranks and leave", 0 },
    { 0 },
};

static error_t set_device(struct options *o, const char *arg, struct argp_state *state)
{
    if (str_eq(arg, "cpu"))
        o->trainer.device = DEVICE_CPU;
    else if (str_eq(arg, "cuda"))
        o->trainer.device = DEVICE_CUDA;
    else if (str_eq(arg, "sim"))
        o->trainer.device = DEVICE_SIM;
    else
        argp_error(state, "--device %s: cpu, cuda or sim", arg);
    return 0;
}

static error_t set_threads(struct options *o, const char *arg, struct argp_state *state)
{
    char *end;
    long n = strtol(arg, &end, 10);

    if (*end || n < 1 || n > 4096)
        argp_error(state, "--threads %s: a number from 1 to 4096", arg);
    o->trainer.threads = (int)n;
    return 0;
}

static error_t set_profile(struct options *o, const char *arg, struct argp_state *state)
{
    char *end;
    long long from = strtoll(arg, &end, 10),
              to = *end == ':' ? strtoll(end + 1, &end, 10) : 0;

    if (*end || from < 1 || to < from)
        argp_error(state, "--profile %s: two steps, the first and the last (5:6)", arg);
    o->profile_from = from;
    o->profile_to = to;
    return 0;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;

    switch (key) {
    case 'r':
        o->recipe = arg;
        return 0;
    case 'd':
        o->run_dir = arg;
        return 0;
    case 'R':
        o->resume = arg;
        return 0;
    case 'D':
        return set_device(o, arg, state);
    case 'P':
        return set_profile(o, arg, state);
    case 't':
        return set_threads(o, arg, state);
    case OPT_WIREUP_ONLY:
        o->wireup_only = 1;
        return 0;
    case ARGP_KEY_END:
        if (!o->recipe && !o->wireup_only)
            argp_error(state, "--recipe FILE is missing");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static volatile sig_atomic_t asked_to_stop;

static void on_term(int sig)
{
    (void)sig;
    asked_to_stop = 1;
}

static void catch_term(void)
{
    struct sigaction sa = { .sa_handler = on_term, .sa_flags = SA_RESTART };

    sigemptyset(&sa.sa_mask);
    sigaction(SIGTERM, &sa, NULL);
}

/* What Slurm sends to all processes of a step before its time is up: the launcher hears
 * of it, and tells all ranks at once, by TERM. */
static void ignore_notice(void)
{
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
}

/* --- a run ------------------------------------------------------------------------ */
struct run {
    struct trainer *t;
    char *folder;  /* of checkpoints; "": none; owned */
    int64_t saved; /* step of the last checkpoint; -1 none */
    struct run_summary summary;
    struct routing_recorder recorder; /* rank 0's, with debug.moe_record */
    int64_t profile_from, profile_to;
    int profiling, show; /* the table is to be printed */
    int stop;
};

/* A path that the recipe gives, relative to the run. */
static char *in_run(const struct options *o, const char *path)
{
    if (!*path || *path == '/' || !o->run_dir)
        return xstrdup(path);
    return xasprintf("%s/%s", o->run_dir, path);
}

static double mib(int64_t bytes)
{
    return (double)bytes / 1048576;
}

/* Of a GPU: what is beside the arena now, by the part of the start that took it. */
static void announce_beside(const struct trainer *t)
{
    if (t->used_placed == 0)
        return;
    log_info(
        "memory beside the arena: %.0f MiB with the device open (context, libraries, "
        "other programs), %.0f communicators, %.0f the arena's rounding; foreseen "
        "for kernels loaded later %.0f",
        mib(t->used_open), mib(t->used_joined - t->used_open),
        mib(t->used_placed - t->used_joined - t->arena.bytes),
        mib(t->plan.arena_bytes + t->plan.outside_bytes - t->used_placed));
}

static void announce(const struct trainer *t)
{
    const struct recipe *r = &t->recipe;
    char *routing = routing_describe(&t->routing, r);

    log_info("%d ranks by %s: shard %d x replicate %d, %lld sequences of %d tokens a "
             "step in %d micro-batch%s",
             t->self->world, t->self->method, r->parallelism.data_parallel_shard_degree,
             r->parallelism.data_parallel_replicate_degree,
             (long long)r->training.global_batch_size, r->training.seq_len,
             t->accumulation, t->accumulation == 1 ? "" : "es");
    log_info("rank 0: %s", t->ops->describe(t->dev));
    log_info("memory: arena %.1f MiB + %.1f MiB outside = %.1f %% of the device",
             (double)t->plan.arena_bytes / 1048576,
             (double)t->plan.outside_bytes / 1048576, t->plan.percent);
    announce_beside(t);
    if (routing)
        log_warn("routing: %s", routing);
    free(routing);
    if (!(t->peak_flops > 0))
        log_info("MFU: none, no dense BF16 peak is known for this device");
    if (r->checkpoint.async && *r->checkpoint.folder)
        log_warn("checkpoint.async: this build writes while training waits");
}

static int resume(struct run *run, const char *path, struct err *err)
{
    struct trainer *t = run->t;
    char *dir;

    if (ckpt_load(&t->ckpt, path, &t->at, &dir, err))
        return -1;
    t->ops->upload(t->dev, t->meter.bias, t->bias,
                   (size_t)t->meter.layers * (size_t)t->meter.experts * sizeof(float));
    run->saved = t->at.step;
    log_info("resumed from %s: step %lld of %lld", dir, (long long)t->at.step,
             (long long)t->recipe.training.steps);
    free(dir);
    return t->ops->sync(t->dev, err);
}

static int save(struct run *run, struct err *err)
{
    struct trainer *t = run->t;

    if (!*run->folder || run->saved == t->at.step)
        return 0;
    if (ckpt_save(&t->ckpt, run->folder, &t->at, err))
        return -1;
    run->saved = t->at.step;
    t->last_s = 0;
    log_info("saved %s/step-%08lld", run->folder, (long long)t->at.step);
    return 0;
}

static void report(const struct run *run, const struct step_metrics *m)
{
    const struct recipe *r = &run->t->recipe;
    int last = m->step == r->training.steps || run->stop;
    struct js *o;
    char *line;

    if (run->t->self->rank > 0) {
        o = js_object();
        js_put_int(o, "step", m->step);
        heartbeat_send("step", o);
        return;
    }
    heartbeat_send("step", metrics_json(m));
    if (run->summary.steps > 1 && m->step % r->training.log_interval && !last &&
        isnan(m->validation_loss))
        return;
    line = metrics_line(m);
    puts(line);
    fflush(stdout);
    free(line);
}

/* --- a profile ----------------------------------------------------------------------- */
static int profile_before(struct run *run, struct err *err)
{
    struct trainer *t = run->t;
    int64_t step = t->at.step + 1;

    if (!t->profile || run->profiling || step < run->profile_from ||
        step > run->profile_to)
        return 0;
    run->profiling = 1;
    t->last_s = 0; /* what was queued before is waited for */
    return profile_begin(t->profile, step, err);
}

static int profile_after(struct run *run, struct step_metrics *m, int last,
                         struct err *err)
{
    struct trainer *t = run->t;

    m->profiled = run->profiling;
    if (!run->profiling || (m->step < run->profile_to && !last))
        return 0;
    run->profiling = 0;
    t->last_s = 0;
    if (profile_end(t->profile, m->step,
                    run_summary_step_s(&run->summary, t->recipe.scale.trial_warmup),
                    err))
        return -1;
    run->show = t->self->rank == 0;
    return 0;
}

static int one_step(struct run *run, struct err *err)
{
    struct trainer *t = run->t;
    const struct recipe *r = &t->recipe;
    struct step_metrics m;
    int last;

    run->stop = asked_to_stop;
    if (profile_before(run, err) || trainer_step(t, &run->stop, &m, err))
        return -1;
    last = t->at.step == r->training.steps || run->stop;
    if (profile_after(run, &m, last, err))
        return -1;
    routing_record_step(&run->recorder, r, t->meter.rows);
    if (t->validation && (last || t->at.step % r->data.validation_interval == 0) &&
        trainer_validate(t, &m.validation_loss, err))
        return -1;
    run_summary_add(&run->summary, &m);
    report(run, &m);
    if (run->show)
        fputs(profile_table(t->profile), stdout);
    run->show = 0;
    if (last || t->at.step % r->checkpoint.interval == 0)
        return save(run, err);
    return 0;
}

static struct js *summary_json(const struct run *run)
{
    const struct trainer *t = run->t;
    const struct run_summary *s = &run->summary;
    struct step_metrics m = { .step_s =
                                  run_summary_step_s(s, t->recipe.scale.trial_warmup) };
    struct js *o = js_object();
    size_t used = 0, total = 0;

    metrics_speed(&m, &t->recipe, t->self->world, t->peak_flops);
    js_put_int(o, "steps", t->at.step);
    js_put_int(o, "tokens", t->at.tokens);
    js_put_real(o, "loss_first", s->steps ? s->loss_first : NAN);
    js_put_real(o, "loss_last", s->steps ? s->loss_last : NAN);
    js_put_real(o, "validation_loss", s->steps ? s->validation_loss : NAN);
    js_put_real(o, "step_s", m.step_s);
    js_put_real(o, "tokens_per_s_per_gpu", m.tokens_per_s_per_gpu);
    js_put_real(o, "mfu_reference", m.mfu_reference);
    js_put_real(o, "mfu_causal", m.mfu_causal);
    js_put_real(o, "memory_percent", trainer_memory_percent(t));
    js_put_int(o, "arena_bytes", t->arena.bytes);
    js_put_int(o, "arena_high_water", t->arena.used);
    t->ops->memory(t->dev, &used, &total);
    js_put_int(o, "used_bytes", (int64_t)used);
    js_put_int(o, "predicted_bytes", t->plan.arena_bytes + t->plan.outside_bytes);
    if (t->used_placed > 0) {
        js_put_int(o, "used_open_bytes", t->used_open);
        js_put_int(o, "used_joined_bytes", t->used_joined);
        js_put_int(o, "used_placed_bytes", t->used_placed);
    }
    js_put_int(o, "peak_resident_bytes", metrics_peak_resident());
    js_put_str(o, "routing", routing_name(t->recipe.debug.moe_routing));
    js_put_str(o, "device", t->ops->name);
    js_put_int(o, "threads", t->threads);
    return o;
}

static void conclude(const struct run *run)
{
    const struct trainer *t = run->t;
    int64_t peak = metrics_peak_resident();

    log_info("%s at step %lld; arena %.1f %% used; %.1f MiB resident at most, %.1f "
             "predicted",
             run->stop ? "stopped" : "done", (long long)t->at.step,
             100.0 * (double)t->arena.used / (double)t->arena.bytes,
             (double)peak / 1048576,
             (double)(t->plan.arena_bytes + t->plan.outside_bytes) / 1048576);
    heartbeat_send(run->stop ? "stopped" : "done",
                   t->self->rank == 0 ? summary_json(run) : NULL);
}

static int train(struct run *run, const struct options *o, struct err *err)
{
    struct trainer *t = run->t;

    if (t->self->rank == 0)
        announce(t);
    run->folder = in_run(o, t->recipe.checkpoint.folder);
    if (t->self->rank == 0 && *t->recipe.debug.moe_record)
        routing_record_open(&run->recorder, in_run(o, t->recipe.debug.moe_record),
                            &t->recipe.model);
    run->profile_from = o->profile_from;
    run->profile_to = o->profile_to;
    if (o->resume && resume(run, o->resume, err))
        return -1;
    while (t->at.step < t->recipe.training.steps && !run->stop)
        if (one_step(run, err))
            return -1;
    if (routing_record_close(&run->recorder, &t->recipe, err))
        return -1;
    conclude(run);
    return 0;
}

static int simulate(const struct options *o, const struct recipe *r, struct err *err)
{
    if (o->profile_from)
        return err_set(err, ERR_USAGE,
                       "--profile: a simulated run computes nothing to look at");
    if (o->resume)
        return err_set(err, ERR_USAGE,
                       "--resume: a simulated run has no checkpoints to go on from");
    return sim_run(r, &asked_to_stop, catch_term, err);
}

/* Deterministic runs keep the plans of their products with the run. */
static void set_plans(const struct options *o, const struct recipe *r)
{
    char *path = in_run(o, "gemm-plans.txt");

    if (r->training.deterministic == 1)
        setenv("MUSTER_GEMM_PLANS", path, 0); /* read by the CUDA module */
    free(path);
}

static int run_training(struct options *o, struct err *err)
{
    char *profile = in_run(o, "profile");
    struct trainer t;
    struct run run = { .t = &t, .saved = -1 };
    struct recipe r;

    if (recipe_load(o->recipe, &r, err))
        return -1;
    if ((o->trainer.device == DEVICE_AUTO ? r.cluster.device : o->trainer.device) ==
        DEVICE_SIM) {
        int rc = simulate(o, &r, err);

        free(profile);
        recipe_release(&r);
        return rc;
    }
    set_plans(o, &r);
    o->trainer.profile_folder = o->profile_from ? profile : NULL;
    if (trainer_open(&t, &r, &o->trainer, err))
        return -1;
    catch_term(); /* until here there is nothing to save */
    if (t.self->rank > 0)
        log_set_level(LOG_WARN);
    if (train(&run, o, err))
        return -1;
    run_summary_release(&run.summary);
    free(run.folder);
    free(profile);
    trainer_close(&t);
    recipe_release(&r);
    return 0;
}

static int meet_and_leave(struct err *err)
{
    struct wireup *w;

    if (wireup_open(&w, -1, err))
        return -1;
    wireup_close(w);
    heartbeat_send("done", NULL);
    return 0;
}

static int fail(struct err *err)
{
    struct js *o = js_object();
    int status = (int)err->code;

    dprintf(STDERR_FILENO, "muster-train: %s\n", err_text(err));
    js_put_int(o, "code", status);
    js_put_str(o, "text", err_text(err));
    heartbeat_send("error", o);
    fflush(NULL);
    /* No tidying up: it would wait for ranks that wait for this one. */
    _exit(status);
}

int main(int argc, char **argv)
{
    static const struct argp argp = { option_list,
                                      parse_option,
                                      NULL,
                                      "One rank of a training run: finds the others, "
                                      "then trains by the recipe.",
                                      NULL,
                                      NULL,
                                      NULL };
    struct options o = { .trainer = { .timeout_ms = -1 } };
    struct err err = ERR_INIT;

    argp_err_exit_status = ERR_USAGE;
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    log_set_prefix("muster-train");
    ignore_notice();
    if (o.wireup_only ? meet_and_leave(&err) : run_training(&o, &err))
        return fail(&err);
    heartbeat_close();
    return 0;
}
