/* climb: what is refused, measured, repeated, verified and resumed, with a machine
 * whose speed the test decides.  Cases E10 (sweeps) and G03 (scaling labels). */
#include "test.h"

#include <math.h>
#include <unistd.h>

#include "base/js.h"
#include "base/mem.h"
#include "launcher/climb.h"
#include "launcher/store.h"
#include "topology/topology.h"

static char home[64];

static int make_home(void **state)
{
    (void)state;
    snprintf(home, sizeof(home), "/tmp/climb-XXXXXX");
    return mkdtemp(home) ? 0 : -1;
}

static int remove_home(void **state)
{
    static const char *const names[] = { "store.sqlite", "store.sqlite-wal",
                                         "store.sqlite-shm" };
    char path[128];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", home, names[i]);
        unlink(path);
    }
    return rmdir(home);
}

#define RECIPE(scale)                                    \
    "name: t\nmodel: {preset: tiny}\n"                   \
    "training: {seq_len: 64, global_batch_size: 8}\n"    \
    "parallelism: {data_parallel_replicate_degree: -1, " \
    "data_parallel_shard_degree: 1}\n"                   \
    "cluster: {device: cpu}\n"                           \
    "scale:\n  rungs: [2, 4]\n  trial_steps: 3\n  trial_warmup: 1\n" scale

#define SWEEP                                                 \
    "  sweep:\n"                                              \
    "    parallelism.data_parallel_shard_degree: [1, 2, 4]\n" \
    "    training.local_batch_size: [1, 2, 4]\n"

/* The machine: what it does with a trial, and what it was asked for. */
struct machine {
    double (*rate)(const struct recipe *at, int gpus, int call);
    double memory_percent;
    int stop_at; /* this call is interrupted; -1 never */
    int calls;
    struct str asked;
};

static int run_trial(void *arg, const struct recipe *at, int gpus, struct trial *out,
                     struct err *err)
{
    struct machine *m = arg;
    int call = m->calls++;
    double rate;

    (void)err;
    assert_int_equal(at->training.steps, 4);
    assert_string_equal(at->checkpoint.folder, "");
    str_addf(&m->asked, "%d:s%d.l%d ", gpus, at->parallelism.data_parallel_shard_degree,
             at->training.local_batch_size);
    if (call == m->stop_at) {
        out->stopped = 1;
        return 0;
    }
    rate = m->rate(at, gpus, call);
    snprintf(out->run, sizeof(out->run), "run-%d", call);
    out->status = rate < 0;
    out->memory_percent = m->memory_percent;
    if (rate < 0)
        out->reason = xstrdup("rank 1 on n0 died");
    else
        out->tokens_per_s_per_gpu = rate;
    return 0;
}

struct world {
    struct store *store;
    struct topology *topology;
    struct recipe recipe;
    struct machine machine;
    enum climb_end end;
    char *why;
    struct js *json;
};

static void open_world(struct world *w, const char *recipe)
{
    struct err err = ERR_INIT;
    struct store_climb row = {
        .id = "c", .name = "t", .options = "{}", .fingerprint = "f", .topology = "{}"
    };
    char *text;

    *w = (struct world){ .machine = { .memory_percent = 10, .stop_at = -1 } };
    assert_ok(store_open(home, &w->store, &err), &err);
    assert_ok(topology_from_spec("recipes/clusters/laptop.yaml", &w->topology, &err),
              &err);
    assert_ok(recipe_parse(recipe, strlen(recipe), "t.yaml", &w->recipe, &err), &err);
    text = recipe_text(&w->recipe);
    row.recipe = text;
    assert_ok(store_climb_start(w->store, &row, &err), &err);
    free(text);
}

static void climb(struct world *w)
{
    struct climb c = { .id = "c",
                       .recipe = &w->recipe,
                       .topology = w->topology,
                       .store = w->store,
                       .measure = run_trial,
                       .arg = &w->machine };
    struct err err = ERR_INIT;

    js_free(w->json);
    free(w->why);
    w->why = NULL;
    assert_ok(climb_execute(&c, &w->end, &w->why, &err), &err);
    w->json = climb_json(w->store, "c", &err);
    assert_non_null(w->json);
}

static void close_world(struct world *w)
{
    js_free(w->json);
    free(w->why);
    str_release(&w->machine.asked);
    recipe_release(&w->recipe);
    topology_free(w->topology);
    store_close(w->store);
}

static const struct js *trial(const struct world *w, size_t i)
{
    return js_at(js_get(w->json, "trials"), i);
}

static const struct js *rung(const struct world *w, size_t i)
{
    return js_at(js_get(w->json, "rungs"), i);
}

/* Larger local batches are clearly faster; four ranks are at 90 %. */
static double by_batch(const struct recipe *at, int gpus, int call)
{
    (void)call;
    return (100 * at->training.local_batch_size +
            10 * at->parallelism.data_parallel_shard_degree) *
           (gpus == 4 ? 0.9 : 1);
}

static void test_sweep_refuses_measures_and_verifies(void **state)
{
    struct world w;

    (void)state;
    open_world(&w, RECIPE(SWEEP));
    w.machine.rate = by_batch;
    climb(&w);
    assert_int_equal(w.end, CLIMB_DONE);
    /* shard 4 is not legal at 2 ranks, local 4 not at 4 (4 x 4 > 8) */
    assert_string_equal(w.machine.asked.text,
                        "2:s1.l1 2:s1.l2 2:s2.l1 2:s2.l2 4:s2.l2 ");
    assert_int_equal(js_len(js_get(w.json, "trials")), 9);
    assert_string_equal(js_str(trial(&w, 2), "state", ""), "refused");
    assert_string_equal(
        js_str(trial(&w, 2), "reason", ""),
        "at 4 ranks: global batch 8 is not a multiple of local batch 4 x "
        "4 ranks = 16");
    assert_string_equal(js_str(trial(&w, 6), "state", ""), "refused");
    assert_non_null(strstr(js_str(trial(&w, 6), "reason", ""), "at 2 ranks: "));
    assert_true(js_get_real(trial(&w, 4), "tokens_per_s_per_gpu", 0) == 220);
    assert_int_equal(
        js_get_int(js_get(w.json, "winner"), "training.local_batch_size", 0), 2);
    assert_true(js_get_real(rung(&w, 0), "tokens_per_s_per_gpu", 0) == 220);
    assert_true(js_get_real(rung(&w, 1), "tokens_per_s_per_gpu", 0) == 220 * 0.9);
    assert_true(fabs(js_get_real(rung(&w, 1), "efficiency", 0) - 0.9) < 1e-12);
    assert_string_equal(js_str(w.json, "state", ""), "done");
    assert_string_equal(js_str(w.json, "schema", ""), "muster/climb/1");
    close_world(&w);
}

/* Case G03: constant batch is strong scaling, per_gpu is weak. */
static void test_g03_scaling_is_named(void **state)
{
    struct world w;

    (void)state;
    open_world(&w, RECIPE("  batch: constant\n"));
    w.machine.rate = by_batch;
    climb(&w);
    assert_string_equal(js_str(w.json, "scaling", ""), "strong");
    assert_int_equal(js_get_int(rung(&w, 1), "global_batch_size", 0), 8);
    close_world(&w);
    remove_home(NULL);
    make_home(NULL);
    open_world(&w, RECIPE("  batch: per_gpu\n"));
    w.machine.rate = by_batch;
    climb(&w);
    assert_string_equal(js_str(w.json, "scaling", ""), "weak");
    assert_int_equal(js_get_int(rung(&w, 0), "global_batch_size", 0), 8);
    assert_int_equal(js_get_int(rung(&w, 1), "global_batch_size", 0), 16);
    assert_int_equal(js_len(js_get(w.json, "trials")), 1);
    close_world(&w);
}

/* First 100 and 101: one measurement apart.  Repeats start with the leader. */
static double close_race(const struct recipe *at, int gpus, int call)
{
    static const double rates[] = { 100, 101, 90, 110, 90, 110, 77 };

    (void)at;
    (void)gpus;
    return rates[call];
}

static void test_leaders_within_noise_are_repeated(void **state)
{
    struct world w;

    (void)state;
    open_world(&w, RECIPE("  sweep: {training.local_batch_size: [1, 2]}\n"));
    w.machine.rate = close_race;
    climb(&w);
    assert_int_equal(w.machine.calls, 7);
    assert_int_equal(
        js_get_int(js_get(w.json, "winner"), "training.local_batch_size", 0), 1);
    assert_true(js_get_real(trial(&w, 0), "tokens_per_s_per_gpu", 0) == 110);
    assert_true(js_get_real(trial(&w, 1), "tokens_per_s_per_gpu", 0) == 90);
    assert_int_equal(js_get_int(trial(&w, 0), "attempts", 0), 3);
    close_world(&w);
}

/* Two are close, and fall back when they are measured again: the third, measured
 * once, must not win by that alone. */
static double falling_back(const struct recipe *at, int gpus, int call)
{
    static const double first[] = { 101, 100, 95 };
    int local = at->training.local_batch_size;

    (void)gpus;
    return call < 3 ? first[call] : local == 4 ? 70 : 90;
}

static void test_winner_was_measured_as_often_as_the_beaten(void **state)
{
    struct world w;

    (void)state;
    open_world(&w, RECIPE("  batch: per_gpu\n"
                          "  sweep: {training.local_batch_size: [1, 2, 4]}\n"));
    w.machine.rate = falling_back;
    climb(&w);
    assert_int_equal(js_get_int(trial(&w, 2), "attempts", 0), 3);
    assert_true(js_get_real(trial(&w, 2), "tokens_per_s_per_gpu", 0) == 70);
    assert_true(js_get_real(rung(&w, 0), "tokens_per_s_per_gpu", 0) == 90);
    close_world(&w);
}

static double first_fails(const struct recipe *at, int gpus, int call)
{
    (void)gpus;
    return call == 0 ? -1 : 100.0 * at->training.local_batch_size;
}

static void test_failed_trial_costs_only_itself(void **state)
{
    struct world w;

    (void)state;
    open_world(&w, RECIPE("  sweep: {training.local_batch_size: [2, 1]}\n"));
    w.machine.rate = first_fails;
    climb(&w);
    assert_int_equal(w.end, CLIMB_DONE);
    assert_string_equal(js_str(trial(&w, 0), "state", ""), "failed");
    assert_string_equal(js_str(trial(&w, 0), "reason", ""), "rank 1 on n0 died");
    assert_int_equal(
        js_get_int(js_get(w.json, "winner"), "training.local_batch_size", 0), 1);
    close_world(&w);
}

static void test_above_the_ceiling_does_not_win(void **state)
{
    struct world w;

    (void)state;
    open_world(&w, RECIPE("  memory_ceiling: 0.5\n"));
    w.machine.rate = by_batch;
    w.machine.memory_percent = 50.1;
    climb(&w);
    assert_int_equal(w.end, CLIMB_FAILED);
    assert_string_equal(w.why,
                        "no candidate is left: of 1, 0 were refused and 1 failed");
    assert_string_equal(js_str(trial(&w, 0), "state", ""), "over");
    assert_string_equal(js_str(trial(&w, 0), "reason", ""),
                        "used 50.1 % of memory, the ceiling is 50.0 %");
    assert_false(js_is_object(js_get(w.json, "winner")));
    close_world(&w);
}

/* memplan says so before anything is started. */
static void test_what_cannot_fit_is_refused(void **state)
{
    struct world w;

    (void)state;
    open_world(&w, RECIPE("  sweep: {model.preset: [tiny, qwen3-30b-a3b]}\n"));
    w.machine.rate = by_batch;
    climb(&w);
    assert_int_equal(w.machine.calls, 2);
    assert_string_equal(js_str(trial(&w, 1), "state", ""), "refused");
    assert_non_null(
        strstr(js_str(trial(&w, 1), "reason", ""), "of the memory of a rank"));
    close_world(&w);
}

static void test_e10_none_left_starts_nothing(void **state)
{
    struct world w;

    (void)state;
    open_world(&w,
               RECIPE("  sweep: {parallelism.data_parallel_shard_degree: [3, 8]}\n"));
    w.machine.rate = by_batch;
    climb(&w);
    assert_int_equal(w.end, CLIMB_FAILED);
    assert_int_equal(w.machine.calls, 0);
    assert_int_equal(js_len(js_get(w.json, "trials")), 2);
    assert_string_equal(js_str(w.json, "state", ""), "failed");
    close_world(&w);
}

static double rung_fails(const struct recipe *at, int gpus, int call)
{
    (void)at;
    (void)call;
    return gpus == 4 ? -1 : 100;
}

static void test_failed_rung_fails_the_climb(void **state)
{
    struct world w;

    (void)state;
    open_world(&w, RECIPE(""));
    w.machine.rate = rung_fails;
    climb(&w);
    assert_int_equal(w.end, CLIMB_FAILED);
    assert_string_equal(w.why, "the rung of 4 ranks failed: rank 1 on n0 died");
    assert_string_equal(js_str(rung(&w, 1), "state", ""), "failed");
    assert_true(js_is_object(js_get(w.json, "winner")));
    close_world(&w);
}

/* Interrupted at any call, then resumed: all that ended is measured once. */
static void test_resume_goes_on(void **state)
{
    (void)state;
    for (int at = 0; at < 5; at++) {
        struct err err = ERR_INIT;
        struct world w;
        open_world(&w, RECIPE(SWEEP));
        w.machine.rate = by_batch;
        w.machine.stop_at = at;
        climb(&w);
        assert_int_equal(w.end, CLIMB_STOPPED);
        assert_string_equal(js_str(w.json, "state", ""), "stopped");
        assert_int_equal(w.machine.calls, at + 1);
        assert_ok(store_climb_resume(w.store, "c", &err), &err);
        climb(&w);
        assert_int_equal(w.end, CLIMB_DONE);
        assert_int_equal(w.machine.calls, 6); /* 5 trials, one of them twice */
        assert_true(js_get_real(rung(&w, 1), "tokens_per_s_per_gpu", 0) == 220 * 0.9);
        close_world(&w);
        remove_home(NULL);
        make_home(NULL);
    }
}

static void test_hierarchical_settles_axis_after_axis(void **state)
{
    struct world w;

    (void)state;
    open_world(&w, RECIPE("  strategy: hierarchical\n"
                          "  sweep:\n"
                          "    training.local_batch_size: [1, 2]\n"
                          "    parallelism.data_parallel_shard_degree: [1, 2]\n"));
    w.machine.rate = by_batch;
    climb(&w);
    assert_string_equal(w.machine.asked.text, "2:s1.l1 2:s1.l2 2:s2.l2 4:s2.l2 ");
    assert_string_equal(js_str(trial(&w, 1), "state", ""), "skipped");
    close_world(&w);
}

static void test_print_shows_table_and_ladder(void **state)
{
    struct world w;
    char *text = NULL;
    size_t size;
    FILE *fp = open_memstream(&text, &size);

    (void)state;
    open_world(&w, RECIPE(SWEEP));
    w.machine.rate = by_batch;
    climb(&w);
    climb_print(w.json, fp);
    fclose(fp);
    assert_non_null(strstr(text, "refused: at 4 ranks: global batch 8"));
    assert_non_null(strstr(text, "ladder (strong scaling"));
    assert_non_null(strstr(text, "training.local_batch_size=2"));
    assert_non_null(strstr(text, "90.0"));
    free(text);
    close_world(&w);
}

#define IN_HOME(test) cmocka_unit_test_setup_teardown(test, make_home, remove_home)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_HOME(test_sweep_refuses_measures_and_verifies),
        IN_HOME(test_g03_scaling_is_named),
        IN_HOME(test_leaders_within_noise_are_repeated),
        IN_HOME(test_winner_was_measured_as_often_as_the_beaten),
        IN_HOME(test_failed_trial_costs_only_itself),
        IN_HOME(test_above_the_ceiling_does_not_win),
        IN_HOME(test_what_cannot_fit_is_refused),
        IN_HOME(test_e10_none_left_starts_nothing),
        IN_HOME(test_failed_rung_fails_the_climb),
        IN_HOME(test_resume_goes_on),
        IN_HOME(test_hierarchical_settles_axis_after_axis),
        IN_HOME(test_print_shows_table_and_ladder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
