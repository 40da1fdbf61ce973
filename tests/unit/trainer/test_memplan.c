/* memplan: every byte, from the shapes alone (case F17). */
#include <math.h>

#include "recipes/recipe.h"
#include "test.h"
#include "trainer/arena.h"
#include "trainer/memplan.h"
#include "trainer/ops.h"
#include "trainer/units.h"

static void recipe_of(struct recipe *r, const char *preset)
{
    struct err err = ERR_INIT;

    recipe_init(r);
    assert_ok(model_preset(preset, &r->model, &err), &err);
    assert_ok(recipe_set(r, "training.seq_len", "64", &err), &err);
    assert_ok(recipe_set(r, "training.local_batch_size", "2", &err), &err);
}

static int64_t sum(const struct memplan *p)
{
    int64_t n = 0;

    for (int i = 0; i < p->n; i++) {
        assert_int_equal(p->item[i].bytes % MEM_ALIGN, 0);
        n += p->item[i].bytes;
    }
    return n;
}

static void test_states(void **state)
{
    const struct ops *cpu = ops_sizes("cpu");
    struct memplan p;
    struct recipe r;
    struct units u;

    (void)state;
    recipe_of(&r, "tiny");
    for (int shard = 1; shard <= 8; shard *= 2) {
        memplan_make(&r, cpu, shard, -1, &p);
        units_make(&r.model, shard, &u);
        assert_int_equal(sum(&p), p.arena_bytes);
        assert_true(isnan(p.percent));
        /* 16 bytes an element of the shard: weight, two moments, gradient */
        assert_int_equal(
            p.item[MEM_MASTER].bytes + p.item[MEM_MOMENT1].bytes +
                p.item[MEM_MOMENT2].bytes + p.item[MEM_GRADS].bytes,
            16 * (u.embed.padded + r.model.layers * u.layer.padded + u.head.padded) /
                shard);
        assert_int_equal(p.item[MEM_WEIGHTS].bytes, 0); /* master is FP32 already */
    }
    recipe_release(&r);
}

static void test_gathered(void **state)
{
    const struct ops *cpu = ops_sizes("cpu");
    struct err err = ERR_INIT;
    struct memplan p;
    struct recipe r;
    struct units u;
    int64_t largest;

    (void)state;
    recipe_of(&r, "tiny");
    memplan_make(&r, cpu, 1, -1, &p);
    assert_int_equal(p.item[MEM_GATHERED].bytes, 0);
    assert_int_equal(p.item[MEM_FULLGRADS].bytes, 0);
    assert_ok(recipe_set(&r, "training.global_batch_size", "4", &err), &err);
    memplan_make(&r, cpu, 1, -1, &p); /* two micro-batches: the second is added */
    assert_true(p.item[MEM_FULLGRADS].bytes > 0);

    /* layers = 2: units 0..3, slot 0 = embed, layer 2; slot 1 = layer 1, head */
    memplan_make(&r, cpu, 2, -1, &p);
    units_make(&r.model, 2, &u);
    largest = u.embed.padded > u.layer.padded ? u.embed.padded : u.layer.padded;
    largest += u.head.padded > u.layer.padded ? u.head.padded : u.layer.padded;
    assert_int_equal(p.item[MEM_GATHERED].bytes, 4 * largest);
    assert_int_equal(p.item[MEM_FULLGRADS].bytes, 4 * largest);
    assert_ok(recipe_set(&r, "parallelism.reshard_after_forward", "false", &err), &err);
    memplan_make(&r, cpu, 2, -1, &p);
    assert_int_equal(p.item[MEM_GATHERED].bytes,
                     4 * (u.embed.padded + 2 * u.layer.padded + u.head.padded));
    recipe_release(&r);
}

static void test_checkpointing_saves(void **state)
{
    static const char *const modes[] = { "none", "selective", "full" };
    const struct ops *cpu = ops_sizes("cpu");
    struct err err = ERR_INIT;
    struct memplan p[3];
    struct recipe r;

    (void)state;
    recipe_of(&r, "demo");
    for (int i = 0; i < 3; i++) {
        assert_ok(recipe_set(&r, "activation_checkpoint.mode", modes[i], &err), &err);
        memplan_make(&r, cpu, 1, -1, &p[i]);
    }
    assert_true(p[0].item[MEM_SAVED].bytes > p[1].item[MEM_SAVED].bytes);
    assert_true(p[1].item[MEM_SAVED].bytes > p[2].item[MEM_SAVED].bytes);
    /* full keeps the input of a layer and nothing else */
    assert_int_equal(p[2].item[MEM_SAVED].bytes, 4LL * 4 * 128 * 128);
    assert_int_equal(p[2].activation_bytes_per_token_layer, 4LL * 128);
    recipe_release(&r);
}

/* What is outside of the arena counts against the device too. */
static void test_percent(void **state)
{
    const struct ops *cpu = ops_sizes("cpu");
    struct memplan p;
    struct recipe r;

    (void)state;
    recipe_of(&r, "tiny");
    memplan_make(&r, cpu, 1, INT64_C(1) << 30, &p);
    assert_true(p.outside_bytes > 0);
    assert_true(fabs(p.percent - 100.0 * (double)(p.arena_bytes + p.outside_bytes) /
                                     (double)(INT64_C(1) << 30)) < 1e-9);
    recipe_release(&r);
}

static void test_arena(void **state)
{
    const struct ops *cpu;
    struct err err = ERR_INIT;
    struct memplan p;
    struct recipe r;
    struct arena a;
    struct dev *d;
    void *at;

    (void)state;
    recipe_of(&r, "tiny");
    assert_ok(ops_find("cpu", &cpu, &err), &err);
    assert_ok(cpu->open(&d, 0, 1, &err), &err);
    memplan_make(&r, cpu, 1, -1, &p);
    assert_ok(arena_init(&a, cpu, d, &p, &err), &err);
    for (int k = 0; k < p.n; k++)
        assert_ok(arena_take(&a, p.item[k].bytes, p.item[k].name, &at, &err), &err);
    assert_int_equal(a.used, a.bytes);
    assert_err(arena_take(&a, 1, "one more", &at, &err), &err, ERR_FAILED, "one more");
    arena_release(&a);
    cpu->close(d);
    recipe_release(&r);
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_gathered),
        cmocka_unit_test(test_checkpointing_saves),
        cmocka_unit_test(test_percent),
        cmocka_unit_test(test_arena),
    };

    return cmocka_run_group_tests(t, NULL, NULL);
}
