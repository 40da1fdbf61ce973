/* hub: fences are barriers over their own ranks, data finds its way back. */
#include "test.h"

#include "launcher/hub.h"

struct got {
    struct hub_answer last[8]; /* by node */
    char blob[8][64];
    int n[8];
};

static void answer(void *arg, const struct hub_answer *a)
{
    struct got *g = arg;

    g->last[a->node] = *a;
    memcpy(g->blob[a->node], a->blob ? a->blob : "", a->len);
    g->blob[a->node][a->len] = '\0';
    g->n[a->node]++;
}

static int total(const struct got *g)
{
    int n = 0;

    for (int i = 0; i < 8; i++)
        n += g->n[i];
    return n;
}

static int fence(struct hub *h, int node, uint64_t ticket, const int *ranks, int n,
                 const char *blob, struct err *err)
{
    const struct hub_fence f = { ticket, ranks, n, blob, blob ? strlen(blob) : 0 };

    return hub_fence(h, node, &f, err);
}

static const int node_of[] = { 0, 0, 1, 1, 2, 2 };

static void test_fence_of_all(void **state)
{
    struct got g = { .n = { 0 } };
    struct hub *h = hub_new(3, 6, node_of, -46, answer, &g);
    int missing[3];

    (void)state;
    assert_int_equal(hub_missing(h, missing), 0);
    assert_int_equal(fence(h, 1, 11, NULL, 0, "bb", NULL), 0);
    assert_int_equal(fence(h, 0, 10, NULL, 0, "a", NULL), 0);
    assert_int_equal(total(&g), 0);
    assert_int_equal(hub_missing(h, missing), 1);
    assert_int_equal(missing[0], 2);
    assert_int_equal(fence(h, 2, 12, NULL, 0, NULL, NULL), 0);
    for (int n = 0; n < 3; n++) {
        assert_int_equal(g.n[n], 1);
        assert_int_equal(g.last[n].ticket, 10 + n);
        assert_int_equal(g.last[n].status, 0);
        assert_string_equal(g.blob[n], "abb");
    }
    assert_int_equal(hub_missing(h, missing), 0);
    hub_free(h);
}

/* The order and repetition of ranks make no other set; all of them are "all". */
static void test_a_set_is_a_set(void **state)
{
    static const int one[] = { 2, 0 }, other[] = { 0, 2, 0 },
                     all[] = { 5, 4, 3, 2, 1, 0 };
    struct got g = { .n = { 0 } };
    struct hub *h = hub_new(3, 6, node_of, -46, answer, &g);

    (void)state;
    fence(h, 0, 1, one, 2, "x", NULL);
    fence(h, 1, 2, other, 3, "y", NULL);
    assert_int_equal(g.n[0] + g.n[1], 2);
    assert_int_equal(g.n[2], 0);
    assert_string_equal(g.blob[1], "xy");
    fence(h, 0, 3, NULL, 0, "", NULL);
    fence(h, 1, 4, all, 6, "", NULL);
    fence(h, 2, 5, NULL, 0, "z", NULL);
    assert_int_equal(total(&g), 5);
    assert_string_equal(g.blob[0], "z");
    hub_free(h);
}

/* A quick node may be a fence ahead; sets do not wait for each other. */
static void test_order(void **state)
{
    static const int pair[] = { 0, 4 };
    struct got g = { .n = { 0 } };
    struct hub *h = hub_new(3, 6, node_of, -46, answer, &g);

    (void)state;
    fence(h, 0, 1, NULL, 0, "a1", NULL);
    fence(h, 0, 2, NULL, 0, "a2", NULL);
    fence(h, 0, 3, pair, 2, "p0", NULL);
    fence(h, 2, 9, pair, 2, "p2", NULL);
    assert_string_equal(g.blob[0], "p0p2");
    assert_int_equal(g.last[0].ticket, 3);
    fence(h, 1, 4, NULL, 0, "b1", NULL);
    fence(h, 2, 5, NULL, 0, "c1", NULL);
    assert_string_equal(g.blob[0], "a1b1c1");
    assert_int_equal(g.last[0].ticket, 1);
    fence(h, 2, 6, NULL, 0, "c2", NULL);
    assert_int_equal(g.n[0], 2);
    fence(h, 1, 7, NULL, 0, "b2", NULL);
    assert_string_equal(g.blob[0], "a2b2c2");
    assert_int_equal(g.last[2].ticket, 6);
    hub_free(h);
}

static void test_modex(void **state)
{
    struct got g = { .n = { 0 } };
    struct hub *h = hub_new(3, 6, node_of, -46, answer, &g);
    struct err err = ERR_INIT;
    uint64_t first, second;

    (void)state;
    hub_modex(h, 0, 100, 5, NULL);
    assert_int_equal(g.last[2].kind, HUB_FETCH);
    assert_int_equal(g.last[2].rank, 5);
    first = g.last[2].ticket;
    hub_modex(h, 1, 200, 5, NULL);
    second = g.last[2].ticket;
    assert_true(first != second);
    assert_int_equal(hub_fetched(h, 2, second, 0, "data", 4, NULL), 0);
    assert_int_equal(g.last[1].kind, HUB_MODEX_DONE);
    assert_int_equal(g.last[1].ticket, 200);
    assert_string_equal(g.blob[1], "data");
    assert_int_equal(g.n[0], 0);
    assert_int_equal(hub_fetched(h, 2, first, -5, NULL, 0, NULL), 0);
    assert_int_equal(g.last[0].ticket, 100);
    assert_int_equal(g.last[0].status, -5);
    /* Twice, or by another node. */
    assert_err(hub_fetched(h, 2, first, 0, NULL, 0, &err), &err, ERR_FAILED,
               "not asked");
    hub_modex(h, 0, 101, 5, NULL);
    assert_err(hub_fetched(h, 1, g.last[2].ticket, 0, NULL, 0, &err), &err, ERR_FAILED,
               "not asked");
    /* Its own rank: nobody else has it. */
    hub_modex(h, 0, 102, 1, NULL);
    assert_int_equal(g.last[0].ticket, 102);
    assert_int_equal(g.last[0].status, -46);
    hub_free(h);
}

static void test_nodes_are_not_trusted(void **state)
{
    static const int wild[] = { 0, 6 }, less[] = { -1 }, elsewhere[] = { 2, 3 };
    struct got g = { .n = { 0 } };
    struct hub *h = hub_new(3, 6, node_of, -46, answer, &g);
    struct err err = ERR_INIT;

    (void)state;
    assert_err(fence(h, 0, 1, wild, 2, NULL, &err), &err, ERR_FAILED, "rank 6");
    assert_err(fence(h, 0, 1, less, 1, NULL, &err), &err, ERR_FAILED, "rank -1");
    assert_err(fence(h, 0, 1, wild, 7, NULL, &err), &err, ERR_FAILED, "7 ranks");
    assert_err(fence(h, 0, 1, elsewhere, 2, NULL, &err), &err, ERR_FAILED, "elsewhere");
    assert_err(hub_modex(h, 0, 1, 6, &err), &err, ERR_FAILED, "rank 6");
    assert_err(hub_modex(h, 0, 1, -1, &err), &err, ERR_FAILED, "rank -1");
    assert_int_equal(total(&g), 0);
    hub_free(h);
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(test_fence_of_all),
        cmocka_unit_test(test_a_set_is_a_set),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_modex),
        cmocka_unit_test(test_nodes_are_not_trusted),
    };

    return cmocka_run_group_tests(t, NULL, NULL);
}
