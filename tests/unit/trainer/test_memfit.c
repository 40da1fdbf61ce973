/* Does it fit, and what would: given numbers, no device. */
#include "recipes/recipe.h"
#include "test.h"
#include "trainer/memfit.h"
#include "trainer/memplan.h"
#include "trainer/ops.h"

static const int64_t GIB = INT64_C(1) << 30;

static void recipe_of(struct recipe *r, int layers, int batch, int64_t global)
{
    struct err err = ERR_INIT;

    recipe_init(r);
    assert_ok(model_preset("qwen3-30b-a3b", &r->model, &err), &err);
    r->model.layers = layers;
    r->training.seq_len = 4096;
    r->training.local_batch_size = batch;
    r->training.global_batch_size = global;
    r->parallelism.data_parallel_shard_degree = 2;
    r->parallelism.data_parallel_replicate_degree = 1;
}

static int64_t arena(const struct recipe *r, enum ac_mode ac, int batch, int shard)
{
    struct recipe copy = *r;
    struct memplan p;

    copy.activation_checkpoint.mode = ac;
    copy.training.local_batch_size = batch;
    memplan_make(&copy, ops_sizes("cuda"), shard, -1, &p);
    return p.arena_bytes;
}

/* With exactly the bytes of a plan it fits, with one less it does not. */
static void test_edges(void **state)
{
    const struct ops *ops = ops_sizes("cuda");
    struct memfit f;
    struct recipe r;

    (void)state;
    recipe_of(&r, 8, 8, -1);
    for (int b = 1; b <= 8; b++) {
        int64_t bytes = arena(&r, AC_SELECTIVE, b, 2);

        memfit_search(&r, ops, bytes, &f);
        assert_int_equal(f.batch[AC_SELECTIVE], b);
        assert_true(f.batch[AC_NONE] <= b && f.batch[AC_FULL] >= b);
        assert_int_equal(f.shard, 0);
        memfit_search(&r, ops, bytes - 1, &f);
        assert_int_equal(f.batch[AC_SELECTIVE], b - 1);
    }
    recipe_release(&r);
}

/* Only batches that make up the global one: 12 = 2 ranks x 1, 2, 3 or 6. */
static void test_legal_batches(void **state)
{
    const struct ops *ops = ops_sizes("cuda");
    struct memfit f;
    struct recipe r;

    (void)state;
    recipe_of(&r, 4, 6, 12);
    memfit_search(&r, ops, arena(&r, AC_FULL, 5, 2), &f);
    assert_int_equal(f.batch[AC_FULL], 3);
    memfit_search(&r, ops, 1000 * GIB, &f);
    for (int ac = 0; ac < N_AC_MODES; ac++)
        assert_int_equal(f.batch[ac], 6);
    recipe_release(&r);
}

static void test_more_shards(void **state)
{
    const struct ops *ops = ops_sizes("cuda");
    struct memfit f;
    struct recipe r;

    (void)state;
    recipe_of(&r, 48, 4, -1);
    memfit_search(&r, ops, 100 * GIB, &f);
    for (int ac = 0; ac < N_AC_MODES; ac++)
        assert_int_equal(f.batch[ac], 0);
    assert_int_equal(f.least_bytes, arena(&r, AC_FULL, 1, 2));
    assert_true(f.shard >= 4);
    assert_true(arena(&r, AC_FULL, 1, f.shard) <= 100 * GIB);
    assert_true(arena(&r, AC_FULL, 1, f.shard / 2) > 100 * GIB);
    memfit_search(&r, ops, 1 << 20, &f);
    assert_int_equal(f.shard, 0);
    recipe_release(&r);
}

static void test_sentence(void **state)
{
    const struct ops *ops = ops_sizes("cuda");
    struct err err = ERR_INIT;
    struct recipe r;
    int64_t need;

    (void)state;
    recipe_of(&r, 8, 4, -1);
    need = arena(&r, AC_NONE, 4, 2);
    assert_ok(memfit_check(&r, ops, need, need, 140 * GIB, "GPU 0", &err), &err);
    assert_err(memfit_check(&r, ops, need, need - 1, 140 * GIB, "GPU 0", &err), &err,
               ERR_FAILED, "GiB of GPU 0 "); /* and what would: */
    assert_int_equal(memfit_check(&r, ops, need, need - 1, 140 * GIB, "GPU 0", &err),
                     -1);
    assert_non_null(strstr(err_text(&err), "batch 4 with checkpointing none takes"));
    assert_non_null(strstr(err_text(&err),
                           "local_batch_size 3 with activation_checkpoint.mode none"));
    assert_non_null(strstr(err_text(&err),
                           "local_batch_size 4 with activation_checkpoint.mode full"));
    err_release(&err);
    assert_int_equal(memfit_check(&r, ops, need, 30 * GIB, 40 * GIB, "GPU 3", &err),
                     -1);
    assert_non_null(
        strstr(err_text(&err), "a batch of 1 with full checkpointing takes"));
    assert_non_null(strstr(err_text(&err), "data_parallel_shard_degree"));
    err_release(&err);
    assert_int_equal(memfit_check(&r, ops, need, -5, 40 * GIB, "GPU 3", &err), -1);
    assert_non_null(strstr(err_text(&err), " 0.00 can be had"));
    err_release(&err);
    recipe_release(&r);
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_legal_batches),
        cmocka_unit_test(test_more_shards),
        cmocka_unit_test(test_sentence),
    };

    return cmocka_run_group_tests(t, NULL, NULL);
}
