/* sim: the story, the machine that a seed makes, and the time of a step. */
#include <string.h>

#include "recipes/recipe.h"
#include "test.h"
#include "trainer/sim.h"

static void test_story(void **state)
{
    struct err err = ERR_INIT;
    struct sim_story s;

    (void)state;
    assert_ok(sim_story_parse(NULL, &s, &err), &err);
    assert_int_equal(s.n, 0);
    assert_true(s.time == 1);
    assert_ok(sim_story_parse("seed=7,slow=3@10:1.5,wedge=5@20,exit=2@4:9,time=0.5", &s,
                              &err),
              &err);
    assert_int_equal(s.seed, 7);
    assert_int_equal(s.n, 3);
    assert_int_equal(s.event[0].what, SIM_SLOW);
    assert_int_equal(s.event[0].rank, 3);
    assert_true(s.event[0].value == 1.5);
    assert_int_equal(s.event[1].what, SIM_WEDGE);
    assert_int_equal(s.event[1].step, 20);
    assert_true(s.event[2].value == 9);
}

static void test_bad_stories(void **state)
{
    static const char *const bad[] = { "slow=3@10",  "slow=3@10:",  "wedge=5",
                                       "wedge=-1@2", "crash=1@0",   "exit=1@2:x",
                                       "seed=",      "seed=7x",     "time=-1",
                                       "fast=1@2",   "leave=1@2:3", "hang=1@2,,x" };
    struct err err = ERR_INIT;
    struct sim_story s;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(sim_story_parse(bad[i], &s, &err), -1);
        assert_int_equal(err.code, ERR_USAGE);
        assert_non_null(strstr(err_text(&err), "MUSTER_SIM"));
        err_release(&err);
    }
}

static double step_of(uint64_t seed, int shard, int replicas, const char *ac, int batch)
{
    struct err err = ERR_INIT;
    struct sim_machine m;
    struct recipe r;
    char text[16];
    double s;

    recipe_init(&r);
    assert_ok(model_preset("qwen3-30b-a3b", &r.model, &err), &err);
    r.training.seq_len = 4096;
    snprintf(text, sizeof(text), "%d", batch);
    assert_ok(recipe_set(&r, "training.local_batch_size", text, &err), &err);
    assert_ok(recipe_set(&r, "activation_checkpoint.mode", ac, &err), &err);
    r.parallelism.data_parallel_shard_degree = shard;
    r.parallelism.data_parallel_replicate_degree = replicas;
    sim_machine_draw(seed, &m);
    s = sim_step_s(&m, &r, 1);
    recipe_release(&r);
    return s;
}

/* What any such machine does: recomputing costs, more tokens take longer but less
 * each, more nodes never help, and other seeds are other machines. */
static void test_step(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 20; seed++) {
        double base = step_of(seed, 16, 1, "selective", 4);

        assert_true(base > 0.1 && base < 10);
        assert_true(base == step_of(seed, 16, 1, "selective", 4));
        assert_true(base != step_of(seed + 1, 16, 1, "selective", 4));
        assert_true(step_of(seed, 16, 1, "full", 4) > base);
        assert_true(step_of(seed, 16, 1, "none", 4) < base);
        assert_true(step_of(seed, 16, 1, "selective", 8) > base);
        assert_true(step_of(seed, 16, 1, "selective", 8) < 2 * base);
        assert_true(step_of(seed, 512, 1, "selective", 4) > base);
        assert_true(step_of(seed, 16, 32, "selective", 4) > base);
    }
}

static void test_a_slow_rank(void **state)
{
    struct err err = ERR_INIT;
    struct sim_machine m;
    struct sim_story s;
    double f;

    (void)state;
    assert_ok(sim_story_parse("slow=3@10:2", &s, &err), &err);
    sim_machine_draw(s.seed, &m);
    f = sim_rank_factor(&m, &s, 3, 9);
    assert_true(f >= 1 && f < 1.02);
    f = sim_rank_factor(&m, &s, 3, 10);
    assert_true(f >= 2 && f < 2.04);
    f = sim_rank_factor(&m, &s, 2, 10);
    assert_true(f >= 1 && f < 1.02);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_story),
        cmocka_unit_test(test_bad_stories),
        cmocka_unit_test(test_step),
        cmocka_unit_test(test_a_slow_rank),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
