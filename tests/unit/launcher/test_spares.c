/* spares: nodes held back, and who takes whose place. */
#include "test.h"

#include "base/str.h"
#include "launcher/spares.h"
#include "topology/place.h"
#include "topology/topology.h"

enum { GPUS = 4 };

static struct topology *cluster(int nodes)
{
    struct topology *t = topology_new("test", 0);

    for (int i = 0; i < nodes; i++) {
        struct node *n = topology_add_node(t);
        snprintf(n->name, sizeof(n->name), "n%d", i + 1);
        for (int g = 0; g < GPUS; g++)
            topology_add_gpu(n)->index = g;
    }
    return t;
}

static struct placement *place(const struct topology *t, int world)
{
    struct placement *p = NULL;
    struct err err = ERR_INIT;

    assert_ok(placement_make(NULL, t, world, &p, &err), &err);
    return p;
}

static void assert_spares(const struct topology *t, const char *names)
{
    struct str s = STR_INIT;

    str_adds(&s, "");
    spares_add_names(t, &s);
    assert_string_equal(s.text, names);
    str_release(&s);
}

static void test_held_back(void **state)
{
    struct topology *t = cluster(4);
    struct placement *p = place(t, 2 * GPUS);
    struct err err = ERR_INIT;

    (void)state;
    assert_ok(spares_choose(t, p, 1, &err), &err);
    assert_spares(t, "n3");
    assert_int_equal(spares_choose(t, p, 3, &err), -1);
    assert_int_equal(err.code, ERR_USAGE);
    assert_non_null(strstr(err_text(&err), "5 nodes are needed"));
    err_release(&err);
    placement_free(p);
    topology_free(t);
    t = cluster(3); /* the ranks are counted after it */
    spares_reserve(t, 1);
    assert_spares(t, "n3");
    assert_int_equal(placement_make(NULL, t, 3 * GPUS, &p, &err), -1);
    assert_non_null(
        strstr(err_text(&err), "2 nodes x 4 = 8 GPUs; kept out: n3 (spare)"));
    err_release(&err);
    p = place(t, 2 * GPUS);
    assert_ok(spares_choose(t, p, 1, &err), &err);
    assert_spares(t, "n3");
    placement_free(p);
    spares_reserve(t, 9); /* one node stays */
    assert_int_equal(spares_left(t), 2);
    topology_free(t);
}

static void test_swap(void **state)
{
    struct topology *t = cluster(4);
    struct placement *before = place(t, 2 * GPUS), *after;
    char blamed[2 * GPUS] = { 0, 1 }; /* on n1 */
    struct err err = ERR_INIT;
    struct str s = STR_INIT;

    (void)state;
    assert_ok(spares_choose(t, before, 1, &err), &err);
    assert_int_equal(spares_swap(t, before, blamed), 1);
    after = place(t, 2 * GPUS);
    spares_add_change(t, before, after, &s);
    assert_string_equal(s.text, "node n1 is replaced by n3");
    str_release(&s);
    assert_int_equal(after->order[0], 1);
    assert_int_equal(after->order[1], 2);
    assert_spares(t, "");
    assert_int_equal(spares_swap(t, after, blamed), 0); /* none left */
    placement_free(before);
    placement_free(after);
    topology_free(t);
}

static void test_nobody_or_everybody_is_blamed(void **state)
{
    struct topology *t = cluster(4);
    struct placement *p = place(t, 2 * GPUS);
    struct err err = ERR_INIT;
    char blamed[2 * GPUS] = { 0 };

    (void)state;
    assert_ok(spares_choose(t, p, 2, &err), &err);
    assert_int_equal(spares_swap(t, p, blamed), 0);
    memset(blamed, 1, sizeof(blamed));
    assert_int_equal(spares_swap(t, p, blamed), 0);
    assert_spares(t, "n3, n4");
    placement_free(p);
    p = place(t, GPUS); /* all of one node: that node */
    assert_int_equal(spares_swap(t, p, blamed), 1);
    placement_free(p);
    topology_free(t);
}

static void test_a_small_node_is_no_spare(void **state)
{
    struct topology *t = cluster(2);
    struct node *n = topology_add_node(t);
    struct placement *p;
    struct err err = ERR_INIT;

    (void)state;
    snprintf(n->name, sizeof(n->name), "small");
    topology_add_gpu(n)->index = 0;
    p = place(t, 2 * GPUS);
    assert_int_equal(spares_choose(t, p, 1, &err), -1);
    err_release(&err);
    placement_free(p);
    topology_free(t);
}

/* Three nodes below one leaf and five below the other, where the four of the run are:
 * the first spare is beside them, and takes the place of one although it is listed
 * last. */
static void test_where_it_replaces_most(void **state)
{
    struct topology *t = cluster(8);
    struct placement *p;
    struct err err = ERR_INIT;
    char blamed[4 * GPUS] = { 0 };

    (void)state;
    for (int i = 0; i < 8; i++) {
        if (i < 2)
            snprintf(topology_add_switch(t)->name, 64, "leaf%d", i);
        t->nodes[i].leaf = i >= 3;
    }
    p = place(t, 4 * GPUS);
    assert_int_equal(p->order[0], 3);
    assert_ok(spares_choose(t, p, 1, &err), &err);
    assert_spares(t, "n8");
    assert_ok(spares_choose(t, p, 3, &err), &err);
    assert_spares(t, "n1, n2, n8");
    blamed[GPUS] = 1; /* the second node */
    assert_int_equal(spares_swap(t, p, blamed), 1);
    assert_spares(t, "n1, n2");
    assert_int_equal(t->nodes[4].set_aside, AS_BAD);
    placement_free(p);
    topology_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_held_back),
        cmocka_unit_test(test_swap),
        cmocka_unit_test(test_nobody_or_everybody_is_blamed),
        cmocka_unit_test(test_a_small_node_is_no_spare),
        cmocka_unit_test(test_where_it_replaces_most),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
