#include "test.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "checks/pairs.h"

/* Every two meet once; nobody is in two pairs of a round; odd numbers rest in turn. */
static void test_tournament(void **state)
{
    (void)state;
    for (int n = 0; n <= 130; n++) {
        char *met = xcalloc((size_t)n * (size_t)n + 1, 1);
        int rounds = pairs_rounds(n), pairs = 0;

        assert_int_equal(rounds, n < 2 ? 0 : n % 2 ? n : n - 1);
        for (int r = 0; r < rounds; r++) {
            int rest = 0;

            for (int i = 0; i < n; i++) {
                int j = pairs_partner(n, r, i);

                if (j < 0) {
                    rest++;
                    continue;
                }
                assert_true(j < n && j != i);
                assert_int_equal(pairs_partner(n, r, j), i);
                assert_int_equal(met[i * n + j]++, 0);
                pairs++;
            }
            assert_int_equal(rest, n % 2);
        }
        assert_int_equal(pairs, n * (n - 1));
        free(met);
    }
}

/* The bar: 64 nodes in 63 rounds, which side by side are 1/32 of 2016 in turn. */
static void test_sixty_four(void **state)
{
    struct pair_list l;

    (void)state;
    pairs_all(64, &l);
    assert_int_equal(l.n, 2016);
    assert_int_equal(l.rounds, 63);
    assert_true(l.rounds * 30 <= l.n);
    for (int k = 0; k < l.n; k++)
        assert_int_equal(pairs_find(&l, l.item[k].round, l.item[k].a), l.item[k].b);
    pairs_release(&l);
}

static void test_by_name(void **state)
{
    struct strlist names = { 0 };
    struct pair_list l;
    struct err err = ERR_INIT;

    (void)state;
    strlist_add(&names, "n1");
    strlist_add(&names, "n2");
    strlist_add(&names, "n10");
    strlist_add(&names, "n4");
    assert_ok(pairs_parse("n1:n2,n10:n4,n2:n10,n1:n4", &names, &l, &err), &err);
    assert_int_equal(l.n, 4);
    assert_int_equal(l.rounds, 2);
    assert_int_equal(pairs_find(&l, 0, 2), 3);
    assert_int_equal(pairs_find(&l, 1, 2), 1);
    assert_int_equal(pairs_find(&l, 2, 2), -1);
    pairs_release(&l);
    assert_err(pairs_parse("n1", &names, &l, &err), &err, ERR_USAGE, "NODE:NODE");
    assert_err(pairs_parse("n1:", &names, &l, &err), &err, ERR_USAGE, "NODE:NODE");
    assert_err(pairs_parse("n1:n2,n1:n3", &names, &l, &err), &err, ERR_USAGE,
               "no rank runs on 'n3'");
    assert_err(pairs_parse("n4:n4", &names, &l, &err), &err, ERR_USAGE,
               "two different");
    strlist_release(&names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tournament),
        cmocka_unit_test(test_sixty_four),
        cmocka_unit_test(test_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
